"""Cases of what operators ask for: an upgrade and its way back, an approval, planned restarts, growth, and older consumers."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from coordinator_tasks.core.fleet.upgrade import Upgrade, UpgradePhase
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.service.nodes import action_log, fleet, topics, upgrade_store
from tests.faults.case import FIRST, SECOND, Actor
from tests.faults.fleets import FLEETS
from tests.faults.persons import APP, NEXT, PERSON
from tests.faults.roles import COORDINATOR, Life
from tests.faults.scenarios import BOTH, Isolation, Scenario


class Upgraded(Scenario):
    """A fleet of one consumer is upgraded beside one of no fleet: all steps pass, and the old consumer leaves."""

    wish: ClassVar[str] = "upgrade"

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._upgrade)

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), upkeep="upgrade" if role == COORDINATOR else "")

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role == SECOND and self.phase == "upgrade")

    def _upgrade(self) -> None:
        self._phase("upgrade")
        self._begin()
        self._await(lambda: self._over_as(UpgradePhase.DONE, SECOND, NEXT), "the upgrade is done")

    def _begin(self) -> None:
        self._asks(self.wish)
        self._start(NEXT)

    def _record(self) -> Upgrade:
        return upgrade_store.read(self.coordinator, APP)

    def _over_as(self, phase: UpgradePhase, left: str, stays: str) -> bool:
        """The upgrade is over, one has left, the other one has its place, and nothing of the upgrade is left."""
        if self._record().phase is not phase or not self.actors[left].ended or not self._settled({FIRST, stays}):
            return False
        found = fleet.fleet_of(self.coordinator, APP)
        assert (found.consumers, found.runs) == ((stays,), {})
        assert topics.configuration(self.coordinator, self.topic).split is None
        return True


class UpgradedBack(Upgraded):
    """A person rolls the upgrade back while its only step is held."""

    wish: ClassVar[str] = "upgrade and hold"

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._upgrade, self._roll_back)

    def _may_end(self, role: str) -> bool:
        return Scenario._may_end(self, role) or (role == NEXT and self.phase == "roll_back")

    def _upgrade(self) -> None:
        self._phase("upgrade")
        self._begin()
        self._await(self._is_held, "the only step is held")

    def _is_held(self) -> bool:
        return self._record().phase is UpgradePhase.HOLDING and self._settled({FIRST, NEXT})

    def _roll_back(self) -> None:
        self._phase("roll_back")
        self._asks("roll back")
        self._await(lambda: self._over_as(UpgradePhase.ROLLED_BACK, NEXT, SECOND), "the upgrade is rolled back")


class UpgradedBackLate(Upgraded):
    """A person rolls the upgrade back when all its steps have passed and the old consumer has left: it starts again."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._upgrade, self._take_back)

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), upkeep="upgrade until it drains" if role == COORDINATOR else "")

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role in {SECOND, NEXT} and self.phase == "take_back")

    def _upgrade(self) -> None:
        self._phase("upgrade")
        self._begin()
        self._await(self._drained, "the old consumer has left")

    def _drained(self) -> bool:
        return (
            self._record().phase is UpgradePhase.DRAINING and self.actors[SECOND].ended and self._settled({FIRST, NEXT})
        )

    def _take_back(self) -> None:
        self._phase("take_back")
        self._asks("roll back")
        self._await(self._is_missing, "the old consumer is to start again")
        self._forget(SECOND)
        self._start(SECOND)
        self._await(lambda: self._over_as(UpgradePhase.ROLLED_BACK, NEXT, SECOND), "the upgrade is rolled back")

    def _is_missing(self) -> bool:
        return SECOND in [one.consumer for one in fleet.missing(self.coordinator)]


class UpgradedHalted(UpgradedBack):
    """A person pauses the upgrade while its only step is held, continues it, and rolls it back."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._upgrade, self._halt, self._go_on, self._give_back)

    def _may_end(self, role: str) -> bool:
        return Scenario._may_end(self, role) or (role == NEXT and self.phase == "give_back")

    def _halt(self) -> None:
        self._phase("halt")
        self._asks("halt")
        self._await(lambda: bool(self._record().paused), "the upgrade is paused")

    def _go_on(self) -> None:
        self._phase("go_on")
        self._asks("go on")
        self._await(lambda: not self._record().paused and self._is_held(), "the step is held again")

    def _give_back(self) -> None:
        self._phase("give_back")
        self._asks("roll back")
        self._await(lambda: self._over_as(UpgradePhase.ROLLED_BACK, NEXT, SECOND), "the upgrade is rolled back")


class Approved(Scenario):
    """A join moves more than the site's budget, and a person approves the plan; later plans as well."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = replace(self.settings, budget=Budget(share=1.0))

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._approve)

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST):
            self._start(role)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")

    def _approve(self) -> None:
        self._phase("approve")
        self._start(SECOND)
        self._approves()

    def _approves(self) -> None:
        self._forget(PERSON)
        self.actors[PERSON] = Actor(replace(self._life(PERSON), wish="approve"))
        self._start(PERSON)
        self._await(lambda: self._settled(BOTH), "Stable with both")


