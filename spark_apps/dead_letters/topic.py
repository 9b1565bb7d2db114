"""Dead letters in a Kafka topic, with the headers of Kafka Connect and of share groups (KIP-1191).

Letters are written before their batch is committed. So a repeated batch writes its letters again.
"""

from collections.abc import Callable, Sequence

from coordinator_tasks.core.model import KafkaRecord
from coordinator_tasks.core.ports import RecordAccess
from spark_apps.dead_letters import DeadLettersRefused, Letter, Stage

CONNECT, SHARE_GROUP, OWN = "__connect.errors.", "__dlq.errors.", "__coordinator.errors."
CONNECT_STAGES = {Stage.PROBLEM: "VALUE_CONVERTER", Stage.PIPELINE: "TRANSFORMATION", Stage.STORE: "TASK_PUT"}
"""Kafka Connect's names for the stages of a failure."""


def sender(access: RecordAccess, topic: str, source: str, group: str) -> Callable[[Sequence[Letter]], None]:
    """Return a function that writes letters of the topic `source` to `topic`; raises `DeadLettersRefused`."""
    if topic == source:
        raise DeadLettersRefused(
            f"topic {topic} cannot take its own dead letters, which would come again; name another topic"
        )
    count = access.partition_count(topic)
    if not count:
        raise DeadLettersRefused(
            f"topic {topic} for dead letters is not in Kafka; create the topic, or correct its name"
        )

    def send(letters: Sequence[Letter]) -> None:
        access.send(topic, [(letter.place.partition % count, _record(letter, group)) for letter in letters])

    return send


def _record(letter: Letter, group: str) -> KafkaRecord:
    """Return the Kafka record of a letter. The record's time is the time of the failure."""
    place = {"topic": letter.place.topic, "partition": letter.place.partition, "offset": letter.place.offset}
    told = {f"{CONNECT}{name}": value for name, value in place.items()}
    told |= {
        f"{CONNECT}connector.name": group,
        f"{CONNECT}task.id": letter.consumer,
        f"{CONNECT}stage": CONNECT_STAGES[letter.stage],
        f"{CONNECT}exception.class.name": letter.kind,
        f"{CONNECT}exception.message": letter.error,
    }
    told |= {f"{SHARE_GROUP}{name}": value for name, value in place.items()}
    told |= {
        f"{SHARE_GROUP}group": group,
        f"{SHARE_GROUP}delivery.count": letter.tries,
        f"{SHARE_GROUP}message": letter.error,
        f"{OWN}release": letter.release,
        f"{OWN}timestamp": letter.timestamp_ms,
    }
    headers = [(name, str(value).encode()) for name, value in told.items()]
    return KafkaRecord(letter.key, letter.value, (*letter.headers, *headers), letter.failed_at_ms)
