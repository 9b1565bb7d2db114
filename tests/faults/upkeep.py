"""What the coordinator's chores do besides in some scenarios, each as `reconcile` or `autoscale` does it."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from coordinator_tasks.core.fleet import upgrade
from coordinator_tasks.core.fleet.growth import (
    GrowthDecision,
    GrowthKind,
    GrowthMove,
    GrowthObservation,
    Limits,
    Load,
    Memory,
)
from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import autoscale, redeployment, upgrades
from coordinator_tasks.service.nodes import growth_store, store, topics, upgrade_store
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import lag_moments

Task: TypeAlias = Callable[[str], None]
"""Says under which name the next operations are noted."""
TAKER = "b"
BASELINE_S = 0.2
GIVES, BACKLOG = 100.0, 100_000.0
"""Records/s of a consumer, and records that each partition is behind: it needs all that one gives."""
LATER_S = 2.0
"""As long as a start and a window of the wish `ungrow` together."""


def _upgrade(c: Coordinator, _topic: str, task: Task) -> None:
    """One step of each upgrade, noted under the phase from which it goes."""
    upgrade.BASELINE_S, upgrades.MAX_STEPS = BASELINE_S, 1
    for app in upgrade_store.fleets_with_upgrades(c):
        record = upgrade_store.read(c, app)
        task(f"{record.phase.value}{'-measured' if record.mark is not None else ''}")
        list(upgrades.advance(c, [], [app]))


def _upgrade_until_it_drains(c: Coordinator, topic: str, task: Task) -> None:
    """The same, but it does not end when the old consumers have left: a person rolls it back."""
    held = [upgrade_store.read(c, app) for app in upgrade_store.fleets_with_upgrades(c)]
    held = [one for one in held if one.phase is upgrade.UpgradePhase.DRAINING and not one.reason]
    for one in held:
        task("Draining")
        upgrades.ensure(c, one)
    if not held:
        _upgrade(c, topic, task)


def _grow(c: Coordinator, topic: str, task: Task) -> None:
    """A look at each fleet, with loads and a policy that say what the scenario wants."""

    def measure(c: Coordinator, fleet: Fleet) -> GrowthObservation:
        node = store.load_nodes(c.zk, c.paths, [topic]).get(topic)
        owners = sorted(node.assignments.items()) if node is not None else []
        loads = tuple(Load(topic, p, owner, 1.0, 0.0, 1.0) for p, owner in owners)
        return GrowthObservation(c.clock.now(), fleet.consumers, loads, unsure=autoscale._unsure(c, fleet))

    vars(autoscale).update(measure=measure, decide=_decided)
    task("grow")
    list(autoscale.look(c, [], Actor("loop", "faults"), []))


def _decided(limits: Limits, seen: GrowthObservation, memory: Memory) -> tuple[GrowthDecision, Memory]:
    """Everything moves to one consumer; when one is to be enough, that one is drained."""
    count = len(seen.consumers)
    moves = tuple(GrowthMove(one.topic, one.partition, one.owner, TAKER) for one in seen.loads)
    elsewhere = any(one.owner != TAKER for one in seen.loads)
    found = GrowthDecision(GrowthKind.HOLD, seen.now, count, count)
    if not seen.unsure and limits.most < count:
        found = GrowthDecision(GrowthKind.SHRINK, seen.now, count, limits.most, leaves=(TAKER,), acted=True)
    elif not seen.unsure and elsewhere and TAKER in seen.consumers:
        found = GrowthDecision(GrowthKind.MOVE, seen.now, count, count, moves=moves, acted=True)
    kept = (*memory.decisions, found) if found.acted else memory.decisions
    return found, Memory(decisions=kept, latest=found)


def _outgrow(c: Coordinator, topic: str, task: Task) -> None:
    """A look at each fleet, by the policy itself: everybody is busy, all partitions need two, and more read no more.

    The last decision was taken a moment ago, however long this machine has taken since.
    """

    def measure(c: Coordinator, fleet: Fleet) -> GrowthObservation:
        unsure = autoscale._unsure(c, fleet)
        node = store.load_nodes(c.zk, c.paths, [topic]).get(topic)
        owners = sorted(node.assignments.items()) if node is not None else []
        loads = tuple(Load(topic, p, owner, 0.9 * GIVES, BACKLOG, 0.4 * GIVES) for p, owner in owners)
        past = growth_store.read(c, fleet.app).memory.decisions
        now = past[-1].at + LATER_S if past else c.clock.now()
        return GrowthObservation(now, fleet.consumers, loads, dict.fromkeys(fleet.consumers, GIVES), unsure)

    vars(autoscale).update(measure=measure)
    task("grow")
    list(autoscale.look(c, [], Actor("loop", "faults"), []))


def _redeploy(c: Coordinator, _topic: str, task: Task) -> None:
    task("redeploy")
    list(redeployment.advance(c, []))


def _keep_lag(c: Coordinator, topic: str, task: Task) -> None:
    task("lag")
    list(lag_moments.keep(c, [topic]))


def beside(topic: str, group: str) -> str:
    """The name of a case's second topic."""
    return f"{topic}-{group}"


def _beside(c: Coordinator, topic: str, task: Task) -> None:
    """A second topic is managed as well."""
    task("beside")
    group, actor = topics.configuration(c, topic).group_id, Actor("loop", "faults")
    other = beside(topic, group)
    if other not in transitions.topics(c):
        topics.add_topic(c, other, beside(group, "beside"), actor=actor)
    transitions.step(c, [other], actor)


UPKEEP: Mapping[str, Callable[[Coordinator, str, Task], None]] = {
    "upgrade": _upgrade,
    "upgrade until it drains": _upgrade_until_it_drains,
    "grow": _grow,
    "outgrow": _outgrow,
    "redeploy": _redeploy,
    "beside": _beside,
    "lag": _keep_lag,
}
