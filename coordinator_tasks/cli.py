"""The coordinator for a person at a terminal: `python -m coordinator_tasks`, or `coordinator` where it is installed.

The same service calls as in Airflow, with the settings of `coordinator_tasks.settings`. Every error is one line that
says what, why and what to do next. Exit codes: 0 done; 1 a topic is held, a person has to look at it; 2 the request or
the settings are wrong; 3 a neighbour does not answer; 4 stored data cannot be read; 5 somebody else was faster, repeat.
"""

import getpass
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from coordinator_tasks import show
from coordinator_tasks.core.errors import CoordinatorError, LookAgain, Malformed, NotManaged, Refused, Unavailable
from coordinator_tasks.core.model import Actor, Fleet, StartRule
from coordinator_tasks.core.partition_text import ranges
from coordinator_tasks.service import directives as directive_service
from coordinator_tasks.service import fleet as fleet_service
from coordinator_tasks.service import history as history_service
from coordinator_tasks.service import loop, overview, transitions, wishes
from coordinator_tasks.service import positions as position_service
from coordinator_tasks.service import topics as topic_service
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.transitions import Outcome, TopicReport
from coordinator_tasks.wiring import open_coordinator, settings_from_environment

HELD_EXIT = 1
EXITS: Mapping[type[CoordinatorError], int] = {Refused: 2, Unavailable: 3, Malformed: 4, LookAgain: 5}
Opener = Callable[[], AbstractContextManager[Coordinator]]

