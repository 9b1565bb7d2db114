"""Cases of what a join and a leave do not go through: what a person asks for, what is lost, what grows.

Each begins with two consumers, and goes on with phases of its own; a point's phase says which scenario it belongs to.
"""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar
from urllib.parse import urlsplit

from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.core.errors import NodeMissing
from coordinator_tasks.core.model import Record
from coordinator_tasks.core.ports import Create
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.watch import lag_moments
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.faults.case import FIRST, SECOND, Actor, Case, Failed, Result
from tests.faults.checker import Run
from tests.faults.failpoints import GO, HELD, Hold
from tests.faults.persons import PERSON, ask, recorded, wanted
from tests.faults.roles import AGENT_TIMING, COORDINATOR, TIMING, Life
from tests.faults.upkeep import beside
from tests.faults.waking import PROMISED_S, SLACK_S
from tests.integration import agent_site
from tests.stable import stable_node

CHORES_S = 0.3
REGISTER_S = 0.5
RESTLESS_S = 0.1
BOTH = {FIRST, SECOND}
RECORDS = 500
ABSENT_AFTER_S = 0.3
STOP_S = PROMISED_S + SLACK_S


class Restless(Case):
    """The join and the leave by consumers that look and register again all the time, so that short phases have that, too."""

    def _life(self, role: str) -> Life:
        agent = replace(AGENT_TIMING, poll_s=RESTLESS_S, register_s=RESTLESS_S)
        timing = replace(TIMING, bounds_s=RESTLESS_S, measure_s=RESTLESS_S)
        return replace(super()._life(role), chores_s=CHORES_S, timing=timing, agent_timing=agent)

    def _initial(self) -> None:
        self._phase("initial")
        self._start(COORDINATOR)
        listed = self.paths.partition(self.topic, self.servers.partitions - 1)
        self._await(lambda: self._find(listed) is not None, "the topic is there before its consumer")
        self._start(FIRST)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")


class Scenario(Case):
    """Two consumers from the beginning, and a person who asks for something in some of the phases."""

    bound_s: ClassVar[float] = 90.0
    standing: ClassVar[frozenset[str]] = frozenset()
    """Phases at whose end records do not flow: a brief case goes on."""
    halted: ClassVar[Hold | None] = None
    """Where its coordinator stands still, once."""

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST, SECOND):
            self._start(role)
        self._await(lambda: self._settled(BOTH), "Stable with both")

    def _life(self, role: str) -> Life:
        timing = replace(AGENT_TIMING, register_s=REGISTER_S)
        hold = self.halted if role == COORDINATOR else None
        return replace(super()._life(role), chores_s=CHORES_S, agent_timing=timing, hold=hold)

    def _does(self, role: str) -> Callable[[Life], None]:
        return ask if role == PERSON else super()._does(role)

    def _may_end(self, role: str) -> bool:
        return role == PERSON

    def _over(self) -> bool:
        return self.phase not in self.standing and super()._over()

    def _asks(self, wish: str) -> None:
        """A person asks for it, as often as it takes."""
        self._forget(PERSON)
        self.actors[PERSON] = Actor(replace(self._life(PERSON), wish=wish))
        self._start(PERSON)
        self._await(lambda: self.actors[PERSON].ended, f"{wish} is asked")

    def _overtake(self, partition: int) -> None:
        """The coordinator stands before its write, and somebody else lists the partition."""
        self._await((self.folder / HELD).exists, "the list of partitions is about to be written")
        self.zk.transact([Create(self.paths.partition(self.topic, partition))])
        (self.folder / GO).touch()

    def _forget(self, role: str) -> None:
        """Who has ended is started anew."""
        actor = self.actors.pop(role, None)
        if actor is not None and actor.process is not None:
            with self.servers.processes:
                actor.process.close()

    def _comes_back(self) -> None:
        self._forget(SECOND)
        self._start(SECOND)
        self._await(lambda: self._settled(BOTH), "Stable with its next life")

    def _scenario(self) -> None:
        super()._scenario()
        self._await(self._recorded, "all that persons have done stands in the history once")

    def _recorded(self) -> bool:
        found, asked = recorded(self.coordinator), wanted(self.folder)
        if len(found) > len(asked):
            raise Failed(f"recorded are {found}, and asked was for {asked}; see {self.folder}")
        return found == asked

    def _records(self) -> Sequence[Record]:
        return history.records(self.coordinator, self.topic, RECORDS)[::-1]


