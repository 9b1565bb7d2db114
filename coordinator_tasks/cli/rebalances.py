"""Commands for rebalances: plan them, explain them, perform them, and look back."""

import signal
from typing import Annotated

import typer

from coordinator_tasks import show
from coordinator_tasks.cli import actions
from coordinator_tasks.cli.base import Json, Topic, Topics, actor, exit_if_held, managed, opened, output, user
from coordinator_tasks.service import history as history_service
from coordinator_tasks.service import loop, pauses, transitions
from coordinator_tasks.service.what_if_actions import WHAT_IF_ACTIONS
from coordinator_tasks.signals import stopped_by

commands = typer.Typer()


@commands.command()
def plan(
    context: typer.Context,
    topics: Topics = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, write nothing.")] = False,
    json: Json = False,
) -> None:
    """Plan what is due and write it; with --dry-run only show the moves and their reasons."""
    with opened(context) as c:
        named = managed(c, topics)
        reports = transitions.preview(c, named) if dry_run else transitions.plan(c, named, actor())
        output(reports, json, lambda found: show.reports(found, plan_only=dry_run))
    exit_if_held(reports)


@commands.command()
def explain(
    context: typer.Context,
    topic: Topic,
    partition: Annotated[int | None, typer.Option(min=0, help="One partition; none = all.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Say why every partition of a topic is where it is now, and what the strategy would do with it."""
    with opened(context) as c:
        managed(c, [topic])
        output(transitions.explain(c, topic), json, lambda found: show.explanation(found, partition))


@commands.command()
def step(context: typer.Context, topics: Topics = None, json: Json = False) -> None:
    """Do what is due now for each topic, once, without waiting."""
    with opened(context) as c:
        named = managed(c, topics)
        reports = transitions.step(c, named, actor())
        pauses.complete(c, named)
        output(reports, json, show.reports)
    exit_if_held(reports)


@commands.command()
def run(context: typer.Context) -> None:
    """Coordinate without Airflow until SIGINT or SIGTERM, and print every step."""
    with stopped_by(signal.SIGINT, signal.SIGTERM) as stop, opened(context) as c:
        print(f"coordinating cluster {c.paths.cluster}; end with Ctrl-C", flush=True)
        loop.run(c, stop, user(), lambda report: print(show.reports([report]), flush=True))


@commands.command()
def history(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="One topic; none = all.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rebalances.")] = 20,
    json: Json = False,
) -> None:
    """Show which partitions moved, from whom to whom, why, and how long it took; newest first."""
    with opened(context) as c:
        output(history_service.rebalances(c, [topic] if topic else (), limit), json, show.history)


for action in WHAT_IF_ACTIONS:
    actions.add(commands, action)
