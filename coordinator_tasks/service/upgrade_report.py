"""What an upgrade has done so far, and what it has cost: how long each partition that moved stood still, and the others."""

from dataclasses import dataclass

from coordinator_tasks.core.model import Unmoved
from coordinator_tasks.core.partition_text import because, counted, shown
from coordinator_tasks.core.upgrade import Phase, Upgrade
from coordinator_tasks.service import history, upgrade_store
from coordinator_tasks.service.coordinator import Coordinator

MAX_REBALANCES = 200
"""Of one topic: those since the upgrade began are read."""
SHOWN_STALLS = 50


@dataclass(frozen=True, slots=True)
class MovedPartition:
    """One move of a partition. `stall_s`: how long its longest waiting record waited because of the move.

    `stall_s` `None`: nothing waited if `measured`, else it is unknown. `error_s`, `least`: as in `Pause`.
    """

    topic: str
    partition: int
    giver: str
    taker: str
    rebalance: str
    measured: bool = False
    stall_s: float | None = None
    error_s: float = 0.0
    least: bool = False


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """`moved`: the moves since it began; `control`: topic → the longest stall of those that did not move meanwhile."""

    upgrade: Upgrade
    moved: tuple[MovedPartition, ...]
    control: dict[str, Unmoved]

    @property
    def lines(self) -> tuple[str, ...]:
        """For a person."""
        return (*self._state(), *self._cost())

    def _state(self) -> list[str]:
        one = self.upgrade
        held = one.phase in (Phase.MOVING, Phase.HOLDING)
        said = [f"{one.said}, asked by {one.by or 'nobody'}{because(one.why)}"]
        said += [
            f"{one.phase.value}{f', {one.step_said}' if held else ''}{f'; paused: {one.paused}' if one.paused else ''}"
        ]
        said += [f"it goes back: {one.reason}"] if one.reason else []
        return said + [f"after {event.at - one.began_at:.0f} s: {event.text}" for event in one.events]

    def _cost(self) -> list[str]:
        if not self.moved:
            return ["no partition has moved"]
        known = [one for one in self.moved if one.measured]
        waited = sorted((one for one in known if one.stall_s is not None), key=lambda one: -(one.stall_s or 0.0))
        said = [f"{counted(len(self.moved), 'move')}, {len(known)} measured, in {len(waited)} of them a record waited"]
        said += [_stalled(one) for one in waited[:SHOWN_STALLS]]
        said += [f"and {len(waited) - SHOWN_STALLS} more with shorter stalls"] if len(waited) > SHOWN_STALLS else []
        for topic, one in self.control.items():
            said.append(
                f"control: of {counted(one.partitions, 'partition')} of {topic} that did not move, {one.partition} of "
                f"{one.consumer} stood still longest: {one.longest_s:.3f} s, and {one.before_s:.3f} s before"
            )
        return said


def report(c: Coordinator, app: str) -> UpgradeReport:
    """The last upgrade of a fleet. Raises `NotManaged` if there was none, and `Malformed`."""
    upgrade = upgrade_store.read(c, app)
    moved: list[MovedPartition] = []
    control: dict[str, Unmoved] = {}
    for one in _rebalances(c, upgrade):
        pauses = {pause.partition: pause for pause in one.pauses.measured} if one.pauses is not None else {}
        for move in one.moves:
            if upgrade.new_consumers and not {move.giver, move.taker} & set(upgrade.new_consumers):
                continue
            pause = pauses.get(move.partition)
            cost = (True, pause.wait_s, pause.error_s, pause.least) if pause is not None else ()
            moved.append(MovedPartition(one.topic, move.partition, move.giver, move.taker, one.rebalance, *cost))
        unmoved = one.pauses.unmoved if one.pauses is not None else None
        if unmoved is not None and unmoved.longest_s > control.get(one.topic, unmoved).longest_s - 1e-9:
            control[one.topic] = unmoved
    return UpgradeReport(upgrade, tuple(moved), control)


def _rebalances(c: Coordinator, upgrade: Upgrade) -> list[history.Rebalance]:
    """Those since it began, the oldest first."""
    found = [one for topic in upgrade.topics for one in history.rebalances(c, [topic], MAX_REBALANCES)]
    return sorted((one for one in found if one.began_at >= upgrade.began_at), key=lambda one: one.began_at)


def _stalled(one: MovedPartition) -> str:
    least = "at least " if one.least else ""
    who = f"{one.giver or 'nobody'} to {one.taker or 'nobody'}"
    return f"{one.topic}/{one.partition} from {who}: {least}{one.stall_s or 0.0:.3f} s (± {one.error_s:.3f} s)"


def told(upgrade: Upgrade) -> str:
    """Where it stands, in a sentence."""
    if upgrade.paused:
        return f"the {upgrade.said} is paused: {upgrade.paused}"
    back = f", and goes back: {upgrade.reason}" if upgrade.reason else ""
    return f"the {upgrade.said} is {upgrade.phase.value}{back}; {shown(upgrade.topics)}"
