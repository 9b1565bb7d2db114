"""Commands for the coordinator's whole state in a file: back the state up, or move it to another ZooKeeper."""

import os
import stat
from collections.abc import Mapping, Sequence
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Annotated, Any

import typer

from coordinator_tasks import show
from coordinator_tasks.cli.base import (
    LOOK,
    RUN,
    By,
    Execute,
    Format,
    Json,
    Output,
    Topics,
    Why,
    actor,
    exit_if_left_out,
    listed,
    managed,
    opened,
    read_file,
    say_how_to_execute,
    write_new,
)
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import Malformed, Refused
from coordinator_tasks.core.names import check_words
from coordinator_tasks.core.text.partition_text import counted
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, state_file
from coordinator_tasks.service.nodes.history import KEEP
from coordinator_tasks.service.nodes.state_file import StateFile
from coordinator_tasks.service.watch import history_export

commands = typer.Typer()
_FILE = "a file that `coordinator export` has written"
_HISTORY_FILE = "a new file, or a file of `coordinator export-history`"


@commands.command(rich_help_panel=LOOK)
def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The file to write; must not exist.", show_default=False)],
    records: Annotated[
        int, typer.Option(min=0, max=KEEP, help="The newest records of each topic's history, and of the actions.")
    ] = KEEP,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Write the coordinator's whole state into a file, for `import`: topics, fleets, pins, directives, growth and history.

    Only your user may read the file: the file has stored fields of fleets, such as the environment, and names of
    people. The file has no assignment: after an import, the assignment is recovered from the committed offsets and from
    the consumers. Exit code 1 if a node is left out as unreadable.
    """
    with opened(context) as c:
        found = state_file.take(c, records)
    data = state_file.encode(found)
    write_new(file, data, private=True)
    about = _about(file, found) | {"bytes": len(data), "left_out": dict(found.left_out)}
    told = f"{_contents(about)} of cluster {found.cluster} in {file}, {counted(len(data), 'byte')}"
    listed(about, how, json, lambda _: told, show.rows)
    exit_if_left_out([f"{path}: {why}" for path, why in found.left_out.items()])


@commands.command("export-history", rich_help_panel=LOOK)
def export_history(
    context: typer.Context,
    topics: Topics = None,
    to: Annotated[
        Path | None, typer.Option(help="The file to append to; empty = print all records.", show_default=False)
    ] = None,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Write the records of rebalances as lines of JSON, to keep records that ZooKeeper deletes.

    With --to, append the records that the file does not have yet: repeat the command by a timer. Only your user may
    read the file: records name people. Records of the last ten minutes wait for the next call, until their pauses are
    measured. Exit code 1 if a record is left out as unreadable.
    """
    problems: list[str] = []
    with opened(context) as c:
        recorded = history.recorded(c)
        managed(c, [topic for topic in topics or () if topic not in recorded])  # a removed topic has a history
        named = topics or recorded
        if to is None:
            waiting.stop()
            for line in history_export.lines(c, named, {}, problems):
                print(line.decode(), end="")
        else:
            added = _append(c, to, named, problems)
            told = f"{to}: {counted(added, 'record')} added"
            listed({"file": str(to), "records": added}, how, json, lambda _: told, show.rows)
    exit_if_left_out(problems)


def _append(c: Coordinator, file: Path, topics: Sequence[str], problems: list[str]) -> int:
    """Append the missing records. Return how many. A last line that a killed export has cut off is replaced."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as opened_file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Refused(f"{file} is no file, but a pipe or a device; name {_HISTORY_FILE}")
            flock(descriptor, LOCK_EX | LOCK_NB)
            last: dict[str, history_export.Exported] = {}
            end = 0
            for number, line in enumerate(opened_file, 1):
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                cluster, topic, exported = history_export.read_line(f"{file}, line {number}", line)
                if cluster == c.paths.cluster:
                    last[topic] = exported
            opened_file.seek(end)
            opened_file.truncate()
            added = sum(bool(opened_file.write(line)) for line in history_export.lines(c, topics, last, problems))
            opened_file.flush()
            os.fsync(descriptor)
            return added
    except Malformed as error:
        raise Refused(f"{error}; name {_HISTORY_FILE}") from error
    except BlockingIOError as error:
        raise Refused(f"another export writes {file}; wait for its end") from error
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}; name {_HISTORY_FILE}") from error


@commands.command("import", rich_help_panel=RUN)
def import_state(
    context: typer.Context,
    *,
    file: Annotated[Path, typer.Argument(help="A file written by `export`.", show_default=False)],
    from_cluster: Annotated[
        str, typer.Option(help="The file's cluster, if the name differs.", show_default=False)
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check and show the import (the default).")] = False,
    execute: Execute = False,
    why: Why = "",
    by: By = "",
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Write the state of a file into an empty cluster, for example in another ZooKeeper. Without --execute the command
    only checks.

    Stop all consumers first: refused while a consumer is registered. Every line is checked before anything is written.
    After an interruption the same command continues.
    """
    if dry_run and execute:
        raise Refused("--dry-run and --execute contradict each other; give one of them")
    why, by = check_words(why, "reason"), check_words(by, "name")
    state = state_file.decode(str(file), read_file(file, state_file.MAX_BYTES, _FILE, Refused))
    with opened(context) as c:
        plan = state_file.plan(c, state, from_cluster)
        if execute:
            state_file.restore(c, plan, actor(by), why)
    done = {"written": len(plan.missing) if execute else 0, "missing": len(plan.missing), "there": plan.there}
    listed(_about(file, state) | done, how, json, _imported, show.rows)
    if not execute:
        say_how_to_execute()


def _about(file: Path, state: StateFile) -> dict[str, Any]:
    head = {"file": str(file), "cluster": state.cluster, "at": state.at, "zxid": state.zxid, "nodes": len(state.nodes)}
    return head | {f"of {kind}": number for kind, number in state.counts.items()}


def _contents(about: Mapping[str, Any]) -> str:
    """Return a text such as `2 topics, 1 fleet and 310 other nodes`."""
    topics, fleets = about["of config"], about["of fleet"]
    rest = about["nodes"] - topics - fleets
    return f"{counted(topics, 'topic')}, {counted(fleets, 'fleet')} and {counted(rest, 'other node')}"


def _imported(about: Mapping[str, Any]) -> str:
    if not about["missing"]:
        return f"all of {about['file']} is in ZooKeeper already"
    done = about["written"] or about["missing"]
    verb = ("was" if done == 1 else "were") if about["written"] else "would be"
    there = f"; {about['there']} were there already" if about["there"] else ""
    return f"{_contents(about)} of {about['file']}: {counted(done, 'node')} {verb} written{there}"