app = typer.Typer(
    name="coordinator",
    help="Who reads which Kafka partition: look at it, plan it, change it.",
    epilog="Settings: environment variables COORDINATOR_..., or the file that COORDINATOR_SETTINGS names.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Topic = Annotated[str, typer.Argument(help="A topic of Kafka.", show_default=False)]
Topics = Annotated[list[str] | None, typer.Argument(help="Managed topics; none = all.", show_default=False)]
Consumer = Annotated[str, typer.Argument(help="The id of a consumer.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Strategy = Annotated[str, typer.Option(help="How partitions are spread over the consumers; none = the cluster's.")]
Parameters = Annotated[list[str] | None, typer.Option("--parameter", help="name=value of the strategy; repeatable.")]
Why = Annotated[str, typer.Option("--why", help="The reason; it stands in the history.", show_default=False)]
Partitions = Annotated[
    list[int] | None,
    typer.Option("--partition", min=0, help="A partition, repeatable; none = all.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, change nothing.")]
By = Annotated[str, typer.Option("--by", help="Who asks; default: your user name.", show_default=False)]


def main(arguments: Sequence[str] | None = None, opener: Opener | None = None) -> NoReturn:
    """Run one command and exit. `opener` takes the place of the settings, for tests."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    code: object = 0
    try:
        code = app(args=arguments, obj=opener, standalone_mode=False)
    except CoordinatorError as error:
        _say(error)
        code = next((number for kind, number in EXITS.items() if isinstance(error, kind)), HELD_EXIT)
    except TyperException as error:
        _say(error.format_message().rstrip(".") + "; --help shows how")
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except BrokenPipeError:  # the reader, such as head, has enough
        sys.stderr.close()
    sys.exit(code if isinstance(code, int) else 0)


def _say(error: object) -> None:
    print("error: " + " ".join(str(error).split()), file=sys.stderr)


@contextmanager
def _open(context: typer.Context) -> Iterator[Coordinator]:
    opener: Opener = context.obj or _from_environment
    with opener() as coordinator:
        yield coordinator


def _from_environment() -> AbstractContextManager[Coordinator]:
    if not {"COORDINATOR_SETTINGS", "COORDINATOR_CLUSTER"} & os.environ.keys():
        raise Refused(
            "no settings are given, so no cluster is known; name a settings file in COORDINATOR_SETTINGS, or set "
            "COORDINATOR_CLUSTER, COORDINATOR_ZOOKEEPER and COORDINATOR_KAFKA_BOOTSTRAP_SERVERS"
        )
    settings = settings_from_environment()
    # What librdkafka would print of its own stands in our one line as well.
    return open_coordinator(replace(settings, kafka={"log_level": "2", **settings.kafka}))


def _print(found: object, as_json: bool, render: show.Render) -> None:
    print(show.as_json(found) if as_json else render(found))


def _actor(by: str = "") -> Actor:
    return Actor("command", who=by or _user())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "unknown"


def _managed(c: Coordinator, names: Sequence[str] | None) -> tuple[str, ...]:
    """The topics named, or all; raises `NotManaged`."""
    managed = transitions.topics(c)
    for name in names or ():
        if name not in managed:
            known = ", ".join(managed[:10]) or "none"
            raise NotManaged(
                f"topic {name!r} is not managed by cluster {c.paths.cluster!r} (it manages: {known}); "
                "correct the name, or add the topic first"
            )
    return tuple(names or managed)


def _exit_of(reports: Sequence[TopicReport]) -> None:
    if any(report.outcome is Outcome.HELD for report in reports):
        raise typer.Exit(HELD_EXIT)


@app.command()
def topics(context: typer.Context, json: Json = False) -> None:
    """List the managed topics: state, epoch, owners, what is unowned, what it waits for and who holds it up."""
    with _open(context) as c:
        _print(overview.topics(c), json, show.topics)


@app.command()
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
    with _open(context) as c:
        config = topic_service.add_topic(
            c,
            topic,
            group,
            start=start,
            strategy=strategy,
            parameters=_pairs(parameter, "--parameter"),
            properties=_pairs(consumer_property, "--property"),
            actor=_actor(),
        )
        text = f"topic {topic} is managed with {config.initial_partitions} partitions; the next plan assigns them"
        _print(config, json, lambda _: text)


@app.command()
def set_strategy(
    context: typer.Context, topic: Topic, strategy: Strategy = "", parameter: Parameters = None, json: Json = False
) -> None:
    """Give a topic another strategy, with all of its parameters; see `plan --dry-run` for what that moves."""
    with _open(context) as c:
        pairs = _pairs(parameter, "--parameter")
        config = topic_service.set_strategy(c, topic, strategy, pairs, _actor())
        name = c.policy.strategies.effective(config).strategy
        _print(config, json, lambda _: f"topic {topic} has strategy {name}; the next plan goes by it")


@app.command()
def remove_topic(context: typer.Context, topic: Topic, json: Json = False) -> None:
    """Manage a topic no longer: its consumers stop and commit with the next plan. Offsets and history stay."""
    with _open(context) as c:
        config = topic_service.remove_topic(c, topic, _actor())
        _print(config, json, lambda _: f"topic {topic} is marked removed; the next plan stops its consumers")


@app.command()
def pause(
    context: typer.Context, topic: Topic, partition: Partitions = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Read partitions no longer; they stay where they are, and are committed as they are."""
    _set_paused(context, topic, partition or (), True, dry_run, json)


@app.command()
def resume(
    context: typer.Context, topic: Topic, partition: Partitions = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Read paused partitions again, from where they are."""
    _set_paused(context, topic, partition or (), False, dry_run, json)


def _set_paused(
    context: typer.Context, topic: str, partitions: Sequence[int], paused: bool, dry_run: bool, json: bool
) -> None:
    with _open(context) as c:
        changes = position_service.would_pause(c, topic, partitions, paused=paused)
        if not dry_run:
            position_service.set_paused(c, topic, partitions, paused=paused, actor=_actor())
        verb = "paused" if paused else "read again"
        what = f"partitions {ranges(changes)} of topic {topic}" if changes else f"nothing of topic {topic}"
        text = f"{what} would be {verb}" if dry_run else f"{what} is {verb} with the next plan"
        _print(changes, json, lambda _: text)


@app.command()
def freeze(context: typer.Context, topic: Topic, json: Json = False) -> None:
    """Let nothing move for those who come or go; what nobody runs any more is placed all the same."""
    with _open(context) as c:
        config = wishes.set_frozen(c, topic, frozen=True, actor=_actor())
        _print(config, json, lambda _: f"topic {topic} is frozen: nothing moves for those who come or go")


@app.command()
def unfreeze(context: typer.Context, topic: Topic, json: Json = False) -> None:
    """Let a frozen topic be planned again; see `plan --dry-run` for what that moves."""
    with _open(context) as c:
        config = wishes.set_frozen(c, topic, frozen=False, actor=_actor())
        _print(config, json, lambda _: f"topic {topic} is not frozen; the next plan is for everybody who is there")


@app.command()
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


@app.command()
def unpin(
    context: typer.Context, topic: Topic, partition: Partitions = None, dry_run: DryRun = False, json: Json = False
) -> None:
    """Let pinned partitions go where the strategy puts them."""
    _set_pins(context, topic, "", partition or (), dry_run, json)


def _set_pins(
    context: typer.Context, topic: str, consumer: str, partitions: Sequence[int], dry_run: bool, json: bool
) -> None:
    with _open(context) as c:
        if dry_run:
            pins = wishes.would_pin(c, topic, consumer, partitions)
        else:
            pins = wishes.set_pins(c, topic, consumer, partitions, actor=_actor())
        _print(pins, json, show.pins)


@app.command()
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
    with _open(context) as c:
        if dry_run:
            shifts = position_service.preview(c, topic, to, partition or ())
        else:
            shifts = position_service.reset(c, topic, to, partition or (), why=why, actor=_actor(by))
        _print(shifts, json, show.shifts)


@app.command()
def plan(
    context: typer.Context,
    topics: Topics = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, write nothing.")] = False,
    json: Json = False,
) -> None:
    """Plan what is due and write it; with --dry-run show the moves and their reasons only."""
    with _open(context) as c:
        named = _managed(c, topics)
        reports = transitions.preview(c, named) if dry_run else transitions.plan(c, named, _actor())
        _print(reports, json, lambda found: show.reports(found, plan_only=dry_run))
    _exit_of(reports)


@app.command()
def explain(
    context: typer.Context,
    topic: Topic,
    partition: Annotated[int | None, typer.Option(min=0, help="One partition; none = all.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Say why every partition of a topic is where it is now, and what the strategy would do with it."""
    with _open(context) as c:
        _managed(c, [topic])
        _print(transitions.explain(c, topic), json, lambda found: show.explanation(found, partition))


@app.command()
def step(context: typer.Context, topics: Topics = None, json: Json = False) -> None:
    """Do whatever is due now for each topic, once, without waiting."""
    with _open(context) as c:
        reports = transitions.step(c, _managed(c, topics), _actor())
        _print(reports, json, show.reports)
    _exit_of(reports)


@app.command()
def run(context: typer.Context) -> None:
    """Coordinate without Airflow until SIGINT or SIGTERM, and print every step."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with _open(context) as c:
        print(f"coordinating cluster {c.paths.cluster}; end with Ctrl-C", flush=True)
        loop.run(c, stop, _user(), lambda report: print(show.reports([report]), flush=True))


@app.command()
def status(context: typer.Context, json: Json = False) -> None:
    """List the consumers: live, isolated, draining or absent; address, incarnation, what they run and their lag."""
    with _open(context) as c:
        _print(overview.consumers(c), json, show.consumers)


@app.command()
def isolate(
    context: typer.Context,
    consumer: Consumer,
    why: Why,
    by: By = "",
    for_s: Annotated[float, typer.Option("--for-s", min=0, help="Readmit it after these seconds; 0 = by hand.")] = 0.0,
    json: Json = False,
) -> None:
    """Take a consumer for closed: it may run nothing, and others get its partitions with the next plan."""
    with _open(context) as c:
        until_at = c.clock.now() + for_s if for_s else 0.0
        done = directive_service.isolate(c, consumer, by=by or _user(), why=why, until_at=until_at)
        _print(done, json, lambda _: f"{consumer} is isolated; the next plan gives its partitions to others")


@app.command()
def readmit(context: typer.Context, consumer: Consumer, by: By = "", json: Json = False) -> None:
    """Let an isolated consumer in again, as soon as it confirms that it runs nothing."""
    with _open(context) as c:
        done = directive_service.readmit(c, consumer, by or _user())
        text = f"{consumer} is not isolated"
        if done.isolation is not None:
            text = f"{consumer} is readmitted as soon as it confirms that it runs nothing"
        _print(done, json, lambda _: text)


@app.command()
def drain(context: typer.Context, consumer: Consumer, why: Why, by: By = "", json: Json = False) -> None:
    """Let a consumer give everything away by hand-offs, and take it out of its fleet."""
    with _open(context) as c:
        done = directive_service.drain(c, consumer, by or _user(), why)
        _print(done, json, lambda _: f"{consumer} is draining; the next plan moves its partitions")


@app.command()
def undrain(context: typer.Context, consumer: Consumer, json: Json = False) -> None:
    """Let a drained consumer be given partitions again; its fleet is not changed."""
    with _open(context) as c:
        done = directive_service.undrain(c, consumer)
        _print(done, json, lambda _: f"{consumer} may be given partitions again")


@app.command()
def history(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(help="One topic; none = all.", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rebalances.")] = 20,
    json: Json = False,
) -> None:
    """Which partitions moved, from whom to whom, why, and how long it took; newest first."""
    with _open(context) as c:
        _print(history_service.rebalances(c, [topic] if topic else (), limit), json, show.history)


@app.command()
def fleet(context: typer.Context, json: Json = False) -> None:
    """List the consumers that should run, by application."""
    with _open(context) as c:
        _print(fleet_service.fleets(c), json, show.fleets)


@app.command()
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
    wanted = Fleet(app_name, application, tuple(consumer), tuple(argument or ()), _pairs(conf, "--conf"))
    with _open(context) as c:
        _print(fleet_service.set_fleet(c, wanted), json, lambda done: show.fleets([done]))


def _pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise Refused(f"{option} {one!r} is not name=value; write it like {option} name=value")
        found[name] = value
    return found
