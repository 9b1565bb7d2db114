"""Commands for consumers: present, permitted and wanted consumers."""

import typer

from coordinator_tasks import show
from coordinator_tasks.cli import actions
from coordinator_tasks.cli.base import LOOK, Format, Json, Output, exit_if_left_out, exit_if_unowned, listed, opened
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import Condition
from coordinator_tasks.service.actions.declarations import CONSUMER_ACTIONS
from coordinator_tasks.service.actions.fleet_actions import FLEET_ACTIONS
from coordinator_tasks.service.actions.growth_actions import GROWTH_ACTIONS
from coordinator_tasks.service.actions.upgrade_actions import UPGRADE_ACTIONS
from coordinator_tasks.service.nodes import fleet as fleet_service
from coordinator_tasks.service.watch import overview

commands = typer.Typer()


@commands.command(rich_help_panel=LOOK)
def status(context: typer.Context, how: Output = Format.TABLE, json: Json = False) -> None:
    """List the consumers: live, isolated, draining or absent; address, incarnation, running partitions and lag.

    Exit code 1 while a partition is not read or not processed, or a topic cannot be read.
    """
    problems: dict[str, CoordinatorError] = {}
    with opened(context) as c:
        found = overview.consumers(c)
        listed(found, how, json, show.consumers_text, show.consumers)
        unowned = overview.unowned(c, problems)
    failures = overview.failures(found)
    named = {consumer for failure in failures for consumer in failure.consumers}
    failing = (one for one in found if one.condition is Condition.FAILING and one.consumer not in named)
    unwell = [f"{one.consumer}: {one.health}" for one in failing]
    exit_if_unowned(unowned, [f"{topic}: {problem.told}" for topic, problem in problems.items()], failures, unwell)


for panel, found in {
    "Consumers": CONSUMER_ACTIONS,
    "Fleets and their growth": (*FLEET_ACTIONS, *GROWTH_ACTIONS),
    "Upgrades of fleets": UPGRADE_ACTIONS,
}.items():
    for action in found:
        actions.add(commands, action, LOOK if action.reads else panel)


@commands.command(rich_help_panel=LOOK)
def fleet(context: typer.Context, how: Output = Format.TABLE, json: Json = False) -> None:
    """List the wanted consumers, by application.

    Exit code 1 if a fleet cannot be read.
    """
    with opened(context) as c:
        found = fleet_service.fleets(c)
        listed(found, how, json, show.fleets)
    exit_if_left_out([f"fleet {one.app}: {one.problem}" for one in found if one.problem and not one.application])
