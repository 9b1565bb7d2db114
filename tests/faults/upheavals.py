"""Cases beyond a join and a leave: ZooKeeper that loses something, a topic that goes, comes or grows, a barrier, transactions."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

from coordinator_tasks.core.errors import LookAgain, NodeMissing
from coordinator_tasks.core.model import MoveKind, Record
from coordinator_tasks.core.names import ROOT
from coordinator_tasks.core.ports import Delete, SetData
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.faults.case import FIRST, SECOND, Case, Result
from tests.faults.checker import Run
from tests.faults.failpoints import Hold, When
from tests.faults.operators import OPERATORS
from tests.faults.persons import ASKED_FILE
from tests.faults.proxy import Proxy
from tests.faults.releases import Releases
from tests.faults.roles import COORDINATOR, Life
from tests.faults.scenarios import (
    BOTH,
    Added,
    Behind,
    Drain,
    Guarded,
    Imported,
    Isolation,
    Lost,
    Pins,
    Positions,
    Refusing,
    Scenario,
    WentBack,
)
from tests.stable import stable_node

GROWN = 2
LISTING = "topics.create_partitions/ZooKeeper.transact"
STALL_SESSION_S = 10.0
STALL_ASK_S = 0.3


@dataclass
class Emptied(Added):
    """ZooKeeper loses everything while its sessions go on; the topic is added again."""

    before: list[Record] = field(default_factory=list)

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._empty)

    def _empty(self) -> None:
        self._await(self._emptied, "everything is deleted")
        self._phase("empty")
        self._asks("add")
        self._await(lambda: self._settled(BOTH), "Stable with all that was lost")

    def _emptied(self) -> bool:
        """In one transaction, so that nothing is written in between; what the history says is kept."""
        path = self.paths.state(self.topic)
        state, records = self.zk.get(path), self._records()
        below = [one for one in self._all(ROOT) if one != path]
        if len([one for one in below if one.startswith(f"{self.paths.history(self.topic)}/")]) != len(records):
            return False
        try:
            self.zk.transact([Delete(path, state.stat.version), *map(Delete, below)])
        except LookAgain:
            return False
        self.before = list(records)
        (self.folder / ASKED_FILE).unlink(missing_ok=True)  # its records are gone as well
        return True

    def _all(self, path: str) -> list[str]:
        """Everything from here on, the lowest first."""
        try:
            children = self.zk.children(path)
        except NodeMissing:
            return []
        return [*(one for child in children for one in self._all(f"{path}/{child}")), path]

    def _evidence(self) -> Run:
        found = super()._evidence()
        if not self.before:
            return found
        first = self.before[-1].sequence + 1
        later = [replace(one, sequence=one.sequence + first) for one in found.records]
        return replace(found, records=[*self.before, *later], breaks=frozenset({first - 1}))


@dataclass
class Restored(Scenario):
    """A topic's node and state stand as they were before the last plan."""

    old: list[tuple[str, bytes]] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._pin, self._restore)

    def _pin(self) -> None:
        self._phase("pin")
        self.old = [(path, self.zk.get(path).data) for path in self._paths()]
        self._asks("pin")
        self._await(lambda: self._settled({FIRST}), "Stable with everything pinned")

    def _paths(self) -> tuple[str, str]:
        return self.paths.state(self.topic), self.paths.topic(self.topic)

    def _restore(self) -> None:
        self._phase("restore")
        generation = self._records()[-1].generation
        self._await(self._restored, "the older state is restored")
        self._await(
            lambda: self._records()[-1].generation != generation and self._settled({FIRST}),
            "Stable with what the older state does not know",
        )

    def _restored(self) -> bool:
        records, versions = self._records(), [self.zk.get(path).stat.version for path in self._paths()]
        writes = [SetData(path, data, version) for (path, data), version in zip(self.old, versions, strict=True)]
        if self._records() != records:
            return False
        try:
            self.zk.transact(writes)
        except LookAgain:
            return False
        self.breaks.add(records[-1].sequence)
        return True

    def _evidence(self) -> Run:
        return replace(super()._evidence(), breaks=frozenset(self.breaks))


