"""Kafka in the simulation: the log's ends, the group's committed entries, and late or repeated commits.

With `fences`, commits are transactions: as in `adapters.kafka_transactions`, only the last initializer of a partition's
producer can commit from then on; late commits of others are refused too.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from coordinator_tasks.core.codecs.status_codec import decode_metadata, encode_metadata
from coordinator_tasks.core.errors import CommitFenced, CoordinatorError, KafkaUnavailable
from coordinator_tasks.core.model import Committed, Token, TopicDescription
from coordinator_tasks.core.ports import GroupAnswer, Wanted
from tests.simulation.faults import Fault
from tests.simulation.kernel import Host, Kernel

COMMIT_TIMEOUT_S = 2.0
Place: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""


@dataclass
class Log:
    """A topic now: id and end of each partition; offset 0 always exists."""

    topic_id: str
    ends: list[int]


@dataclass
class Late:
    """A commit under way; `epochs`: of the producers, if transactional."""

    due_at: float
    who: str
    group: str
    topic: str
    offsets: dict[int, Committed]
    epochs: dict[int, int]


@dataclass
class Producers:
    """The newest epoch of each partition's producer, and each process's knowledge: producers and losses."""

    newest: dict[Place, int] = field(default_factory=dict)
    held: dict[tuple[str, Place], tuple[Token, int]] = field(default_factory=dict)
    lost: dict[tuple[str, Place], Token] = field(default_factory=dict)

    def initialize(self, who: str, place: Place, token: Token) -> None:
        self.newest[place] = self.newest.get(place, 0) + 1
        self.held[who, place] = (token, self.newest[place])

    def epoch(self, who: str, place: Place) -> int:
        """Return the epoch of this process's producer; -1 = no producer."""
        return self.held.get((who, place), (None, -1))[1]

    def is_newest(self, place: Place, epoch: int) -> bool:
        return self.newest.get(place, 0) == epoch

    def lose(self, who: str, place: Place) -> None:
        """Kafka has refused a commit: the process does not initialize again under this token."""
        held = self.held.pop((who, place), None)
        if held is not None:
            self.lost[who, place] = held[0]


@dataclass
class Brokers:
    """`on_commit` gets every written entry, the process, and whether the entry is late.

    `unread`: by reading task, topic id and partition of entries written since the last read.
    """

    kernel: Kernel
    on_commit: Callable[[str, int, Committed, str, bool], None]
    on_effect: Callable[[Fault], None]
    logs: dict[str, Log] = field(default_factory=dict)
    fences: bool = False
    entries: dict[Place, tuple[int, str]] = field(default_factory=dict)
    producers: Producers = field(default_factory=Producers)
    late: list[Late] = field(default_factory=list)
    unread: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    down_until: float = 0.0
    _created: int = 0

    def create(self, topic: str, partitions: int) -> None:
        """Create the topic, or recreate it without committed offsets."""
        self._created += 1
        self.entries = {key: entry for key, entry in self.entries.items() if key[1] != topic}
        self.logs[topic] = Log(f"id-{self._created}", [0] * partitions)

    def write(self, group: str, topic: str, offsets: Mapping[int, Committed], who: str, *, late: bool = False) -> None:
        """Apply a commit; missing partitions are left out, as by a broker."""
        log = self.logs[topic]
        for partition, entry in sorted(offsets.items()):
            if partition < len(log.ends):
                self.entries[group, topic, partition] = (entry.offset, encode_metadata(entry))
                for written in self.unread.values():
                    written.add((log.topic_id, partition))
                self.on_commit(topic, partition, entry, who, late)

    def read(self, group: str, topic: str, partitions: Collection[int]) -> dict[int, Committed]:
        found = {p: self.entries.get((group, topic, p)) for p in sorted(partitions)}
        return {p: decode_metadata(*entry) for p, entry in found.items() if entry is not None}

    def tick(self) -> None:
        """Apply the commits that arrive now."""
        due = [one for one in self.late if one.due_at <= self.kernel.now]
        self.late = [one for one in self.late if one.due_at > self.kernel.now]
        for one in due:
            newest = self.producers.is_newest
            taken = [p for p in one.offsets if not one.epochs or newest((one.group, one.topic, p), one.epochs[p])]
            self.write(one.group, one.topic, {p: one.offsets[p] for p in taken}, one.who, late=True)

    def request(self, kind: str) -> str:
        fault = self.kernel.io(kind)
        if self.kernel.now < self.down_until:
            self.on_effect(Fault.BROKERS_DOWN)
            raise KafkaUnavailable("Kafka does not answer within 2 s")
        return fault