class Rejected(Approved):
    """The same, but a person rejects the plan first, and nothing moves until another one approves it."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._reject, self._allow)

    def _reject(self) -> None:
        self._phase("reject")
        self._start(SECOND)
        self._asks("reject")
        given = topics.configuration(self.coordinator, self.topic).approval
        assert given is not None
        assert not given.granted
        assert [one.action for one in action_log.asked(self.coordinator, self.topic, 1)] == ["reject"]

    def _allow(self) -> None:
        self._phase("allow")
        self._approves()


class Restarted(Scenario):
    """A consumer is restarted as a person has planned: once its partitions wait, once they move away and come back."""

    standing: ClassVar[frozenset[str]] = frozenset({"expect"})

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._expect, self._return, self._lend, self._regain)

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role == SECOND and self.phase in ("expect", "lend"))

    def _expect(self) -> None:
        self._phase("expect")
        self._asks("expect")
        self._await(self._ended, "it has ended, and its partitions wait")

    def _return(self) -> None:
        self._phase("return")
        self._comes_back()

    def _lend(self) -> None:
        self._phase("lend")
        self._asks("lend")
        self._await(lambda: self._ended() and self._settled({FIRST}), "it has ended, and others have its partitions")

    def _regain(self) -> None:
        self._phase("regain")
        self._comes_back()

    def _ended(self) -> bool:
        """Whether the process that is to restart has ended; it is asked to."""
        actor = self.actors[SECOND]
        if not actor.ended and actor.process is not None and self._live(SECOND) > 0:
            with suppress(ProcessLookupError):
                self._ask_to_leave(actor)
        return actor.ended


class Grown(Scenario):
    """The policy of growth moves everything to one consumer; with other limits it ends the pins and drains that one."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._move, self._shrink)

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), upkeep="grow" if role == COORDINATOR else "")

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role == SECOND and self.phase == "shrink")

    def _move(self) -> None:
        self._phase("move")
        self._asks("grow")
        self._await(lambda: self._settled({SECOND}), "Stable with everything moved")

    def _shrink(self) -> None:
        self._phase("shrink")
        self._asks("shrink")
        self._await(self._shrunk, "the one that had everything has left, and nothing is pinned")

    def _shrunk(self) -> bool:
        if not self.actors[SECOND].ended or not self._settled({FIRST}):
            return False
        assert fleet.fleet_of(self.coordinator, APP).consumers == (FIRST,)
        assert topics.configuration(self.coordinator, self.topic).pins == {}
        return True


class Repacked(Isolation):
    """A packed node is written plain for a consumer of an older release that is isolated, and packed when that one has left."""

    older: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = replace(self.settings, policy=replace(self.settings.policy, pack_over_bytes=1))

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._isolate, self._plain, self._readmit, self._pack)

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), older=self.older and role == SECOND)

    def _initial(self) -> None:
        super()._initial()
        self._await(self._packed, "the node is packed")

    def _plain(self) -> None:
        self._phase("plain")
        self._replace(older=True)
        self._await(lambda: not self._packed() and self._settled({FIRST}), "the node is plain")

    def _pack(self) -> None:
        self._phase("pack")
        self._replace(older=False)
        self._await(lambda: self._packed() and self._settled(BOTH), "the node is packed again")

    def _packed(self) -> bool:
        return b'"packed"' in self.zk.get(self.paths.topic(self.topic)).data

    def _replace(self, *, older: bool) -> None:
        """The consumer dies, and another release starts under its id."""
        actor, self.older = self.actors[SECOND], older
        self.killed.add((SECOND, self._live(SECOND)))
        actor.ended = True
        if actor.process is not None:
            actor.process.kill()
        self._await(lambda: self._find(self.paths.member(SECOND)) is None, "its session ends")
        self._forget(SECOND)
        self._start(SECOND)


OPERATORS: Sequence[type[Scenario]] = (
    Upgraded,
    UpgradedBack,
    UpgradedBackLate,
    UpgradedHalted,
    Approved,
    Rejected,
    Restarted,
    Grown,
    Repacked,
    *FLEETS,
)