@dataclass
class Removal(Added):
    """A topic is removed while one of its consumers cannot reach ZooKeeper, and is added again when that one is back."""

    standing: ClassVar[frozenset[str]] = frozenset({"remove"})
    through: Proxy | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        # Whoever cannot reach ZooKeeper takes a node only from those that have the token.
        self.settings = replace(self.settings, status_token="removal")

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._remove, self._add)

    def _life(self, role: str) -> Life:
        life = super()._life(role)
        if role != SECOND:
            return life
        self.through = Proxy(self.servers.zookeeper)
        return replace(life, settings=replace(life.settings, zookeeper=f"{self.through.address}/{self.name}"))

    def _start(self, role: str) -> None:
        super()._start(role)
        if role == SECOND and self.through is not None:
            self.through.let_through()  # its next life is not cut off

    def _remove(self) -> None:
        self._phase("remove")
        life = self._live(SECOND)
        if self.through is not None:
            self.through.refuse()
        self._await(lambda: self._live(SECOND) != life, "the registration's end")
        self._asks("remove")
        self._await(self._removed, "Stable with nothing of the removed topic")

    def _removed(self) -> bool:
        node = stable_node(self._find, self.paths, self.topic)
        return node is not None and node.removed and not node.assignments

    def _add(self) -> None:
        self._phase("add")
        if self.through is not None:
            self.through.let_through()
        self._asks("add")
        self._await(lambda: self._settled(BOTH), "Stable with the topic that was added again")

    def close(self) -> None:
        super().close()
        if self.through is not None:
            self.through.__exit__()


class Growth(Scenario):
    """A topic of its own gets another partition."""

    def run(self) -> Result:
        self.servers = self.servers.own_topic(self.name)
        self.topic = self.servers.topic
        self.releases = Releases(self.zk, self.paths, self.topic, GROWN)
        try:
            return super().run()
        finally:
            self.servers.dry_up()

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._grow)

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST):
            self._start(role)
        self._await(lambda: self._settled({FIRST}), "Stable with one partition")
        self._start(SECOND)
        self._await(lambda: self._live(SECOND) > 0 and self._settled({FIRST}), "Stable with both consumers")

    def _grow(self) -> None:
        self._phase("grow")
        self.servers.grow(GROWN)
        self.base |= dict.fromkeys(range(1, GROWN), 0)
        self._listed()
        self._await(lambda: self._settled(BOTH), "Stable with both partitions")

    def _listed(self) -> None:
        """Kafka has the partition, and the coordinator is to list it."""


class Raced(Scenario):
    """While a coordinator lists the partitions of a topic that it adds, somebody else lists one of them first."""

    halted: ClassVar[Hold] = Hold(f"coordinator/initial/add_topic/{LISTING}", When.BEFORE)

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial,)

    def _initial(self) -> None:
        self._phase("initial")
        self._start(COORDINATOR)
        self._overtake(0)
        for role in (FIRST, SECOND):
            self._start(role)
        self._await(lambda: self._settled(BOTH), "Stable with both")


class RacedGrowth(Growth):
    """The same with a new partition."""

    halted: ClassVar[Hold] = Hold(f"coordinator/grow/chores/{LISTING}", When.BEFORE)

    def _listed(self) -> None:
        self._overtake(GROWN - 1)


class Barrier(Scenario):
    """The taker of a hand-off is drained while its giver stands still: who may run the partition is two."""

    standing: ClassVar[frozenset[str]] = frozenset({"stall"})

    def __post_init__(self) -> None:
        super().__post_init__()
        # Whoever stands still keeps its session, and is not waited for.
        self.settings = replace(self.settings, session_timeout_s=STALL_SESSION_S, ask_timeout_s=STALL_ASK_S)

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._stall, self._barrier)

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST):
            self._start(role)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role == SECOND and self.phase == "barrier")

    def _stall(self) -> None:
        self._phase("stall")
        self._signal(signal.SIGSTOP)
        self._start(SECOND)
        self._await(lambda: '"Closing"' in self._standing(), "the join is planned")

    def _barrier(self) -> None:
        self._phase("barrier")
        self._asks("drain")
        self._await(lambda: self._planned_again() or self._live(FIRST) < 0, "the barrier is planned")
        self._signal(signal.SIGCONT)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")

    def _planned_again(self) -> bool:
        return any(move.kind is MoveKind.BARRIER for one in self._records() for move in one.moves)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.actors[FIRST].process.pid, number)  # type: ignore[union-attr, arg-type]


@dataclass
class Transactional(Case):
    """The join and the leave where commits are transactions. The first one of a broker takes its time."""

    bound_s: ClassVar[float] = 120.0
    fence: str = TRANSACTIONAL_FENCE


SCENARIOS: Sequence[type[Case]] = (
    Isolation,
    Lost,
    Refusing,
    Drain,
    Emptied,
    Pins,
    Restored,
    Positions,
    Removal,
    Growth,
    Raced,
    RacedGrowth,
    Barrier,
    Transactional,
    Guarded,
    WentBack,
    Imported,
    Behind,
    *OPERATORS,
)
