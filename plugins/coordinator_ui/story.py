"""A rebalance as a story: its moves with how long each part took, and its steps in words. Pure.

Times are those at which the coordinator wrote its records. A hand-off's taker starts as soon as the release is written,
which is mostly long before the coordinator asks: what is told here is when each part was confirmed, at the latest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from coordinator_tasks.core.model import Actor, Explanation, Move, MoveKind, Record, State
from coordinator_tasks.core.move_text import by_way, way
from coordinator_tasks.core.partition_text import counted
from coordinator_tasks.service.history import Rebalance
from coordinator_ui import words

_CLOSES = frozenset({MoveKind.HANDOFF, MoveKind.BARRIER, MoveKind.STOP})


@dataclass(frozen=True, slots=True)
class MoveRow:
    """Partitions that went the same way at the same times. `closed_s`, `started_s`: from the plan until confirmed.

    `None` = not (yet) recorded; `closes`, `starts` tell whether it is needed at all; `replaced` = planned again later.
    """

    partitions: tuple[int, ...]
    giver: str
    taker: str
    kind: MoveKind
    cause: str
    planned_at: float
    closed_s: float | None = None
    started_s: float | None = None
    replaced: bool = False

    @property
    def closes(self) -> bool:
        """Whether somebody had to stop."""
        return self.kind in _CLOSES

    @property
    def starts(self) -> bool:
        """Whether somebody had to start."""
        return bool(self.taker)


@dataclass(frozen=True, slots=True)
class Step:
    """One record: what was done, when (`after_s` from the first), from which state into which, and who ran it.

    `plan` is how its moves were come to, where a strategy was asked for them.
    """

    at: float
    after_s: float
    source: State
    target: State
    text: str
    cause: str
    actor: Actor
    epoch: int
    sequence: int
    plan: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the time bar: a state, how long it lasted, and where it lies in per cent of the whole."""

    state: State
    lasted_s: float
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Story:
    """One rebalance. `headline` is the answer in one sentence; `causes` are all that its plans had, the first first."""

    topic: str
    rebalance: str
    headline: str
    causes: tuple[str, ...]
    began_at: float
    ended_at: float
    lasted_s: float
    states: tuple[State, ...]
    rows: tuple[MoveRow, ...]
    steps: tuple[Step, ...]
    phases: tuple[Phase, ...]

    @property
    def runs(self) -> tuple[Actor, ...]:
        """One actor of each Airflow run, or of whoever else ran it."""
        return tuple({(one.actor.kind, one.actor.run or one.actor.who): one.actor for one in self.steps}.values())


def tell(one: Rebalance, now: float) -> Story:
    """The story of a rebalance; `now` is for one that goes on."""
    rows = _rows(one.records)
    lasted_s = one.lasted_s if one.ended_at else max(one.lasted_s, now - one.began_at)
    return Story(
        topic=one.topic,
        rebalance=one.rebalance,
        headline=_headline(one, rows, lasted_s),
        causes=tuple(dict.fromkeys(record.cause for record in one.records if record.cause)),
        began_at=one.began_at,
        ended_at=one.ended_at,
        lasted_s=lasted_s,
        states=tuple(s for i, s in enumerate(one.states) if i == 0 or s is not one.states[i - 1]),
        rows=rows,
        steps=tuple(_step(record, one.began_at) for record in one.records),
        phases=_phases(one, lasted_s),
    )


def only(one: Story, actor_run: str) -> Story | None:
    """The part that one Airflow run did, or `None`: its steps, and the moves that it planned."""
    steps = tuple(step for step in one.steps if step.actor.run == actor_run)
    if not steps:
        return None
    planned = {step.at for step in steps}
    return replace(one, steps=steps, rows=tuple(row for row in one.rows if row.planned_at in planned))


def _headline(one: Rebalance, rows: Iterable[MoveRow], lasted_s: float) -> str:
    by_deed: dict[str, set[int]] = {}
    for row in rows:
        by_deed.setdefault(_deed(row), set()).update(row.partitions)
    nobody = one.records[-1].counts.get("assigned") == 0
    nothing = "Nobody was left to take a partition" if nobody else "No partition moved"
    if one.ended_at:
        parts = [f"{counted(len(numbers), 'partition')} {deed}" for deed, numbers in by_deed.items()]
        return f"{' and '.join(parts)} in {words.duration(lasted_s)}" if parts else nothing
    on_their_way = len(set().union(*by_deed.values()))
    return f"{counted(on_their_way, 'partition')} on the way, for {words.duration(lasted_s)} so far"


