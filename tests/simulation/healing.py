"""The end of a history: the faults end, persons take back their actions, and everything wanted has to settle."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator_tasks.core.model import State
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, topics
from tests.simulation.consumer import Consumer
from tests.simulation.faults import Lasting, Wait
from tests.simulation.mishaps import removed
from tests.simulation.oracle import Broken
from tests.simulation.orchestrator import RUN
from tests.simulation.upheavals import readd, relaunch
from tests.simulation.world import World

MAX_ROUNDS = 150
STAY_ROUNDS = 6


def heal(world: World) -> None:
    """End the faults, undo persons' actions, and let everything continue until all is well.

    All must stay well for `STAY_ROUNDS` further rounds. Where only one consumer returns for certain (`Setup.returns`),
    the others own nothing if dead now, or isolated by a person.
    """
    world.say("healed")
    _stay(world)
    world.brokers.down_until = 0.0
    world.task_skew_s = world.registry.until = 0.0
    for one in world.alive():
        one.paused = one.hanging = one.session.cut = one.session.lagging = False
        one.listener.mood, one.skew_s = None, 0.0
    for attempt in world.attempts:
        attempt.paused = False
    world.advance(1.0)
    tasks = RUN if world.setup.by_tasks else ("step", "")
    settled: dict[str, tuple[Mapping[int, str], Mapping[int, int]]] = {}
    since = 0
    for n in range(MAX_ROUNDS):
        if n % 8 == 0:
            world.by_hand(lambda c: _undo(world, c))
            for name in _wanted(world):
                relaunch(world, name)
            if not any(attempt.task == "chores" for attempt in world.attempts):
                world.attempt("chores")
        task = tasks[n % len(tasks)]
        if task and not any(attempt.task == task for attempt in world.attempts):
            world.attempt(task)
        world.round(0.5 if n < 20 else 1.0)
        owners = {topic: (node.assignments, node.since) for topic, node in world.oracle.nodes.items()}
        if n <= 2 or owners != settled or _wanting(world):
            settled, since = owners, n
        elif n - since >= STAY_ROUNDS:
            return
    raise Broken("settles", f"after {MAX_ROUNDS} rounds: {_wanting(world) or 'owners change again and again'}")


def _returning(world: World) -> str:
    """Return the consumer that is present in the end for certain."""
    return world.names[(world.setup.returns or 0) % len(world.names)]


def _stay(world: World) -> None:
    """Note the consumers that stay dead, or isolated until a person's readmission."""
    if world.setup.returns is None:
        return
    others = [name for name in world.names if name != _returning(world)]
    world.dead_for_good = frozenset(name for name in others if not world.alive(name))
    isolations = {name: directive.isolation for name, directive in world.directives().items() if name in others}
    world.kept_isolated = frozenset(
        name
        for name, isolation in isolations.items()
        if isolation is not None and isolation.incarnation == 0 and not (isolation.readmit or isolation.until_at)
    )
    for name in world.dead_for_good | world.kept_isolated:
        world.lasting[_how(world, name), world.state] += 1


def _how(world: World, name: str) -> Lasting:
    if name in world.kept_isolated:
        return Lasting.BOTH if name in world.dead_for_good else Lasting.ISOLATED
    last = next(one for one in reversed(world.consumers) if one.consumer == name)
    return Lasting.HOST_LOST if last.host_lost else Lasting.DEAD


def _undo(world: World, c: Coordinator) -> None:
    _undo_of_topics(world, c)
    _undo_of_consumers(world, c)


def _undo_of_topics(world: World, c: Coordinator) -> None:
    for topic in world.setup.topics:
        config = world.oracle.configs.get(topic)
        stored = c.zk.find(c.paths.config(topic))
        if stored is not None and config is not None and not config.removed:
            topics.change_config(
                c, topic, lambda old: replace(old, frozen=False, paused=frozenset(), pins={}, rollback=None, split=None)
            )
            if config.topic_id != world.brokers.logs[topic].topic_id:
                removed(c, topic)
        elif stored is None or _is_over(world, topic):
            if config is not None and config.topic_id != world.brokers.logs[topic].topic_id:
                world.groups[topic] = f"g-{world.brokers.logs[topic].topic_id}"
            readd(world, c, topic)


