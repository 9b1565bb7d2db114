"""Commands for consumers: which are there, which may run something, and which should run."""

from typing import Annotated

import typer

from coordinator_tasks import show
from coordinator_tasks.cli import actions
from coordinator_tasks.cli.base import (
    Format,
    Json,
    Output,
    exit_if_unowned,
    how_of,
    listed,
    name_values,
    opened,
    output,
)
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.service import fleet as fleet_service
from coordinator_tasks.service import overview
from coordinator_tasks.service.actions import CONSUMER_ACTIONS

commands = typer.Typer()


@commands.command()
def status(context: typer.Context, how: Output = Format.TABLE, json: Json = False) -> None:
    """List the consumers: live, isolated, draining or absent; address, incarnation, what they run and their lag.

    Exit code 1 while a partition has no owner.
    """
    with opened(context) as c:
        listed(overview.consumers(c), how_of(how, json), show.consumers)
        exit_if_unowned(overview.unowned(c))


for action in CONSUMER_ACTIONS:
    actions.add(commands, action)


@commands.command()
def fleet(context: typer.Context, how: Output = Format.TABLE, json: Json = False) -> None:
    """List the consumers that should run, by application."""
    with opened(context) as c:
        listed(fleet_service.fleets(c), how_of(how, json), show.fleets)


@commands.command()
def set_fleet(
    context: typer.Context,
    app_name: Annotated[str, typer.Argument(metavar="APP", help="The application's name.", show_default=False)],
    application: Annotated[str, typer.Option(help="Path of the Spark application.", show_default=False)],
    consumer: Annotated[list[str], typer.Option(help="The id of a consumer; repeatable.", show_default=False)],
    argument: Annotated[list[str] | None, typer.Option(help="An argument of the application; repeatable.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="name=value, a Spark setting; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Set the consumers of an application that should run; `consumers` or `reconcile` launches the missing ones."""
    wanted = Fleet(app_name, application, tuple(consumer), tuple(argument or ()), name_values(conf, "--conf"))
    with opened(context) as c:
        output(fleet_service.set_fleet(c, wanted), json, lambda done: show.fleets([done]))
