"""A rebalance on a time axis: the states of each partition, below Airflow's tasks. Pure.

Positions are in units of `WIDTH`. The template draws charts as SVG, which need no script and can be read by screen
readers.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator_tasks.core.measure.pauses import amount
from coordinator_tasks.core.model import Actor, Pause, State
from coordinator_ui.texts import words
from coordinator_ui.texts.rebalance_text import MoveRow, Story

WIDTH = 1000.0
MOST_LANES = 60
MOST_TICKS = 8
_LEAST_S = 0.02
_WIDEST = 64
TaskKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TaskSpan:
    """A task instance of Airflow. `end_at`: 0 while it runs."""

    actor: Actor
    begin_at: float
    end_at: float
    state: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a lane, beginning at `left`. `kind`: its CSS class. `text`: its description with times."""

    kind: str
    left: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class LaneMark:
    """A moment in a lane."""

    kind: str
    left: float
    text: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the chart. `path`: the page of Airflow's task, below Airflow's address."""

    label: str
    parts: tuple[Part, ...] = ()
    marks: tuple[LaneMark, ...] = ()
    path: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """`bands`: the tasks; `lanes`: partitions; `lines`: the coordinator's writes; `ticks`: times since the plan."""

    bands: tuple[Lane, ...]
    lanes: tuple[Lane, ...]
    lines: tuple[LaneMark, ...]
    ticks: tuple[LaneMark, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Axis:
    begin_at: float
    end_at: float

    def place(self, at: float) -> float:
        share = (at - self.begin_at) / (self.end_at - self.begin_at)
        return round(WIDTH * min(1.0, max(0.0, share)), 2)

    def shows(self, begin_at: float, end_at: float) -> bool:
        return end_at >= self.begin_at and begin_at <= self.end_at


def whole(story: Story, tasks: Sequence[TaskSpan], now: float) -> Chart | None:
    """Return the chart from the plan until Stable, with the confirmations of each move; `None` if nothing moved."""
    if not story.rows:
        return None
    axis = _axis([story.began_at, story.ended_at or max(now, story.began_at + story.lasted_s)])
    rows = story.rows[:MOST_LANES]
    lanes = tuple(_confirmed(row, axis, story.ended_at or axis.end_at) for row in rows)
    return Chart(_bands(tasks, axis, now), lanes, _lines(story, axis), _ticks(story, axis), len(story.rows) - len(rows))


def handoffs(story: Story, tasks: Sequence[TaskSpan], now: float) -> Chart | None:
    """Return the chart from givers' last to takers' first records, by ZooKeeper's time; `None` if not measured."""
    measured = [one for one in story.longest if one.first_at is not None or one.last_at is not None][:MOST_LANES]
    times = [at for one in measured for at in (_begin_at(one), one.released_at, one.first_at) if at is not None]
    if not times:
        return None
    axis = _axis([min(times), max(times)])
    ways = {partition: row for row in story.rows for partition in row.partitions if not row.replaced}
    lanes = tuple(_paused(one, ways.get(one.partition), axis, story.began_at) for one in measured)
    known = len(story.pauses.measured) if story.pauses is not None else 0
    return Chart(_bands(tasks, axis, now), lanes, _lines(story, axis), _ticks(story, axis), known - len(measured))


def _axis(times: Sequence[float]) -> _Axis:
    begin_at, end_at = min(times), max(times)
    margin_s = max(_LEAST_S, 0.06 * (end_at - begin_at))
    return _Axis(begin_at - margin_s, end_at + margin_s)


def _paused(one: Pause, row: MoveRow | None, axis: _Axis, began_at: float) -> Lane:
    giver, taker = (row.giver or "nobody", row.taker or "nobody") if row is not None else ("its owner", "the next one")

    moments = (
        ("last", one.last_at, f"{giver}'s last record passed the sink"),
        ("released", one.released_at, f"{giver} wrote its release"),
        ("first", one.first_at, f"{taker}'s first record passed the sink"),
    )
    marks = tuple(
        LaneMark(kind, axis.place(at), f"{said}: {words.clock(at)} UTC, {words.signed(at - began_at)} after the plan")
        for kind, at, said in moments
        if at is not None
    )
    parts = []
    if one.last_at is not None:
        parts.append(_part("gives", axis, axis.begin_at, one.last_at, f"{giver} reads"))
    if one.first_at is not None:
        begin_at = _begin_at(one)
        if begin_at is not None and begin_at < one.first_at:
            parts += _stands(one, axis, begin_at, one.first_at)
        parts.append(_part("takes", axis, one.first_at, axis.end_at, f"{taker} reads"))
    return Lane(f"{one.partition}: {_short(giver)} → {_short(taker)}", tuple(parts), marks)


def _stands(one: Pause, axis: _Axis, begin_at: float, first_at: float) -> list[Part]:
    """Return the parts from `begin_at` to the taker's first record: the possible pause, then the certain pause."""
    if one.total is None:
        return [_part("idle", axis, begin_at, first_at, f"nothing waited for {words.duration(first_at - begin_at)}")]
    if not one.least:
        return [_part("stands", axis, begin_at, first_at, f"stood still for {words.duration(first_at - begin_at)}")]
    text, certain_at = f"stood still for {amount(one.total)}", first_at - one.total.least_s
    perhaps = [_part("perhaps", axis, begin_at, certain_at, text)] if begin_at < certain_at else []
    return [*perhaps, _part("stands", axis, certain_at, first_at, text)]


def _begin_at(one: Pause) -> float | None:
    """Return when the pause began at the earliest: the giver's last record, last commit, or known end."""
    if one.last_at is not None:
        return one.last_at
    if one.least and one.first_at is not None and one.wait_s is not None:
        return one.first_at - (one.most_s or one.wait_s)
    return one.released_at


def _confirmed(row: MoveRow, axis: _Axis, end_at: float) -> Lane:
    closes = ("Closing", row.giver or "its owner", "closed", row.closed_s) if row.closes else None
    starts = ("Starting", row.taker, "started", row.started_s) if row.starts else None
    parts, begin_at = [], row.planned_at
    for kind, who, did, after_s in filter(None, (closes, starts)):
        until_at = end_at if after_s is None else row.planned_at + after_s
        what = "has not confirmed" if after_s is None else "confirmed"
        text = f"{who} {what} that it {did}: {words.duration(until_at - begin_at)}"
        parts.append(_part(kind, axis, begin_at, until_at, text))
        if after_s is None:
            break
        begin_at = until_at
    numbers = words.partitions(row.partitions)
    label = f"{numbers if len(numbers) <= 16 else f'{len(row.partitions)} partitions'}: {_short(row.giver or 'nobody')} → {_short(row.taker or 'nobody')}"
    return Lane(label, tuple(parts))


def _part(kind: str, axis: _Axis, begin_at: float, end_at: float, text: str) -> Part:
    left = axis.place(begin_at)
    return Part(kind, left, max(1.0, round(axis.place(end_at) - left, 2)), text)


def _bands(tasks: Iterable[TaskSpan], axis: _Axis, now: float) -> tuple[Lane, ...]:
    lanes: dict[TaskKey, list[TaskSpan]] = {}
    for one in sorted(tasks, key=lambda span: span.begin_at):
        if one.begin_at and axis.shows(one.begin_at, one.end_at or now):
            lanes.setdefault((one.actor.run, one.actor.task), []).append(one)
    found = []
    for (_, task), spans in list(lanes.items())[:MOST_LANES]:
        parts = []
        for one in spans:
            end_at = one.end_at or now
            text = f"{task}, {one.state or 'no state'}: {words.duration(end_at - one.begin_at)}"
            parts.append(_part("task", axis, max(axis.begin_at, one.begin_at), end_at, text))
        found.append(Lane(_short(task), tuple(parts), (), words.task_path(spans[0].actor)))
    return tuple(found)


def _lines(story: Story, axis: _Axis) -> tuple[LaneMark, ...]:
    names = {State.CLOSING: "plan", State.STARTING: "start", State.STABLE: "settle"}
    found = []
    for step in story.steps:
        record = step.record
        name = "plan" if record.moves and record.source is not State.CLOSING else names.get(record.target, "write")
        if axis.shows(record.at, record.at):
            text = f"{name}: {record.source} → {record.target}, {words.clock(record.at)} UTC"
            found.append(LaneMark(str(record.target), axis.place(record.at), text))
    return tuple(found)


def _ticks(story: Story, axis: _Axis) -> tuple[LaneMark, ...]:
    """Return round times before and after the plan."""
    begin_s, end_s = axis.begin_at - story.began_at, axis.end_at - story.began_at
    rough = (end_s - begin_s) / MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(begin_s / step)
    numbers = range(first, math.floor(end_s / step) + 1)
    return tuple(LaneMark("tick", axis.place(story.began_at + n * step), words.signed(n * step)) for n in numbers)


def _short(name: str) -> str:
    return name if len(name) <= _WIDEST else f"{name[: _WIDEST - 1]}…"
