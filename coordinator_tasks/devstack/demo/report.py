"""The demonstration's results, for `report.json` and for the display. Pure except for `write`."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from coordinator_tasks.core.measure.pauses import of_one, sentence
from coordinator_tasks.core.model import Pause, Pauses, Record
from coordinator_tasks.devstack.demo import stalls
from coordinator_tasks.devstack.demo.checker import DemoVerdict, moves_of
from coordinator_tasks.devstack.demo.evidence import Evidence, MembershipEvent
from coordinator_tasks.devstack.demo.stalls import MeasuredStall, Spread

COUNTS = ("produced", "consumed", "lost", "duplicated_by_clean_moves", "duplicated_by_kills")
AFTER_STABLE_S = 1.0
"""Seconds after Stable at which an event's window ends, so that stalls that end late are included."""


@dataclass(frozen=True, slots=True)
class MoveStall:
    """A partition's move in an event, measured by the sink's rows, in milliseconds.

    `total_ms`: the longest stall in the event. `usual_ms`: the longest in the undisturbed window before. `extra_ms`:
    the difference, not below 0. `pause`: the history's figures for this move; `None` without figures.
    """

    event: str
    partition: int
    giver: str
    taker: str
    kind: str
    cause: str
    total_ms: float
    usual_ms: float
    extra_ms: float
    pause: Pause | None


@dataclass(frozen=True, slots=True)
class EventReport:
    """One event: the moves, and the stalls of moved and unmoved partitions.

    - `moved`, `unmoved`, `bystander`: totals. `bystander`: partitions of consumers that neither gave nor took any.
    - `quiet`: the longest stalls of all partitions in the undisturbed window before.
    - `moved_extra`, `unmoved_extra`: the totals without each partition's stall in this window.
    - `pauses`: the history's figures.
    """

    kind: str
    consumer: str
    moves: tuple[MoveStall, ...]
    moved: Spread
    unmoved: Spread
    quiet: Spread
    bystander: Spread
    moved_extra: Spread
    unmoved_extra: Spread
    to_plan_s: float
    to_stable_s: float
    pauses: Pauses | None


def event_reports(evidence: Evidence, verdict: DemoVerdict) -> list[EventReport]:
    """Return a report for each event, in order."""
    found = stalls.stalls(evidence.produced, evidence.rows)
    return [_event(event, evidence, verdict, found) for event in evidence.events]


def _event(
    event: MembershipEvent, evidence: Evidence, verdict: DemoVerdict, found: dict[int, list[MeasuredStall]]
) -> EventReport:
    records = [r for r in evidence.records if event.began_at <= r.at <= event.stable_at]
    moves = moves_of(event, evidence.records)
    here = stalls.longest(found, event.began_at, event.stable_at + AFTER_STABLE_S)
    quiet = stalls.longest(found, event.quiet_from_at, event.quiet_to_at, within=True)
    extra = {partition: max(0.0, total_s - quiet.get(partition, 0.0)) for partition, total_s in here.items()}
    rest = found.keys() - moves.keys()
    involved = {name for giver, taker, _ in moves.values() for name in (giver, taker)}
    owners = {h.partition: h.consumer for h in verdict.held if h.from_at <= event.began_at < h.until_at}
    planned = [r.at for r in records if r.moves]
    cause = next((r.cause for r in records if r.moves), "")
    pauses = next((r.pauses for r in sorted(records, key=lambda r: -r.sequence) if r.pauses is not None), None)
    known = {one.partition: one for one in pauses.measured} if pauses is not None else {}
    return EventReport(
        kind=event.kind,
        consumer=event.consumer,
        moves=tuple(
            MoveStall(
                event.kind, p, giver, taker, kind.value, cause, _ms(here[p]), _ms(quiet[p]), _ms(extra[p]), known.get(p)
            )
            for p, (giver, taker, kind) in sorted(moves.items())
        ),
        moved=stalls.spread(here, moves.keys()),
        unmoved=stalls.spread(here, rest),
        quiet=stalls.spread(quiet, found.keys()),
        bystander=stalls.spread(here, [p for p in rest if owners.get(p) not in involved]),
        moved_extra=stalls.spread(extra, moves.keys()),
        unmoved_extra=stalls.spread(extra, rest),
        to_plan_s=round(min(planned) - event.began_at, 3) if planned else 0.0,
        to_stable_s=round(event.stable_at - event.began_at, 3),
        pauses=pauses,
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def as_json(
    evidence: Evidence, verdict: DemoVerdict, events: Sequence[EventReport], phases: dict[str, float]
) -> dict[str, Any]:
    """Return the object for `report.json`."""
    return {
        "ok": verdict.ok,
        **{name: getattr(verdict, name) for name in COUNTS},
        "unowned_records": verdict.unowned,
        "transitions": [_transition(record) for record in sorted(evidence.records, key=lambda r: r.sequence)],
        "events": [_event_json(event) for event in events],
        "checks": [
            {"name": c.name, "ok": c.ok, "found": c.found, "problems": list(c.problems)} for c in verdict.checks
        ],
        "moves": [_move(move) for event in events for move in event.moves],
        "phases_s": phases,
    }


def _move(move: MoveStall) -> dict[str, Any]:
    of_rows = {name: _unless_endless(getattr(move, name)) for name in ("total_ms", "usual_ms", "extra_ms")}
    return {**asdict(replace(move, pause=None)), **of_rows, "pause": None if move.pause is None else of_one(move.pause)}


def _transition(record: Record) -> dict[str, Any]:
    actor = record.actor
    return {
        "sequence": record.sequence,
        "from": record.source.value,
        "to": record.target.value,
        "epoch": record.epoch,
        "rebalance": record.rebalance,
        "cause": record.cause,
        "at": record.at,
        "moves": len(record.moves),
        "dag": actor.dag,
        "run": actor.run,
        "task": actor.task,
        "try": actor.attempt,
    }


def _event_json(event: EventReport) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "consumer": event.consumer,
        "moved": len(event.moves),
        "moved_extra_ms": _spread_json(event.moved_extra),
        "moved_stall_ms": _spread_json(event.moved),
        "unmoved_extra_ms": _spread_json(event.unmoved_extra),
        "unmoved_stall_ms": _spread_json(event.unmoved),
        "quiet_stall_ms": _spread_json(event.quiet),
        "bystander_stall_ms": {**_spread_json(event.bystander), "partitions": event.bystander.partitions},
        "to_plan_s": event.to_plan_s,
        "to_stable_s": event.to_stable_s,
        "pauses": None if event.pauses is None else sentence(event.pauses),
    }


def _spread_json(spread: Spread) -> dict[str, float | None]:
    return {"p50": _unless_endless(spread.p50_ms), "max": _unless_endless(spread.max_ms)}


def _unless_endless(stall_ms: float) -> float | None:
    """Return the stall; null if it never ended, because JSON has no infinity."""
    return stall_ms if isfinite(stall_ms) else None


def write(path: Path, report: dict[str, Any]) -> None:
    """Write the report in one step: the whole file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps(report, indent=2) + "\n")
    scratch.replace(path)
