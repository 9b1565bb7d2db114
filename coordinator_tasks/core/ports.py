"""What the core and the services need from the outside, as protocols.

The adapters implement them on real servers, the fakes of the tests and the simulation in memory; the same contract
tests run on both. Every method may raise the `Unavailable` error of its neighbour.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import Answer, Committed, Member, Token, TopicDescription, Unreachable


@dataclass(frozen=True, slots=True)
class Stat:
    """The part of ZooKeeper's Stat that we use. The server's times are in seconds since 1970."""

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
    """Part of a transaction: fails with `LookAgain` unless the node has this version (-1 = any)."""

    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    """Part of a transaction: fails with `LookAgain` unless the node has this version (-1 = any)."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Check:
    """Part of a transaction: fails with `LookAgain` unless the node has this version."""

    path: str
    version: int


Operation: TypeAlias = Create | SetData | Delete | Check
Watcher: TypeAlias = Callable[[], None]
"""Called at most once, on a change, from another thread; it must not block."""


class Connection(StrEnum):
    """Of a ZooKeeper session. SUSPENDED is not LOST: the session may come back with its ephemeral nodes."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class ZooKeeper(Protocol):
    """A ZooKeeper session. Watches are one-shot: to wait for a change, read again after re-arming, and poll as well."""

    def get(self, path: str, watch: Watcher | None = None) -> Node:
        """Read a znode, and watch its data; raises `NodeMissing`."""

    def find(self, path: str, watch: Watcher | None = None) -> Node | None:
        """Read a znode; `None` = it is not there. The watch fires on its change, creation or deletion."""

    def get_many(self, paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        """Read many znodes at once (pipelined, not atomic), in the order of `paths`; `None` = not there.

        `watches`: one for each path, as `find` takes it; none at all by default.
        """

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        """The names of a znode's children, sorted; raises `NodeMissing`."""

    def transact(self, operations: Sequence[Operation]) -> list[str | Stat | None]:
        """Apply all or nothing; returns a created node's path, a set node's new stat, and `None` for the others.

        Raises `LookAgain` (or its kinds `NodeMissing`, `NodeExists`) when a guard fails: nothing was applied. Raises
        `StoreUnavailable` when the connection breaks: the outcome is unknown, so compare before you try again.
        """

    def ensure(self, path: str) -> None:
        """Create an empty persistent znode and its parents where missing."""

    def sync(self) -> None:
        """Later reads see everything that was written before this call."""

    def listen(self, listener: Callable[[Connection], None]) -> None:
        """Call `listener` on every change of the connection, from another thread; it must not block."""

    @property
    def session_id(self) -> int:
        """The current session's number, 0 while there is none."""

    @property
    def session_timeout_s(self) -> float:
        """The session time-out that the server granted."""

    def close(self) -> None:
        """End the session; its ephemeral nodes are deleted at once."""


