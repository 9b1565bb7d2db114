"""Protocols by which the core and the services reach servers and clocks.

The adapters implement the protocols on real servers. Tests and simulation implement them in memory. The same contract
tests run on both. Every method may raise the `Unavailable` error of its server.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import Answer, Committed, KafkaRecord, Member, Token, TopicDescription, Unreachable


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of ZooKeeper's Stat that are used. Times are the server's, in seconds since 1970."""

    version: int
    created_at: float
    modified_at: float
    children_version: int
    ephemeral_owner: int
    modified_zxid: int


@dataclass(frozen=True, slots=True)
class Node:
    """A znode as read at one moment."""

    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Create:
    """Part of a transaction: fails with `NodeExists`. `sequence` appends ZooKeeper's ten-digit counter to `path`."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Part of a transaction: fails with `LookAgain` unless the node has this version (-1 means any)."""

    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    """Part of a transaction: fails with `LookAgain` unless the node has this version (-1 means any version)."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class VersionCheck:
    """Part of a transaction: fails with `LookAgain` unless the node has this version."""

    path: str
    version: int


Operation: TypeAlias = Create | SetData | Delete | VersionCheck
Watcher: TypeAlias = Callable[[], None]
"""Called at most once, after a change, from another thread. It must not block."""


class Connection(StrEnum):
    """State of a ZooKeeper session. After SUSPENDED, unlike LOST, the session may return with its ephemeral nodes."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class ZooKeeper(Protocol):
    """A ZooKeeper session. A watch fires once. To wait for a change, set it again, then read; and poll as well."""

    def get(self, path: str, watch: Watcher | None = None) -> Node:
        """Read a znode and watch its data; raises `NodeMissing`."""

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        """Read a znode; `None` if absent. The watch fires when the znode is changed, created or deleted."""

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        """Read many znodes by pipelining, in the order of `paths`; `None` if absent. The reads are not atomic.

        `watches`: one for each path, as in `find`; by default none.
        """

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """Return the sorted names of a znode's children; raises `NodeMissing`."""

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        """Apply all operations or none. Return for each the created node's path, the set node's new stat, or `None`.

        Raises `LookAgain` (or its kinds `NodeMissing`, `NodeExists`) if a guard fails; nothing was applied. Raises
        `StoreUnavailable` if the connection breaks. The outcome is then unknown: compare before you try again.
        """

    def ensure(self, path: str) -> None:
        """Create a persistent znode without data, and its parents, where missing."""

    def sync(self) -> None:
        """Make later reads see all earlier writes."""

    def listen(self, listener: Callable[[Connection], None]) -> None:
        """Call `listener` on every change of the connection, from another thread. The listener must not block."""

    @property
    def session_id(self) -> int:
        """Return the current session's number; 0 without a session."""

    @property
    def session_timeout_s(self) -> float:
        """Return the session time-out that the server has granted."""

    def close(self) -> None:
        """End the session. The server deletes its ephemeral nodes at once."""


