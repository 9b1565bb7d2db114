"""A history: from a seed to actions, through the faults, healed, and settled or not.

A seed gives a setup and a list of actions; the actions alone decide the events. So a history that breaks a rule can be
cut down to the necessary actions (`tests.simulation.shrink`).
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from coordinator_tasks.service.nodes import observe
from tests.simulation.actions import FAULTS, Action, perform
from tests.simulation.faults import Fault
from tests.simulation.healing import heal
from tests.simulation.oracle import Broken
from tests.simulation.totals import Outcome
from tests.simulation.world import Setup, World

_WEIGHTS = {"go": 30, "consume": 22, "wait": 10, "produce": 5, "calm": 5, "task": 12}


_SELDOM = (
    *(Fault.STALE_READ, Fault.STALE_READ, Fault.WRITE_LOST, Fault.ANSWER_LOST, Fault.ZOMBIE, Fault.ZOMBIE),
    *(Fault.COMMIT_LOST, Fault.COMMIT_UNKNOWN, Fault.COMMIT_DELAYED, Fault.COMMIT_DOUBLED, Fault.READMITTED),
    *(Fault.RESTORED, Fault.ANSWER_DELAYED, Fault.ANSWER_DELAYED, Fault.ANSWER_LOST, Fault.DRAINED),
)
"""The faults with the rarest opportunities."""
_RAREST = (*_SELDOM, *(Fault.WRITE_LOST, Fault.ZOMBIE, Fault.DETACHED) * 3)
_REGISTRY = (Fault.REGISTRY_UNREADABLE, Fault.REGISTRY_EMPTY, Fault.REGISTRY_OLD)
_AWHILE = (Action("calm", 1, 0), Action("calm", 1, 1), Action("wait", 5, 0), Action("task", 0, 3)) * 2
_RETURNS = (Action("calm", 1, 0), Action("calm", 1, 1))
"""Time for a process to end, for the next one to register, and for plans."""
_ENDS = (Fault.CRASHED, Fault.HOST_LOST, Fault.LEFT, Fault.SILENT)
_GOES = (*(Fault.CRASHED, Fault.HOST_LOST, Fault.ISOLATED, Fault.ISOLATED), *(Fault.LEFT, Fault.QUERY_ENDED))


class _Draws:
    """Names for generations and rebalances, in place of chance."""

    def __init__(self) -> None:
        self._number = 0

    def token_hex(self, size: int) -> str:
        self._number += 1
        return f"{self._number * 2654435761 % 2**32:08x}".ljust(2 * size, "0")


@contextmanager
def without_chance() -> Iterator[None]:
    """Replace the product's random draws by a counter."""
    with mock.patch.object(observe, "secrets", _Draws()):
        yield


def generate(seed: int) -> tuple[Setup, list[Action]]:
    """Return the setup and the actions of a seed: each seed prefers some kinds of fault."""
    rng = random.Random(seed)
    setup = Setup(
        consumers=rng.choice((2, 3, 3, 3)),
        partitions=rng.choice((1, 2, 2, 3)),
        topics=("orders", "audit") if rng.random() < 0.08 else ("orders",),
        by_tasks=seed % 4 == 0,
    )
    kinds = [fault for fault in FAULTS if fault not in (*_REGISTRY, Fault.RESTART_EXPECTED)]
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
    if seed % 3 == 1:
        setup, actions = _with_a_registry(seed, setup, actions)
    if seed % 3 == 2:
        actions = _with_restarts(seed, actions)
    if seed % 5 == 2:
        setup, actions = _without_all(seed, setup, actions)
    if seed % 9 == 4:
        setup = replace(setup, fences=True)
    if seed % 11 == 3:
        actions = _with_failures(seed, setup, actions)
    return (_packed(seed, setup), actions) if seed % 7 == 6 else (setup, actions)


def _with_failures(seed: int, setup: Setup, actions: list[Action]) -> list[Action]:
    """Let one consumer fail several times in a row in an eleventh of the seeds, with a new process a second later."""
    rng = random.Random(f"failures {seed}")
    at = rng.randrange(len(actions) + 1)
    failure = Action(Fault.QUERY_ENDED.name, setup.consumers - 1, 1)  # the newest process
    return [*actions[:at], *(failure, *_RETURNS) * rng.choice((2, 3)), *_RETURNS, *actions[at:]]


def _with_restarts(seed: int, actions: list[Action]) -> list[Action]:
    """Add expected restarts in a third of the seeds, unchanged otherwise."""
    rng = random.Random(f"restarts {seed}")
    for _ in range(rng.choice((1, 2, 4))):
        at = rng.randrange(len(actions) + 1)
        found = [Action(Fault.RESTART_EXPECTED.name, rng.randrange(1000), rng.randrange(1000))]
        if rng.random() < 0.4:
            found.insert(0, Action("closing", rng.randrange(1000), rng.randrange(1000)))
        actions = [*actions[:at], *found, *_AWHILE[: rng.randrange(5)], *actions[at:]]
    return actions


def _with_a_registry(seed: int, setup: Setup, actions: list[Action]) -> tuple[Setup, list[Action]]:
    """Give a third of the seeds a policy and a failing registry; the others are unchanged."""
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


def _without_all(seed: int, setup: Setup, actions: list[Action]) -> tuple[Setup, list[Action]]:
    """End a fifth of the seeds with consumers that stay dead or isolated; more die or are isolated towards the end."""
    rng = random.Random(f"without all {seed}")
    for _ in range(rng.choice((1, 2, 3))):
        at = rng.randrange(len(actions) * 2 // 3, len(actions) + 1)
        actions.insert(at, Action(rng.choice(_GOES).name, rng.randrange(1000), rng.randrange(1000)))
    return replace(setup, returns=rng.randrange(setup.consumers)), actions


def _packed(seed: int, setup: Setup) -> Setup:
    """Pack the nodes in a seventh of the seeds, mostly with processes of an older release among the others."""
    return replace(setup, packs=True, older=random.Random(f"packed {seed}").choice((0, 2, 3, 5)))


def run_seed(seed: int, *, traced: bool = False) -> Outcome:
    setup, actions = generate(seed)
    return replace(run(setup, actions, traced=traced), seed=seed)


def run(setup: Setup, actions: Sequence[Action], *, traced: bool = False) -> Outcome:
    """Safety through the actions, then liveness."""
    trace: list[str] | None = [] if traced else None
    rule, broken = "", ""
    with without_chance():
        world = World(setup, trace)
        try:
            for action in actions:
                perform(world, action)
            heal(world)
        except Broken as error:
            rule, broken = error.rule, str(error)
        except Exception as error:  # noqa: BLE001 - whatever leaves the production code is a finding
            rule, broken = f"raised {type(error).__name__}", f"{type(error).__name__}: {error}"
    world.kernel.close()
    oracle = world.oracle
    return Outcome(
        rewinds=oracle.rewinds,
        effects=world.effects,
        waits=world.waits,
        lasting=world.lasting,
        checks=oracle.checks,
        digest=world.digest.hexdigest(),
        rule=rule,
        broken=broken,
        trace=trace or [],
    )
