"""The output of the command line: columns for a person, JSON and CSV for a program. Pure."""

import dataclasses
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from coordinator_tasks.core.measure import pauses
from coordinator_tasks.core.model import ActionRecord, Actor, Explanation, Fleet, Move, Reason, State
from coordinator_tasks.core.names import spelled
from coordinator_tasks.core.text.move_ways import HOW, by_way
from coordinator_tasks.core.text.partition_text import first, joined, named, ranges, shown
from coordinator_tasks.service.fleets.growth_replay import ReplayEvent
from coordinator_tasks.service.nodes.history import Rebalance
from coordinator_tasks.service.offsets.group_offsets import PartitionOffset
from coordinator_tasks.service.offsets.positions import RESET, Reset
from coordinator_tasks.service.plan.preview import Preview, PricedMove
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.watch.overview import ConsumerOverview, RunningTopic, TopicOverview
from coordinator_tasks.tables import NOBODY, Table, csv_lines, visible, visible_line

MOST_SILENT = 50
"""Maximum silent registrations in `status`. An account of consumers can register any number."""
_AT = ("at", "until")
"""Suffixes of names whose values are times, in seconds since 1970; 0 means never."""


def as_json(found: object) -> str:
    """Return values, and sequences of dataclasses, as JSON."""
    return visible(json.dumps(_plain(found), indent=2, ensure_ascii=False))


def _plain(value: object) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_plain(one) for one in value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def rows(found: object) -> Table:
    """Return a row for each result, with a column for each field. A value that is no text or number becomes JSON."""
    plain = _plain(found)
    listed = plain if isinstance(plain, list) else [plain]
    records = [one if isinstance(one, dict) else {"result": one} for one in listed]
    names = list(dict.fromkeys(name for one in records for name in one))
    return Table(names or ["result"], [[_cell(one.get(name)) for name in names] for one in records], "")


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def preview_rows(found: Iterable[Preview]) -> Table:
    """Return a row for each move; a topic without moves has one row."""
    rows = []
    for one in found:
        rows += [(one.topic, *_move_cells(move), one.problem or one.waits or one.kept) for move in one.moves or (None,)]
    names = ("topic", "partition", "from", "to", "kind", "backlog", "pause", "reason", "waits")
    return Table(names, rows, "")


def replay_rows(found: Iterable[Mapping[str, Any]]) -> Table:
    """Return a row for each move of each step of `simulate`. A growth decision has a row of its own."""
    rows: list[tuple[str, ...]] = []
    names: tuple[str, ...] = ()
    for one in found:
        growth = one.get("growth")
        happened = growth.happened if growth is not None else [ReplayEvent(0.0, "", one["topics"])]
        for event in happened:
            head, table = (one["step"], f"{event.after_s:g}" if growth is not None else ""), preview_rows(event.topics)
            names = ("step", "after_s", *table.headers)
            rows += [(*head, *("",) * (len(table.headers) - 2), event.what, "")] if event.what else []
            rows += [(*head, *row) for row in table.rows]
    return Table(names or ("step",), rows, "")


def _move_cells(move: PricedMove | None) -> tuple[str, ...]:
    if move is None:
        return ("",) * 7
    pause = move.pause.text if move.pause is not None else ""
    backlog = "" if move.backlog is None else str(move.backlog)
    return str(move.partition), move.giver, move.taker, move.kind.value, backlog, pause, move.reason


def topics(found: Iterable[TopicOverview]) -> Table:
    """Return the state of every topic, and its blockers."""
    rows = []
    for one in found:
        owners = " ".join(f"{consumer}:{count}" for consumer, count in one.owners.items())
        reason = "" if one.wished else one.reason
        blockers = f" [{shown(one.blockers)}]" if one.blockers else ""
        brief = [failure.in_topic for failure in one.failures]
        state = "?" if one.problem else _state(one)
        places = [place or NOBODY for place in (owners, ranges(one.moving), ranges(one.unowned))]
        now = one.problem or "; ".join(part for part in (reason + blockers, *brief, *one.wishes) if part)
        rows.append((one.topic, state, str(one.epoch), str(one.partitions), *places, now))
    headers = ("topic", "state", "epoch", "partitions", "owners", "moving", "unowned", "now")
    return Table(headers, rows, "no topic is managed; add one with: add-topic TOPIC --group GROUP")


def _state(one: TopicOverview) -> str:
    """Return the state for display. A topic without an owner is not shown as Stable."""
    nobody = one.state is State.STABLE and one.partitions and not one.owners
    return "Stable: nobody has it" if nobody else one.state.value


