"""What a person asks for by a form: each action checks, tells what it does (or would do), and does it."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from coordinator_tasks.core.errors import NotManaged, TopicConflict
from coordinator_tasks.core.model import Actor, StartRule, TopicConfig
from coordinator_tasks.core.names import check_consumer, check_topic
from coordinator_tasks.core.partition_text import counted, named
from coordinator_tasks.service import directives, positions, store, topics, transitions, wishes
from coordinator_tasks.service.coordinator import Coordinator

Given: TypeAlias = Mapping[str, Any]
Action: TypeAlias = Callable[[Coordinator, Given, Actor, bool], Iterator[str]]


def add_topic(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Begin to manage a topic."""
    topic = check_topic(given["topic"])
    described = c.kafka.describe([topic]).get(topic)
    if described is None:
        raise TopicConflict(f"Kafka has no topic {topic!r}: create it first, or correct its name")
    yield f"{topic} has {counted(described.partition_count, 'partition')}; group {given['group_id']}, start {given['start']}"
    if topic in transitions.topics(c):
        yield f"{topic} is managed already"
    if dry_run:
        return
    topics.add_topic(
        c,
        topic,
        given["group_id"],
        start=StartRule(given["start"]),
        strategy=given["strategy"],
        parameters=_parameters(given),
        actor=actor,
    )
    yield f"{topic} is managed from now on"


