"""Commands for topics and their partitions: manage, assign, pause and reset them."""

import sys

import typer

from coordinator_tasks import show
from coordinator_tasks.cli import actions
from coordinator_tasks.cli.base import HELD_EXIT, LOOK, Format, Json, Output, exit_if_unowned, listed, opened
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.machine.failures import by_cause
from coordinator_tasks.service.actions.declarations import ACTIONS, TOPIC_ACTIONS
from coordinator_tasks.service.watch import overview
from coordinator_tasks.tables import visible

commands = typer.Typer()
LOOK_S = 3.0
"""Seconds that Kafka has for its answer, even if the settings allow more: a person waits."""


@commands.command(rich_help_panel=LOOK)
def topics(context: typer.Context, how: Output = Format.TABLE, json: Json = False) -> None:
    """List the managed topics: state, epoch, owners, partitions without an owner, awaited steps and consumers.

    Exit code 1 while a partition is not read or not processed, a topic cannot be read, or Kafka does not answer.
    """
    unanswered: list[str] = []
    with opened(context, within_s=LOOK_S) as c:
        found = overview.topics(c, problems=unanswered)
        waiting.stop()
        for problem in unanswered:
            print(visible(f"without Kafka, by what ZooKeeper and the consumers say: {problem}"), file=sys.stderr)
        listed(found, how, json, show.topics)
    failures = by_cause(failure for one in found for failure in one.failures)
    unowned = {one.topic: one.unread for one in found if one.unread}
    exit_if_unowned(unowned, [f"{one.topic}: {one.problem}" for one in found if one.problem], failures)
    if unanswered:
        raise typer.Exit(HELD_EXIT)


for action in (*TOPIC_ACTIONS, ACTIONS["reset_offsets"]):
    actions.add(commands, action, "Topics and partitions")
