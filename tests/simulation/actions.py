"""Everything that may be done to the world: a history is a list of these, each with two numbers that say to whom.

An action finds its object by number among what is there at that moment, and does nothing where there is none: any list
of actions is a history, also one from which some were taken away.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import Committed, TopicConfig
from coordinator_tasks.service import directives, topics
from coordinator_tasks.service.coordinator import Coordinator
from tests.simulation.consumer import Consumer
from tests.simulation.faults import Fault
from tests.simulation.orchestrator import RUN, TASKS, Attempt
from tests.simulation.world import MAX_ATTEMPTS, PERSON, World

V = TypeVar("V")
DRIVE = 60  # operations after which a thread is no longer driven towards a certain one
MAX_PARTITIONS = 5


class Action(NamedTuple):
    """One step of a history."""

    kind: str
    a: int
    b: int


Act: TypeAlias = Callable[[World, int, int], None]


def perform(world: World, action: Action) -> None:
    """Do it, and let the oracle look."""
    world.steps += 1
    if world.trace is not None:
        world.say(f"{action.kind} {action.a} {action.b}")
    ACTS[action.kind](world, action.a, action.b)
    world.sweep()
    world.oracle.after_step()


def _pick(found: Sequence[V], number: int) -> V | None:
    return found[number % len(found)] if found else None


def _running(world: World) -> list[Consumer]:
    return [one for one in world.alive() if one.running]


# Turns and time -------------------------------------------------------------------------------------------------------


def go(world: World, a: int, b: int) -> None:
    unit = _pick(world.units(), a)
    if unit is not None:
        world.go(unit, (1, 2, 5, 40)[b % 4])


def consume(world: World, a: int, b: int) -> None:
    """One consumer's threads, each up to its end."""
    one = _pick(_running(world), a)
    for _ in range(1 + b % 2) if one is not None else ():
        for slot in one.threads():
            world.go((one, slot), 40)


def wait(world: World, a: int, b: int) -> None:
    world.advance((0.05, 0.2, 0.5, 1.0, 1.0, 3.0)[a % 6] + b % 7 / 100)


def produce(world: World, a: int, b: int) -> None:
    log = world.brokers.logs[world.setup.topics[a % len(world.setup.topics)]]
    for partition in range(len(log.ends)):
        log.ends[partition] += (a + b + partition) % 20


def calm(world: World, a: int, b: int) -> None:
    for n in range(1 + a % 2):
        world.attempt("step")
        world.round((0.3, 0.6, 1.1)[(b + n) % 3])


def task(world: World, a: int, b: int) -> None:
    names = ("step", *TASKS)
    if len(world.attempts) < MAX_ATTEMPTS:
        attempt = world.attempt(names[a % len(names)])
        attempt.go((0, 3, 20, 500)[b % 4])


def closing(world: World, a: int, b: int) -> None:
    """Something has to be given away: a drain or its end is planned, and nobody has acted on it yet."""
    name = world.names[a % len(world.names)]
    if b % 2:
        world.attempt("person", lambda c, _: directives.drain(c, name, "ada", "patches")).go(500)
    else:
        world.attempt("person", lambda c, _: directives.undrain(c, name)).go(500)
    world.advance(0.6)
    world.attempt("plan").go(500)
    produce(world, a, b)


# ZooKeeper ------------------------------------------------------------------------------------------------------------


def _drive(world: World, unit: tuple[Consumer | Attempt, str], kind: str) -> bool:
    """Let a thread go on until it stands before such an operation."""
    host, slot = unit
    for _ in range(DRIVE):
        fiber = host.slots.get(slot) if isinstance(host, Consumer) else host.fiber
        if fiber is not None and not fiber.dead and fiber.at == kind:
            return True
        if not host.running or (fiber is not None and fiber.wake_at > world.kernel.now):
            return False
        if isinstance(host, Attempt) and host.fiber.dead:
            return False
        world.go(unit, 1 if fiber is not None else 0)
    return False


