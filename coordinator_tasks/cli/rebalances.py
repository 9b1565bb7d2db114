"""Commands for rebalances: plan, explain, perform, and show past rebalances."""

import logging
import signal
from functools import partial
from typing import Annotated

import typer

from coordinator_tasks import logs, show
from coordinator_tasks.cli import actions as action_commands
from coordinator_tasks.cli.base import (
    LOOK,
    RUN,
    Format,
    Json,
    Output,
    Topic,
    Topics,
    actor,
    exit_if_held,
    exit_if_left_out,
    listed,
    managed,
    opened,
    user,
)
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.service.actions.approval_actions import APPROVAL_ACTIONS
from coordinator_tasks.service.actions.what_if_actions import WHAT_IF_ACTIONS
from coordinator_tasks.service.nodes import action_log
from coordinator_tasks.service.nodes import history as history_service
from coordinator_tasks.service.nodes.topics import chosen_partitions, configuration
from coordinator_tasks.service.plan import pauses, transitions
from coordinator_tasks.service.run import loop
from coordinator_tasks.signals import stopped_by
from coordinator_tasks.tables import visible

commands = typer.Typer()
MAX_LIMIT = 1_000_000  # maximum rebalances or actions shown
STEP_LEVEL = logging.WARNING
"""Commands log nothing below this level. For the command `run`, steps are the purpose, so steps have this level."""
log = logging.getLogger(__name__)
ACTIONS_HELP = "Show the actions of persons instead: person, action, reason, former value."


@commands.command(rich_help_panel=RUN)
def plan(
    context: typer.Context,
    topics: Topics = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, write nothing.")] = False,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Plan and write all due changes; with --dry-run only show the moves and the reasons."""
    with opened(context) as c:
        named = managed(c, topics)
        reports = transitions.preview(c, named) if dry_run else transitions.plan(c, named, actor())
        render = partial(show.reports, plan_only=dry_run)
        listed(reports, how, json, render, show.report_rows)
    exit_if_held(reports)


@commands.command(rich_help_panel=LOOK)
def explain(
    context: typer.Context,
    topic: Topic,
    partition: Annotated[
        int | None, typer.Option(min=0, help="A single partition; empty = all.", show_default=False)
    ] = None,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Give the reason of every partition's place, and the strategy's next move."""
    with opened(context) as c:
        managed(c, [topic])
        if partition is not None:
            chosen_partitions(c, configuration(c, topic), [partition])
        text = partial(show.explanation, partition=partition)
        rows = partial(show.reason_rows, partition=partition)
        listed(transitions.explain(c, topic), how, json, text, rows)


@commands.command(rich_help_panel=RUN)
def step(context: typer.Context, topics: Topics = None, how: Output = Format.TABLE, json: Json = False) -> None:
    """Take each topic's next due step once, without waiting; `plan --dry-run` shows the step first."""
    with opened(context) as c:
        named = managed(c, topics)
        reports = transitions.step(c, named, actor())
        pauses.complete(c, named)
        listed(reports, how, json, show.reports, show.report_rows)
    exit_if_held(reports)


@commands.command(rich_help_panel=RUN)
def run(context: typer.Context) -> None:
    """Coordinate without Airflow until SIGINT or SIGTERM, and print every step."""
    with stopped_by(signal.SIGINT, signal.SIGTERM) as stop, opened(context) as c:
        waiting.stop()
        print(f"coordinating cluster {c.paths.cluster}; end with Ctrl-C", flush=True)
        loop.run(c, stop, user(), _log_step if logs.are_json() else _print_step)


def _print_step(report: transitions.TopicReport) -> None:
    print(visible(str(show.reports([report]))), flush=True)


def _log_step(report: transitions.TopicReport) -> None:
    log.log(STEP_LEVEL, "%s -> %s: %s", report.before, report.after, report.reason, extra=report.fields)


@commands.command(rich_help_panel=LOOK)
def history(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(help="A topic, or with --actions a consumer or fleet; empty = all.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Maximum number of rebalances or requests.")] = 20,
    actions: Annotated[bool, typer.Option("--actions", help=ACTIONS_HELP)] = False,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Show moved partitions with giver, taker, reason and duration; newest first."""
    problems: list[str] = []
    with opened(context) as c:
        if actions:
            told = action_log.asked(c, topic or "", limit, problems)
            text = partial(show.asked, about=topic or "", left_out=bool(problems))
            listed(told, how, json, text, show.asked_rows)
        else:
            found = history_service.rebalances(c, [topic] if topic else (), limit, None if topic else problems)
            if topic and not found:
                managed(c, [topic])
            listed(found, how, json, partial(show.history, left_out=bool(problems)), show.history_rows)
    exit_if_left_out(problems)


@commands.command(rich_help_panel=LOOK)
def rebalance(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The rebalance, by the history's name, such as 7-de8cc71b.")],
    topic: Annotated[str | None, typer.Argument(help="The rebalance's topic; empty = any.", show_default=False)] = None,
    how: Output = Format.TABLE,
    json: Json = False,
) -> None:
    """Show one rebalance: moves, steps, and the stall of each moved partition."""
    with opened(context) as c:
        found = history_service.named(c, name, topic or "")
        listed([found], how, json, show.rebalance, show.history_rows)


for action in (*WHAT_IF_ACTIONS, *APPROVAL_ACTIONS):
    action_commands.add(commands, action, LOOK if action.reads else "Topics and partitions")
