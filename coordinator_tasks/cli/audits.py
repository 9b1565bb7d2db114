"""The command for the audit of ownership."""

from collections.abc import Iterable
from typing import Annotated

import typer

from coordinator_tasks.cli.base import (
    HELD_EXIT,
    LOOK,
    Format,
    Json,
    Output,
    Topics,
    exit_if_left_out,
    listed,
    managed,
    opened,
)
from coordinator_tasks.core.text.partition_text import ranges
from coordinator_tasks.service.watch import audit as service
from coordinator_tasks.service.watch.audit import BETWEEN_S, Audit
from coordinator_tasks.tables import NOBODY, Table

commands = typer.Typer()


@commands.command(rich_help_panel=LOOK)
def audit(
    context: typer.Context,
    topics: Topics = None,
    between: Annotated[
        float, typer.Option("--for", min=1.0, max=600.0, help="Seconds between the two looks.")
    ] = BETWEEN_S,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Compare ZooKeeper's owners, the consumers' own answers and the commits in Kafka, twice; and list the committers.

    Exit code 1 if a partition has two owners, no owner, or an intruder, or if something is left out. Changes nothing.
    """
    with opened(context) as c:
        found = service.audit(c, managed(c, topics), between_s=between)
    listed(found, how, json, _text, _findings)
    exit_if_left_out(found.problems)
    if found.alarms:
        raise typer.Exit(HELD_EXIT)


def _text(found: Audit) -> str:
    if not found.between_s and not found.findings:  # there was no topic that needed a second look
        none = "no topic is managed, or it is removed, so there is nothing to audit"
        return "no topic could be audited" if found.problems else none
    who = _committers(found)
    to_do = dict.fromkeys(f"- {one.code}: {one.mend}" for one in found.findings)
    return "\n".join([str(_findings(found, mend=False)), *(["", "To do:", *to_do] if to_do else []), "", str(who)])


def _findings(found: Audit, *, mend: bool = True) -> Table:
    rows: Iterable[tuple[str, ...]] = (
        (one.code, one.topic or NOBODY, ranges(one.partitions) or NOBODY, one.says, *([one.mend] if mend else []))
        for one in found.findings
    )
    headers = ("code", "topic", "partitions", "found", *(["to do"] if mend else []))
    healthy = "every partition has one owner, who runs it and commits it, or is on its way to one"
    return Table(headers, rows, "nothing is wrong in what could be looked at" if found.problems else healthy)


def _committers(found: Audit) -> Table:
    span = f"in {found.between_s:g} s"
    rows = [
        (one.topic, one.who, str(len(one.partitions)), ranges(one.partitions), str(one.commits), str(one.records))
        for one in found.committers
    ]
    headers = ("topic", "committed by", "partitions", "which", f"changed {span}", f"records {span}")
    none = "nothing is committed in what could be looked at" if found.problems else "nothing is committed"
    return Table(headers, rows, none)
