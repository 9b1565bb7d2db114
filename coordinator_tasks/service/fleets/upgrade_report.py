"""Progress and cost of an upgrade: the pauses of moved partitions, and of the other partitions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, islice
from math import inf

from coordinator_tasks.core.errors import Malformed, Refused
from coordinator_tasks.core.fleet.upgrade import Upgrade, UpgradePhase
from coordinator_tasks.core.measure.pauses import milliseconds, of_one
from coordinator_tasks.core.model import Pause, Unmoved
from coordinator_tasks.core.text.partition_text import because, counted, named, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import upgrades
from coordinator_tasks.service.nodes import history, upgrade_store

MAX_REBALANCES = 200
"""Maximum rebalances read of each topic, the newest first."""
SHOWN_STALLS = 50


@dataclass(frozen=True, slots=True)
class MovedPartition:
    """A move of a partition. `stall_s`: total pause; if `None`, no record waited (`measured`) or the pause is unknown.

    `error_s`, `least`: as in `Pause`. `pause`: the whole measurement; `None` without a measurement. `cause`: why the
    partition moved, if not by a step of the upgrade but for instance by the end of a consumer; empty for a step.
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
    pause: Pause | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class PartitionStall:
    """How long a partition stood still at most because of the upgrade.

    `moves`: number of moves. `measured`: number of measured moves. `stall_s`: the longest pause of a measured move;
    `None` if no record waited. `least`: the pause may have been longer. `beside_s`: the longest stall while only other
    partitions moved; `None` if unknown, or if the partition moved in every rebalance.
    """

    topic: str
    partition: int
    moves: int = 0
    measured: int = 0
    stall_s: float | None = None
    error_s: float = 0.0
    least: bool = False
    beside_s: float | None = None


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """The report. `moved`: the moves during the upgrade. `control`: topic → longest stall of an unmoved partition.

    `partitions`: the fleet's partitions before any move, sorted. `waits`: what the upgrade waits for, and the remedy;
    empty if it does not wait.
    """

    upgrade: Upgrade
    moved: tuple[MovedPartition, ...]
    control: dict[str, Unmoved]
    partitions: tuple[PartitionStall, ...] = ()
    waits: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        return (*self._state(), *self._cost())

    def _state(self) -> list[str]:
        one = self.upgrade
        held = one.phase in (UpgradePhase.MOVING, UpgradePhase.HOLDING)
        said = [f"{one.said}, asked by {one.by or 'nobody'}{because(one.why)}"]
        said += [
            f"{one.phase.value}{f', {one.step_said}' if held else ''}{f'; paused: {one.paused}' if one.paused else ''}"
        ]
        said += [f"it waits: {self.waits}"] if self.waits else []
        said += [f"it goes back: {one.reason}"] if one.reason else []
        return said + [f"after {event.at - one.began_at:.0f} s: {event.text}" for event in one.events]

    def _cost(self) -> list[str]:
        if not self.moved:
            return ["no partition has moved"]
        known = [one for one in self.moved if one.measured]
        waited = sorted((one for one in known if one.stall_s is not None), key=lambda one: -(one.stall_s or 0.0))
        said = [f"{counted(len(self.moved), 'move')}, {len(known)} measured, in {len(waited)} of them a record waited"]
        others = [one for one in self.moved if one.cause]
        said += [f"{len(others)} of them are no steps of the upgrade, and have other causes"] if others else []
        said += [_stalled(one) for one in waited[:SHOWN_STALLS]]
        said += [f"and {len(waited) - SHOWN_STALLS} more with shorter stalls"] if len(waited) > SHOWN_STALLS else []
        said += _counted("nothing waited", [one for one in known if one.stall_s is None])
        said += _counted("not measured", [one for one in self.moved if not one.measured])
        said += _counted("did not move", [one for one in self.partitions if not one.moves])
        for topic, one in self.control.items():
            said.append(
                f"control: of {counted(one.partitions, 'partition')} of {topic} that did not move, {one.partition} of "
                f"{one.consumer} stood still longest: {milliseconds(one.longest_s)}, usual {milliseconds(one.before_s)}"
            )
        return said