class Discovery(Protocol):
    """Who is registered now: the coordinator's side of service discovery."""

    def members(self) -> Mapping[str, Member]:
        """All registered consumers by id, as of a moment not before this call; raises `DiscoveryUnavailable`."""

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` once at the next change of membership, if the registry can tell; poll as well."""


class Registry(Protocol):
    """The consumer's side of service discovery."""

    def register(self, member: Member) -> None:
        """Register, or register again after a lost session; raises `IdInUse` while another incarnation is there."""

    def deregister(self, consumer: str, incarnation: int) -> None:
        """Remove the registration if it is this incarnation's."""


class StatusClient(Protocol):
    """Asks the consumers' own interfaces."""

    def ask(self, members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:
        """Ask all of them at once, each within the client's time limit; one answer for each.

        `known`: consumer → how many partitions it may run; 0 = none, and it has answered before. Those with partitions are asked first,
        within bounds of their own. All others share bounds; `Silence.UNASKED` = a bound left this one out.
        """

    def unreachable(self, members: Collection[Member]) -> Mapping[str, Unreachable]:
        """Those that take no new connection, each within the client's time limit, and why. Nothing is sent."""

    def post_topic(self, member: Member, topic: str, node: bytes) -> bool:
        """Hand a detached consumer the topic node as it is stored; True if it took it."""


Wanted: TypeAlias = Mapping[str, Mapping[str, Collection[int]]]
"""Group → topic → partitions."""
TopicAnswer: TypeAlias = Mapping[int, Committed] | CoordinatorError
GroupAnswer: TypeAlias = Mapping[str, TopicAnswer] | CoordinatorError
"""Topic → partition → its committed offset, or why it is not known."""


def committed_of(answer: GroupAnswer, topic: str) -> Mapping[int, Committed]:
    """One topic's committed offsets in its group's answer; raises why Kafka does not say them."""
    found = answer if isinstance(answer, CoordinatorError) else answer.get(topic, {})
    if isinstance(found, CoordinatorError):
        raise found
    return found


class KafkaAdmin(Protocol):
    """What the coordinator asks the brokers; raises `KafkaUnavailable`."""

    def describe(
        self, topics: Collection[str], problems: dict[str, CoordinatorError] | None = None
    ) -> Mapping[str, TopicDescription | None]:
        """Id and partitions of each topic; `None` = there is no such topic.

        A topic that Kafka does not describe (`KafkaUnavailable` or `Refused`) is left out, and has its error in `problems`.
        Such an error is raised if it is that of every topic.
        """

    def committed(self, wanted: Wanted) -> Mapping[str, GroupAnswer]:
        """The committed offsets of many groups at once, with one request for each group.

        Metadata is read; partitions without an offset are left out. A group that cannot be asked, or one topic of it, has its
        error (`KafkaUnavailable` or `Refused`) in place of an answer.
        """

    def bounds(self, topic: str, partitions: Collection[int]) -> Mapping[int, tuple[int, int]]:
        """Partition → its first offset and the one after its last, of those that are there and have a leader."""

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        """Partition → offset of its first record at or after a time (milliseconds since 1970), if there is one."""

    def group_members(self, group: str) -> tuple[str, ...]:
        """Client id and host of the members that subscribe in this group now."""


class GroupOffsets(Protocol):
    """What a consumer's agent asks the brokers for its group; raises `KafkaUnavailable`."""

    @property
    def fences(self) -> bool:
        """Whether commits are transactions, so that Kafka refuses those of a former owner by itself."""

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        """The group's committed offsets, with their metadata read; partitions without one are left out."""

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> Mapping[int, str]:
        """Tell all that the caller holds of the topic with this id, before it reads where a new holding begins.

        If commits are transactions, Kafka refuses anybody else's commit of a new partition from now on, until another
        consumer holds it. Otherwise this has no effect. Returns why some are not held yet; the next call continues.
        """

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        """Commit synchronously; raises `KafkaUnavailable` (unknown outcome), `GroupInUse` or `CommitFenced`.

        Returns why some are not committed (unknown outcome), while all others are.
        """

    def topic_id(self, topic: str) -> str:
        """The id that the topic has now; empty = there is no such topic."""

    def ends(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        """Partition → the offset after its last readable record, of those that are there and have a leader."""

    def beginnings(self, topic: str, partitions: Collection[int]) -> Mapping[int, int]:
        """Partition → the first offset that is still there, of those that are there and have a leader."""

    def at_times(self, topic: str, times_ms: Mapping[int, int]) -> Mapping[int, int]:
        """Partition → offset of its first record at or after a time (milliseconds since 1970), if there is one."""


class RecordSampler(Protocol):
    """Reads a few records of partitions, to know how large they are."""

    def mean_bytes(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, float]:
        """Partition → mean bytes (key, value and headers) of some records from that offset on.

        Partitions whose records do not arrive in time are left out. Blocks for some seconds; raises `KafkaUnavailable`
        and `BadSettings`.
        """


class Clock(Protocol):
    """Time and sleep; tests and the simulation have their own."""

    def now(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""

    def sleep(self, seconds: float) -> None:
        """Wait."""
