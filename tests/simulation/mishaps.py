"""Faults of Kafka, of the interfaces and of the tasks, clocks that jump, and actions of people."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.model import Committed, Split, TopicConfig
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, history, topics
from coordinator_tasks.service.plan import rollback
from tests.simulation.faults import Fault
from tests.simulation.orchestrator import RUN
from tests.simulation.turns import Act, consume, pick, running, some_attempt
from tests.simulation.upheavals import relaunch
from tests.simulation.world import MAX_ATTEMPTS, PERSON, World

MAX_PARTITIONS = 5

# Kafka ----------------------------------------------------------------------------------------------------------------


def foreign_commit(world: World, a: int, b: int) -> None:
    """Set an offset of the group by a foreign tool, up to the passed offset."""
    topic = world.setup.topics[a % len(world.setup.topics)]
    log = world.brokers.logs[topic]
    partition = b % len(log.ends)
    known = world.oracle.progress.get((log.topic_id, partition))
    world.oracle.taint_all()
    offset = max(0, (known.position if known is not None else 0) - a % 3)
    world.brokers.write(world.groups[topic], topic, {partition: Committed(offset)}, "a stranger")
    world.effect(Fault.FOREIGN_COMMIT)


def brokers_down(world: World, a: int, b: int) -> None:
    world.brokers.down_until = world.kernel.now + 0.5 + a % 10 / 2
    consume(world, a, b)


def partitions_added(world: World, a: int, b: int) -> None:
    log = world.brokers.logs[world.setup.topics[a % len(world.setup.topics)]]
    if len(log.ends) < MAX_PARTITIONS:
        log.ends += [b % 5]
        world.effect(Fault.PARTITIONS_ADDED)


def recreated(world: World, a: int, b: int) -> None:
    """Delete and create the topic; later a person removes and re-adds the topic with a new group."""
    topic = world.setup.topics[a % len(world.setup.topics)]
    world.oracle.taint_all()
    world.oracle.on_deleted(world.brokers.logs[topic].topic_id)
    world.brokers.create(topic, 1 + b % MAX_PARTITIONS)
    world.effect(Fault.RECREATED)
    if a % 3:
        world.later(a % 7, lambda: world.by_hand(lambda c: removed(c, topic)))


def removed(c: Coordinator, topic: str) -> None:
    """A person no longer manages the topic."""
    if c.zk.find(c.paths.config(topic)) is not None:
        topics.remove_topic(c, topic, PERSON)


# The registry ---------------------------------------------------------------------------------------------------------


def registry(fault: Fault) -> Act:
    """Show this fault to all tasks for some seconds; some tasks begin, and look."""

    def act(world: World, a: int, b: int) -> None:
        world.registry.fails(fault, (0.5, 2.0, 5.0, 12.0)[b % 4], a)
        for _ in range(1 + a % 2):
            world.attempt("step").go(500)
            world.advance((0.0, 0.4, 1.1)[a % 3])

    return act


# Interfaces -----------------------------------------------------------------------------------------------------------


def mood(fault: Fault) -> Act:
    def act(world: World, a: int, b: int) -> None:
        one = pick([c for c in running(world) if c.listener.mood is None], a)
        if one is None:
            return
        one.listener.mood, one.listener.unasked = fault, fault is Fault.SILENT and b % 3 == 0
        world.oracle.taint(one)
        world.later(1 + b % 12, partial(setattr, one.listener, "mood", None))
        if b % 2:
            world.attempt("step").go(500)

    return act


def post_doubled(world: World, a: int, b: int) -> None:
    """Deliver an earlier posted topic node again."""
    one, post = pick([c for c in running(world) if c.agent is not None], a), pick(world.posts, b)
    if one is not None and one.agent is not None and post is not None and one.listener.posted(*post):
        world.effect(Fault.POST_DOUBLED)


# Tasks ----------------------------------------------------------------------------------------------------------------


def task_killed(world: World, a: int, b: int) -> None:
    attempt = some_attempt(world, a, b)
    if attempt is not None:
        attempt.dies()
        world.effect(Fault.TASK_KILLED)


def two_attempts(world: World, a: int, b: int) -> None:
    """The same task twice, in turns of a few operations."""
    first = some_attempt(world, a, b)
    if first is None or first.task == "reap" or len(world.attempts) > MAX_ATTEMPTS:
        return
    second = world.attempt(first.task, first.call)
    world.effect(Fault.TWO_ATTEMPTS)
    for n in range(b % 12):
        for attempt in (first, second):
            if attempt.ready:
                attempt.go(1 + (a >> n) % 4)


def cleared(world: World, a: int, b: int) -> None:
    if len(world.attempts) < MAX_ATTEMPTS:
        world.attempt(RUN[a % len(RUN)]).go(b % 40)
        world.effect(Fault.CLEARED)


def task_delayed(world: World, a: int, b: int) -> None:
    attempt = some_attempt(world, a, b)
    if attempt is None:
        return
    attempt.paused = True
    world.effect(Fault.TASK_DELAYED)
    world.later(1 + b % 9, partial(setattr, attempt, "paused", False))


# Clocks and people ----------------------------------------------------------------------------------------------------


def clock_jump(world: World, a: int, b: int) -> None:
    skew_s = (-3600.0, -7.0, 5.0, 90.0, 86400.0, 0.0)[b % 6]
    one = pick([*running(world), None], a)
    if one is None:
        world.task_skew_s = skew_s
    else:
        one.skew_s = skew_s
    world.effect(Fault.CLOCK_JUMP)


def _person(world: World, fault: Fault, call: Callable[[Coordinator], object], a: int) -> None:
    def run(c: Coordinator, _actor: object) -> object:
        result = call(c)
        world.effect(fault)
        return result

    world.attempt("person", run).go(500 if a % 2 else 3)


def isolated(world: World, a: int, b: int) -> None:
    name = world.names[b % len(world.names)]
    until_at = world.kernel.now + 3 if a % 5 == 0 else 0.0
    _person(world, Fault.ISOLATED, lambda c: directives.isolate(c, name, by="ada", why="odd", until_at=until_at), a)


def readmitted(world: World, a: int, b: int) -> None:
    if not world.isolated_by_hand():
        isolated(world, 1 + 2 * a, b)
        world.round(0.3)
        world.attempt("step").go(500)
    name = pick(world.isolated_by_hand(), b)
    if name is None:
        return
    _person(world, Fault.READMITTED, lambda c: directives.readmit(c, name, "ada"), a)
    if a % 3 == 0 and len(world.attempts) < MAX_ATTEMPTS:
        world.attempt("chores").go(500)


def drained(world: World, a: int, b: int) -> None:
    name = world.names[b % len(world.names)]
    if a % 3 == 0:
        _person(world, Fault.DRAINED, lambda c: directives.undrain(c, name), a)
    else:
        _person(world, Fault.DRAINED, lambda c: directives.drain(c, name, "ada", "patches"), a)


def restart_expected(world: World, a: int, b: int) -> None:
    """A person expects a restart; the process leaves, or dies, and the next one is in time or late, or nothing happens."""
    one = pick([c for c in running(world) if c.agent is not None], b)
    if one is None or one.agent is None:
        return
    within_s, moves, agent, name = 4.0 + a % 9, a % 3 == 0, one.agent, one.consumer

    def run(c: Coordinator, _actor: object) -> object:
        try:
            found = directives.expect_restart(c, name, within_s, moves=moves, by="ada", why="kernel")
        except (NotManaged, Refused):
            return None  # drained, isolated or not registered
        world.effect(Fault.RESTART_EXPECTED)
        return found

    world.attempt("person", run).go(500)
    if b % 4 == 0:
        return
    if b % 4 == 1:
        world.oracle.taint(one)
        one.dies()
    else:
        world.round(1.2)
        agent.leave()
    world.later(1 + b % 14, lambda: relaunch(world, name))


def reconfigured(world: World, a: int, b: int) -> None:
    topic = world.setup.topics[a % len(world.setup.topics)]
    changes: tuple[Callable[[TopicConfig], TopicConfig], ...] = (
        lambda config: replace(config, frozen=not config.frozen),
        lambda config: replace(config, paused=frozenset() if config.paused else frozenset({0})),
        lambda config: replace(config, pins={} if config.pins else {0: world.names[b % len(world.names)]}),
        lambda config: replace(config, properties={"fetch.min.bytes": str(1 + b % 9)}),
        lambda config: replace(config, split=None if config.split else _split(world, a, b)),
    )
    chosen = b % (len(changes) + 1)
    if chosen == len(changes):
        _person(world, Fault.RECONFIGURED, lambda c: _go_back(c, topic, a, b), a)
    else:
        _person(world, Fault.RECONFIGURED, lambda c: topics.change_config(c, topic, changes[chosen]), a)


def _split(world: World, a: int, b: int) -> Split:
    """Return a split as in a step of an upgrade."""
    names = world.names
    new = (names[b % len(names)], names[(b // 3) % len(names)])[: 1 + a % 2]
    return Split("app", new, frozenset(p for p in range(MAX_PARTITIONS) if (a + b) >> p & 1))


def _go_back(c: Coordinator, topic: str, a: int, b: int) -> None:
    found = history.rebalances(c, [topic], 5)
    if found:
        undone = found[b // 5 % len(found)].rebalance
        rollback.roll_back(c, topic, undone, for_s=20.0 if a % 3 == 0 else 0.0, why="slow", actor=PERSON)
