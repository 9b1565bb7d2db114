"""Commands for consumers: who is there, who may run something, and who should be there."""

from typing import Annotated

import typer

from coordinator_tasks import show
from coordinator_tasks.cli.base import (
    By,
    Consumer,
    Json,
    Why,
    exit_if_unowned,
    name_values,
    opened,
    output,
    user,
)
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.service import directives as directive_service
from coordinator_tasks.service import fleet as fleet_service
from coordinator_tasks.service import overview

commands = typer.Typer()


@commands.command()
def status(context: typer.Context, json: Json = False) -> None:
    """List the consumers: live, isolated, draining or absent; address, incarnation, what they run and their lag.

    Exit code 1 while a partition has no owner.
    """
    with opened(context) as c:
        output(overview.consumers(c), json, show.consumers)
        exit_if_unowned(overview.unowned(c))


@commands.command()
def isolate(
    context: typer.Context,
    consumer: Consumer,
    why: Why,
    by: By = "",
    for_s: Annotated[float, typer.Option("--for-s", min=0, help="Readmit it after these seconds; 0 = by hand.")] = 0.0,
    json: Json = False,
) -> None:
    """Take a consumer for closed: it may run nothing, and others get its partitions with the next plan."""
    with opened(context) as c:
        until_at = c.clock.now() + for_s if for_s else 0.0
        done = directive_service.isolate(c, consumer, by=by or user(), why=why, until_at=until_at)
        output(done, json, lambda _: f"{consumer} is isolated; the next plan gives its partitions to others")


@commands.command()
def readmit(context: typer.Context, consumer: Consumer, by: By = "", json: Json = False) -> None:
    """Let an isolated consumer in again, as soon as it confirms that it runs nothing."""
    with opened(context) as c:
        done = directive_service.readmit(c, consumer, by or user())
        text = f"{consumer} is not isolated"
        if done.isolation is not None:
            text = f"{consumer} is readmitted as soon as it confirms that it runs nothing"
        output(done, json, lambda _: text)


@commands.command()
def drain(context: typer.Context, consumer: Consumer, why: Why, by: By = "", json: Json = False) -> None:
    """Let a consumer give everything away by hand-offs, and take it out of its fleet."""
    with opened(context) as c:
        done = directive_service.drain(c, consumer, by or user(), why)
        output(done, json, lambda _: f"{consumer} is draining; the next plan moves its partitions")


@commands.command()
def undrain(context: typer.Context, consumer: Consumer, json: Json = False) -> None:
    """Let a drained consumer be given partitions again; its fleet is not changed."""
    with opened(context) as c:
        done = directive_service.undrain(c, consumer)
        output(done, json, lambda _: f"{consumer} may be given partitions again")


@commands.command()
def fleet(context: typer.Context, json: Json = False) -> None:
    """List the consumers that should run, by application."""
    with opened(context) as c:
        output(fleet_service.fleets(c), json, show.fleets)


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
    """Say which consumers of an application should run; who is missing is launched by `consumers` or `reconcile`."""
    wanted = Fleet(app_name, application, tuple(consumer), tuple(argument or ()), name_values(conf, "--conf"))
    with opened(context) as c:
        output(fleet_service.set_fleet(c, wanted), json, lambda done: show.fleets([done]))
