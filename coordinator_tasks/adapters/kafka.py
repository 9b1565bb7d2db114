"""`ports.KafkaAdmin` and `ports.GroupOffsets` on the admin client of confluent_kafka.

Commits go through the admin client too. Its commits have a time limit and need no consumer. A consumer's synchronous
commits have no time limit.
"""

import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
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
from coordinator_tasks.core.ports import GroupAnswer, Wanted, committed_of
from coordinator_tasks.core.text.partition_text import shown

# the codes of a topic that is unknown or whose name is impossible
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})
_NO_LEADER = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - its only name
        KafkaError._NOENT,  # noqa: SLF001 - none of the partitions has a leader
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)


class _Client:
    """The requests of both ports. Each takes at most `limit_s`. The text of a `KafkaUnavailable` says what to check."""

    _isolation = IsolationLevel.READ_UNCOMMITTED

    def __init__(self, settings: Mapping[str, str], limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._broker = Broker(settings, limit_s)

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        found = self._listed(topic, {p: OffsetSpec.for_timestamp(at) for p, at in times_ms.items()})
        return {p: offset for p, offset in found.items() if offset >= 0}

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._listed(topic, dict.fromkeys(partitions, latest), missing=_NO_LEADER)

    def beginnings(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        earliest = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        return self._listed(topic, dict.fromkeys(partitions, earliest), missing=_NO_LEADER)

    def _listed(self, topic: str, specs: Mapping[int, Any], missing: Collection[int] = ()) -> dict[int, int]:
        """Return partition → offset. Partitions with an error in `missing` are left out.

        While a partition's leader is dying or hangs, librdkafka may answer with neither an error nor an offset
        (librdkafka 2.16). If no offset is known when the time limit is over, the brokers count as silent.
        """
        if not specs:
            return {}
        began_s = time.monotonic()
        asked = {partition: TopicPartition(topic, partition) for partition in sorted(specs)}
        answers = self._broker.results(
            lambda client, time_out: client.list_offsets(
                {asked[partition]: spec for partition, spec in specs.items()},
                isolation_level=self._isolation,
                request_timeout=time_out,
            )
        )
        found = {p: answers.get(one, f"partition {topic}-{p}", missing) for p, one in asked.items()}
        listed = {p: int(answer.offset) for p, answer in found.items() if answer is not None}
        unknown = [p for p, offset in listed.items() if offset == OFFSET_INVALID]
        is_over = len(unknown) == len(listed) and time.monotonic() - began_s >= self._broker.limit_s
        if unknown and (is_over or not missing):
            raise self._broker.unavailable(f"partition {topic}-{unknown[0]}: no broker says its offset")
        return {p: offset for p, offset in listed.items() if p not in unknown}

    def _topics(self, topics: Collection[str], problems: dict[str, CoordinatorError] | None = None) -> dict[str, Any]:
        """Return Kafka's description of each topic. `problems`: as in `ports.KafkaAdmin.describe`."""
        names = sorted(set(topics))
        answers = self._broker.results(
            lambda client, time_out: client.describe_topics(TopicCollection(names), request_timeout=time_out)
        )
        found: dict[str, Any] = {}
        failed: dict[str, CoordinatorError] = {}
        for name in names:
            try:
                found[name] = answers.get(name, f"topic {name!r}", missing=_NO_TOPIC)
            except CoordinatorError as error:
                failed[name] = error
        if failed and not found:
            raise next(iter(failed.values()))
        if problems is not None:
            problems |= failed
        return found

    def _committed(
        self, group: str, topics: Mapping[str, Collection[int]], *, stable: bool = False
    ) -> dict[str, dict[int, Committed] | CoordinatorError]:
        """Return topic → partition → committed entry, or topic → error. `stable`: as in `Broker.committed`."""
        places = [TopicPartition(topic, p) for topic in sorted(topics) for p in sorted(set(topics[topic]))]
        found: dict[str, dict[int, Committed]] = {}
        failed: dict[str, CoordinatorError] = {}
        for one in self._broker.committed(group, places, stable) if places else ():
            if one.error is not None:
                about = f"partition {one.topic}-{one.partition} of group {group!r}"
                failed.setdefault(one.topic, self._broker.translated(KafkaException(one.error), about))
            elif one.offset >= 0:
                found.setdefault(one.topic, {})[one.partition] = decode_metadata(one.offset, _metadata(one))
        return {**found, **failed}

    def group_members(self, group: str) -> tuple[str, ...]:
        answers = self._broker.of_coordinator(
            lambda client, time_out: client.describe_consumer_groups([group], request_timeout=time_out),
            only_reads=True,
        )
        described = answers.get(group, f"group {group!r}", missing=(KafkaError.GROUP_ID_NOT_FOUND,))
        members = described.members if described is not None else []
        return tuple(sorted(f"{member.client_id} at {member.host.lstrip('/')}" for member in members))


class ConfluentKafkaAdmin(_Client):
    """`ports.KafkaAdmin`."""

    def describe(
        self, topics: Collection[str], problems: dict[str, CoordinatorError] | None = None
    ) -> Mapping[str, TopicDescription | None]:
        found = self._topics(topics, problems) if topics else {}
        return {name: _described(name, topic) for name, topic in found.items()}

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        if not wanted:
            return {}
        # The first request of a group waits until its coordinator is found, so several groups are asked at once.
        with ThreadPoolExecutor(min(len(wanted), MAX_READERS)) as pool:
            return dict(zip(wanted, pool.map(self._group, wanted, wanted.values()), strict=True))

    def _group(self, group: str, topics: Mapping[str, Collection[int]]) -> GroupAnswer:
        try:
            return self._committed(group, topics)
        except CoordinatorError as error:
            return error

    def bounds(self, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:
        first, end = self.beginnings(topic, partitions), self.ends(topic, partitions)
        return {partition: (first[partition], end[partition]) for partition in first if partition in end}

    def create_topic(self, topic: str, partitions: int, replication: int = -1, **config: str) -> None:
        """Create a topic if missing, and wait until the brokers know it; for the demo and the tests.

        `replication` -1 means the brokers' setting `default.replication.factor`.
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


class ConfluentGroupOffsets(_Client):
    """`ports.GroupOffsets` of one consumer group. `isolation.level` decides which end of the log `ends` returns."""

    fences = False

    def __init__(self, settings: Mapping[str, str], group: str, limit_s: float = DEFAULT_LIMIT_S) -> None:
        super().__init__(settings, limit_s)
        self._group = group
        # librdkafka has the same default, so a reader with these settings reaches the same end.
        if settings.get("isolation.level", "read_committed") == "read_committed":
            self._isolation = IsolationLevel.READ_COMMITTED

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        return committed_of(self._committed(self._group, {topic: partitions}), topic)

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> Mapping[int, str]:  # noqa: ARG002
        """Return no refusals: the broker does not fence these commits."""
        return {}

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        if not offsets:
            return {}
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
            who = shown(self.group_members(self._group)) or "a client that has left since"
            raise GroupInUse(
                f"Kafka refuses commits of group {self._group!r} because {who} subscribes with the same group id; "
                "stop that client or give it another group.id"
            )
        if failed:
            error = KafkaException(failed[0].error)
            raise self._broker.translated(error, f"the offset of {topic}-{failed[0].partition} in {about}") from error
        return {}

    def describe(self, topic: str) -> TopicDescription | None:
        return _described(topic, self._topics([topic])[topic])


def _metadata(place: TopicPartition) -> str:
    """Return the metadata of a committed offset; empty if not UTF-8. Ours is, but some brokers accept any bytes."""
    try:
        return place.metadata or ""
    except UnicodeDecodeError:
        return ""


def _described(name: str, found: Any) -> TopicDescription | None:
    if found is None:
        return None
    return TopicDescription(name, str(found.topic_id), len(found.partitions), _racks(found.partitions))


def _racks(partitions: Iterable[Any]) -> dict[int, tuple[str, ...]]:
    """Return partition → racks of its replicas, if they have racks. The first replica is the preferred leader."""
    found = {one.id: tuple(dict.fromkeys(node.rack for node in one.replicas if node.rack)) for one in partitions}
    return {partition: racks for partition, racks in found.items() if racks}
