"""Parts that all commands share: arguments and options, the coordinator, the output."""

import logging
import os
import pwd
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from coordinator_tasks import logs, show
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import BadSettings, Refused
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.machine.failures import CommonFailure
from coordinator_tasks.core.model import Actor
from coordinator_tasks.core.text.partition_text import by_reason, first
from coordinator_tasks.fleet_values import SQLITE
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.store import not_managed
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.settings import CONTENT_VARIABLE
from coordinator_tasks.tables import Table, visible
from coordinator_tasks.wiring import Settings, open_coordinator, settings_from_environment

HELD_EXIT = 1
LOOK, RUN = "Look: nothing is changed", "Run the coordinator"
"""Headings in `--help` for commands that are no actions."""
Opener = Callable[[], AbstractContextManager[Coordinator]]

Topic = Annotated[str, typer.Argument(help="A topic of Kafka.", show_default=False)]
Topics = Annotated[list[str] | None, typer.Argument(help="Managed topics; empty = all.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Execute = Annotated[bool, typer.Option("--execute", help="Make the change; the default only shows the change.")]
Why = Annotated[str, typer.Option(help="The reason, in a single line; kept in the history.")]
DatabasePlace = Annotated[
    str,
    typer.Argument(
        metavar="DATABASE",
        help="A database's address, or its name in the settings (databases.NAME).",
        show_default=False,
    ),
]
By = Annotated[str, typer.Option(help="Person behind the request; your user name is kept as well.")]


class Format(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


Output = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]


@contextmanager
def opened(context: typer.Context, within_s: float = inf) -> Iterator[Coordinator]:
    """Yield the coordinator for a command. Servers have `within_s` to answer, or less if the settings say so."""
    opener: Opener = context.obj or partial(_from_environment, within_s)
    with waiting.shown(context.info_name or ""), opener() as coordinator, logs.about(cluster=coordinator.paths.cluster):
        yield coordinator


def _from_environment(within_s: float) -> AbstractContextManager[Coordinator]:
    settings = given_settings()
    settings = replace(settings, answer_timeout_s=min(settings.answer_timeout_s, within_s))
    logs.set_up(settings.log_format, level=logging.WARNING, times=False)
    return open_coordinator(settings)


def given_settings() -> Settings:
    """Return the settings in the environment. Raises `Refused`."""
    if not {"COORDINATOR_SETTINGS", CONTENT_VARIABLE, "COORDINATOR_CLUSTER"} & os.environ.keys():
        raise BadSettings(
            "no settings are given, so no cluster is known; name a settings file in COORDINATOR_SETTINGS, or set "
            "COORDINATOR_CLUSTER, COORDINATOR_ZOOKEEPER and COORDINATOR_KAFKA_BOOTSTRAP_SERVERS"
        )
    settings = settings_from_environment()
    # librdkafka's own messages also appear in our error.
    return replace(settings, kafka={"log_level": "2", **settings.kafka})


def database_address(place: str) -> str:
    """Return the address of a database that is given by its address or its name. Raises `Refused`."""
    if "://" in place:
        return place
    known = given_settings().databases
    if place not in known:
        raise Refused(
            f"{place!r} is no address and no name of a database in the settings (known: {', '.join(sorted(known)) or 'none'}); give "
            f"an address such as {SQLITE}{os.sep}path, or a name of databases.NAME"
        )
    return known[place]


def listed(found: object, how: Format, as_json: bool, render: show.Render, rows: show.Rows | None = None) -> None:
    """Print a list. `as_json`: the option `--json`. `rows`: the rows for CSV, if a person's view is not a table."""
    waiting.stop()
    if as_json or how is Format.JSON:
        print(show.as_json(found))
    elif how is Format.CSV:
        table = (rows or render)(found)
        print(visible(table.csv if isinstance(table, Table) else table))
    else:
        print(visible(str(render(found))))


def actor(by: str = "") -> Actor:
    """Return the author for the history."""
    return Actor("command", who=f"{by}, as user {user()}" if by else user())


def user() -> str:
    """Return the operating system's user that runs the command. The environment does not count."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user may have no name
        return f"uid {os.getuid()}"


def managed(c: Coordinator, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the named topics, or all topics without names. Raises `NotManaged`."""
    every = transitions.topics(c)
    for name in names or ():
        if name not in every:
            raise not_managed(c.zk, c.paths, name)
    return tuple(names or every)


def read_file(path: Path, most: int, what: str, refusal: type[Refused]) -> bytes:
    """Return the bytes of a file.

    Raises `refusal` if the path is not a file (but a folder or pipe), or if the file has more than `most` bytes.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # otherwise a pipe would wait for a writer
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise refusal(f"{path} is no file, but a folder, a pipe or a device; name {what}")
            raw = file.read(most + 1)
    except OSError as error:
        raise refusal(f"{path} cannot be read: {error.strerror}; name {what}") from error
    if len(raw) > most:
        raise refusal(f"{path} has more than {most} bytes, which is too large; name {what}")
    return raw


def write_new(file: Path, data: bytes, *, private: bool = False) -> None:
    """Write a new file. The name appears only when the whole content is on disk. `private`: only this user may read it.

    Raises `Refused` if the file exists or cannot be written.
    """
    try:
        _write_new(file, data, 0o600 if private else 0o666)
    except FileExistsError as error:
        raise Refused(f"{file} is there already; name another file, or remove it first") from error
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}; name a file that can") from error


def _write_new(file: Path, data: bytes, mode: int) -> None:
    if os.path.lexists(file):
        raise FileExistsError
    scratch = file.with_name(f".new.{os.getpid()}")
    scratch.unlink(missing_ok=True)  # a killed process may have left this file
    try:
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as written:
            written.write(data)
            written.flush()
            os.fsync(written.fileno())
        scratch.rename(file)
    finally:
        scratch.unlink(missing_ok=True)


def exit_if_held(reports: Sequence[TopicReport]) -> None:
    """Exit with `HELD_EXIT` if a topic is held."""
    if any(report.outcome is TopicOutcome.HELD for report in reports):
        raise typer.Exit(HELD_EXIT)


def exit_if_unowned(
    found: Mapping[str, Mapping[int, str]],
    problems: Sequence[str] = (),
    failures: Sequence[CommonFailure] = (),
    unwell: Sequence[str] = (),
) -> None:
    """Print failures, unwell consumers, unread partitions by topic and reason, and problems, on standard error.

    An unread partition is not printed if a failure names it. If anything was printed, exit with `HELD_EXIT`.
    """
    for text in (*(one.told for one in failures), *unwell):
        print(visible(text), file=sys.stderr)
    for topic, partitions in found.items():
        named = {p for one in failures for p in one.partitions.get(topic, ())}
        for why, said in by_reason({p: why for p, why in partitions.items() if p not in named}):
            print(visible(f"nobody reads {said} of topic {topic}: {why}"), file=sys.stderr)
    exit_if_left_out(problems)
    if found or failures or unwell:
        raise typer.Exit(HELD_EXIT)


def exit_if_left_out(problems: Sequence[str]) -> None:
    """Print the unreadable parts on standard error. If there are any, exit with `HELD_EXIT`."""
    for problem in first(problems):
        print(visible(f"left out: {problem}"), file=sys.stderr)
    if problems:
        raise typer.Exit(HELD_EXIT)


def say_how_to_execute() -> None:
    """Print the hint on standard error, after the dry run."""
    print("nothing was changed; add --execute to do it", file=sys.stderr)
