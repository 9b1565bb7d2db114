"""Commands for the dead letters in a database that pipelines write."""

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer

from coordinator_tasks.cli.base import (
    DatabasePlace,
    Execute,
    Format,
    Json,
    Output,
    database_address,
    listed,
    say_how_to_execute,
)
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.partition_text import counted, cut
from coordinator_tasks.logs import say_error
from coordinator_tasks.tables import NOBODY, Table
from spark_apps.dead_letters import Letter, table
from spark_apps.dead_letters.shown import plain, time_text
from spark_apps.delivery.database import Cursor

MAX_LETTERS = 10_000
SHOWN_ERROR_CHARS = 80

commands = typer.Typer(name="dead-letters", help="Records that a pipeline could not process.")
Topic = Annotated[str, typer.Argument(help="The topic of the record.", show_default=False)]
OfCluster = Annotated[
    str, typer.Option("--cluster", help="Only dead letters of this cluster; empty = of all.", show_default=False)
]
OfTopic = Annotated[str, typer.Option("--topic", help="Only dead letters of this topic.", show_default=False)]


@commands.command("list")
def list_letters(
    database: DatabasePlace,
    topic: OfTopic = "",
    cluster: OfCluster = "",
    limit: Annotated[int, typer.Option(min=1, max=MAX_LETTERS, help="Maximum number of dead letters.")] = 100,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """List dead letters, by topic, partition and offset."""
    with table.opened(database_address(database)) as cursor:
        found = [] if cursor is None else _first(cursor, limit, _where(topic=topic, cluster=cluster))
        every = 0 if cursor is None else table.count(cursor, **_where(topic=topic, cluster=cluster))
    listed([plain(letter) for letter in found], how, json, lambda _: _text(found, every), lambda _: _rows(found))


@commands.command()
def show(
    database: DatabasePlace,
    topic: Topic,
    partition: Annotated[int, typer.Argument(min=0, help="The record's partition.", show_default=False)],
    offset: Annotated[int, typer.Argument(min=0, help="The record's offset.", show_default=False)],
    cluster: OfCluster = "",
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Show a dead letter: the record, the whole error, and where it happened."""
    with table.opened(database_address(database)) as cursor:
        where = {"topic": topic, **_where(cluster=cluster), "partition": partition, "offset": offset}
        found = [] if cursor is None else _first(cursor, MAX_LETTERS, where, strict=True)
    if not found:
        raise Refused(
            f"there is no dead letter of topic {topic!r}, partition {partition}, offset {offset}; `dead-letters list` shows all"
        )
    told = [plain(letter) for letter in found]
    listed(told, how, json, lambda _: "\n\n".join(_one(one) for one in told), lambda _: _rows(found))


@commands.command()
def drop(
    database: DatabasePlace,
    *,
    topic: Annotated[str, typer.Option("--topic", help="The topic of the records.", show_default=False)],
    partition: Annotated[
        int | None, typer.Option(min=0, help="Only dead letters of this partition.", show_default=False)
    ] = None,
    offset: Annotated[
        int | None, typer.Option(min=0, help="Only this record, of --partition.", show_default=False)
    ] = None,
    cluster: OfCluster = "",
    execute: Execute = False,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Delete dead letters for good: nothing processes their records any more."""
    if offset is not None and partition is None:
        raise Refused("--offset names a record of a partition; give --partition too")
    numbers = {name: value for name, value in {"partition": partition, "offset": offset}.items() if value is not None}
    where = {"topic": topic, **_where(cluster=cluster), **numbers}
    with table.opened(database_address(database)) as cursor:
        number = 0 if cursor is None else table.count(cursor, **where)
        if cursor is not None and execute:
            table.drop(cursor, **where)
    said = f"{counted(number, 'dead letter')} {'dropped' if execute else 'would be dropped'}"
    listed({"dead_letters": number, "dropped": execute}, how, json, lambda _: said)
    if not execute:
        say_how_to_execute()


@commands.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def replay(context: typer.Context) -> None:
    """Process dead letters again by their pipelines, in a local Spark, or by the program of a consumer without Spark.

    In Spark: --pipeline topic=module:function --set name=value. Without Spark: --topic, and --program before what follows
    `python` in the consumer's command line. With exactly once, a record and its dead letter change in one transaction. A
    record that fails again stays, with the new error. Exit code 1 if some have failed again. `replay --help` lists all
    options.
    """
    raise typer.Exit(subprocess.run([sys.executable, "-m", "spark_apps.replay", *context.args], check=False).returncode)


def _where(**wanted: str) -> dict[str, Any]:
    return {name: value for name, value in wanted.items() if value}


def _first(cursor: Cursor, limit: int, where: Mapping[str, Any], *, strict: bool = False) -> list[Letter]:
    """Return the letters of the first `limit` rows. Unreadable rows are reported; if `strict`, the first is raised."""
    letters, after = list[Letter](), None
    while limit > 0:
        page = table.find(cursor, limit, after, **where)
        for error in page.unreadable:
            if strict:
                raise error
            say_error(error.told)
        letters += page.letters
        limit -= len(page.letters) + len(page.unreadable)
        after = page.last
        if after is None:
            break
    return letters


def _text(found: Sequence[Letter], every: int) -> str:
    left = "" if len(found) == every else f"\n\n{len(found)} of {every}; --limit shows more"
    return f"{_rows(found)}{left}"


def _rows(found: Iterable[Letter]) -> Table:
    rows = list[tuple[str, ...]]()
    for letter in found:
        place, at = letter.place, time_text(letter.failed_at_ms)
        error = cut(f"{letter.kind}: {letter.error}", SHOWN_ERROR_CHARS)
        rows.append((place.topic, str(place.partition), str(place.offset), at, str(letter.tries), letter.stage, error))
    headers = ("topic", "partition", "offset", "failed at", "tries", "stage", "error")
    return Table(headers, rows, "there are no dead letters")


def _one(letter: dict[str, Any]) -> str:
    lines = [(name, value) for name, value in letter.items() if name != "headers"]
    lines += [(f"header {name}", value) for name, value in letter["headers"]]
    return "\n".join(f"{name.replace('_', ' '):<12} {NOBODY if value is None else value}" for name, value in lines)