def consumers(found: Iterable[ConsumerOverview]) -> Table:
    """Return a row for each consumer and topic."""
    rows = []
    for one in found:
        asked = "" if one.expected else one.asked  # `problem` already tells the restart that is awaited
        notes = joined((asked, one.unwell, one.problem, one.ended, *first(one.reports)))
        release = f"{one.release} ({one.code})" if one.code else one.release
        who = (one.consumer, one.presence, str(one.incarnation or NOBODY), release or NOBODY, one.address or NOBODY)
        for topic in one.topics or (RunningTopic(NOBODY),):
            paused = f"paused: {named(topic.paused)}" if topic.paused else ""
            said = "; ".join(filter(None, (notes, joined(topic.notes), paused)))
            lag = topic.lag or NOBODY
            closing = ranges(topic.closing) or NOBODY
            runs = ranges(set(topic.running) - set(topic.paused)) or NOBODY
            rows.append((*who, topic.topic, runs, closing, lag, said))
            notes = ""
    headers = ("consumer", "is", "incarnation", "release", "address", "topic", "runs", "closing", "lag", "notes")
    return Table(headers, rows, "no consumer is registered, holds anything or is wanted", merged=5)


def consumers_text(found: Iterable[ConsumerOverview]) -> str:
    """Return the table for a person. It lists `MOST_SILENT` of the consumers that have no partition and do not answer.

    Consumers that ended with an error come first, because each has a reason of its own.
    """
    listed = list(found)
    without = [one for one in listed if one.problem and not (one.health or one.topics)]
    silent = [one.consumer for one in sorted(without, key=lambda one: not one.ended)]
    left_out = frozenset(silent[MOST_SILENT:])
    text = str(consumers(one for one in listed if one.consumer not in left_out))
    if left_out:
        text += f"\nand {len(left_out):,} more that have no partition and do not answer; --json gives all"
    return text


def reports(found: Iterable[TopicReport], *, plan_only: bool = False) -> str:
    """Return the result for each topic. With `plan_only`, return the plan with a table of its moves."""
    parts = []
    for one in found:
        states = f"{one.before} -> {one.after}" if one.before != one.after else one.after.value
        outcome = "would be written" if plan_only and one.outcome == "written" else one.outcome.value
        text = f"{one.topic}: {states}, {outcome} at epoch {one.epoch}: {one.reason}"
        if one.blockers:
            text += f" [waits for {shown(one.blockers)}]"
        if one.moves:
            text += "\n" + moves(one.moves)
        if one.explanation is not None:
            text += "\n" + explanation(one.explanation)
        parts.append(text)
    return "\n".join(parts) or "no topic is managed, so there is nothing to do"


def report_rows(found: Iterable[TopicReport]) -> Table:
    """Return a row for each topic and kind of move; a topic without moves has one row."""
    rows = []
    for one in found:
        head = (one.topic, one.before.value, one.after.value, one.outcome.value, str(one.epoch))
        ways = [(giver, taker, kind.value, ranges(which)) for (giver, taker, kind), which in by_way(one.moves).items()]
        rows += [(*head, *way, one.reason) for way in ways or [("", "", "", "")]]
    names = ("topic", "before", "after", "outcome", "epoch", "from", "to", "kind", "partitions", "reason")
    return Table(names, rows, "")


def reason_rows(found: Explanation, partition: int | None = None) -> Table:
    """Return a row for each reason. `partition`: only reasons of this partition."""
    rows = [(verb, ranges(one.partitions), one.text) for verb, one in _explained(found, partition)]
    return Table(("verb", "partitions", "why"), rows, "")


def explanation(found: Explanation, partition: int | None = None) -> str:
    """Return a plan's summary, then why partitions wait, move and stay, and their state. `partition`: only this."""
    lines = [f"  {found.summary}" + (f" (inputs {found.inputs})" if found.inputs else "")]
    for verb, one in _explained(found, partition):
        lines.append(f"  {verb} {ranges(one.partitions) if partition is None else partition}: {one.text}")
    return "\n".join(lines)


def _explained(found: Explanation, partition: int | None) -> Iterator[tuple[str, Reason]]:
    parts = ("waits", found.waits), ("moves", found.moves), ("stays", found.stays), ("state", found.states)
    every = ((verb, one) for verb, reasons in parts for one in reasons)
    return ((verb, one) for verb, one in every if partition is None or partition in one.partitions)


def moves(found: Iterable[Move]) -> str:
    """Return the moves: a line for each giver, taker and kind, with its partitions."""
    rows = [
        (f"  {len(partitions)}", ranges(partitions), giver or NOBODY, taker or NOBODY, kind.value, ": ".join(HOW[kind]))
        for (giver, taker, kind), partitions in by_way(found).items()
    ]
    return str(Table(("  moves", "partitions", "from", "to", "kind", "how"), rows, ""))