def set_strategy(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Give a topic another strategy and all of its parameters; the next plan goes by them."""
    topic, strategy, parameters = check_topic(given["topic"]), given["strategy"], _parameters(given)
    now = c.policy.strategies.effective(topics.configuration(c, topic))
    wanted = replace(now, strategy=strategy, parameters=parameters)
    c.policy.strategies.check(wanted)
    then = c.policy.strategies.effective(wanted)
    yield f"{topic} has strategy {_named(now)} now, and gets {_named(then)}"
    if not dry_run:
        topics.set_strategy(c, topic, strategy, parameters, actor)
        yield "the next plan goes by it"


def remove_topic(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Stop managing a topic; its consumers stop and commit, its committed offsets stay."""
    topic = check_topic(given["topic"])
    if topic not in transitions.topics(c):
        raise NotManaged(f"topic {topic!r} is not managed by cluster {c.paths.cluster!r}: there is nothing to remove")
    for consumer, count in sorted(_holdings(c, topic).items()):
        yield f"{consumer} stops and commits {counted(count, 'partition')} of {topic}"
    if not dry_run:
        topics.remove_topic(c, topic, actor=actor)
        yield f"{topic} is marked removed"


def drain(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Let a consumer give everything away and leave the fleet."""
    consumer = _known(c, given["consumer"])
    yield from _held_by(c, consumer, "gives away")
    if not dry_run:
        directives.drain(c, consumer, by=_by(actor), why=given["why"])
        yield f"{consumer} is draining"


def isolate(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Forbid a consumer to run anything; its partitions go to others at once, without its word."""
    consumer = _known(c, given["consumer"])
    yield from _held_by(c, consumer, "loses at once")
    if not dry_run:
        minutes = float(given.get("minutes") or 0)
        until_at = c.clock.now() + 60 * minutes if minutes else 0.0
        directives.isolate(c, consumer, by=_by(actor), why=given["why"], until_at=until_at)
        yield f"{consumer} is isolated" + (f" for {minutes:g} minutes" if minutes else "")


def readmit(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Let an isolated consumer in again, as soon as it confirms that it runs nothing."""
    consumer = _known(c, given["consumer"])
    yield f"{consumer} is readmitted once it has confirmed that it runs nothing"
    if not dry_run:
        directives.readmit(c, consumer, by=_by(actor))


def pause(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Read partitions no longer; they stay with their owners."""
    return _set_paused(c, given, actor, dry_run, True)


def resume(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Read paused partitions again."""
    return _set_paused(c, given, actor, dry_run, False)


def _set_paused(c: Coordinator, given: Given, actor: Actor, dry_run: bool, paused: bool) -> Iterator[str]:
    topic, partitions = check_topic(given["topic"]), given.get("partitions") or ()
    changes = positions.would_pause(c, topic, partitions, paused=paused)
    verb = "is" if len(changes) == 1 else "are"
    state = "paused" if paused else "read again"
    yield f"{named(changes)} of {topic} {verb} {state}" if changes else f"no partition of {topic} changes"
    if not dry_run:
        positions.set_paused(c, topic, partitions, paused=paused, actor=actor)
        yield "the next plan hands it to the consumers"


def freeze(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Let nothing move for those who come or go."""
    return _set_frozen(c, given, actor, dry_run, True)


def unfreeze(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Let a frozen topic be planned again."""
    return _set_frozen(c, given, actor, dry_run, False)


def _set_frozen(c: Coordinator, given: Given, actor: Actor, dry_run: bool, frozen: bool) -> Iterator[str]:
    topic = check_topic(given["topic"])
    same = topics.configuration(c, topic).frozen == frozen
    yield f"{topic} {'is' if same else 'gets'} {'frozen' if frozen else 'planned for everybody who is there'}"
    if not dry_run:
        wishes.set_frozen(c, topic, frozen=frozen, actor=actor)


def pin(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Keep partitions with one consumer whenever it is there."""
    return _set_pins(c, given, check_consumer(given["consumer"]), actor, dry_run)


def unpin(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Let pinned partitions go where the strategy puts them."""
    return _set_pins(c, given, "", actor, dry_run)


def _set_pins(c: Coordinator, given: Given, consumer: str, actor: Actor, dry_run: bool) -> Iterator[str]:
    topic, partitions = check_topic(given["topic"]), given.get("partitions") or ()
    if dry_run:
        pins = wishes.would_pin(c, topic, consumer, partitions)
    else:
        pins = wishes.set_pins(c, topic, consumer, partitions, actor=actor)
    yield from (f"{topic}: {one.text}" for one in pins)
    if not pins:
        yield f"no pin of {topic} changes"


def reset_offsets(c: Coordinator, given: Given, actor: Actor, dry_run: bool) -> Iterator[str]:
    """Let the owners of partitions stop them, commit, and start them again somewhere else."""
    topic, to, partitions = check_topic(given["topic"]), given["to"], given.get("partitions") or ()
    if dry_run:
        found = positions.preview(c, topic, to, partitions)
    else:
        found = positions.reset(c, topic, to, partitions, why=given["why"], actor=actor)
        if not found:
            yield "another try of this task has done it"
    for shift in found:
        yield f"{topic}: {shift.text}"


ACTIONS: Mapping[str, Action] = {
    "add_topic": add_topic,
    "set_strategy": set_strategy,
    "remove_topic": remove_topic,
    "drain": drain,
    "isolate": isolate,
    "readmit": readmit,
    "pause": pause,
    "resume": resume,
    "freeze": freeze,
    "unfreeze": unfreeze,
    "pin": pin,
    "unpin": unpin,
    "reset_offsets": reset_offsets,
}


def _parameters(given: Given) -> dict[str, str]:
    """As the form gives them: JSON's numbers and truths are written as texts."""
    found = given.get("parameters") or {}
    return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def _named(config: TopicConfig) -> str:
    listed = ", ".join(f"{name}={value}" for name, value in sorted(config.parameters.items()))
    return f"{config.strategy!r} ({listed or 'its defaults'})"


def _by(actor: Actor) -> str:
    return actor.who or f"{actor.dag} {actor.run}"


def _known(c: Coordinator, name: object) -> str:
    consumer = check_consumer(name)
    if consumer not in c.discovery.members() and c.zk.find(c.paths.id(consumer)) is None:
        present = ", ".join(sorted(c.discovery.members())) or "nobody"
        raise NotManaged(f"no consumer {consumer!r} has ever registered; registered are: {present}")
    return consumer


def _holdings(c: Coordinator, topic: str) -> dict[str, int]:
    """Consumer → how many partitions; nothing of a topic that cannot be read."""
    node = store.load_nodes(c.zk, c.paths, [topic]).get(topic)
    return dict(Counter(node.assignments.values() if node is not None else ()))


def _held_by(c: Coordinator, consumer: str, verb: str) -> Iterator[str]:
    held = {topic: _holdings(c, topic).get(consumer, 0) for topic in transitions.topics(c)}
    for topic, count in held.items():
        if count:
            yield f"{consumer} {verb} {counted(count, 'partition')} of {topic}"
    if not any(held.values()):
        yield f"{consumer} holds nothing"
