"""Kafka in the simulation: the log's ends, the group's committed entries, and commits that are late or come twice."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.codecs.status_codec import decode_metadata, encode_metadata
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import Committed, Token, TopicDescription
from coordinator_tasks.core.ports import GroupAnswer, Wanted
from tests.simulation.faults import Fault
from tests.simulation.kernel import Host, Kernel

COMMIT_TIMEOUT_S = 2.0


@dataclass
class Log:
    """One topic as it is now: its id and the end of each partition; offset 0 is always there."""

    topic_id: str
    ends: list[int]


@dataclass
class Late:
    """A commit that still is on its way."""

    due_at: float
    who: str
    group: str
    topic: str
    offsets: dict[int, Committed]


@dataclass
class Brokers:
    """`on_commit` is told of every entry that is written, by which process, and whether it comes late."""

    kernel: Kernel
    on_commit: Callable[[str, int, Committed, str, bool], None]
    on_effect: Callable[[Fault], None]
    logs: dict[str, Log] = field(default_factory=dict)
    entries: dict[tuple[str, str, int], tuple[int, str]] = field(default_factory=dict)
    late: list[Late] = field(default_factory=list)
    down_until: float = 0.0
    _created: int = 0

    def create(self, topic: str, partitions: int) -> None:
        """Create the topic; recreate it without its committed offsets if it is there."""
        self._created += 1
        self.entries = {key: entry for key, entry in self.entries.items() if key[1] != topic}
        self.logs[topic] = Log(f"id-{self._created}", [0] * partitions)

    def write(self, group: str, topic: str, offsets: Mapping[int, Committed], who: str, *, late: bool = False) -> None:
        """Apply a commit; partitions that are not there are left out, as in any answer of a broker."""
        log = self.logs[topic]
        for partition, entry in sorted(offsets.items()):
            if partition < len(log.ends):
                self.entries[group, topic, partition] = (entry.offset, encode_metadata(entry))
                self.on_commit(topic, partition, entry, who, late)

    def read(self, group: str, topic: str, partitions: Collection[int]) -> dict[int, Committed]:
        found = {p: self.entries.get((group, topic, p)) for p in sorted(partitions)}
        return {p: decode_metadata(*entry) for p, entry in found.items() if entry is not None}

    def tick(self) -> None:
        """Apply the commits that arrive now."""
        due = [one for one in self.late if one.due_at <= self.kernel.now]
        self.late = [one for one in self.late if one.due_at > self.kernel.now]
        for one in due:
            self.write(one.group, one.topic, one.offsets, one.who, late=True)

    def request(self, kind: str) -> str:
        fault = self.kernel.io(kind)
        if self.kernel.now < self.down_until:
            self.on_effect(Fault.BROKERS_DOWN)
            raise KafkaUnavailable("Kafka does not answer within 2 s")
        return fault


@dataclass(frozen=True)
class Offsets:
    """`ports.GroupOffsets` of one process."""

    brokers: Brokers
    host: Host
    group: str

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        self.brokers.request("kafka.read")
        return self.brokers.read(self.group, topic, partitions)

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> None:
        """Nothing: commits are no transactions."""

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> None:
        fault = self.brokers.request("kafka.commit")
        offsets = dict(offsets)
        if fault:
            self.brokers.on_effect(Fault(fault))
        if fault == Fault.COMMIT_DELAYED:
            due_at = self.brokers.kernel.now + COMMIT_TIMEOUT_S + 0.2
            self.brokers.late.append(Late(due_at, self.host.name, self.group, topic, offsets))
        if fault == Fault.COMMIT_DOUBLED:
            self.brokers.late.append(Late(self.brokers.kernel.now + 1.5, self.host.name, self.group, topic, offsets))
        if fault not in (Fault.COMMIT_LOST, Fault.COMMIT_DELAYED):
            self.brokers.write(self.group, topic, offsets, self.host.name)
        if fault in (Fault.COMMIT_LOST, Fault.COMMIT_DELAYED, Fault.COMMIT_UNKNOWN):
            self.brokers.kernel.sleep(COMMIT_TIMEOUT_S)
            raise KafkaUnavailable("the commit was not acknowledged within 2 s; its outcome is unknown")

    def topic_id(self, topic: str) -> str:
        self.brokers.request("kafka.read")
        return self.brokers.logs[topic].topic_id

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        self.brokers.request("kafka.read")
        ends = self.brokers.logs[topic].ends
        return {p: ends[p] for p in sorted(partitions) if p < len(ends)}

    def beginnings(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        self.brokers.request("kafka.read")
        ends = self.brokers.logs[topic].ends
        return {p: 0 for p in sorted(partitions) if p < len(ends)}

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        """No history starts by time."""
        assert not times_ms
        return {}


@dataclass(frozen=True)
class Admin:
    """`ports.KafkaAdmin` of one task."""

    brokers: Brokers

    def describe(self, topics: Collection[str]) -> Mapping[str, TopicDescription | None]:
        self.brokers.request("kafka.read")
        return {topic: self._described(topic) for topic in sorted(set(topics))}

    def _described(self, topic: str) -> TopicDescription | None:
        log = self.brokers.logs.get(topic)
        return TopicDescription(topic, log.topic_id, len(log.ends)) if log else None

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        try:
            self.brokers.request("kafka.read")
        except KafkaUnavailable as error:
            return dict.fromkeys(wanted, error)
        return {
            group: {topic: self.brokers.read(group, topic, partitions) for topic, partitions in topics.items()}
            for group, topics in wanted.items()
        }

    def group_members(self, group: str) -> tuple[str, ...]:
        self.brokers.request("kafka.read")
        return ()
