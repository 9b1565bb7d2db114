"""Commands for committed offsets, with the columns and the options of `kafka-consumer-groups`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from coordinator_tasks import show
from coordinator_tasks.cli import actions
from coordinator_tasks.cli.base import (
    By,
    Execute,
    Format,
    Json,
    Output,
    Why,
    actor,
    exit_if_left_out,
    listed,
    opened,
    read_file,
    say_how_to_execute,
)
from coordinator_tasks.core.errors import BadOffsets, CoordinatorError
from coordinator_tasks.core.model import StateOnReset
from coordinator_tasks.core.names import check_topic
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.actions.offset_actions import wishes_of
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.offsets import group_offsets, position_rules, positions
from coordinator_tasks.service.offsets.position_rules import MAX_FILE_CHARS, Position, PositionKind
from coordinator_tasks.service.offsets.positions import WantedReset

commands = typer.Typer(name="offsets", help="Committed offsets, as users of kafka-consumer-groups know them.")
Group = Annotated[str, typer.Option(help="Only topics of this consumer group.", show_default=False)]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", help="A topic, or some partitions, as TOPIC:0,1,2; repeatable.", show_default=False),
]
EXPORT = "Print the new offsets as lines of topic,partition,offset (of several groups with the group first), for --from-file."


@commands.command()
def describe(
    context: typer.Context, topic: Topics = None, group: Group = "", how: Output = Format.TABLE, json: Json = False
) -> None:
    """List committed offset, end of the log, lag and owner of each partition; without --topic, of all managed topics."""
    wanted = _topics(topic)
    problems: dict[str, CoordinatorError] = {}
    with opened(context) as c:
        found = group_offsets.described(c, wanted, group, problems)
        listed(found, how, json, partial(show.offsets, left_out=bool(problems)))
    exit_if_left_out([f"{name}: {problem.told}" for name, problem in problems.items()])


@commands.command()
def reset(
    context: typer.Context,
    *,
    topic: Topics = None,
    group: Group = "",
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All topics, or the topics of --group.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first offset in the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the committed offset.")] = False,
    to_datetime: Annotated[str, typer.Option(help="To the first record from this time on; without a zone: UTC.")] = "",
    by_duration: Annotated[str, typer.Option(help="To the first record of the last PnDTnHnMnS.")] = "",
    to_offset: Annotated[str, typer.Option(help="To this offset, or the nearest in the log.")] = "",
    shift_by: Annotated[str, typer.Option(help="Move by this number of offsets; negative = back.")] = "",
    from_file: Annotated[
        Path | None, typer.Option(help="To the offsets of a file with lines of topic,partition,offset.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the change (the default).")] = False,
    execute: Execute = False,
    state: Annotated[
        StateOnReset | None, typer.Option(help="What happens to state; needed for partitions with state.")
    ] = None,
    export: Annotated[bool, typer.Option("--export", help=EXPORT)] = False,
    why: Why = "",
    by: By = "",
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Move partitions to other offsets: the owners stop the partitions, commit, and start again there; consumers live on.

    Without --execute the effect is only shown. Offsets outside of the log are set to the nearest end.
    """
    asked = {
        "--to-earliest": to_earliest,
        "--to-latest": to_latest,
        "--to-current": to_current,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--from-file": from_file,
    }
    flag = _only(asked)
    if dry_run and execute:
        raise BadOffsets("--dry-run and --execute contradict each other; give one of them")
    wanted = _topics(topic)
    text = "" if from_file is None else _read(from_file)
    if from_file is not None and (wanted or all_topics or group):
        raise BadOffsets("--from-file names the topics itself; leave out --topic, --all-topics and --group")
    if from_file is None and bool(wanted) == all_topics:
        raise BadOffsets("say which topics: give --topic, repeated for several, or --all-topics")
    place = None if from_file is not None else _READ[flag](str(asked[flag]))
    with opened(context) as c:
        wishes = wishes_of(c, text, state) if place is None else _wishes(c, wanted, group, place, state)
        change = partial(positions.reset_all, why=why, actor=actor(by)) if execute else positions.preview_all
        resets = partial(show.resets, would=not execute)
        listed(change(c, wishes), how, json, show.exported_offsets if export else resets)
    if not execute:
        say_how_to_execute()


actions.add(commands, ACTIONS["undo_offsets"])


def _wishes(
    c: Coordinator, wanted: Mapping[str, Sequence[int]], group: str, place: Position, state: StateOnReset | None
) -> list[WantedReset]:
    configs = group_offsets.chosen(c, wanted, group)
    return [WantedReset(one.topic, place, tuple(wanted.get(one.topic, ())), state) for one in configs]


def _only(asked: Mapping[str, object]) -> str:
    given = [flag for flag, value in asked.items() if value]
    if len(given) != 1:
        said = f"are {' and '.join(given)}" if given else "is none"
        raise BadOffsets(f"give exactly one of {', '.join(asked)}; given {said}")
    return given[0]


_READ: Mapping[str, Callable[[str], Position]] = {
    "--to-earliest": lambda _: Position(PositionKind.EARLIEST, "earliest"),
    "--to-latest": lambda _: Position(PositionKind.LATEST, "latest"),
    "--to-current": lambda _: Position(PositionKind.CURRENT, "current"),
    "--to-datetime": partial(position_rules.time, zone=False),
    "--by-duration": position_rules.duration,
    "--to-offset": position_rules.offset,
    "--shift-by": position_rules.shift,
}


def _topics(given: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Return topic → partitions of the option --topic. No partitions means all partitions."""
    found: dict[str, tuple[int, ...]] = {}
    for one in given or ():
        topic, colon, listed = one.partition(":")
        check_topic(topic)
        if topic in found:
            raise BadOffsets(f"--topic names {topic!r} twice; list its partitions behind one colon, as {topic}:0,1,2")
        found[topic] = _numbers(topic, listed) if colon else ()
    return found


def _numbers(topic: str, listed: str) -> tuple[int, ...]:
    parts = [part.strip() for part in listed.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise BadOffsets(f"{listed[:40]!r} are no partitions of topic {topic!r}; write them as {topic}:0,1,2")
    return tuple(sorted({int(part) for part in parts}))


def _read(path: Path) -> str:
    raw = read_file(path, MAX_FILE_CHARS, "a file with lines of topic,partition,offset", BadOffsets)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadOffsets(f"{path} is not text in UTF-8 from byte {error.start} on; save it as UTF-8") from error