def history(found: Iterable[Rebalance], *, left_out: bool = False) -> str:
    """Return moves with giver, taker, reason and duration, newest first. `left_out`: some records are unreadable."""
    parts = []
    for one in found:
        verb = "given up after" if one.given_up else "took"
        took = f"{verb} {one.lasted_s:.1f} s" if one.ended_at else "not ended"
        head = f"{_time(one.began_at)}  {one.topic}  {one.rebalance}  {took}"
        runs = ", ".join(dict.fromkeys(_actor(run) for run in one.runs))
        lines = [head, f"  why: {one.cause}", f"  run by: {runs}"]
        rows: list[tuple[str, ...]] = []
        reasons: dict[str, str] = {}
        for (giver, taker, kind), partitions in by_way(one.moves).items():
            rows.append((f"  {ranges(partitions)}", giver or NOBODY, taker or NOBODY, kind.value))
            reasons[ranges(partitions)] = _reasons(one, partitions)
        lines.append(str(Table(("  partitions", "from", "to", "kind"), rows, "  nothing moved")))
        if without := _reset_without_owner(one):
            reasons[ranges(without)] = _reasons(one, without)
        lines += [f"  why {which}: {text}" for which, text in reasons.items() if text]
        if one.pauses is not None:
            said = (pauses.moved_sentence(one.pauses), pauses.unmoved_sentence(one.pauses))
            lines += [f"  {text}" for text in said if text]
            lines += [f"  left out: {text}" for text in one.pauses.left_out]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) or ("no rebalance could be shown" if left_out else "nothing has happened yet")


def rebalance(found: Sequence[Rebalance]) -> str:
    """Return one rebalance: its lines of `history`, then each moved partition, then each step."""
    (one,) = found
    lines = [history(found)]
    measured = one.pauses.measured if one.pauses else ()
    lines += [f"  partition {each.partition}: {pauses.of_one(each)}" for each in measured]
    rows = [(f"  {_time(r.at)}", f"{r.source} -> {r.target}", str(r.epoch), _actor(r.actor)) for r in one.records]
    return "\n".join((*lines, str(Table(("  at", "step", "epoch", "run by"), rows, ""))))


def history_rows(found: Iterable[Rebalance]) -> Table:
    """Return a row for each rebalance and kind of move. A rebalance without moves has one row.

    Partitions whose offsets were reset while they had no owner have a row too.
    """
    rows = []
    for one in found:
        took = f"{one.lasted_s:.1f}" if one.ended_at else ""
        runs = ", ".join(dict.fromkeys(_actor(run) for run in one.runs))
        head = (_time(one.began_at), one.topic, one.rebalance, took, one.cause, runs)
        ways = [
            (ranges(which), giver, taker, kind.value, _reasons(one, which))
            for (giver, taker, kind), which in by_way(one.moves).items()
        ]
        if without := _reset_without_owner(one):
            ways.append((ranges(without), "", "", "", _reasons(one, without)))
        rows += [(*head, *way) for way in ways or [("", "", "", "", "")]]
    names = ("began", "topic", "rebalance", "took_s", "cause", "runs", "partitions", "from", "to", "kind", "why")
    return Table(names, rows, "")


def asked(found: Iterable[ActionRecord], about: str = "", *, left_out: bool = False) -> str:
    """Return the actions with the former value of each field, newest first, as wide as the terminal.

    `left_out`: some records are unreadable.
    """
    lines: list[str] = []
    for one in found:
        why = f": {one.why}" if one.why else ""
        lines += _folded(f"{_time(one.at)}  {spelled(one.action)} {one.about}, by {_who(one.actor)}{why}", "  ")
        for change in one.changes:
            lines += _folded(f"  {change.field}: {_value(change.before)} -> {_value(change.after)}", "    ")
    none = f"nobody has asked for anything about {about!r} yet" if about else "nobody has asked for anything yet"
    return "\n".join(lines) or ("no request could be shown" if left_out else none)


def asked_rows(found: Iterable[ActionRecord]) -> Table:
    """Return a row for each field that an action has changed, with the stored values."""
    rows = []
    for one in found:
        head = (_time(one.at), _who(one.actor), spelled(one.action), one.about, one.why or NOBODY)
        rows += [
            (*head, f"{change.node} {change.field}", change.before or NOBODY, change.after or NOBODY)
            for change in one.changes
        ]
    return Table(("at", "who", "action", "about", "why", "changed", "before", "after"), rows, "", merged=5)