class Added(Scenario):
    """A person adds the topic, and no coordinator does so again."""

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), adds=False)

    def _initial(self) -> None:
        self._phase("initial")
        self._asks("add")
        super()._initial()


@dataclass
class Isolation(Scenario):
    """A consumer is isolated by a person while it lives, and readmitted.

    It is taken for closed without its own word: what it has not committed is repeated, and it goes on until it learns of that,
    as long as a zombie may.
    """

    isolated: int = 0

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._isolate, self._readmit)

    def _isolate(self) -> None:
        self._phase("isolate")
        self.isolated = self._live(SECOND)
        self.killed.add((SECOND, self.isolated))
        self._asks("isolate")
        self._await(lambda: self._settled({FIRST}), "Stable without the isolated one")

    def _readmit(self) -> None:
        self._phase("readmit")
        self._asks("readmit")
        self._await(lambda: self._settled(BOTH), "Stable with the readmitted one")

    def _evidence(self) -> Run:
        return replace(super()._evidence(), survivors={(SECOND, self.isolated): STOP_S})


class Lost(Scenario):
    """A consumer dies and nobody says so, and its address is silent: the platform isolates that life, and its next one joins."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = replace(self.settings, policy=replace(self.settings.policy, absent_after_s=ABSENT_AFTER_S))

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._lose, self._back)

    def _lose(self) -> None:
        self._phase("lost")
        self._dies_silently(SECOND, FIRST)

    def _back(self) -> None:
        self._phase("back")
        self._comes_back()

    def _dies_silently(self, role: str, taker: str) -> None:
        """Another process takes its port and says nothing, as a host does that is gone: a refusal would prove the end."""
        address = urlsplit(self._dies(role))
        with socket.create_server((address.hostname or "", address.port or 0)):
            self._await(lambda: self._settled({taker}), "Stable without the dead one")

    def _dies(self, role: str = SECOND) -> str:
        """The address that it had."""
        actor, life = self.actors[role], self._live(role)
        member = decode_member("", self.zk.get(self.paths.member(role)).data)
        self.killed.add((role, life))
        actor.ended = True
        if actor.process is not None:
            actor.process.kill()
            actor.process.join()
        return member.address


class Refusing(Lost):
    """The same, but its address refuses from the death on, while its session still runs: that proves its end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = replace(self.settings, policy=replace(self.settings.policy, hold_absent=True))

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._refuse, self._again)

    def _refuse(self) -> None:
        self._phase("refuse")
        self._dies()
        self._await(lambda: self._settled({FIRST}), "Stable without the dead one")

    def _again(self) -> None:
        self._phase("again")
        self._comes_back()


@dataclass
class Guarded(Lost):
    """The same where commits are transactions: who had nothing yet takes everything over, and is killed around its starts."""

    bound_s: ClassVar[float] = 120.0
    fence: str = TRANSACTIONAL_FENCE

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._guard)

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST):
            self._start(role)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")
        self._asks("freeze")
        self._start(SECOND)
        self._await(
            lambda: self._live(SECOND) > 0 and self._settled({FIRST}), "the second one is there, and has nothing"
        )

    def _guard(self) -> None:
        self._phase("guard")
        self._dies_silently(FIRST, SECOND)


class Behind(Scenario):
    """How far everything is behind is kept, a moment a minute."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._keep)

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), upkeep="lag" if role == COORDINATOR else "")

    def _keep(self) -> None:
        self._phase("keep")
        self._await(self._kept, "every moment that is kept can be read")

    def _kept(self) -> bool:
        problems: dict[str, str] = {}
        found = lag_moments.read(self.coordinator, self.coordinator.clock.now(), problems=problems)
        assert problems == {}
        return bool(found)


class WentBack(Scenario):
    """A consumer joins, and a person takes that rebalance back."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._go_back)

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST):
            self._start(role)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")
        self._start(SECOND)
        self._await(lambda: self._settled(BOTH), "Stable with both")

    def _go_back(self) -> None:
        self._phase("go_back")
        self._asks("go back")
        self._await(lambda: self._settled({FIRST}), "Stable as it was before the second one came")