class Discovery(Protocol):
    """The coordinator's side of service discovery: who is registered."""

    def members(self) -> Mapping[str, Member]:
        """Return all registered consumers by id, no older than this call; raises `DiscoveryUnavailable`."""

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` once, at the next change of membership. Poll as well: some registries report no changes."""


class Registry(Protocol):
    """The consumer's side of service discovery."""

    def register(self, member: Member) -> None:
        """Register, also again after a lost session. Raises `IdInUse` while another incarnation is registered."""

    def deregister(self, consumer: str, incarnation: int) -> None:
        """Remove the registration of this incarnation. Another incarnation's registration stays."""


class StatusClient(Protocol):
    """The client of the consumers' own interfaces."""

    def ask(self, members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:
        """Ask all consumers at once, each within the client's time limit. Return one answer for each consumer.

        `known`: consumer → number of partitions it may run; 0 if it has only answered before. Consumers with partitions
        are asked first, within limits of their own. All others share limits. `Silence.UNASKED` marks a consumer that
        was not asked because of these limits.
        """

    def unreachable(self, members: Collection[Member]) -> Mapping[str, Unreachable]:
        """Return the consumers that refuse a new connection within the time limit, with reasons. No request is sent."""

    def post_topic(self, member: Member, topic: str, node: bytes) -> bool:
        """Post a stored topic node to a detached consumer. Return whether the consumer accepted it."""


Wanted: TypeAlias = Mapping[str, Mapping[str, Collection[int]]]
"""Group → topic → partitions."""
TopicAnswer: TypeAlias = Mapping[int, Committed] | CoordinatorError
GroupAnswer: TypeAlias = Mapping[str, TopicAnswer] | CoordinatorError
"""Topic → partition → committed offset; or an error in place of the topic's or the group's offsets."""


def committed_of(answer: GroupAnswer, topic: str) -> Mapping[int, Committed]:
    """Return one topic's committed offsets from Kafka's answer about the consumer group. Raise the error if the answer has one."""
    found = answer if isinstance(answer, CoordinatorError) else answer.get(topic, {})
    if isinstance(found, CoordinatorError):
        raise found
    return found


class KafkaAdmin(Protocol):
    """The coordinator's requests to the brokers; raises `KafkaUnavailable`."""

    def describe(
        self, topics: Collection[str], problems: dict[str, CoordinatorError] | None = None
    ) -> Mapping[str, TopicDescription | None]:
        """Return id and partitions of each topic; `None` for an unknown topic.

        If Kafka does not describe a topic (`KafkaUnavailable` or `Refused`), the topic is left out, and `problems` gets
        its error. An error that concerns all topics is raised.
        """

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        """Return the committed offsets of many groups at once, with one request for each group.

        The metadata is decoded. Partitions without an offset are left out. If a group, or one of its topics, cannot be
        read, an error (`KafkaUnavailable` or `Refused`) takes the place of its answer.
        """

    def bounds(self, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:
        """Return partition → its first offset and the offset after its last, for existing partitions with a leader."""

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        """Return partition → offset of its first record at or after a time (milliseconds since 1970), if any."""

    def group_members(self, group: str) -> tuple[str, ...]:
        """Return client id and host of the members that subscribe in this group now."""


class GroupOffsets(Protocol):
    """The requests of a consumer's agent to the brokers for its group; raises `KafkaUnavailable`."""

    @property
    def fences(self) -> bool:
        """Return whether commits are transactions, so that Kafka itself refuses a former owner's commits."""

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        """Return the group's committed offsets with decoded metadata. Partitions without an offset are left out."""

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> Mapping[int, str]:
        """Declare all that the caller holds of the topic with this id. Call before reading where a new holding begins.

        If commits are transactions, from now on Kafka refuses commits of a newly held partition by all other clients,
        until another consumer holds it. Otherwise this call has no effect. Returns partition → why not held yet; the
        next call continues.
        """

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        """Commit synchronously. Raises `KafkaUnavailable` (unknown outcome), `GroupInUse` or `CommitFenced`.

        Returns partition → why its commit has an unknown outcome. All other partitions are committed.
        """

    def describe(self, topic: str) -> TopicDescription | None:
        """Return id and partitions of the topic at present; `None` if the topic is unknown."""

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        """Return partition → the offset after its last readable record, for existing partitions with a leader."""

    def beginnings(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        """Return partition → the first available offset, for existing partitions with a leader."""

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        """Return partition → offset of its first record at or after a time (milliseconds since 1970), if any."""


class RecordSampler(Protocol):
    """Reads a few records of partitions to measure their size."""

    def mean_bytes(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, float]:
        """Return partition → mean bytes (key, value and headers) of some records from this offset on.

        Partitions whose records do not arrive in time are left out. Blocks for some seconds. Raises `KafkaUnavailable`
        and `BadSettings`.
        """


class RecordAccess(Protocol):
    """Reads single records again, and writes records; raises `KafkaUnavailable`."""

    def partition_count(self, topic: str) -> int:
        """Return the number of the topic's partitions; 0 if the topic does not exist."""

    def read(
        self, topic: str, spans: Sequence[tuple[int, int, int]], most_bytes: int, isolation: str = ""
    ) -> Mapping[tuple[int, int], KafkaRecord] | None:
        """Return (partition, offset) → record, for these spans (partition, first offset, end).

        `None` if there are more than `most_bytes`, or if a span of several offsets begins before the log does. If the
        log no longer has a single offset, its span is left out. `isolation`: Kafka's `isolation.level`.
        """

    def send(self, topic: str, records: Sequence[tuple[int, KafkaRecord]]) -> None:
        """Write records to partitions. On return, all replicas in sync have the records."""


class Clock(Protocol):
    """Time and sleep. Tests and simulation have clocks of their own."""

    def now(self) -> float:
        """Return seconds since 1970."""

    def monotonic(self) -> float:
        """Return seconds that never go back, from an arbitrary start."""

    def sleep(self, seconds: float) -> None:
        """Wait."""
