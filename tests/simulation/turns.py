"""Turns, time and the tools of every fault: the next thread, and how a thread reaches a certain operation."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from coordinator_tasks.service.nodes import directives
from tests.simulation.consumer import Consumer
from tests.simulation.faults import Fault
from tests.simulation.orchestrator import RUN, TASKS, Attempt
from tests.simulation.world import MAX_ATTEMPTS, World

V = TypeVar("V")
DRIVE = 60  # operations after which a thread is no longer driven towards a certain operation

Act: TypeAlias = Callable[[World, int, int], None]
"""Acts on the world; the two numbers choose object and manner."""


def pick(found: Sequence[V], number: int) -> V | None:
    return found[number % len(found)] if found else None


def running(world: World) -> list[Consumer]:
    return [one for one in world.alive() if one.running]


def some_attempt(world: World, a: int, b: int) -> Attempt | None:
    """Return an attempt under way, begun if necessary."""
    if not world.attempts:
        world.attempt(("step", *RUN)[a % 6]).go(1 + b % 25)
    return pick([one for one in world.attempts if one.ready], a)


# Turns and time -------------------------------------------------------------------------------------------------------


def go(world: World, a: int, b: int) -> None:
    unit = pick(world.units(), a)
    if unit is not None:
        world.go(unit, (1, 2, 5, 40)[b % 4])


def consume(world: World, a: int, b: int) -> None:
    """Run a consumer's threads, each up to the end."""
    one = pick(running(world), a)
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
    """Plan a drain or the end of a drain, so that a partition has to be given away; no consumer has acted yet."""
    name = world.names[a % len(world.names)]
    if b % 2:
        world.attempt("person", lambda c, _: directives.drain(c, name, "ada", "patches")).go(500)
    else:
        world.attempt("person", lambda c, _: directives.undrain(c, name)).go(500)
    world.advance(0.6)
    world.attempt("plan").go(500)
    produce(world, a, b)


# Towards an operation -------------------------------------------------------------------------------------------------


def drive(world: World, unit: tuple[Consumer | Attempt, str], kind: str) -> bool:
    """Let a thread run until its next operation is of this kind."""
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


def with_fault(kind: str, fault: Fault) -> Act:
    """The next operation of this kind meets the fault."""

    def act(world: World, a: int, b: int) -> None:
        if kind == "http.ask" and not world.attempts:
            world.attempt("step")
        if kind == "kafka.commit":
            process_something(world, b)
        units = [unit for unit in world.units() if _may_do(kind, unit)]
        for n in range(len(units)):
            unit = units[(a + n) % len(units)]
            if drive(world, unit, kind):
                if isinstance(unit[0], Consumer):
                    world.oracle.taint(unit[0])
                world.go(unit, 1, fault)
                return

    return act


def _may_do(kind: str, unit: tuple[Consumer | Attempt, str]) -> bool:
    task = isinstance(unit[0], Attempt)
    return {"kafka.commit": unit[1].startswith("kafka"), "http.ask": task}.get(kind, task or unit[1] == "agent")


def process_something(world: World, b: int) -> None:
    """Batches pass and are covered: commits are due."""
    produce(world, b, b)
    for one in running(world):
        for slot in one.threads():
            if slot.startswith("kafka"):
                world.go((one, slot), 40)
        for slot in one.threads() * 3:
            if slot.startswith("query"):
                world.go((one, slot), 1)
    world.advance(0.06)
