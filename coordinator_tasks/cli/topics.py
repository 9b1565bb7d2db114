"""Commands for topics and their partitions: manage, assign, pause and reset them."""

import typer

from coordinator_tasks import show
from coordinator_tasks.cli import actions
from coordinator_tasks.cli.base import Json, exit_if_unowned, opened, output
from coordinator_tasks.service import overview
from coordinator_tasks.service.actions import ACTIONS, TOPIC_ACTIONS

commands = typer.Typer()


@commands.command()
def topics(context: typer.Context, json: Json = False) -> None:
    """List the managed topics: state, epoch, owners, partitions without an owner, what they wait for and for whom.

    Exit code 1 while a partition has no owner.
    """
    with opened(context) as c:
        found = overview.topics(c)
        output(found, json, show.topics)
        exit_if_unowned({one.topic: one.unowned for one in found if one.unowned})


for action in (*TOPIC_ACTIONS, ACTIONS["reset_offsets"]):
    actions.add(commands, action)