@dataclass(frozen=True)
class Offsets:
    """`ports.GroupOffsets` of a process."""

    brokers: Brokers
    host: Host
    group: str

    @property
    def fences(self) -> bool:
        return self.brokers.fences

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        self.brokers.request("kafka.read")
        return self.brokers.read(self.group, topic, partitions)

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> Mapping[int, str]:
        if self.fences:
            held = self.brokers.producers.held
            for who, place in list(held):
                mine = who == self.host.name and place[:2] == (self.group, topic)
                if mine and tokens.get(place[2]) != held[who, place][0]:
                    del held[who, place]
            self._take(topic, topic_id, tokens)
        return {}

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        fenced: list[int] = []
        if self.fences:
            for topic_id in sorted({one.topic_id for one in offsets.values()}):
                tokens = {p: o.token for p, o in offsets.items() if o.token is not None and o.topic_id == topic_id}
                self._take(topic, topic_id, tokens)
        fault = self.brokers.request("kafka.commit")
        if self.fences:
            fenced = [p for p in offsets if not self._is_newest(topic, p)]
        self._commit(topic, {p: one for p, one in offsets.items() if p not in fenced}, fault)
        for p in fenced:
            self.brokers.producers.lose(self.host.name, self._place(topic, p))
        if fenced:
            raise CommitFenced("Kafka refuses its commit", tuple(sorted(fenced)))
        return {}

    def _commit(self, topic: str, offsets: dict[int, Committed], fault: str) -> None:
        epochs = {
            p: self.brokers.producers.epoch(self.host.name, self._place(topic, p)) for p in offsets if self.fences
        }
        if fault:
            self.brokers.on_effect(Fault(fault))
        if fault == Fault.COMMIT_DELAYED:
            due_at = self.brokers.kernel.now + COMMIT_TIMEOUT_S + 0.2
            self.brokers.late.append(Late(due_at, self.host.name, self.group, topic, offsets, epochs))
        if fault == Fault.COMMIT_DOUBLED:
            due_at = self.brokers.kernel.now + 1.5
            self.brokers.late.append(Late(due_at, self.host.name, self.group, topic, offsets, epochs))
        if fault not in (Fault.COMMIT_LOST, Fault.COMMIT_DELAYED):
            self.brokers.write(self.group, topic, offsets, self.host.name)
        if fault in (Fault.COMMIT_LOST, Fault.COMMIT_DELAYED, Fault.COMMIT_UNKNOWN):
            for p in offsets:
                self.brokers.producers.held.pop((self.host.name, self._place(topic, p)), None)
            self.brokers.kernel.sleep(COMMIT_TIMEOUT_S)
            raise KafkaUnavailable("the commit was not acknowledged within 2 s; its outcome is unknown")

    def _take(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> None:
        """Initialize the missing producers, except lost ones and entries with a newer owner."""
        producers, who = self.brokers.producers, self.host.name
        new = {p: t for p, t in sorted(tokens.items()) if (who, self._place(topic, p)) not in producers.held}
        new = {p: t for p, t in new.items() if producers.lost.get((who, self._place(topic, p))) != t}
        if not new:
            return
        entries = self.committed(topic, new)
        self.brokers.request("kafka.read")
        for p, token in new.items():
            entry = entries.get(p)
            known = entry is not None and entry.topic_id in ("", topic_id)
            if not (known and entry is not None and entry.token is not None and entry.token > token):
                producers.initialize(who, self._place(topic, p), token)

    def _is_newest(self, topic: str, partition: int) -> bool:
        place = self._place(topic, partition)
        return self.brokers.producers.is_newest(place, self.brokers.producers.epoch(self.host.name, place))

    def _place(self, topic: str, partition: int) -> Place:
        return self.group, topic, partition

    def describe(self, topic: str) -> TopicDescription | None:
        self.brokers.request("kafka.read")
        log = self.brokers.logs[topic]
        return TopicDescription(topic, log.topic_id, len(log.ends))

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
    """`ports.KafkaAdmin` of a task."""

    brokers: Brokers

    def describe(
        self,
        topics: Collection[str],
        problems: dict[str, CoordinatorError] | None = None,
    ) -> Mapping[str, TopicDescription | None]:
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
        self.brokers.unread[self.brokers.kernel.who()] = set()
        return {
            group: {topic: self.brokers.read(group, topic, partitions) for topic, partitions in topics.items()}
            for group, topics in wanted.items()
        }

    def group_members(self, group: str) -> tuple[str, ...]:
        self.brokers.request("kafka.read")
        return ()
