"""`ports.KafkaAdmin` and `ports.GroupOffsets` on confluent_kafka's admin client.

Commits go through the admin client as well: unlike a consumer's own synchronous commit it has a time limit, and needs
no consumer.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from coordinator_tasks.adapters.broker import DEFAULT_LIMIT_S, LOOK_S, MAX_READERS, Broker
from coordinator_tasks.core.codecs.status_codec import decode_metadata, encode_metadata
from coordinator_tasks.core.errors import CoordinatorError, GroupInUse
from coordinator_tasks.core.model import Committed, Token, TopicDescription
from coordinator_tasks.core.ports import GroupAnswer, Wanted

_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})  # unknown, or no possible name
_NO_LEADER = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - its only name
        KafkaError._NOENT,  # noqa: SLF001 - none of those that were asked for has a leader
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)


class ConfluentKafkaAdmin:
    """`ports.KafkaAdmin`. Each request takes at most `limit_s`; a `KafkaUnavailable` says what to check."""

    def __init__(self, settings: Mapping[str, str], limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._broker = Broker(settings, limit_s)

    def describe(self, topics: Collection[str]) -> Mapping[str, TopicDescription | None]:
        return _describe(self._broker, topics)

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        if not wanted:
            return {}
        # A group's first request waits for its coordinator to be found: several at once.
        with ThreadPoolExecutor(min(len(wanted), MAX_READERS)) as pool:
            return dict(zip(wanted, pool.map(self._group, wanted, wanted.values()), strict=True))

    def _group(self, group: str, topics: Mapping[str, Collection[int]]) -> GroupAnswer:
        try:
            return committed_offsets(self._broker, group, topics)
        except CoordinatorError as error:
            return error

    def bounds(self, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:
        first = self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.earliest()))  # type: ignore[no-untyped-call]
        end = self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.latest()))  # type: ignore[no-untyped-call]
        return {partition: (first[partition], end[partition]) for partition in first}

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        found = self._offsets(topic, {p: OffsetSpec.for_timestamp(at) for p, at in times_ms.items()})
        return {p: offset for p, offset in found.items() if offset >= 0}

    def _offsets(self, topic: str, specs: Mapping[int, Any]) -> Mapping[int, int]:
        return _listed(self._broker, topic, specs, IsolationLevel.READ_UNCOMMITTED)

    def group_members(self, group: str) -> tuple[str, ...]:
        return _members(self._broker, group)

    def create_topic(self, topic: str, partitions: int, replication: int = -1, **config: str) -> None:
        """Create a topic where there is none, and wait until the brokers know it; for the demo and the tests.

        `replication` -1 leaves it to the brokers' setting `default.replication.factor`.
        """
        limit_s = self._broker.limit_s
        new = NewTopic(topic, partitions, replication, config={key.replace("_", "."): v for key, v in config.items()})
        made = self._broker.results(
            lambda client, _: client.create_topics([new], request_timeout=limit_s, operation_timeout=limit_s)
        )
        made.get(topic, f"topic {topic!r}", missing=(KafkaError.TOPIC_ALREADY_EXISTS,))
        deadline_s = time.monotonic() + limit_s
        while self.describe([topic])[topic] is None:
            if time.monotonic() > deadline_s:
                raise self._broker.unavailable(f"topic {topic!r} was created but is not known")
            time.sleep(LOOK_S)


class ConfluentGroupOffsets:
    """`ports.GroupOffsets` of one consumer group; `isolation.level` of the settings decides what `ends` means."""

    def __init__(self, settings: Mapping[str, str], group: str, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._broker = Broker(settings, limit_s)
        self._group = group
        # librdkafka's own default, so that an end here is one that a reader with the same settings reaches.
        committed_only = settings.get("isolation.level", "read_committed") == "read_committed"
        self._isolation = IsolationLevel.READ_COMMITTED if committed_only else IsolationLevel.READ_UNCOMMITTED

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        return committed_offsets(self._broker, self._group, {topic: partitions}).get(topic, {})

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> None:
        """Nothing: these commits are not fenced by the broker."""

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> None:
        if not offsets:
            return
        request = ConsumerGroupTopicPartitions(
            self._group,
            [TopicPartition(topic, p, one.offset, encode_metadata(one)) for p, one in sorted(offsets.items())],
        )
        about = f"group {self._group!r}"
        answer = self._broker.of_coordinator(
            lambda client, time_out: client.alter_consumer_group_offsets([request], request_timeout=time_out)
        ).only(about)
        failed = [one for one in answer.topic_partitions if one.error is not None]
        if any(one.error.code() == KafkaError.UNKNOWN_MEMBER_ID for one in failed):
            raise GroupInUse(_intruded(self._group, _members(self._broker, self._group)))
        if failed:
            error = KafkaException(failed[0].error)
            raise self._broker.translated(error, f"the offset of {topic}-{failed[0].partition} in {about}") from error

    def topic_id(self, topic: str) -> str:
        found = _topics(self._broker, [topic])[topic]
        return str(found.topic_id) if found is not None else ""

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        return self._bounds(topic, partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def beginnings(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        return self._bounds(topic, partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        specs = {p: OffsetSpec.for_timestamp(at) for p, at in times_ms.items()}
        found = _listed(self._broker, topic, specs, self._isolation)
        return {p: offset for p, offset in found.items() if offset >= 0}

    def _bounds(self, topic: str, partitions: Collection[int], spec: Any) -> Mapping[int, int]:
        return _listed(self._broker, topic, dict.fromkeys(partitions, spec), self._isolation, missing=_NO_LEADER)


def _listed(
    broker: Broker,
    topic: str,
    specs: Mapping[int, Any],
    isolation: IsolationLevel,
    missing: Collection[int] = (),
) -> dict[int, int]:
    """Partition → offset; those whose error is one of `missing` are left out."""
    if not specs:
        return {}
    asked = {partition: TopicPartition(topic, partition) for partition in sorted(specs)}
    answers = broker.results(
        lambda client, time_out: client.list_offsets(
            {asked[partition]: spec for partition, spec in specs.items()},
            isolation_level=isolation,
            request_timeout=time_out,
        )
    )
    found = {p: answers.get(one, f"partition {topic}-{p}", missing) for p, one in asked.items()}
    return {p: int(answer.offset) for p, answer in found.items() if answer is not None}


def _describe(broker: Broker, topics: Collection[str]) -> dict[str, TopicDescription | None]:
    found = _topics(broker, topics) if topics else {}
    return {
        name: topic and TopicDescription(name, str(topic.topic_id), len(topic.partitions), _racks(topic.partitions))
        for name, topic in found.items()
    }


def _racks(partitions: Iterable[Any]) -> dict[int, tuple[str, ...]]:
    """Partition → the racks of its replicas, of those that have any; the first replica is the preferred leader."""
    found = {one.id: tuple(dict.fromkeys(node.rack for node in one.replicas if node.rack)) for one in partitions}
    return {partition: racks for partition, racks in found.items() if racks}


def _topics(broker: Broker, topics: Collection[str]) -> dict[str, Any]:
    names = sorted(set(topics))
    answers = broker.results(
        lambda client, time_out: client.describe_topics(TopicCollection(names), request_timeout=time_out)
    )
    return {name: answers.get(name, f"topic {name!r}", missing=_NO_TOPIC) for name in names}


def committed_offsets(
    broker: Broker, group: str, topics: Mapping[str, Collection[int]], *, stable: bool = False
) -> dict[str, dict[int, Committed]]:
    """Topic → partition → what the group has committed; `stable` as in `Broker.committed`."""
    places = [TopicPartition(topic, p) for topic in sorted(topics) for p in sorted(set(topics[topic]))]
    found: dict[str, dict[int, Committed]] = {}
    for one in broker.committed(group, places, stable) if places else ():
        if one.error is not None:
            error = KafkaException(one.error)
            raise broker.translated(error, f"partition {one.topic}-{one.partition} of group {group!r}") from error
        if one.offset >= 0:
            found.setdefault(one.topic, {})[one.partition] = decode_metadata(one.offset, one.metadata)
    return found


def _members(broker: Broker, group: str) -> tuple[str, ...]:
    answers = broker.of_coordinator(
        lambda client, time_out: client.describe_consumer_groups([group], request_timeout=time_out), only_reads=True
    )
    described = answers.get(group, f"group {group!r}", missing=(KafkaError.GROUP_ID_NOT_FOUND,))
    members = described.members if described is not None else []
    return tuple(sorted(f"{member.client_id} at {member.host.lstrip('/')}" for member in members))


def _intruded(group: str, members: Collection[str]) -> str:
    who = ", ".join(members) or "a client that has left since"
    return (
        f"Kafka refuses commits of group {group!r} because {who} subscribes with the same group id; "
        "stop that client or give it another group.id"
    )