def report(c: Coordinator, app: str) -> UpgradeReport:
    """Return the report on the fleet's last upgrade. Raises `NotManaged` if there is none, and `Malformed`."""
    upgrade = upgrade_store.read(c, app)
    moved: list[MovedPartition] = []
    control: dict[str, Unmoved] = {}
    every = _rebalances(c, upgrade)
    for one in every:
        pauses = {pause.partition: pause for pause in one.pauses.measured} if one.pauses is not None else {}
        mine = [m for m in one.moves if {m.giver, m.taker} & {*upgrade.old_consumers, *upgrade.new_consumers}]
        # If a partition was planned again meanwhile, the pause belongs to its last move.
        for move in {m.partition: m for m in mine}.values():
            pause = pauses.get(move.partition)
            cost = (True, pause.wait_s, pause.error_s, pause.least, pause) if pause is not None else ()
            found = MovedPartition(one.topic, move.partition, move.giver, move.taker, one.rebalance, *cost)
            is_step = (move.giver in upgrade.new_consumers) != (move.taker in upgrade.new_consumers)
            moved.append(found if is_step else replace(found, cause=one.cause))
        unmoved = one.pauses.unmoved if one.pauses is not None else None
        if unmoved is not None and unmoved.longest_s > control.get(one.topic, unmoved).longest_s - 1e-9:
            control[one.topic] = unmoved
    try:
        waits = upgrades.why_waits(c, upgrade)
    except (Malformed, Refused) as error:
        waits = error.told
    return UpgradeReport(upgrade, tuple(moved), control, tuple(_partitions(upgrade, moved, every)), waits)


def _partitions(
    upgrade: Upgrade, moved: Sequence[MovedPartition], every: Sequence[history.Rebalance]
) -> Iterator[PartitionStall]:
    """Yield, for each partition, the cost of its own moves and of the other partitions' moves."""
    mine: dict[tuple[str, int], list[MovedPartition]] = {
        (topic, p): [] for topic, rates in upgrade.baseline.items() for p in rates
    }
    for one in moved:
        mine.setdefault((one.topic, one.partition), []).append(one)
    disturbed = [
        (one.topic, {move.partition for move in one.moves}, one.pauses.unmoved.longest_s)
        for one in every
        if one.pauses is not None and one.pauses.unmoved is not None
    ]
    for (topic, partition), its in sorted(mine.items()):
        known = [one for one in its if one.measured]
        waits = [one for one in known if one.stall_s is not None]
        found = PartitionStall(topic, partition, len(its), len(known), least=len(known) < len(its))
        if waits:
            longest = max(waits, key=lambda one: one.stall_s or 0.0)
            least = found.least or longest.least
            found = replace(found, stall_s=longest.stall_s, error_s=longest.error_s, least=least)
        beside = [longest_s for one, those, longest_s in disturbed if one == topic and partition not in those]
        yield replace(found, beside_s=max(beside, default=None))


def _rebalances(c: Coordinator, upgrade: Upgrade) -> list[history.Rebalance]:
    """Return the rebalances that began during the upgrade, oldest first."""
    ended_at = upgrade.since_at if upgrade.over else inf
    found: list[history.Rebalance] = []
    for topic in upgrade.topics:
        newest = dropwhile(lambda one: one.began_at > ended_at, history.newest(c, topic))
        found += islice(newest, MAX_REBALANCES)
    return sorted((one for one in found if upgrade.began_at <= one.began_at <= ended_at), key=lambda one: one.began_at)


def _counted(what: str, found: Sequence[MovedPartition | PartitionStall]) -> Iterator[str]:
    """Yield a line for each topic in `found`."""
    for topic in dict.fromkeys(one.topic for one in found):
        yield f"{what}: {named({one.partition for one in found if one.topic == topic})} of {topic}"


def _stalled(one: MovedPartition) -> str:
    who = f"{one.giver or 'nobody'} to {one.taker or 'nobody'}"
    cause = f"; {one.cause}" if one.cause else ""
    return f"{one.topic}/{one.partition} from {who}: {of_one(one.pause)}{cause}" if one.pause is not None else ""


def told(upgrade: Upgrade) -> str:
    """Return the upgrade's state as a sentence."""
    if upgrade.paused:
        return f"the {upgrade.said} is paused: {upgrade.paused}"
    back = f", and goes back: {upgrade.reason}" if upgrade.reason else ""
    return f"the {upgrade.said} is {upgrade.phase.value}{back}; {shown(upgrade.topics)}"
