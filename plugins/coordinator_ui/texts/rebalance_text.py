"""A rebalance as a story: moves with times, and steps in words. Pure.

Times come from the coordinator's records of confirmations. In a hand-off the taker starts as soon as the release is
written, usually long before the coordinator asks.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.measure.pauses import amount, longest
from coordinator_tasks.core.model import Actor, Amount, Cause, MoveKind, Pause, Pauses, Reason, Record, State
from coordinator_tasks.core.text.move_ways import by_way, way
from coordinator_tasks.core.text.partition_text import counted
from coordinator_tasks.service.nodes.history import Rebalance
from coordinator_ui.texts import words

MOST_PAUSES = 100
"""Maximum partitions of a rebalance whose pause is shown, the longest first."""
_MOVED, _AGAIN = "moved", "started again"
_STAND_STILL = frozenset({_MOVED, _AGAIN})
_CLOSES = frozenset({MoveKind.HANDOFF, MoveKind.BARRIER, MoveKind.STOP})


@dataclass(frozen=True, slots=True)
class MoveRow:
    """Partitions that move the same way at the same times. `closed_s`, `started_s`: seconds from the plan until the
    confirmation, if recorded.

    `closes`, `starts`: whether a confirmation of the close or start is needed. `replaced`: a later plan changed the
    move.
    """

    partitions: tuple[int, ...]
    giver: str
    taker: str
    kind: MoveKind
    causes: tuple[Cause, ...]
    planned_at: float
    closed_s: float | None = None
    started_s: float | None = None
    replaced: bool = False

    @property
    def closes(self) -> bool:
        return self.kind in _CLOSES

    @property
    def starts(self) -> bool:
        return bool(self.taker)


@dataclass(frozen=True, slots=True)
class StoryStep:
    """A record in words. `after_s`: seconds since the first record."""

    record: Record
    after_s: float
    text: str


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of the time bar: a state, its duration, and its place and width in per cent."""

    state: State
    lasted_s: float
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait: `consumer` confirmed `partitions` after `waited_s`; not yet confirmed unless `over`."""

    consumer: str
    verb: str
    partitions: tuple[int, ...]
    waited_s: float
    over: bool


@dataclass(frozen=True, slots=True)
class Story:
    """One rebalance. `headline`: its summary in a sentence. `causes`: the causes of its plans, in order.

    `pauses`: how long partitions stood still, once measured.
    """

    topic: str
    rebalance: str
    headline: str
    causes: tuple[tuple[Cause, ...], ...]
    began_at: float
    ended_at: float
    lasted_s: float
    states: tuple[State, ...]
    rows: tuple[MoveRow, ...]
    steps: tuple[StoryStep, ...]
    phases: tuple[BarPart, ...]
    pauses: Pauses | None = None

    @property
    def longest(self) -> tuple[Pause, ...]:
        found = self.pauses.measured if self.pauses is not None else ()
        by_length = sorted(found, key=lambda one: (-(one.most_s or one.wait_s or 0.0), one.partition))
        return tuple(by_length[:MOST_PAUSES])

    @property
    def waits(self) -> tuple[Wait, ...]:
        """Return the waits, the longest first: from the plan to each close, and from the closes to each start."""
        found: dict[tuple[str, str, float, bool], list[int]] = {}
        now_s = self.began_at + self.lasted_s
        for row in self.rows:
            if row.replaced:
                continue
            closed_s = row.closed_s if row.closes else 0.0
            if row.closes:
                spent_s = row.closed_s if row.closed_s is not None else max(0.0, now_s - row.planned_at)
                key = (row.giver or "its owners", "close", spent_s, row.closed_s is not None)
                found.setdefault(key, []).extend(row.partitions)
            if row.starts and closed_s is not None:
                until_s = row.started_s if row.started_s is not None else max(0.0, now_s - row.planned_at)
                key = (row.taker, "start", max(0.0, until_s - closed_s), row.started_s is not None)
                found.setdefault(key, []).extend(row.partitions)
        waits = (Wait(who, verb, tuple(sorted(ps)), s, over) for (who, verb, s, over), ps in found.items())
        return tuple(sorted(waits, key=lambda one: (one.over, -one.waited_s, one.consumer)))

    def reasons(self, row: MoveRow) -> tuple[Reason, ...]:
        """Return the plan's reasons for moving a row's partitions."""
        plans = (step.record.plan for step in self.steps if step.record.at == row.planned_at)
        return tuple(
            replace(reason, partitions=mine)
            for plan in plans
            if plan is not None
            for reason in plan.moves
            if (mine := tuple(p for p in reason.partitions if p in row.partitions))
        )

    @property
    def runs(self) -> tuple[Actor, ...]:
        """Return one actor for each Airflow run, and every other actor."""
        actors = (step.record.actor for step in self.steps)
        return tuple({(one.kind, one.run or one.who): one for one in actors}.values())


def tell(one: Rebalance, now: float) -> Story:
    """Return the story of a rebalance. `now`: taken as the end of an unfinished rebalance."""
    rows = _rows(one.records)
    lasted_s = one.lasted_s if one.ended_at else max(one.lasted_s, now - one.began_at)
    return Story(
        topic=one.topic,
        rebalance=one.rebalance,
        headline=_headline(one, rows, lasted_s),
        causes=tuple(dict.fromkeys(record.causes for record in one.records if record.causes)),
        began_at=one.began_at,
        ended_at=one.ended_at,
        lasted_s=lasted_s,
        states=tuple(s for i, s in enumerate(one.states) if i == 0 or s is not one.states[i - 1]),
        rows=rows,
        steps=tuple(_step(record, one.began_at) for record in one.records),
        phases=_phases(one, lasted_s),
        pauses=one.pauses,
    )


def only(one: Story, actor_run: str) -> Story | None:
    """Return the steps and planned moves of one Airflow run; `None` if there are none."""
    steps = tuple(step for step in one.steps if step.record.actor.run == actor_run)
    if not steps:
        return None
    planned = {step.record.at for step in steps}
    return replace(one, steps=steps, rows=tuple(row for row in one.rows if row.planned_at in planned))


def _headline(one: Rebalance, rows: Iterable[MoveRow], lasted_s: float) -> str:
    deeds = grouped((_deed(row), partition) for row in rows for partition in row.partitions)
    by_deed = {deed: set(numbers) for deed, numbers in deeds.items()}
    nobody = one.records[-1].counts.get("assigned") == 0
    nothing = "Nobody was left to take a partition" if nobody else "No partition moved"
    on_their_way = len(set().union(*by_deed.values()))
    if one.given_up:
        return f"{counted(on_their_way, 'partition')} on the way when the topic's state was lost; the next rebalance went on"
    if one.ended_at:
        parts = [f"{counted(len(numbers), 'partition')} {deed}" for deed, numbers in by_deed.items()]
        stood_still = f", {_longest_pause(one.pauses)}" if by_deed.keys() & _STAND_STILL else ""
        return f"{' and '.join(parts)}{stood_still}" if parts else nothing
    return f"{counted(on_their_way, 'partition')} on the way, for {words.duration(lasted_s)} so far"


def _longest_pause(found: Pauses | None) -> str:
    """Return the longest extra pause in words; the longest total pause if the usual pause is unknown.

    A pause that was not measured may be longer.
    """
    if found is None or not (found.measured or found.missing):
        return "pause not measured"
    worst = longest(found.measured)
    if worst is None:
        return "pause not measured" if found.missing else "nothing waited"
    shown, what = (worst.total, "total pause") if worst.extra is None else (worst.extra, "extra pause")
    if found.missing:
        shown = Amount(shown.least_s, None)
    return f"no {what}" if shown == Amount(0.0, 0.0) else f"{'longest ' * (worst.pauses > 1)}{what} {amount(shown)}"


def _deed(row: MoveRow) -> str:
    if row.giver == row.taker:
        return _AGAIN
    if not row.taker:
        return "stopped"
    return _MOVED if row.giver else "assigned"


def _rows(records: Iterable[Record]) -> tuple[MoveRow, ...]:
    """Return the moves with their confirmations. Partitions that move the same way at the same times share a row."""
    found: list[MoveRow] = []
    newest: dict[int, int] = {}  # partition → index of its newest row
    for record in records:
        for consumer, numbers in record.confirmed.items():
            for index in (newest[number] for number in numbers if number in newest):
                found[index] = _confirmed(found[index], consumer, record)
        for move in record.moves:
            before = newest.get(move.partition)
            if before is not None and found[before].started_s is None:
                found[before] = replace(found[before], replaced=True)
            newest[move.partition] = len(found)
            found.append(MoveRow((move.partition,), move.giver, move.taker, move.kind, record.causes, record.at))
    rows = grouped((replace(row, partitions=()), partition) for row in found for partition in row.partitions)
    return tuple(replace(row, partitions=tuple(sorted(numbers))) for row, numbers in rows.items())


def _confirmed(row: MoveRow, consumer: str, record: Record) -> MoveRow:
    """Return the row, with the confirmations of a record added.

    Closes are confirmed in Closing and starts in Starting, so a record confirms only one of them.
    """
    after_s = max(0.0, record.at - row.planned_at)
    if record.source is State.CLOSING:
        return replace(row, closed_s=after_s)
    return replace(row, started_s=after_s) if row.taker == consumer else row


def _step(record: Record, began_at: float) -> StoryStep:
    done = "closed" if record.source is State.CLOSING else "started"
    said = [
        f"{consumer} confirmed that it {done} {words.partitions(confirmed)}."
        for consumer, confirmed in sorted(record.confirmed.items())
    ]
    for (giver, taker, kind), numbers in by_way(record.moves).items():
        said.append(f"Planned: {words.partitions(numbers)} {way(giver, taker, kind, len(numbers))}.")
    said.append(_closing_words(record))
    return StoryStep(record, max(0.0, record.at - began_at), " ".join(part for part in said if part))


def _closing_words(record: Record) -> str:
    if record.target is State.STABLE:
        if record.counts.get("assigned") == 0:
            return "Nobody is left to run anything."
        return "With that it was over." if record.source is not State.STABLE else "Nothing had to move."
    if record.confirmed and record.target is State.STARTING:
        return "Their new owners were told to start."
    return ""


def _phases(one: Rebalance, lasted_s: float) -> tuple[BarPart, ...]:
    """Return the states from the first record to the end, by the records' times."""
    ends = [record.at for record in one.records[1:]]
    if not one.ended_at or one.given_up:
        ends.append(one.began_at + lasted_s)
    found: list[BarPart] = []
    for record, end in zip(one.records, ends, strict=False):
        lasted = max(0.0, end - record.at)
        left = 100 * (record.at - one.began_at) / lasted_s if lasted_s else 0.0
        found.append(
            BarPart(record.target, lasted, round(left, 2), round(100 * lasted / lasted_s, 2) if lasted_s else 0.0)
        )
    return tuple(found)
