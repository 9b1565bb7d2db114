"""The wording of the pages: durations, times, partitions, causes and kinds of moves. Pure. Templates escape it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from coordinator_tasks.core.machine.audit import FindingKind
from coordinator_tasks.core.machine.world import Presence
from coordinator_tasks.core.measure.lag import LagStatus
from coordinator_tasks.core.model import Actor, Cause, CauseKind, Ending, State
from coordinator_tasks.core.names import spelled
from coordinator_tasks.core.text import cause_text, partition_text
from coordinator_tasks.core.text.partition_text import because, cut, ranges, shown
from coordinator_tasks.service.watch import overview
from coordinator_tasks.service.watch.overview import ConsumerOverview

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0

_ENDINGS: Mapping[Ending | None, str] = {
    Ending.LEFT: "it left cleanly",
    Ending.REAPED: "its launcher saw all its processes end",
    Ending.REFUSED: "its address refuses connections",
}
_STATES: Mapping[State, str] = {
    State.INITIAL: "nothing was assigned yet",
    State.CLOSING: "waits until partitions are confirmed closed",
    State.STARTING: "waits until partitions are confirmed started",
    State.STABLE: "every partition is where the last plan put it",
}
LAG_STATUSES: Mapping[LagStatus, str] = {
    LagStatus.OK: "the lag is 0, or was 0 lately, or shrinks",
    LagStatus.WARN: "it is read, and the lag does not shrink: see whether one consumer more would help",
    LagStatus.STOP: "there is lag, and no owner says that it reads: see whether its owner runs",
    LagStatus.STALL: "there is lag, and its owner answers and does not advance: resume it if it is paused, or read the owner's log",
    LagStatus.REWIND: "the offset went back, and is not where it was yet, as after reset-offsets: it passes by itself",
}
"""Burrow's statuses of a partition, with meaning and remedy. ERR occurs only for a group."""
_RUN = re.compile(r"(\w{1,40}?)__\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)\S*", re.ASCII)
"""The id of a run of Airflow: how it was started, and when."""
MOST_RUN = 32


def _gone(one: Cause) -> str:
    # A forced leave commits and deregisters like any other leave; only its reason shows the failure.
    failed = one.ending is Ending.LEFT and one.why and not one.by
    ending = "it had to leave" if failed else _ENDINGS.get(one.ending, "how is not known")
    return f"{one.name} is gone ({ending}{cause_text.restart_planned(one)}{because(one.why)})"


_PHRASES: Mapping[CauseKind, Callable[[Cause], str]] = {
    CauseKind.JOINED: lambda one: f"{shown(one.names)} joined",
    CauseKind.DRAINING: lambda one: f"{one.name} is draining {cause_text.by_whom(one)}",
    CauseKind.ISOLATED: lambda one: f"{one.name} was isolated {cause_text.by_whom(one)}",
    CauseKind.DROPPED: lambda one: f"{one.name} is no longer given partitions",
    CauseKind.GONE: _gone,
}


def duration(seconds: float) -> str:
    """Return a text such as `34 ms`, `2.3 s`, `1 min 15 s`, `1 h 2 min` or `3 d 4 h`."""
    for unit, name, below, small in ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1.0, "s")):
        if seconds >= unit:
            whole, rest = divmod(seconds, unit)
            return f"{int(whole)} {name} {int(rest // below)} {small}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(0, round(seconds * 1000))} ms"


def signed(seconds: float) -> str:
    """Return a time on an axis: `0`, `+120 ms`, `-1.5 s`."""
    if abs(seconds) < 1e-9:
        return "0"
    size = abs(seconds)
    text = f"{size * 1000:.4g} ms" if size < 1 else f"{size:.4g} s" if size < _MINUTE else duration(size)
    return f"{'+' if seconds > 0 else '-'}{text}"


def moment(at: float) -> str:
    """Return a time such as `2026-11-21 08:15:30 UTC`; a dash for 0."""
    return partition_text.moment(at) if at else "–"


def clock(at: float) -> str:
    """Return a time such as `08:15:30.123`."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S.%f")[:-3]


def iso(at: float) -> str:
    """Return a time for the `datetime` attribute."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def partitions(numbers: Iterable[int]) -> str:
    """Return partitions such as `0–3, 7`."""
    return ranges(numbers).replace("-", "–").replace(",", ", ")


def why(causes: Sequence[Cause]) -> str:
    """Return recorded causes as a sentence without its full stop."""
    said = cause_text.said(causes, lambda one: _PHRASES.get(one.kind, cause_text.of_one)(one))
    return said or "no cause was recorded"


def presence(one: ConsumerOverview) -> str:
    """Return how a consumer is present. A clean leave is no alarm."""
    return "left" if one.left and one.presence == Presence.GONE else one.presence


def offers(one: ConsumerOverview) -> tuple[str, ...]:
    """Return the actions that have an effect for this consumer."""
    drain = "undrain" if one.drained else "drain"
    match one.presence:
        case Presence.GONE | overview.NOT_STARTED:
            return ("undrain",) if one.drained else ()
        case Presence.ISOLATED:
            return ("undrain", "readmit") if one.drained else ("readmit",)
    return (drain, "isolate")


def meaning(state: State) -> str:
    """Return the meaning of a state."""
    return _STATES[state]


def kind(code: str) -> str:
    """Return the kind of a finding of the ownership audit, such as `two owners`."""
    return FindingKind(code).word.replace("_", " ")


def actor_words(one: Actor) -> str:
    """Return all texts in which a filter searches: the actor, the run and the DAG."""
    return f"{one.who} {one.dag} {one.dag_name} {one.run} {run_name(one.run)} {actor(one)}"


def actor(one: Actor) -> str:
    """Return the actor of a transition as text. A task instance also has a link (`task_path`)."""
    match one.kind:
        case "airflow":
            return f"{spelled(one.task)}, try {one.attempt}"
        case "loop":
            return "the plain loop" + (f" on {one.who}" if one.who else "")
        case "command":
            return "the command line" + (f" ({one.who})" if one.who else "")
    return one.who or one.kind or "unknown"


def ran(one: Actor) -> str:
    """Return a run of Airflow in one line, with the person who requested it; or any other actor."""
    if one.kind == "airflow":
        return run_name(one.run) + (f" for {one.who}" if one.who else "")
    return actor(one)


def run_name(run: str) -> str:
    """Return a run's id in short form, such as `asset triggered 10:23:36`. An id of unknown form is cut."""
    if found := _RUN.fullmatch(run):
        return f"{found[1].replace('_', ' ')} {found[2]}"
    return cut(run, MOST_RUN)


def task_path(one: Actor) -> str:
    """Return the path of a task instance below Airflow's address, with its try if known; empty without a task."""
    if one.kind != "airflow" or not (one.dag and one.run and one.task):
        return ""
    tried = f"?try_number={one.attempt}" if one.attempt else ""
    return f"{run_path(one)}/tasks/{quote(one.task, safe='')}{tried}"


def run_path(one: Actor) -> str:
    """Return the path of the DAG run, below Airflow's own address."""
    return f"/dags/{quote(one.dag, safe='')}/runs/{quote(one.run, safe='')}"
