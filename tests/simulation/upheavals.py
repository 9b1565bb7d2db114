"""Faults of ZooKeeper and of the consumers' processes."""

from functools import partial

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, topics
from tests.simulation.consumer import Consumer
from tests.simulation.faults import Fault
from tests.simulation.turns import drive, pick, process_something, running, some_attempt
from tests.simulation.world import PERSON, World

# ZooKeeper ------------------------------------------------------------------------------------------------------------


def stale_read(world: World, a: int, b: int) -> None:
    """Keep a session on a lagging follower, until it syncs or writes; the other sessions continue."""
    sessions = [*(one.session for one in running(world)), *(one.session for one in world.attempts)]
    session = pick(sessions, a)
    if session is not None:
        session.lagging = True
        if isinstance(session.host, Consumer) and a % 2:
            name = session.host.consumer
            world.by_hand(lambda c: _touch(c, name))
            world.advance(1.0)
            world.go((session.host, "agent"), 40)
        elif b % 2:
            world.attempt("step").go(500)
            unit = pick([u for u in world.units() if u[0] is session.host], b)
            if unit is not None:
                world.go(unit, 40)


def _touch(c: Coordinator, consumer: str) -> None:
    if c.zk.find(c.paths.id(consumer)) is not None:
        directives.drain(c, consumer, "ada", "by mistake")
        directives.undrain(c, consumer)


def _cut(world: World, one: Consumer, seconds: float) -> None:
    if one.session.cut:
        return
    one.session.cut = True
    world.oracle.taint(one)
    world.later(seconds, partial(setattr, one.session, "cut", False))


def suspended(world: World, a: int, b: int) -> None:
    one = pick(running(world), a)
    if one is not None:
        _cut(world, one, 1 + b % 2)
        world.effect(Fault.SUSPENDED)


def detached(world: World, a: int, b: int) -> None:
    one = pick(running(world), a)
    if one is not None:
        _cut(world, one, 5 + b % 20)
        if b % 3:
            world.advance(4.5)


def expired(world: World, a: int, b: int) -> None:
    one = pick([c for c in running(world) if not c.session.broken], a)
    if one is not None:
        one.session.expire()
        if b % 2:
            one.session.reconnect()


def task_expired(world: World, a: int, b: int) -> None:
    attempt = some_attempt(world, a, b)
    if attempt is not None and not attempt.session.broken:
        attempt.session.expire()


def lost(world: World, a: int, b: int) -> None:
    """Everything in ZooKeeper is gone; a person adds the topics again."""
    world.oracle.taint_all()
    nodes = {"/": world.server.nodes["/"]._replace(children=frozenset())}
    _replaced(world, nodes, Fault.LOST, b)
    for n, topic in enumerate(world.setup.topics):
        world.later(a % 5 + n, lambda topic=topic: world.by_hand(lambda c: readd(world, c, topic)))  # type: ignore[misc]


def restored(world: World, a: int, b: int) -> None:
    nodes = pick(world.snapshots, a)
    if nodes is not None:
        world.oracle.taint_all()
        _replaced(world, nodes, Fault.RESTORED, b)


def _replaced(world: World, nodes: dict, fault: Fault, b: int) -> None:  # type: ignore[type-arg]
    world.effect(fault)
    for attempt in world.attempts:
        attempt.dies()
    world.server.restore(nodes, 4.0)
    world.snapshots.clear()
    if b % 2:
        world.advance(0.5)


def readd(world: World, c: Coordinator, topic: str) -> None:
    """Add the topic (again) as a person, as in Kafka now."""
    for folder in world.paths.folders():
        c.zk.ensure(folder)
    try:
        topics.add_topic(c, topic, world.groups[topic], actor=PERSON)
    except CoordinatorError as error:
        world.say(f"  not added: {error}")


# Consumers ------------------------------------------------------------------------------------------------------------


def crashed(world: World, a: int, b: int) -> None:
    one = pick(world.alive(), a)
    if one is None:
        return
    world.oracle.taint(one)
    one.dies()
    one.said_end = True
    world.effect(Fault.CRASHED)
    one.failed = "exit code 1" if a % 2 else ""
    if b % 3:
        world.later(b % 3 * 0.7, lambda: world.reap(one))
    if b % 4:
        world.later(b % 5, lambda: relaunch(world, one.consumer))


def relaunch(world: World, name: str) -> None:
    if not world.alive(name) and name not in world.dead_for_good:
        world.launch(name)


def host_lost(world: World, a: int, b: int) -> None:
    one = pick(world.alive(), a)
    if one is not None:
        world.oracle.taint(one)
        one.host_lost = one.said_end = True
        one.dies()
        world.effect(Fault.HOST_LOST)
        world.later(3 + b % 15, lambda: relaunch(world, one.consumer))


def _pause(world: World, one: Consumer, seconds: float, fault: Fault | None = None) -> None:
    one.paused = True
    world.oracle.taint(one)

    def wake() -> None:
        one.paused = False
        if one.alive and fault is not None and any(f.at == "kafka.commit" for f in one.slots.values()):
            world.effect(fault)

    world.later(seconds, wake)


def paused(world: World, a: int, b: int) -> None:
    one = pick(running(world), a)
    if one is not None:
        _pause(world, one, 0.5 + b % 6 / 2)
        world.effect(Fault.PAUSED)


def frozen(world: World, a: int, b: int) -> None:
    one = pick(running(world), a)
    if one is not None:
        _pause(world, one, 5 + b % 25)
        if b % 3:
            world.advance(4.5)


def zombie(world: World, a: int, b: int) -> None:
    """Stop a consumer between look and commit; it wakes with the commit pending."""
    process_something(world, b)
    found = running(world)
    for n in range(len(found)):
        one = found[(a + n) % len(found)]
        for slot in one.threads():
            if slot.startswith("kafka") and drive(world, (one, slot), "kafka.commit"):
                _pause(world, one, 1 + b % 25 if b % 3 else 0.1, Fault.ZOMBIE)
                for _ in range(a % 5 if b % 3 == 0 else 0):
                    world.round(1.5)
                world.advance(0.2)
                return


def query_ended(world: World, a: int, b: int) -> None:
    one = pick([c for c in running(world) if c.topics is not None and not c.topics.broken], a)
    if one is not None and one.topics is not None:
        world.oracle.taint(one)
        one.topics.broken = one.failed = "the query failed"
        world.effect(Fault.QUERY_ENDED)
        world.later(b % 8, lambda: relaunch(world, one.consumer))


def left(world: World, a: int, b: int) -> None:
    one = pick([c for c in running(world) if c.agent is not None], a)
    if one is not None and one.agent is not None:
        limited = b % 4 == 0
        if limited:
            world.oracle.taint(one)
        one.agent.leave(0.5 if limited else None)
        world.effect(Fault.LEFT)
        world.later(5 + b % 8, lambda: relaunch(world, one.consumer))


def relaunched(world: World, a: int, b: int) -> None:
    name = world.names[a % len(world.names)]
    if len(world.alive(name)) == 1:
        world.launch(name)
        world.effect(Fault.RELAUNCHED)
    del b


def stuck(world: World, a: int, b: int) -> None:
    one = pick([c for c in running(world) if not c.hanging], a)
    if one is not None:
        one.hanging = True
        world.effect(Fault.STUCK)
        world.later(1 + b % 15, partial(setattr, one, "hanging", False))
