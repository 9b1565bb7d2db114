"""Cases of fleets: their size, the replacement of their processes, and a growth that is undone. A case launches what is missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.fleet.growth import GrowthKind
from coordinator_tasks.service.nodes import action_log, directives, fleet, growth_store
from tests.faults.case import FIRST
from tests.faults.persons import APP, FURTHER, NEXT
from tests.faults.roles import COORDINATOR, Life
from tests.faults.scenarios import BOTH, Scenario


@dataclass
class Launching(Scenario):
    """Who is wanted in the fleet and missing is started, as by a launcher. `starts`: how often each was; deaths do not count."""

    starts: dict[str, int] = field(default_factory=dict)

    def _launched(self, owners: set[str]) -> bool:
        """Whether it is Stable with exactly these; starts who is missing."""
        for one in fleet.missing(self.coordinator):
            actor = self.actors.get(one.consumer)
            if actor is None or actor.ended:
                self._forget(one.consumer)
                self._start(one.consumer)
                self.starts[one.consumer] = self.starts.get(one.consumer, 0) + 1
        return self._settled(owners)

    def _gone(self, role: str, others: set[str]) -> bool:
        """Whether it has left the fleet and ended, and the others have everything."""
        wanted = fleet.fleet_of(self.coordinator, APP).consumers
        return role not in wanted and self.actors[role].ended and self._settled(others)


class Scaled(Launching):
    """A fleet of one consumer gets another one, and is one again."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._scale, self._scale_back)

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role == NEXT and self.phase == "scale_back")

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, FIRST):
            self._start(role)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")

    def _scale(self) -> None:
        self._phase("scale")
        self._asks("scale")
        self._await(lambda: self._launched({FIRST, NEXT}), "Stable with the new one")
        assert fleet.fleet_of(self.coordinator, APP).consumers == (FIRST, NEXT)

    def _scale_back(self) -> None:
        self._phase("scale_back")
        self._asks("scale back")
        self._await(lambda: self._gone(NEXT, {FIRST}), "the new one has left")


class Redeployed(Launching):
    """The processes of a fleet are replaced, one after the other, each once."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._redeploy)

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), upkeep="redeploy" if role == COORDINATOR else "")

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role in BOTH and self.phase == "redeploy")

    def _redeploy(self) -> None:
        self._phase("redeploy")
        self._asks("redeploy")
        self._await(lambda: self._launched(BOTH) and self._all_replaced(), "both are replaced")
        assert all(count == 1 for count in self.starts.values()), self.starts

    def _all_replaced(self) -> bool:
        old = fleet.fleet_of(self.coordinator, APP).replaced
        drained = any(directives.read_directive(self.coordinator, one).draining for one in old)
        return old.keys() == BOTH and not drained and all(self._live(one) > number for one, number in old.items())


class Outgrown(Launching):
    """The policy of growth adds a consumer, which brings nothing, and takes it away again."""

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._outgrow, self._ungrow)

    def _life(self, role: str) -> Life:
        return replace(super()._life(role), upkeep="outgrow" if role == COORDINATOR else "")

    def _may_end(self, role: str) -> bool:
        return super()._may_end(role) or (role == FURTHER and self.phase == "ungrow")

    def _initial(self) -> None:
        self._phase("initial")
        for role in (COORDINATOR, NEXT):
            self._start(role)
        self._await(lambda: self._settled({NEXT}), "Stable with one consumer")

    def _outgrow(self) -> None:
        self._phase("outgrow")
        self._asks("outgrow")
        self._await(lambda: self._launched({NEXT, FURTHER}), "Stable with the new one")
        self._decided(GrowthKind.GROW)

    def _ungrow(self) -> None:
        self._phase("ungrow")
        self._asks("ungrow")
        self._await(lambda: self._gone(FURTHER, {NEXT}), "the new one has left")
        self._decided(GrowthKind.GROW, GrowthKind.UNDO)

    def _decided(self, *kinds: GrowthKind) -> None:
        """Each step is kept once, and stands in the history once."""
        kept = growth_store.read(self.coordinator, APP).memory.decisions
        told = [one for one in action_log.asked(self.coordinator, APP) if one.action == "autoscale"]
        assert tuple(one.kind for one in kept) == kinds
        assert [one.why for one in reversed(told)] == [one.said for one in kept]


FLEETS: Sequence[type[Scenario]] = (Scaled, Redeployed, Outgrown)