def _folded(text: str, indent: str) -> list[str]:
    width = shutil.get_terminal_size().columns
    return wrap(visible_line(text), max(width, 40), subsequent_indent=indent, break_on_hyphens=False)


def _value(stored: str) -> str:
    """Return a stored value for a person: without JSON, times as dates. A value that was cut stays unchanged."""
    try:
        return _told(json.loads(stored)) if stored else "nothing"
    except ValueError:
        return stored


def _told(value: Any, name: str = "") -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | float() if name.lower().endswith(_AT):
            return _time(value) if value else "never"
        case dict() if value:
            return ", ".join(f"{key} {_told(one, str(key))}" for key, one in value.items())
        case list() if value and all(type(one) is int and one >= 0 for one in value):
            return ranges(value)
        case list() if value:
            return ", ".join(_told(one) for one in value)
        case None | [] | {} | "":
            return "nothing"
    return str(value)


def _who(actor: Actor) -> str:
    run = f"{actor.dag_name}/{actor.run}" if actor.kind == "airflow" else actor.kind
    return f"{actor.who or 'nobody'} ({run})"


def _reasons(one: Rebalance, partitions: Iterable[int]) -> str:
    """The plans' reasons for these partitions; empty for records without a plan."""
    wanted, plans = set(partitions), [record.plan for record in one.records if record.plan is not None]
    said = [reason.text for plan in plans for reason in plan.moves if wanted.intersection(reason.partitions)]
    return " / ".join(dict.fromkeys(said))


def _reset_without_owner(one: Rebalance) -> list[int]:
    """Return the partitions whose offsets were reset without a move, because they had no owner."""
    plans = [record.plan for record in one.records if record.plan is not None and record.plan.strategy == RESET]
    asked = {partition for plan in plans for reason in plan.moves for partition in reason.partitions}
    return sorted(asked - {move.partition for move in one.moves})


def offsets(found: Iterable[PartitionOffset], *, left_out: bool = False) -> Table:
    """Return the columns of `kafka-consumer-groups --describe`, in its order. `left_out`: a topic is unreadable."""
    rows: list[tuple[str, ...]] = []
    for one in found:
        numbers = (one.partition, one.current_offset, one.log_end_offset, one.lag)
        known = (NOBODY if number is None else str(number) for number in numbers)
        owner = (text or NOBODY for text in (one.consumer_id, one.host, one.client_id))
        rows.append((one.group, one.topic, *known, *owner))
    names = "group topic partition current-offset log-end-offset lag consumer-id host client-id"
    none = "no topic could be shown" if left_out else "no topic is managed, so there are no offsets"
    return Table(names.split(), rows, none)


def resets(found: Iterable[Reset], *, would: bool = False) -> Table:
    """Return the columns of `kafka-consumer-groups --reset-offsets`, and then the effect. `would`: of a dry run."""
    rows = [
        (one.group, one.topic, str(shift.partition), str(shift.target), shift.would_effect if would else shift.effect)
        for one in found
        for shift in one.shifts
    ]
    return Table(("group", "topic", "partition", "new-offset", "effect"), rows, "no topic is managed: nothing to do")


def exported_offsets(found: Iterable[Reset]) -> str:
    """Return lines of topic,partition,offset, as Kafka's tool exports. With several groups, the group comes first."""
    resets = list(found)
    several = len({one.group for one in resets}) > 1
    lines = [
        [*([one.group] if several else []), one.topic, str(shift.partition), str(shift.target)]
        for one in resets
        for shift in one.shifts
    ]
    return csv_lines(lines)


def fleets(found: Iterable[Fleet]) -> Table:
    """Return the wanted consumers."""
    rows: list[tuple[str, ...]] = []
    for one in found:
        who = ", ".join(f"{who} ({one.runs[who]})" if who in one.runs else who for who in one.consumers) or NOBODY
        rows.append((one.app, one.code or NOBODY, one.application, who, " ".join(one.arguments) or NOBODY))
    none = "no fleet is set; set one with: set-fleet APP --application PATH --consumer ID"
    return Table(("app", "code", "application", "consumers", "arguments"), rows, none)


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + "Z"


def _actor(actor: Actor) -> str:
    if actor.kind == "airflow":
        return f"{actor.dag_name}/{actor.run}"
    return f"{actor.kind} {actor.who}".strip()


Render = Callable[[Any], str | Table]
Rows = Callable[[Any], Table]
ACTION_ROWS: Mapping[str, Rows] = {"preview": preview_rows}
"""Action → the function that makes its rows, if the rows are not the fields of the result."""