class Drain(Scenario):
    """A consumer is drained by a person and leaves by itself; started again, it is wanted again."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._drain, self._undrain)

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role == SECOND and self.phase == "drain")

    def _drain(self) -> None:
        self._phase("drain")
        self._asks("drain")
        self._await(
            lambda: self.actors[SECOND].ended and self._settled({FIRST}), "the drained one has left, and Stable"
        )

    def _undrain(self) -> None:
        self._phase("undrain")
        self._asks("undrain")
        self._forget(SECOND)
        self._start(SECOND)
        self._await(lambda: self._settled(BOTH), "Stable with the one that is wanted again")


class Pins(Added):
    """Partitions are pinned and unpinned; the strategy changes, and the topic is frozen for a while."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._pin, self._unpin)

    def _pin(self) -> None:
        self._phase("pin")
        self._asks("pin")
        self._await(lambda: self._settled({FIRST}), "Stable with everything pinned")

    def _unpin(self) -> None:
        self._phase("unpin")
        self._asks("unpin")
        self._await(lambda: self._settled(BOTH), "Stable with nothing pinned")


class Positions(Scenario):
    """Partitions are paused, reset to where they are, and read again."""

    standing: ClassVar[frozenset[str]] = frozenset({"pause", "reset"})

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._pause, self._reset, self._resume)

    def _pause(self) -> None:
        self._phase("pause")
        self._asks("pause")
        self._await(self._still, "everything is paused and committed")

    def _reset(self) -> None:
        self._phase("reset")
        self._asks("reset")
        done = self.servers.partitions
        self._await(lambda: len(self._resets()) == done and self._still(), "everything is reset, and Stable")

    def _resume(self) -> None:
        self._phase("resume")
        self._asks("resume")
        self._await(lambda: self._settled(BOTH) and self._flows(), "Stable, and everything flows again")

    def _resets(self, topic: str = "") -> list[Record]:
        records = history.records(self.coordinator, topic or self.topic, RECORDS)
        return [one for one in records if one.plan is not None and one.plan.strategy == positions.RESET]

    def _still(self) -> bool:
        """All owners have acted on the pause, and Kafka has what has passed their sinks."""
        node = self._owned(BOTH)
        if node is None or len(node.paused) < self.servers.partitions:
            return False
        passed = dict(self.base)
        for row in self.rows.all():
            passed[row.partition] = max(passed[row.partition], row.offset + 1)
        committed = {one.partition: one.entry for one in self.servers.commits.of(self.group, self.topic)}
        for partition, owner in node.assignments.items():
            with suppress(OSError, NodeMissing):
                address = decode_member("", self.zk.get(self.paths.member(owner)).data).address
                status = agent_site.ask(address).topics[self.topic]
                at = status.running[partition].position if partition in status.running else -1
                if status.acted_epoch >= node.epoch and at == committed[partition].offset >= passed[partition]:
                    continue
            return False
        return True

    def _flows(self) -> bool:
        """Everything that was there a moment ago is processed."""
        self.target = self.servers.ends()
        return self._consumed()


class Imported(Positions):
    """The same by a file of two topics, and a person takes it back; the other topic has no records."""

    standing: ClassVar[frozenset[str]] = frozenset({"pause", "import", "undo"})

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._pause, self._import, self._undo, self._resume)

    def run(self) -> Result:
        self.other = beside(self.topic, self.group)
        self.servers.admin.create_topic(self.other, 1)
        return super().run()

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), upkeep="beside" if role == COORDINATOR else "")

    def _initial(self) -> None:
        super()._initial()
        self._await(self._other_stands, "the other topic is Stable")

    def _import(self) -> None:
        self._phase("import")
        self._asks("import")
        self._await(lambda: self._reset_times(1) and self._still(), "everything is reset, and Stable")

    def _undo(self) -> None:
        self._phase("undo")
        self._asks("undo")
        self._await(lambda: self._reset_times(2) and self._still(), "everything is taken back, and Stable")

    def _reset_times(self, times: int) -> bool:
        return len(self._resets()) == len(self._resets(self.other)) == times and self._other_stands()

    def _other_stands(self) -> bool:
        node = stable_node(self._find, self.paths, self.other)
        return node is not None and bool(node.assignments)