def _deed(row: MoveRow) -> str:
    if row.giver == row.taker:
        return "started again"
    if not row.taker:
        return "stopped"
    return "moved" if row.giver else "assigned"


@dataclass(slots=True)
class _Going:
    """A move on its way through the records."""

    move: Move
    record: Record
    closed_at: float | None = None
    started_at: float | None = None
    replaced: bool = False


def _rows(records: Iterable[Record]) -> tuple[MoveRow, ...]:
    current: dict[int, _Going] = {}
    told: list[_Going] = []
    for record in records:
        _confirm(current, record)
        for move in record.moves:
            before = current.get(move.partition)
            if before is not None and before.started_at is None:
                before.replaced = True
            current[move.partition] = going = _Going(move, record)
            told.append(going)
    return _grouped(told)


def _confirm(current: Mapping[int, _Going], record: Record) -> None:
    """Closes are confirmed in Closing, starts in Starting; a state sums up, so a record has only one of them."""
    for consumer, numbers in record.confirmed.items():
        for number in numbers:
            going = current.get(number)
            if going is None:
                continue
            if record.source is State.CLOSING:
                going.closed_at = record.at
            elif going.move.taker == consumer:
                going.started_at = record.at


def _grouped(told: Iterable[_Going]) -> tuple[MoveRow, ...]:
    found: dict[MoveRow, list[int]] = {}
    for going in told:
        at = going.record.at
        key = MoveRow(
            partitions=(),
            giver=going.move.giver,
            taker=going.move.taker,
            kind=going.move.kind,
            cause=going.record.cause,
            planned_at=at,
            closed_s=None if going.closed_at is None else max(0.0, going.closed_at - at),
            started_s=None if going.started_at is None else max(0.0, going.started_at - at),
            replaced=going.replaced,
        )
        found.setdefault(key, []).append(going.move.partition)
    return tuple(replace(key, partitions=tuple(sorted(numbers))) for key, numbers in found.items())


def _step(record: Record, began_at: float) -> Step:
    said: list[str] = []
    for consumer, confirmed in sorted(record.confirmed.items()):
        done = "closed" if record.source is State.CLOSING else "started"
        said.append(f"{consumer} confirmed that it {done} {words.partitions(confirmed)}.")
    for (giver, taker, kind), numbers in by_way(record.moves).items():
        said.append(f"Planned: {words.partitions(numbers)} {way(giver, taker, kind)}.")
    said.append(_closing_words(record))
    return Step(
        at=record.at,
        after_s=max(0.0, record.at - began_at),
        source=record.source,
        target=record.target,
        text=" ".join(part for part in said if part),
        cause=record.cause,
        actor=record.actor,
        epoch=record.epoch,
        sequence=record.sequence,
        plan=record.plan,
    )


def _closing_words(record: Record) -> str:
    if record.target is State.STABLE:
        if record.counts.get("assigned") == 0:
            return "Nobody is left to run anything."
        return "With that it was over." if record.source is not State.STABLE else "Nothing had to move."
    if record.confirmed and record.target is State.STARTING:
        return "Their new owners were told to start."
    return ""


def _phases(one: Rebalance, lasted_s: float) -> tuple[Phase, ...]:
    """The states between the first record and the end, by the times of the records."""
    ends = [record.at for record in one.records[1:]]
    if not one.ended_at:
        ends.append(one.began_at + lasted_s)
    found: list[Phase] = []
    for record, end in zip(one.records, ends, strict=False):
        lasted = max(0.0, end - record.at)
        left = 100 * (record.at - one.began_at) / lasted_s if lasted_s else 0.0
        found.append(
            Phase(record.target, lasted, round(left, 2), round(100 * lasted / lasted_s, 2) if lasted_s else 0.0)
        )
    return tuple(found)