def _with_fault(kind: str, fault: Fault) -> Act:
    """The next operation of this kind meets the fault."""

    def act(world: World, a: int, b: int) -> None:
        if kind == "http.ask" and not world.attempts:
            world.attempt("step")
        if kind == "kafka.commit":
            _process_something(world, b)
        units = [unit for unit in world.units() if _may_do(kind, unit)]
        for n in range(len(units)):
            unit = units[(a + n) % len(units)]
            if _drive(world, unit, kind):
                if isinstance(unit[0], Consumer):
                    world.oracle.taint(unit[0])
                world.go(unit, 1, fault)
                return

    return act


def _may_do(kind: str, unit: tuple[Consumer | Attempt, str]) -> bool:
    task = isinstance(unit[0], Attempt)
    return {"kafka.commit": unit[1].startswith("kafka"), "http.ask": task}.get(kind, task or unit[1] == "agent")


def _process_something(world: World, b: int) -> None:
    """Batches pass and are covered: commits are due."""
    produce(world, b, b)
    for one in _running(world):
        for slot in one.threads():
            if slot.startswith("kafka"):
                world.go((one, slot), 40)
        for slot in one.threads() * 3:
            if slot.startswith("query"):
                world.go((one, slot), 1)
    world.advance(0.06)


def stale_read(world: World, a: int, b: int) -> None:
    """A session stays on a follower that lags, until it syncs or writes; the rest of the cluster goes on."""
    sessions = [one.session for one in (*_running(world), *world.attempts)]
    session = _pick(sessions, a)
    if session is not None:
        session.lagging = True
        if isinstance(session.host, Consumer) and a % 2:
            name = session.host.consumer
            world.by_hand(lambda c: _touch(c, name))
            world.advance(1.0)
            world.go((session.host, "agent"), 40)
        elif b % 2:
            world.attempt("step").go(500)
            unit = _pick([u for u in world.units() if u[0] is session.host], b)
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

    def heal() -> None:
        one.session.cut = False

    world.later(seconds, heal)


def suspended(world: World, a: int, b: int) -> None:
    one = _pick(_running(world), a)
    if one is not None:
        _cut(world, one, 1 + b % 2)
        world.effect(Fault.SUSPENDED)


def detached(world: World, a: int, b: int) -> None:
    one = _pick(_running(world), a)
    if one is not None:
        _cut(world, one, 5 + b % 20)
        if b % 3:
            world.advance(4.5)


def expired(world: World, a: int, b: int) -> None:
    one = _pick([c for c in _running(world) if not c.session.broken], a)
    if one is not None:
        one.session.expire()
        if b % 2:
            one.session.reconnect()


def task_expired(world: World, a: int, b: int) -> None:
    attempt = _some_attempt(world, a, b)
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
    nodes = _pick(world.snapshots, a)
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
    """A person manages the topic (again), as it is in Kafka now."""
    for folder in world.paths.folders():
        c.zk.ensure(folder)
    try:
        topics.add_topic(c, topic, world.groups[topic], actor=PERSON)
    except CoordinatorError as error:
        world.say(f"  not added: {error}")


# Consumers ------------------------------------------------------------------------------------------------------------


def crashed(world: World, a: int, b: int) -> None:
    one = _pick(world.alive(), a)
    if one is None:
        return
    world.oracle.taint(one)
    one.dies()
    one.said_end = True
    world.effect(Fault.CRASHED)
    if b % 3:
        world.later(b % 3 * 0.7, lambda: world.reap(one))
    if b % 4:
        world.later(b % 5, lambda: relaunch(world, one.consumer))


def relaunch(world: World, name: str) -> None:
    if not world.alive(name):
        world.launch(name)


def host_lost(world: World, a: int, b: int) -> None:
    one = _pick(world.alive(), a)
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
    one = _pick(_running(world), a)
    if one is not None:
        _pause(world, one, 0.5 + b % 6 / 2)
        world.effect(Fault.PAUSED)


def frozen(world: World, a: int, b: int) -> None:
    one = _pick(_running(world), a)
    if one is not None:
        _pause(world, one, 5 + b % 25)
        if b % 3:
            world.advance(4.5)


