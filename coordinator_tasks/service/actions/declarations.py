"""The actions of persons, declared once for the form in Airflow and the command.

A new action is an `Action` here that calls a service function.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from coordinator_tasks.core.errors import UNREADABLE, CoordinatorError, LookAgain
from coordinator_tasks.core.model import Actor, PlannedRestart, StartRule, TopicConfig
from coordinator_tasks.core.text.partition_text import counted, duration, named
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given, texts, will
from coordinator_tasks.service.actions.approval_actions import APPROVAL_ACTIONS
from coordinator_tasks.service.actions.fleet_actions import FLEET_ACTIONS, given_away, kept_until
from coordinator_tasks.service.actions.growth_actions import GROWTH_ACTIONS
from coordinator_tasks.service.actions.offset_actions import OFFSET_ACTIONS
from coordinator_tasks.service.actions.upgrade_actions import UPGRADE_ACTIONS
from coordinator_tasks.service.actions.what_if_actions import WHAT_IF_ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import autoscale, redeployment, upgrades
from coordinator_tasks.service.nodes import directives, fleet, store, topics
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import overrides
from coordinator_tasks.service.watch import overview

# Topics --------------------------------------------------------------------------------------------------------------


def _described(c: Coordinator, given: Given) -> Iterator[str]:
    topic = given["topic"]
    wanted, present = topics.would_add(c, **_added(given))
    size = counted(wanted.initial_partitions, "partition")
    if present is not None and not present[0].removed:
        yield f"{topic} is managed already, with {size}; group {wanted.group_id}, start {wanted.start}: nothing would change"
    else:
        yield f"{topic} would be managed, with {size}; group {wanted.group_id}, start {wanted.start}"


def _add_topic(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    topic = given["topic"]
    # The configuration keeps the topic's first number of partitions. Kafka may have more by now.
    wanted, present = topics.would_add(c, **_added(given))
    config = topics.add_topic(c, **_added(given), actor=actor)
    size = counted(wanted.initial_partitions, "partition")
    text = f"topic {topic} is managed with {size}; the next plan assigns those without an owner"
    new = present is None or present[0].removed
    return ActionResult(config, text, (f"{topic} {'is managed from now on' if new else 'stays as it is'}",))


def _added(given: Given) -> dict[str, Any]:
    return {
        "topic": given["topic"],
        "group_id": given["group_id"],
        "start": StartRule(given["start"]),
        "strategy": given["strategy"],
        "parameters": texts(given.get("parameters")),
        "properties": given.get("properties"),
        "force": bool(given.get("force")),
    }


def _compared(c: Coordinator, given: Given) -> Iterator[str]:
    topic = given["topic"]
    config = topics.changeable(c, topic)
    now = c.policy.strategies.effective(config)
    wanted = replace(now, strategy=given["strategy"], parameters=texts(given.get("parameters")))
    c.policy.strategies.check(wanted)
    has, gets = _named(now), _named(c.policy.strategies.effective(wanted))
    if has == gets:
        yield f"{topic} has strategy {has} already: nothing would change"
    else:
        yield f"{topic} has strategy {has} now, and would get {gets}"
    if config.frozen:
        yield _stays(topic)


def _set_strategy(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    topic = given["topic"]
    config = topics.set_strategy(c, topic, given["strategy"], texts(given.get("parameters")), actor)
    name = c.policy.strategies.effective(config).strategy
    (then,) = will([_stays(topic)]) if config.frozen else ("the next plan uses it",)
    return ActionResult(config, f"topic {topic} has strategy {name}; {then}", (then,))


def _stays(topic: str) -> str:
    return f"{topic} is frozen, so its partitions would stay where they are until it is unfrozen"


def _named(config: TopicConfig) -> str:
    listed = ", ".join(f"{name}={value}" for name, value in sorted(config.parameters.items()))
    return f"{config.strategy!r} ({listed or 'its defaults'})"


def _stopped(c: Coordinator, given: Given) -> Iterator[str]:
    topic = given["topic"]
    topics.configuration(c, topic)
    try:
        held = overview.at_stake_of(store.load(c.zk, c.paths, topic).view)
    except (*UNREADABLE, LookAgain) as error:
        yield f"who reads {topic} is not known: {error}"
        return
    for consumer, partitions in held.items():
        yield f"{consumer} would stop and commit {counted(len(partitions), 'partition')} of {topic}"
    if not held:
        yield f"nobody reads {topic}, so nobody would stop"


def _remove_topic(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    config, said = topics.remove_topic(c, given["topic"], actor=actor), f"{given['topic']} is marked removed"
    return ActionResult(config, f"topic {said}; the next plan stops its consumers", (said,))


def _would_pause(paused: bool, c: Coordinator, given: Given) -> ActionResult:
    topic = given["topic"]
    changes = positions.would_pause(c, topic, given.get("partitions") or (), paused=paused)
    state = "paused" if paused else "read again"
    line = f"{named(changes)} of {topic} would be {state}" if changes else f"no partition of {topic} would change"
    return ActionResult(changes, line, (line,))


def _set_paused(paused: bool, c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    changes, topic = _would_pause(paused, c, given), given["topic"]
    positions.set_paused(c, topic, given.get("partitions") or (), paused=paused, actor=actor)
    which = f"{named(changes.found) if changes.found else 'nothing'} of topic {topic}"
    text = f"the next plan {'pauses' if paused else 'resumes'} {which}"
    return ActionResult(changes.found, text, (text,))


def _frozen(frozen: bool, c: Coordinator, given: Given) -> Iterator[str]:
    topic = given["topic"]
    state = "frozen" if frozen else "planned for all consumers"
    if topics.changeable(c, topic).frozen == frozen:
        yield f"{topic} is {state} already: nothing would change"
    else:
        yield f"{topic} would be {state}"


def _set_frozen(frozen: bool, text: str, c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    topic = given["topic"]
    return ActionResult(overrides.set_frozen(c, topic, frozen=frozen, actor=actor), f"topic {topic} is {text}")


def _would_pin(c: Coordinator, given: Given) -> ActionResult:
    return _would_be_pinned(given, overrides.would_pin(c, *_pins(given)), overrides.would_end(c, *_pins(given)))


def _set_pins(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    ended = overrides.would_end(c, *_pins(given))
    pins = overrides.set_pins(c, *_pins(given), actor=actor)
    return _would_be_pinned(given, pins, ended).done(" would be ", " is ")


def _pins(given: Given) -> tuple[str, str, list[int]]:
    """Return topic, consumer and partitions. An empty consumer means that the partitions lose their pins."""
    return given["topic"], given.get("consumer", ""), list(given.get("partitions") or ())


def _would_be_pinned(given: Given, pins: tuple[overrides.Pin, ...], ended: str) -> ActionResult:
    topic, said = given["topic"], [*(one.text for one in pins), *filter(None, [ended])]
    lines = tuple(f"{topic}: {text}" for text in said) or (f"no pin of {topic} would change",)
    return ActionResult(pins, "\n".join(said) or "no pin would change", lines)


# Consumers -----------------------------------------------------------------------------------------------------------


def _loses_at_once(c: Coordinator, given: Given) -> Iterator[str]:
    consumer = given["consumer"]
    directives.check_isolation(_isolated_s(given))
    directives.check_known(c, consumer)
    problems: dict[str, CoordinatorError] = {}
    held = overview.at_stake(c, consumer, problems)
    alone = directives.without_taker(c, consumer, held)
    for topic, partitions in held.items():
        taken = ", and nobody else is there to take what it loses" if topic in alone else ""
        yield f"{consumer} would lose at once {counted(len(partitions), 'partition')} of {topic}{taken}"
    yield from overview.not_known(consumer, problems)
    if not held and not problems:
        yield f"{consumer} holds nothing, so it would lose nothing"


def _gives_away(c: Coordinator, given: Given) -> Iterator[str]:
    consumer = given["consumer"]
    directives.check_known(c, consumer)
    yield from given_away(c, directives.registered(c), consumer, [consumer])


def _isolated_s(given: Given) -> float:
    return float(given.get("for_s") or 60 * float(given.get("minutes") or 0))


def _drain(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    consumer, effect = given["consumer"], will(_gives_away(c, given))
    found = directives.drain(c, consumer, by=actor.named, why=given["why"])
    said = f"{consumer} is draining"
    return ActionResult(found, "\n".join((said, *effect)), (said,))


def _isolate(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    consumer, minutes = given["consumer"], float(given.get("minutes") or 0)
    for_s = _isolated_s(given)
    effect = will(_loses_at_once(c, given))
    until_at = c.clock.now() + for_s if for_s else 0.0
    found = directives.isolate(c, consumer, by=actor.named, why=given["why"], until_at=until_at)
    how_long = f" for {minutes:g} minutes" if minutes else f" for {for_s:g} s" if for_s else ""
    said = f"{consumer} is isolated{how_long}"
    return ActionResult(found, "\n".join((said, *effect)), (said,))


def _awaits(c: Coordinator, given: Given) -> Iterator[str]:
    consumer = given["consumer"]
    directives.check_known(c, consumer)
    isolated = directives.read_directive(c, consumer).isolation is not None
    once = "would be readmitted once it has confirmed that it runs nothing"
    yield f"{consumer} {once if isolated else 'is not isolated: nothing would change'}"


def _readmit(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    consumer = given["consumer"]
    found = directives.readmit(c, consumer, by=actor.named)
    if found.isolation is None:
        return ActionResult(found, f"{consumer} is not isolated")
    return ActionResult(found, f"{consumer} is readmitted as soon as it confirms that it runs nothing")


def _admits(c: Coordinator, given: Given) -> Iterator[str]:
    consumer, app = given["consumer"], given.get("app") or ""
    directives.check_known(c, consumer)
    drains = directives.read_directive(c, consumer).draining is not None
    yield f"{consumer} {'would get partitions again' if drains else 'is not drained: nothing would change'}"
    if app:
        fleet.with_consumer(c, app, consumer)
        before = fleet.fleet_of(c, app).consumers
        yield f"{consumer} {'would stay in' if consumer in before else 'would return to'} the fleet {app}"
        yield from autoscale.may_shrink(c, app, len({*before, consumer}))
    yield from redeployment.drains_again(c, consumer)
    yield from upgrades.drains_again(c, consumer)


def _undrain(c: Coordinator, given: Given, _: Actor) -> ActionResult:
    said = will(_admits(c, given))
    return ActionResult(directives.undrain(c, given["consumer"], given.get("app") or ""), "\n".join(said))


def _would_restart(c: Coordinator, given: Given) -> ActionResult:
    consumer, (within_s, moves) = given["consumer"], _restart(given)
    why = given.get("why", "")
    wanted = directives.would_expect_restart(c, consumer, within_s, moves=moves, by="nobody yet", why=why)
    problems: dict[str, CoordinatorError] = {}
    return _restarts(c, consumer, wanted, overview.held(c, consumer, problems), problems)


def _expect_restart(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    consumer, (within_s, moves) = given["consumer"], _restart(given)
    problems: dict[str, CoordinatorError] = {}
    held, why = overview.held(c, consumer, problems), given.get("why", "")
    found = directives.expect_restart(c, consumer, within_s, moves=moves, by=actor.named, why=why)
    return _restarts(c, consumer, found.restart, held, problems).done(" would be ", " is ")


def _restart(given: Given) -> tuple[float, bool]:
    return 60 * float(given["within"]), bool(given.get("move"))


def _restarts(
    c: Coordinator,
    consumer: str,
    wanted: PlannedRestart | None,
    held: Mapping[str, tuple[int, ...]],
    problems: Mapping[str, CoordinatorError],
) -> ActionResult:
    if wanted is None:
        line = f"{consumer} would be not expected to restart any more"
        return ActionResult(None, line, (line,))
    lines = [f"{consumer} would be expected to restart within {duration(wanted.until_at - wanted.at)}"]
    lives = directives.registered(c) if wanted.moves else {}
    for topic, which in held.items():
        until = kept_until(c, lives, topic, [consumer]) if wanted.moves else ""
        meanwhile = f"stay{until}" if until else "move away, and return" if wanted.moves else "wait for it"
        lines.append(f"{consumer}: {named(which)} of {topic} would {meanwhile}")
    lines += overview.not_known(consumer, problems)
    lines += [] if held or problems else [f"{consumer} holds nothing, so nothing would wait"]
    return ActionResult(wanted, "\n".join(lines), tuple(lines))


# All actions ---------------------------------------------------------------------------------------------------------

TOPIC_ACTIONS = (
    Action(
        "add_topic",
        "Manage a topic from now on; the same call again changes nothing.",
        "Manage a Kafka topic: from now on the partitions are assigned to the consumers.",
        (p.TOPIC, p.GROUP, p.START, p.STRATEGY, p.PARAMETERS, p.PROPERTIES, p.FORCE, *p.ASKED),
        do=_add_topic,
        before=_described,
    ),
    Action(
        "set_strategy",
        "Give a topic another strategy, with all of its parameters; `plan --dry-run` shows the moves.",
        "Give a topic another strategy and all of its parameters; a dry run of `rebalance` then shows the moves.",
        (p.TOPIC, p.STRATEGY, p.PARAMETERS, *p.ASKED),
        do=_set_strategy,
        before=_compared,
    ),
    Action(
        "remove_topic",
        "Stop managing a topic: the consumers stop and commit with the next plan. Offsets and history stay.",
        "Stop managing a topic: the consumers stop and commit. The topic and the committed offsets stay.",
        (p.TOPIC, *p.ASKED, p.YES),
        do=_remove_topic,
        before=_stopped,
        destructive="nobody reads the topic any more",
    ),
    Action(
        "pause",
        "Stop reading partitions; the partitions stay with their consumers, and the present positions are committed.",
        "Stop reading partitions. The consumers keep the partitions, commit the present positions, and read all other partitions.",
        (p.TOPIC, p.PARTITIONS, *p.ASKED),
        do=partial(_set_paused, True),
        preview=partial(_would_pause, True),
    ),
    Action(
        "resume",
        "Read paused partitions again, from the present positions.",
        "Read paused partitions again, from the present positions.",
        (p.TOPIC, p.PARTITIONS, *p.ASKED),
        do=partial(_set_paused, False),
        preview=partial(_would_pause, False),
    ),
    Action(
        "freeze",
        "Move nothing when consumers join or leave; partitions without an owner are still assigned.",
        "Move nothing of a topic when consumers join or leave. Partitions without an owner are still assigned.",
        (p.TOPIC, *p.ASKED),
        do=partial(_set_frozen, True, overrides.FROZEN),
        before=partial(_frozen, True),
    ),
    Action(
        "unfreeze",
        "Plan a frozen topic again; `plan --dry-run` shows the moves.",
        "Plan a frozen topic again; a dry run of `rebalance` then shows the moves.",
        (p.TOPIC, *p.ASKED),
        do=partial(_set_frozen, False, "not frozen; the next plan uses all consumers"),
        before=partial(_frozen, False),
    ),
    Action(
        "pin",
        "Keep partitions with a consumer while the consumer is there; the partitions move with the next plan.",
        "Keep partitions with a consumer while the consumer is there. The partitions move with the next plan.",
        (p.TOPIC, p.CONSUMER, p.PINNED, *p.ASKED),
        do=_set_pins,
        preview=_would_pin,
    ),
    Action(
        "unpin",
        "Let the strategy place pinned partitions again; without --partition all of them, and a roll back ends.",
        "Let the strategy place pinned partitions again; without partitions all of them, and a roll back ends.",
        (p.TOPIC, p.PARTITIONS, *p.ASKED),
        do=_set_pins,
        preview=_would_pin,
    ),
)
CONSUMER_ACTIONS = (
    Action(
        "isolate",
        "Treat a consumer as closed: the consumer may run nothing, and others get the partitions with the next plan.",
        "Take everything from a consumer at once, without a confirmation; the consumer may run nothing until readmitted.",
        (p.CONSUMER, p.WHY, p.DRY_RUN, p.BY, p.MINUTES, p.FOR_S, p.YES),
        do=_isolate,
        destructive="the consumer loses its partitions without its word; if it still lives, a batch may be processed twice",
        before=_loses_at_once,
    ),
    Action(
        "readmit",
        "Admit an isolated consumer again, once the consumer confirms to run nothing.",
        "Admit an isolated consumer again, once the consumer confirms to run nothing.",
        (p.CONSUMER, *p.ASKED),
        do=_readmit,
        before=_awaits,
    ),
    Action(
        "drain",
        "Make a consumer give everything away by hand-offs, and remove the consumer from its fleet.",
        "Make a consumer give everything away by hand-offs, and remove the consumer from its fleet.",
        (p.CONSUMER, p.WHY, p.DRY_RUN, p.BY),
        do=_drain,
        before=_gives_away,
    ),
    Action(
        "undrain",
        "Let a drained consumer get partitions again; with --fleet, the consumer also returns to the fleet.",
        "Let a drained consumer get partitions again. With a fleet, the consumer returns to the fleet in the same step, and is launched.",
        (p.CONSUMER, p.FLEET, *p.ASKED),
        do=_undrain,
        before=_admits,
    ),
    Action(
        "expect_restart",
        "Keep the partitions of a consumer for the next process, expected within some minutes.\n\n"
        "The partitions wait, or with --move-meanwhile other consumers own the partitions until then. Then restart the process yourself.",
        "Keep the partitions of a consumer for the next process: the partitions wait, or other consumers own the partitions until then. "
        "Then restart the process yourself. After the given time the order has no effect.",
        (p.CONSUMER, p.WITHIN, p.MOVE, *p.ASKED),
        do=_expect_restart,
        preview=_would_restart,
    ),
)
ACTIONS: Mapping[str, Action] = {
    one.name: one
    for one in (
        *TOPIC_ACTIONS,
        *APPROVAL_ACTIONS,
        *OFFSET_ACTIONS,
        *WHAT_IF_ACTIONS,
        *CONSUMER_ACTIONS,
        *FLEET_ACTIONS,
        *GROWTH_ACTIONS,
        *UPGRADE_ACTIONS,
    )
}
