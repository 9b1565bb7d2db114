"""Commands for a cluster in a file: take a snapshot, and try changes on it without any server."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator_tasks import show
from coordinator_tasks.cli.base import (
    LOOK,
    Format,
    Json,
    Output,
    exit_if_left_out,
    listed,
    opened,
    read_file,
    write_new,
)
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.machine.what_if import SiteChange
from coordinator_tasks.core.measure.pause_prediction import learned
from coordinator_tasks.core.text.name_values import name_value, once
from coordinator_tasks.core.text.partition_text import counted, shown
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.fleets.growth_replay import Growing, replayed
from coordinator_tasks.service.plan.preview import previewed
from coordinator_tasks.service.watch import snapshot as snapshots
from coordinator_tasks.tables import visible

MAX_STEPS = 1_000
commands = typer.Typer()
_FILE = "a file that `coordinator snapshot` has written"
_STEPS = (
    "join=N, leave=ID, crash=ID, partitions=N, strategy=NAME[,PARAMETER=VALUE] or growth=capacity=RECORDS/S[,load=FACTOR]"
    "[,minutes=N][,LIMIT=VALUE]"
)
_LIMITS = {"min": "least", "max": "most", "spare": "spare", "utilisation": "utilisation"} | {
    name: f"{name}_s" for name in ("catch_up", "start_up", "window", "grow_pause", "shrink_pause")
}
_WHOLE = frozenset({"min", "max", "spare", "minutes"})


@commands.command(rich_help_panel=LOOK)
def snapshot(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write; must not exist.", show_default=False)],
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Write configuration, assignment, rates, members and history of the cluster into a file, for `simulate`.

    The file holds no secret: nothing of the settings and the fleets, no addresses of consumers, and no text of a person or
    a program. Exit code 1 if a topic or a history is left out as unreadable.
    """
    with opened(context) as c:
        found = snapshots.take(c)
        data = snapshots.encode(found)
    write_new(file, data)
    size = {"file": str(file), "bytes": len(data), "topics": len(found.site.topics), "left_out": dict(found.left_out)}
    told = f"{counted(len(found.site.topics), 'topic')} in {file}, {counted(len(data), 'byte')}"
    listed(size, how, json, lambda _: told, show.rows)
    exit_if_left_out([f"{topic}: {why}" for topic, why in found.left_out.items()])


@commands.command(rich_help_panel=LOOK)
def simulate(
    file: Annotated[Path, typer.Option("--from", help="A file written by `snapshot`.", show_default=False)],
    steps: Annotated[
        list[str] | None, typer.Argument(help=f"{_STEPS}; in this order.", metavar="STEP", show_default=False)
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only for these topics; repeatable.", show_default=False)
    ] = None,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Replay changes against a snapshot with the planner itself: moves, reasons and pauses.

    Each step begins at the end of the step before; without a step, the output is the due plan at the time of the
    snapshot. The step `growth` lets a policy of growth act for so many minutes (60). Each consumer reads `capacity`
    records per second, and records come as fast as in the snapshot, times `load` (1). LIMIT is an option of
    `set-growth`, such as max or catch_up.
    """
    changes = [("now", SiteChange())] if not steps else [(step, _step(step)) for step in steps]
    if len(changes) > MAX_STEPS:
        raise Refused(f"{len(changes)} steps are too many; give at most {MAX_STEPS}")
    found = snapshots.decode(str(file), read_file(file, snapshots.MAX_BYTES, _FILE, Refused))
    site, past = found.site, {name: learned(records) for name, records in found.history.items()}
    for name in topic or ():
        if name not in site.topics:
            raise NotManaged(
                f"topic {name!r} is not in {file} (it has: {shown(sorted(site.topics)) or 'none'}); name one of these"
            )
    results: list[dict[str, Any]] = []
    with waiting.shown("simulate"):
        for step, change in changes:
            waiting.says(f"simulate, {visible(step[:40])}")
            if isinstance(change, Growing):
                site, growth = replayed(site, change, found.policy, past, topic or ())
                results.append({"step": step, "growth": growth})
            else:
                site, previews = previewed(site, change, found.policy, past, topic or ())
                results.append({"step": step, "topics": previews})
    listed(results, how, json, _replayed, show.replay_rows)


def _replayed(results: Sequence[Mapping[str, Any]]) -> str:
    lines: list[str] = []
    for one in results:
        told = one["growth"].lines if "growth" in one else [line for preview in one["topics"] for line in preview.lines]
        lines += [f"{one['step']}:", *(f"  {line}" for line in told)]
    return "\n".join(lines)


def _growing(step: str, value: str) -> Growing:
    given = {name: _figure(step, name, text) for name, text in _parameters(step, value.split(",")).items()}
    unknown = [name for name in given if name not in ("capacity", "load", "minutes", *_LIMITS)]
    if unknown or "capacity" not in given:
        known = ", ".join(("load", "minutes", *_LIMITS))
        what = f"has an unknown {unknown[0][:40]!r}" if unknown else "does not say what one consumer reads"
        raise Refused(f"{step[:80]!r} {what}; give growth=capacity=1000 and any of {known}")
    limits = autoscale.limits_of({_LIMITS[name]: one for name, one in given.items() if name in _LIMITS})
    return Growing(limits, given["capacity"], given.get("load", 1.0), int(given.get("minutes", 60)))


def _figure(step: str, name: str, text: str) -> float:
    """Return a number: an `int` if the field is a count."""
    try:
        found = float(text)
    except ValueError:
        found = nan
    if not isfinite(found) or found < 0:
        raise Refused(f"{name[:40]} in {step[:80]!r} is no number; give one, such as {name[:40]}=2")
    if name not in _WHOLE:
        return found
    if not found.is_integer():
        raise Refused(f"{name} in {step[:80]!r} is no whole number; give one, such as {name}=2")
    return int(found)


def _step(step: str) -> SiteChange | Growing:
    kind, _, value = step.partition("=")
    if value:
        match kind:
            case "growth":
                return _growing(step, value)
            case "join":
                return SiteChange(join=_number(step, value))
            case "leave":
                return SiteChange(leave=(value,))
            case "crash":
                return SiteChange(crash=(value,))
            case "partitions":
                return SiteChange(partitions=_number(step, value))
            case "strategy":
                name, *parameters = value.split(",")
                return SiteChange(strategy=name, parameters=_parameters(step, parameters))
    raise Refused(f"{step[:80]!r} is no step; give {_STEPS}")


def _number(step: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value) > 0):
        raise Refused(
            f"{step[:80]!r} has no number from 1 to 999999999; give one, such as {step.partition('=')[0][:20]}=2"
        )
    return int(value)


def _parameters(step: str, texts: Sequence[str]) -> dict[str, str]:
    said = repr(step[:80])
    return once((name_value(text, f"{said} with", "strategy=weighted,measure=lag") for text in texts), said)