def zombie(world: World, a: int, b: int) -> None:
    """Stopped when it has looked and not yet committed; it wakes with that commit in its hand."""
    _process_something(world, b)
    found = _running(world)
    for n in range(len(found)):
        one = found[(a + n) % len(found)]
        for slot in one.threads():
            if slot.startswith("kafka") and _drive(world, (one, slot), "kafka.commit"):
                _pause(world, one, 1 + b % 25 if b % 3 else 0.1, Fault.ZOMBIE)
                for _ in range(a % 5 if b % 3 == 0 else 0):
                    world.round(1.5)
                world.advance(0.2)
                return


def query_ended(world: World, a: int, b: int) -> None:
    one = _pick([c for c in _running(world) if c.topics is not None and not c.topics.broken], a)
    if one is not None and one.topics is not None:
        world.oracle.taint(one)
        one.topics.broken = "the query failed"
        world.effect(Fault.QUERY_ENDED)
        world.later(b % 8, lambda: relaunch(world, one.consumer))


def left(world: World, a: int, b: int) -> None:
    one = _pick([c for c in _running(world) if c.agent is not None], a)
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
    one = _pick([c for c in _running(world) if not c.hanging], a)
    if one is not None:
        one.hanging = True
        world.effect(Fault.STUCK)

        def end() -> None:
            one.hanging = False

        world.later(1 + b % 15, end)


# Kafka ----------------------------------------------------------------------------------------------------------------


def foreign_commit(world: World, a: int, b: int) -> None:
    """Somebody sets an offset of the group by a tool, to what has passed or before."""
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
    """The topic is deleted and created; some time later a person removes it here and adds it with a new group."""
    topic = world.setup.topics[a % len(world.setup.topics)]
    world.oracle.taint_all()
    world.brokers.create(topic, 1 + b % MAX_PARTITIONS)
    world.effect(Fault.RECREATED)
    if a % 3:
        world.later(a % 7, lambda: world.by_hand(lambda c: removed(c, topic)))


def removed(c: Coordinator, topic: str) -> None:
    """A person no longer manages the topic."""
    if c.zk.find(c.paths.config(topic)) is not None:
        topics.remove_topic(c, topic, PERSON)


# Interfaces -----------------------------------------------------------------------------------------------------------


def _mood(fault: Fault) -> Act:
    def act(world: World, a: int, b: int) -> None:
        one = _pick([c for c in _running(world) if c.listener.mood is None], a)
        if one is None:
            return
        one.listener.mood = fault
        world.oracle.taint(one)

        def end() -> None:
            one.listener.mood = None

        world.later(1 + b % 12, end)
        if b % 2:
            world.attempt("step").go(500)

    return act


def post_doubled(world: World, a: int, b: int) -> None:
    """A topic node that was posted some time ago arrives once more."""
    one, post = _pick([c for c in _running(world) if c.agent is not None], a), _pick(world.posts, b)
    if one is not None and one.agent is not None and post is not None and one.agent.posted(*post):
        world.effect(Fault.POST_DOUBLED)


# Tasks ----------------------------------------------------------------------------------------------------------------


def _some_attempt(world: World, a: int, b: int) -> Attempt | None:
    """One that is under way; it is begun where there is none."""
    if not world.attempts:
        world.attempt(("step", *RUN)[a % 6]).go(1 + b % 25)
    return _pick([one for one in world.attempts if one.ready], a)


def task_killed(world: World, a: int, b: int) -> None:
    attempt = _some_attempt(world, a, b)
    if attempt is not None:
        attempt.dies()
        world.effect(Fault.TASK_KILLED)


def two_attempts(world: World, a: int, b: int) -> None:
    """The same task twice, in turns of a few operations."""
    first = _some_attempt(world, a, b)
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
    attempt = _some_attempt(world, a, b)
    if attempt is None:
        return
    attempt.paused = True
    world.effect(Fault.TASK_DELAYED)

    def wake() -> None:
        attempt.paused = False

    world.later(1 + b % 9, wake)


# Clocks and people ----------------------------------------------------------------------------------------------------


