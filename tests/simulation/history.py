"""One history: from a seed to its actions, through the faults, healed, and settled or not.

A seed gives a setup and a list of actions; the actions alone decide what happens. So a history that breaks a rule can be
cut down to the actions that it needs (`tests.simulation.shrink`).
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest import mock

from coordinator_tasks.core.model import State
from coordinator_tasks.service import directives, observe, topics
from coordinator_tasks.service.coordinator import Coordinator
from tests.simulation.actions import FAULTS, Action, perform
from tests.simulation.excuses import Excuse
from tests.simulation.faults import Fault, Wait
from tests.simulation.memo import remembering
from tests.simulation.mishaps import removed
from tests.simulation.oracle import Broken
from tests.simulation.orchestrator import RUN
from tests.simulation.upheavals import readd, relaunch
from tests.simulation.world import Setup, World

MAX_ROUNDS = 150
STAY_ROUNDS = 6
_WEIGHTS = {"go": 30, "consume": 22, "wait": 10, "produce": 5, "calm": 5, "task": 12}


_SELDOM = (
    *(Fault.STALE_READ, Fault.STALE_READ, Fault.WRITE_LOST, Fault.ANSWER_LOST, Fault.ZOMBIE, Fault.ZOMBIE),
    *(Fault.COMMIT_LOST, Fault.COMMIT_UNKNOWN, Fault.COMMIT_DELAYED, Fault.COMMIT_DOUBLED, Fault.READMITTED),
    *(Fault.RESTORED, Fault.ANSWER_DELAYED, Fault.ANSWER_DELAYED, Fault.ANSWER_LOST, Fault.DRAINED),
)
"""The faults that find their moment least often."""
_RAREST = (*_SELDOM, *(Fault.WRITE_LOST, Fault.ZOMBIE, Fault.DETACHED) * 3)
_REGISTRY = (Fault.REGISTRY_UNREADABLE, Fault.REGISTRY_EMPTY, Fault.REGISTRY_OLD)
_AWHILE = (Action("calm", 1, 0), Action("calm", 1, 1), Action("wait", 5, 0), Action("task", 0, 3)) * 2
_ENDS = (Fault.CRASHED, Fault.HOST_LOST, Fault.LEFT, Fault.SILENT)


class _Draws:
    """Names for generations and rebalances, in place of chance."""

    def __init__(self) -> None:
        self._number = 0

    def token_hex(self, size: int) -> str:
        self._number += 1
        return f"{self._number * 2654435761 % 2**32:08x}".ljust(2 * size, "0")


@contextmanager
def without_chance() -> Iterator[None]:
    """What the product draws by chance is counted."""
    with mock.patch.object(observe, "secrets", _Draws()):
        yield


@dataclass
class Outcome:
    """What one history came to. `broken` is the rule that did not hold, with the sentence; empty = all held."""

    seed: int
    steps: int
    rounds: int
    operations: int
    effects: Counter[tuple[Fault, State]]
    waits: Counter[tuple[Wait, State]]
    checks: Counter[str]
    transitions: int
    rewinds: int
    excused: Counter[Excuse]
    beside: Counter[Excuse]
    doubled: int
    digest: str
    rule: str = ""
    broken: str = ""
    trace: list[str] = field(default_factory=list)


def generate(seed: int) -> tuple[Setup, list[Action]]:
    """The setup and the actions of a seed: some kinds of fault are met more often in it than others."""
    rng = random.Random(seed)
    setup = Setup(
        consumers=rng.choice((2, 3, 3, 3)),
        partitions=rng.choice((1, 2, 2, 3)),
        topics=("orders", "audit") if rng.random() < 0.08 else ("orders",),
        by_tasks=seed % 4 == 0,
    )
    kinds = [fault for fault in FAULTS if fault not in _REGISTRY]
    focus = [kinds[seed % len(kinds)], *rng.choices(kinds, k=2), rng.choice(_SELDOM)]
    rate = rng.choice((0.1, 0.2, 0.3))
    names, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    actions = [Action("calm", 1, 0)] * rng.choice((0, 1, 3, 4))
    for _ in range(rng.choice((25, 40, 60))):
        if rng.random() < rate:
            fault = rng.choice(focus if rng.random() < 0.7 else kinds)
            before = rng.random()
            if before < 0.4:
                actions.append(Action("closing", rng.randrange(1000), rng.randrange(1000)))
            elif before < 0.48:
                actions.append(Action(Fault.LOST.name, rng.randrange(1000), rng.randrange(1000)))
            actions.append(Action(fault.name, rng.randrange(1000), rng.randrange(1000)))
        else:
            actions.append(Action(rng.choices(names, weights)[0], rng.randrange(1000), rng.randrange(1000)))
    return _with_a_registry(seed, setup, actions) if seed % 3 == 1 else (setup, actions)


def _with_a_registry(seed: int, setup: Setup, actions: list[Action]) -> tuple[Setup, list[Action]]:
    """A third of the seeds has a policy of its own and a registry that fails. The others mean what they did before."""
    rng = random.Random(f"registry {seed}")
    setup = replace(setup, hold_absent=rng.random() < 0.5, rejoin_grace_s=rng.choice((0.0, 2.0, 6.0)))
    for _ in range(rng.choice((2, 4, 6))):
        at = rng.randrange(len(actions) + 1)
        found = [Action(rng.choice(_REGISTRY).name, rng.randrange(1000), rng.randrange(1000))]
        if rng.random() < 0.4:
            found.insert(0, Action("closing", rng.randrange(1000), rng.randrange(1000)))
        if rng.random() < 0.3:
            found.insert(0, Action(rng.choice(_ENDS).name, rng.randrange(1000), rng.randrange(1000)))
        if rng.random() < 0.3:
            end = rng.choice((Fault.HOST_LOST, Fault.CRASHED))
            found += [Action(end.name, rng.randrange(1000), rng.randrange(1000)), *_AWHILE[: rng.randrange(9)]]
        if rng.random() < 0.15:
            found.insert(0, Action(Fault.LOST.name, rng.randrange(1000), rng.randrange(1000)))
        actions[at:at] = found
    for _ in range(3):
        at = rng.randrange(len(actions) + 1)
        actions[at:at] = [
            Action("calm", 1, 0),
            Action(rng.choice(_RAREST).name, rng.randrange(1000), rng.randrange(1000)),
        ]
    return setup, actions


def run_seed(seed: int, *, traced: bool = False) -> Outcome:
    setup, actions = generate(seed)
    return replace(run(setup, actions, traced=traced), seed=seed)


def run(setup: Setup, actions: Sequence[Action], *, traced: bool = False) -> Outcome:
    """Safety through the actions, then liveness."""
    trace: list[str] | None = [] if traced else None
    rule, broken, rounds = "", "", 0
    with without_chance(), remembering():
        world = World(setup, trace)
        try:
            for action in actions:
                perform(world, action)
            rounds = heal(world)
        except Broken as error:
            rule, broken = error.rule, str(error)
        except Exception as error:  # noqa: BLE001 - whatever leaves the production code is a finding
            rule, broken = f"raised {type(error).__name__}", f"{type(error).__name__}: {error}"
    world.kernel.close()
    oracle = world.oracle
    return Outcome(
        seed=-1,
        steps=world.steps,
        rounds=rounds,
        operations=world.kernel.operations,
        effects=world.effects,
        waits=world.waits,
        checks=oracle.checks,
        transitions=oracle.records,
        rewinds=oracle.rewinds,
        excused=oracle.excused,
        beside=oracle.beside,
        doubled=sum(progress.doubled for progress in oracle.progress.values()),
        digest=world.digest.hexdigest(),
        rule=rule,
        broken=broken,
        trace=trace or [],
    )


def heal(world: World) -> int:
    """The faults end, a person undoes what persons did, and everybody goes on; returns the rounds until all is well.

    Well is what stays so for `STAY_ROUNDS` further ones.
    """
    world.say("healed")
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
            return since + 1
    raise Broken("settles", f"after {MAX_ROUNDS} rounds: {_wanting(world) or 'owners change again and again'}")


def _undo(world: World, c: Coordinator) -> None:
    for topic in world.setup.topics:
        config = world.oracle.configs.get(topic)
        stored = c.zk.find(c.paths.config(topic))
        if stored is not None and config is not None and not config.removed:
            topics.change_config(c, topic, lambda old: replace(old, frozen=False, paused=frozenset(), pins={}))
            if config.topic_id != world.brokers.logs[topic].topic_id:
                removed(c, topic)
        elif stored is None or _is_over(world, topic):
            if config is not None and config.topic_id != world.brokers.logs[topic].topic_id:
                world.groups[topic] = f"g-{world.brokers.logs[topic].topic_id}"
            readd(world, c, topic)
    # The others stay drained: they are to own nothing in the end.
    first = world.names[0]
    if c.zk.find(c.paths.id(first)) is not None:
        directives.undrain(c, first)
    for name in world.isolated_by_hand():
        directives.readmit(c, name, "ada")
    for name in _held(world):
        directives.isolate(c, name, by="ada", why="dead")


def _held(world: World) -> list[str]:
    """Whose earlier life has been absent and silent for so long that only a person can end the wait."""
    named = {(c, i) for node in world.oracle.nodes.values() for c, i in node.incarnations.items()}
    return sorted({c for c, i in named if world.wait_for(c, i) is Wait.PERSON})


def _wanted(world: World) -> list[str]:
    """The consumers that are to have something in the end."""
    drained = world.drained_by_hand()
    return [name for name in world.names if name not in drained]


def _is_over(world: World, topic: str) -> bool:
    """A removed topic has stopped everywhere."""
    node = world.oracle.nodes.get(topic)
    stable = world.oracle.states.get(topic, State.INITIAL) in (State.STABLE, State.INITIAL)
    return stable and (node is None or (node.removed and not node.assignments))


def _wanting(world: World) -> str:
    """What is not yet as it should be, in a sentence."""
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
        counts = [list(node.assignments.values()).count(name) for name in wanted]
        if max(counts) - min(counts) > 1:
            return f"{topic} is not balanced: {counts}"
        for partition, owner in node.assignments.items():
            position = world.brokers.entries.get((node.group_id, topic, partition), (0, ""))[0]
            holder = live[owner].holder(topic)
            if holder is None or partition not in holder.status().running:
                return f"{owner} does not run {topic}-{partition}"
            if position != log.ends[partition]:
                return f"{topic}-{partition} is committed up to {position} of {log.ends[partition]}"
    return ""


def _registered(world: World, one: object) -> bool:
    node = world.server.nodes.get(world.paths.member(one.consumer))  # type: ignore[attr-defined]
    return node is not None and node.owner == one.session.number  # type: ignore[attr-defined]
