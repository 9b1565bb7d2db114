"""Kafka in memory: topics with ids, committed offsets with their metadata, and groups with members."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.codecs.status_codec import decode_metadata, encode_metadata
from coordinator_tasks.core.errors import CoordinatorError, GroupInUse, KafkaUnavailable, NoAccess
from coordinator_tasks.core.model import Committed, Token, TopicDescription
from coordinator_tasks.core.ports import GroupAnswer, GroupOffsets, Wanted
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import perform
from spark_apps.delivery import TransactionalSink


@dataclass(slots=True)
class _Topic:
    topic_id: str
    beginnings: list[int]
    ends: list[int]
    times: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class FakeKafka:
    """The brokers; `ports.KafkaAdmin`. `down` makes every request fail; `members` are the groups' subscribers; partitions in
    `leaderless` have no leader, in any topic; `denied` are the topics that the account may not describe.
    """

    down: bool = False
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)
    leaderless: set[int] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    stored: dict[tuple[str, str, int], tuple[int, str]] = field(default_factory=dict)
    _topics: dict[str, _Topic] = field(default_factory=dict)
    _created: int = 0

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create the topic, or recreate it with another id and without committed offsets."""
        if topic in self._topics:
            self.stored = {key: entry for key, entry in self.stored.items() if key[1] != topic}
        self._created += 1
        self._topics[topic] = _Topic(f"id-{self._created}", [0] * partitions, [0] * partitions)

    def delete_topic(self, topic: str) -> None:
        del self._topics[topic]

    def add_partitions(self, topic: str, count: int) -> None:
        self._topics[topic].beginnings += [0] * count
        self._topics[topic].ends += [0] * count

    def append(self, topic: str, partition: int, records: int, at_ms: int = 0) -> None:
        """Add records with the same time, in milliseconds since 1970."""
        found = self._topics[topic]
        found.times.setdefault(partition, []).append((at_ms, found.ends[partition]))
        found.ends[partition] += records

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Drop the records before an offset."""
        self._topics[topic].beginnings[partition] = before

    def describe(
        self, topics: Collection[str], problems: dict[str, CoordinatorError] | None = None
    ) -> Mapping[str, TopicDescription | None]:
        self._answer()
        failed: dict[str, CoordinatorError] = {
            topic: self._denied(topic) for topic in sorted(self.denied.intersection(topics))
        }
        if failed and failed.keys() == set(topics):
            raise next(iter(failed.values()))
        if problems is not None:
            problems |= failed
        return {topic: self._described(topic) for topic in sorted(set(topics) - failed.keys())}

    def _described(self, topic: str) -> TopicDescription | None:
        found = self._topics.get(topic)
        return TopicDescription(topic, found.topic_id, len(found.ends)) if found else None

    def committed_of(self, group: str, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        self._answer()
        found = {p: self.stored[group, topic, p] for p in sorted(partitions) if (group, topic, p) in self.stored}
        return {p: decode_metadata(offset, metadata) for p, (offset, metadata) in found.items()}

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        return {group: self._of_group(group, topics) for group, topics in wanted.items()}

    def _of_group(self, group: str, topics: Mapping[str, Collection[int]]) -> GroupAnswer:
        try:
            found = {topic: self.committed_of(group, topic, partitions) for topic, partitions in topics.items()}
        except CoordinatorError as error:
            return error
        return {**found, **{topic: self._denied(topic) for topic in self.denied.intersection(topics)}}

    def _denied(self, topic: str) -> NoAccess:
        return NoAccess(f"Kafka does not let this user ask for topic {topic!r}; grant it")

    def group_members(self, group: str) -> tuple[str, ...]:
        self._answer()
        return self.members.get(group, ())

    def offsets(self, group: str) -> "FakeGroupOffsets":
        return FakeGroupOffsets(self, group)

    def log(self, topic: str, partition: int) -> tuple[int, int]:
        """Beginning and end."""
        self._answer()
        if topic not in self._topics or partition >= len(self._topics[topic].ends):
            raise KafkaUnavailable(f"Kafka could not answer for partition {topic}-{partition}: there is none")
        return self._topics[topic].beginnings[partition], self._topics[topic].ends[partition]

    def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        """The offset of the first record at or after a time."""
        beginning, _ = self.log(topic, partition)
        blocks = self._topics[topic].times.get(partition, [])
        return next((max(offset, beginning) for at, offset in blocks if at >= at_ms), None)

    def bounds(self, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:
        return {p: self.log(topic, p) for p in self.led(topic, partitions)}

    def led(self, topic: str, partitions: Collection[int]) -> list[int]:
        """Return the existing partitions with a leader."""
        self._answer()
        count = len(self._topics[topic].ends) if topic in self._topics else 0
        return sorted(p for p in partitions if p < count and p not in self.leaderless)

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        found = {p: self.first_at(topic, p, at) for p, at in times_ms.items()}
        return {p: offset for p, offset in found.items() if offset is not None}

    def _answer(self) -> None:
        if self.down:
            raise KafkaUnavailable("Kafka does not answer within 10 s; check that it runs")


@dataclass(frozen=True, slots=True)
class FakeGroupOffsets:
    """`ports.GroupOffsets`."""

    kafka: FakeKafka
    group: str
    fences: bool = False

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        return self.kafka.committed_of(self.group, topic, partitions)

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> Mapping[int, str]:
        """Nothing: commits are no transactions."""
        return {}

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        members = self.kafka.group_members(self.group)
        if members:
            raise GroupInUse(f"Kafka refuses commits of group {self.group!r}: {', '.join(members)} subscribes; stop it")
        for partition, one in offsets.items():
            self.kafka.log(topic, partition)
            self.kafka.stored[self.group, topic, partition] = (one.offset, encode_metadata(one))
        return {}

    def describe(self, topic: str) -> TopicDescription | None:
        return self.kafka.describe([topic])[topic]

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        return {p: self.kafka.log(topic, p)[1] for p in self.kafka.led(topic, partitions)}

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        return self.kafka.at_times(topic, times_ms)

    def beginnings(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        return {p: self.kafka.log(topic, p)[0] for p in self.kafka.led(topic, partitions)}


def perform_due(ownership: TopicOwnership, offsets: GroupOffsets, sink: TransactionalSink | None = None) -> None:
    """Perform all due requests to Kafka and to the sink for a topic, at most twenty."""
    for _ in range(20):
        work = ownership.requests.work()
        if work is None:
            return
        ownership.requests.answer(perform(offsets, ownership.topic, work, sink))