def clock_jump(world: World, a: int, b: int) -> None:
    skew_s = (-3600.0, -7.0, 5.0, 90.0, 86400.0, 0.0)[b % 6]
    one = _pick([*_running(world), None], a)
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
    for one in world.alive(name):
        world.oracle.taint(one)
    until_at = world.kernel.now + 3 if a % 5 == 0 else 0.0
    _person(world, Fault.ISOLATED, lambda c: directives.isolate(c, name, by="ada", why="odd", until_at=until_at), a)


def readmitted(world: World, a: int, b: int) -> None:
    if not world.isolated_by_hand():
        isolated(world, 1 + 2 * a, b)
        world.round(0.3)
        world.attempt("step").go(500)
    name = _pick(world.isolated_by_hand(), b)
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


def reconfigured(world: World, a: int, b: int) -> None:
    topic = world.setup.topics[a % len(world.setup.topics)]
    changes: tuple[Callable[[TopicConfig], TopicConfig], ...] = (
        lambda config: replace(config, frozen=not config.frozen),
        lambda config: replace(config, paused=frozenset() if config.paused else frozenset({0})),
        lambda config: replace(config, pins={} if config.pins else {0: world.names[b % len(world.names)]}),
        lambda config: replace(config, properties={"fetch.min.bytes": str(b % 9)}),
    )
    change = changes[b % len(changes)]
    _person(world, Fault.RECONFIGURED, lambda c: topics.change_config(c, topic, change), a)


STEPS: dict[str, Act] = {
    "go": go,
    "consume": consume,
    "wait": wait,
    "produce": produce,
    "calm": calm,
    "closing": closing,
    "task": task,
}
FAULTS: dict[Fault, Act] = {
    Fault.WRITE_LOST: _with_fault("zk.write", Fault.WRITE_LOST),
    Fault.ANSWER_LOST: _with_fault("zk.write", Fault.ANSWER_LOST),
    Fault.STALE_READ: stale_read,
    Fault.SUSPENDED: suspended,
    Fault.EXPIRED: expired,
    Fault.DETACHED: detached,
    Fault.TASK_EXPIRED: task_expired,
    Fault.LOST: lost,
    Fault.RESTORED: restored,
    Fault.CRASHED: crashed,
    Fault.HOST_LOST: host_lost,
    Fault.PAUSED: paused,
    Fault.FROZEN: frozen,
    Fault.ZOMBIE: zombie,
    Fault.QUERY_ENDED: query_ended,
    Fault.LEFT: left,
    Fault.RELAUNCHED: relaunched,
    Fault.STUCK: stuck,
    Fault.COMMIT_LOST: _with_fault("kafka.commit", Fault.COMMIT_LOST),
    Fault.COMMIT_UNKNOWN: _with_fault("kafka.commit", Fault.COMMIT_UNKNOWN),
    Fault.COMMIT_DELAYED: _with_fault("kafka.commit", Fault.COMMIT_DELAYED),
    Fault.COMMIT_DOUBLED: _with_fault("kafka.commit", Fault.COMMIT_DOUBLED),
    Fault.FOREIGN_COMMIT: foreign_commit,
    Fault.BROKERS_DOWN: brokers_down,
    Fault.PARTITIONS_ADDED: partitions_added,
    Fault.RECREATED: recreated,
    Fault.SILENT: _mood(Fault.SILENT),
    Fault.REFUSED: _mood(Fault.REFUSED),
    Fault.ANSWER_DELAYED: _with_fault("http.ask", Fault.ANSWER_DELAYED),
    Fault.POST_DOUBLED: post_doubled,
    Fault.TASK_KILLED: task_killed,
    Fault.TWO_ATTEMPTS: two_attempts,
    Fault.CLEARED: cleared,
    Fault.TASK_DELAYED: task_delayed,
    Fault.CLOCK_JUMP: clock_jump,
    Fault.ISOLATED: isolated,
    Fault.READMITTED: readmitted,
    Fault.DRAINED: drained,
    Fault.RECONFIGURED: reconfigured,
}
ACTS: dict[str, Act] = {**STEPS, **{fault.name: act for fault, act in FAULTS.items()}}
