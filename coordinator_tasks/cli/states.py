"""Commands for the state of pipelines, in the database of their sink."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from coordinator_tasks.cli.base import (
    DatabasePlace,
    Execute,
    Format,
    Json,
    Output,
    Topic,
    database_address,
    listed,
    opened,
    say_how_to_execute,
)
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.tables import Table

commands = typer.Typer(name="state", help="The state of stateful pipelines.")


@commands.callback()
def about() -> None:
    """Keep `rehash` a command of its own group, although the group has no other."""


@commands.command()
def rehash(
    context: typer.Context,
    database: DatabasePlace,
    topic: Topic,
    partitioner: Annotated[
        str, typer.Option(help="The producers' partitioner: murmur2, consistent or fnv1a.", show_default=False)
    ] = "",
    execute: Execute = False,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Move the state of each key to the key's new partition, after partitions were added to a topic.

    Stop the producers and let the consumers process all records before partitions are added. The consumers hold the topic
    from the addition until the end of this command. Without --partitioner, the present places of the keys show which
    partitioner the producers use. An interrupted command is repeated.
    """
    try:
        from spark_apps.state.topic_rehash import rehash_topic  # noqa: PLC0415 - Spark is an extra
    except ImportError as error:
        raise Refused(
            f"state needs Spark here ({error}); run the command where the pipelines' packages are installed"
        ) from error

    with opened(context) as c:
        moves = rehash_topic(c, database_address(database), topic, partitioner, execute=execute)
    listed(moves, how, json, _table)
    if moves and not execute:
        say_how_to_execute()


def _table(found: Sequence[Any]) -> Table:
    rows = list[tuple[str, ...]]()
    for one in found:
        counts = (one.keys, sum(move.keys for move in one.moving), one.keyless)
        rows.append((one.operator, f"{one.before} → {one.after}", *map(str, counts), one.partitioner))
    columns = ("operator", "partitions", "keys", "keys that move", "without key", "partitioner")
    return Table(columns, rows, "the topic has no more partitions than when its state began")
