"""Commands for topics and their partitions: what is managed, how it is spread, what is not read or begins elsewhere."""

from collections.abc import Sequence
from typing import Annotated

import typer

from coordinator_tasks import show
from coordinator_tasks.cli.base import (
    By,
    Consumer,
    DryRun,
    Json,
    Parameters,
    Partitions,
    Strategy,
    Topic,
    Why,
    actor,
    exit_if_unowned,
    name_values,
    opened,
    output,
)
from coordinator_tasks.core.model import StartRule
from coordinator_tasks.core.partition_text import counted, named
from coordinator_tasks.service import overview, wishes
from coordinator_tasks.service import positions as position_service
from coordinator_tasks.service import topics as topic_service

commands = typer.Typer()


@commands.command()
def topics(context: typer.Context, json: Json = False) -> None:
    """List the managed topics: state, epoch, owners, what is unowned, what it waits for and who holds it up.

    Exit code 1 while a partition has no owner.
    """
    with opened(context) as c:
        found = overview.topics(c)
        output(found, json, show.topics)
        exit_if_unowned({one.topic: one.unowned for one in found if one.unowned})


@commands.command()
def add_topic(
    context: typer.Context,
    topic: Topic,
    *,
    group: Annotated[str, typer.Option("--group", help="The consumer group that offsets are committed for.")],
    start: Annotated[StartRule, typer.Option(help="Where a partition without a committed offset begins.")] = (
        StartRule.EARLIEST
    ),
    strategy: Strategy = "",
    parameter: Parameters = None,
    consumer_property: Annotated[
        list[str] | None, typer.Option("--property", help="name=value, a consumer property that is not secret.")
    ] = None,
    json: Json = False,
) -> None:
    """Manage a topic from now on; the same call again changes nothing."""
    with opened(context) as c:
        config = topic_service.add_topic(
            c,
            topic,
            group,
            start=start,
            strategy=strategy,
            parameters=name_values(parameter, "--parameter"),
            properties=name_values(consumer_property, "--property"),
            actor=actor(),
        )
        text = f"topic {topic} is managed with {counted(config.initial_partitions, 'partition')}; the next plan assigns them"
        output(config, json, lambda _: text)


@commands.command()
def set_strategy(
    context: typer.Context, topic: Topic, strategy: Strategy = "", parameter: Parameters = None, json: Json = False
) -> None:
    """Give a topic another strategy, with all of its parameters; see `plan --dry-run` for what that moves."""
    with opened(context) as c:
        pairs = name_values(parameter, "--parameter")
        config = topic_service.set_strategy(c, topic, strategy, pairs, actor())
        name = c.policy.strategies.effective(config).strategy
        output(config, json, lambda _: f"topic {topic} has strategy {name}; the next plan goes by it")


@commands.command()
def remove_topic(context: typer.Context, topic: Topic, json: Json = False) -> None:
    """Manage a topic no longer: its consumers stop and commit with the next plan. Offsets and history stay."""
    with opened(context) as c:
        config = topic_service.remove_topic(c, topic, actor())
        output(config, json, lambda _: f"topic {topic} is marked removed; the next plan stops its consumers")


@commands.command()
def pause(
    context: typer.Context, topic: Topic, partition: Partitions = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Read partitions no longer; they stay where they are, and are committed as they are."""
    _set_paused(context, topic, partition or (), True, dry_run, json)


@commands.command()
def resume(
    context: typer.Context, topic: Topic, partition: Partitions = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Read paused partitions again, from where they are."""
    _set_paused(context, topic, partition or (), False, dry_run, json)


def _set_paused(
    context: typer.Context, topic: str, partitions: Sequence[int], paused: bool, dry_run: bool, json: bool
) -> None:
    with opened(context) as c:
        changes = position_service.would_pause(c, topic, partitions, paused=paused)
        if not dry_run:
            position_service.set_paused(c, topic, partitions, paused=paused, actor=actor())
        verb = "paused" if paused else "read again"
        what = f"{named(changes)} of topic {topic}" if changes else f"nothing of topic {topic}"
        text = f"{what} would be {verb}" if dry_run else f"the next plan lets {what} be {verb}"
        output(changes, json, lambda _: text)


@commands.command()
def freeze(context: typer.Context, topic: Topic, json: Json = False) -> None:
    """Let nothing move for those who come or go; what nobody runs any more is placed all the same."""
    with opened(context) as c:
        config = wishes.set_frozen(c, topic, frozen=True, actor=actor())
        output(config, json, lambda _: f"topic {topic} is frozen: nothing moves for those who come or go")


@commands.command()
def unfreeze(context: typer.Context, topic: Topic, json: Json = False) -> None:
    """Let a frozen topic be planned again; see `plan --dry-run` for what that moves."""
    with opened(context) as c:
        config = wishes.set_frozen(c, topic, frozen=False, actor=actor())
        output(config, json, lambda _: f"topic {topic} is not frozen; the next plan is for everybody who is there")


@commands.command()
def pin(
    context: typer.Context,
    topic: Topic,
    consumer: Consumer,
    partition: Partitions = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Keep partitions with one consumer whenever it is there; they move to it with the next plan."""
    _set_pins(context, topic, consumer, partition or (), dry_run, json)


@commands.command()
def unpin(
    context: typer.Context, topic: Topic, partition: Partitions = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Let pinned partitions go where the strategy puts them."""
    _set_pins(context, topic, "", partition or (), dry_run, json)


def _set_pins(
    context: typer.Context, topic: str, consumer: str, partitions: Sequence[int], dry_run: bool, json: bool
) -> None:
    with opened(context) as c:
        if dry_run:
            pins = wishes.would_pin(c, topic, consumer, partitions)
        else:
            pins = wishes.set_pins(c, topic, consumer, partitions, actor=actor())
        output(pins, json, show.pins)


@commands.command()
def reset_offsets(
    context: typer.Context,
    topic: Topic,
    *,
    to: Annotated[str, typer.Option(help="earliest, latest, an offset, or a time such as 2026-11-21T08:15:00Z.")],
    why: Why,
    partition: Partitions = None,
    dry_run: DryRun = False,
    by: By = "",
    json: Json = False,
) -> None:
    """Let partitions go on somewhere else: their owners stop them, commit, and start again there.

    The history keeps where each of them was, so that it can be undone.
    """
    with opened(context) as c:
        if dry_run:
            shifts = position_service.preview(c, topic, to, partition or ())
        else:
            shifts = position_service.reset(c, topic, to, partition or (), why=why, actor=actor(by))
        output(shifts, json, show.shifts)