def _undo_of_consumers(world: World, c: Coordinator) -> None:
    # The other consumers stay drained: they should own nothing in the end.
    returning = _returning(world)
    if c.zk.find(c.paths.id(returning)) is not None:
        directives.undrain(c, returning)
    for name in world.isolated_by_hand():
        if name not in world.dead_for_good | world.kept_isolated:
            directives.readmit(c, name, "ada")
    for name in sorted(world.kept_isolated):  # a readmission may have been under way
        directives.isolate(c, name, by="ada", why="odd")
    for name in _held(world):
        directives.isolate(c, name, by="ada", why="dead")


def _held(world: World) -> list[str]:
    """Return consumers with an earlier life whose wait only a person can end, after long absence and silence."""
    named = {(c, i) for node in world.oracle.nodes.values() for c, i in node.incarnations.items()}
    return sorted({c for c, i in named if world.wait_for(c, i) is Wait.PERSON})


def _wanted(world: World) -> list[str]:
    """Return the consumers that should own partitions in the end."""
    out = world.drained_by_hand() | world.dead_for_good | world.kept_isolated
    return [name for name in world.names if name not in out]


def _is_over(world: World, topic: str) -> bool:
    """A removed topic has stopped everywhere."""
    node = world.oracle.nodes.get(topic)
    stable = world.oracle.states.get(topic, State.INITIAL) in (State.STABLE, State.INITIAL)
    return stable and (node is None or (node.removed and not node.assignments))


def _wanting(world: World) -> str:
    """Return a sentence about anything not yet settled."""
    wanted = _wanted(world)
    for topic in world.setup.topics:
        log = world.brokers.logs[topic]
        node, state = world.oracle.nodes.get(topic), world.oracle.states.get(topic, State.INITIAL)
        if state is not State.STABLE or node is None or node.topic_id != log.topic_id:
            return f"{topic} is {state}"
        if node.assignments.keys() != set(range(len(log.ends))):
            return f"of {topic} {sorted(node.assignments)} are assigned, {len(log.ends)} are there"
        registered = [one for one in world.alive() if one.agent is not None and _registered(world, one)]
        live = {one.consumer: one for one in registered if one.consumer in wanted}
        if not set(node.assignments.values()) <= live.keys():
            return f"{topic} is owned by {sorted(set(node.assignments.values()))}, live are {sorted(live)}"
        strangers = [one for one in world.alive() if live.get(one.consumer) is not one and _runs(one, topic)]
        if strangers:
            return f"{topic} runs at {strangers[0].name}, which is to run nothing"
        for partition, owner in node.assignments.items():
            position = world.brokers.entries.get((node.group_id, topic, partition), (0, ""))[0]
            ownership = live[owner].ownership(topic)
            if ownership is None or partition not in ownership.status().running:
                return f"{owner} does not run {topic}-{partition}"
            if position != log.ends[partition]:
                return f"{topic}-{partition} is committed up to {position} of {log.ends[partition]}"
    # Nothing is frozen, pinned or paused any more: of all topics together, each has as many as the others.
    owned = [owner for topic in world.setup.topics for owner in world.oracle.nodes[topic].assignments.values()]
    counts = [owned.count(name) for name in wanted]
    if max(counts) - min(counts) > 1:
        return f"all topics together are not balanced: {counts}"
    return ""


def _runs(one: Consumer, topic: str) -> bool:
    ownership = one.ownership(topic)
    return ownership is not None and bool(ownership.status().running)


def _registered(world: World, one: Consumer) -> bool:
    node = world.server.nodes.get(world.paths.member(one.consumer))
    return node is not None and node.owner == one.session.number
