"""All actions on the world: a history is a list of actions, each with two numbers that choose the object.

An action finds the object by number among the present objects, and does nothing without any: every list of actions is a
history, also after the removal of some.
"""

from typing import NamedTuple

from tests.simulation import mishaps, turns, upheavals
from tests.simulation.faults import Fault
from tests.simulation.turns import Act, with_fault
from tests.simulation.world import World


class Action(NamedTuple):
    """A step of a history."""

    kind: str
    a: int
    b: int


def perform(world: World, action: Action) -> None:
    """Perform the action, and let the oracle look."""
    if world.trace is not None:
        world.say(f"{action.kind} {action.a} {action.b}")
    ACTS[action.kind](world, action.a, action.b)
    world.sweep()
    world.oracle.after_step()


STEPS: dict[str, Act] = {
    "go": turns.go,
    "consume": turns.consume,
    "wait": turns.wait,
    "produce": turns.produce,
    "calm": turns.calm,
    "closing": turns.closing,
    "task": turns.task,
}
FAULTS: dict[Fault, Act] = {
    Fault.WRITE_LOST: with_fault("zk.write", Fault.WRITE_LOST),
    Fault.ANSWER_LOST: with_fault("zk.write", Fault.ANSWER_LOST),
    Fault.STALE_READ: upheavals.stale_read,
    Fault.SUSPENDED: upheavals.suspended,
    Fault.EXPIRED: upheavals.expired,
    Fault.DETACHED: upheavals.detached,
    Fault.TASK_EXPIRED: upheavals.task_expired,
    Fault.LOST: upheavals.lost,
    Fault.RESTORED: upheavals.restored,
    Fault.CRASHED: upheavals.crashed,
    Fault.HOST_LOST: upheavals.host_lost,
    Fault.PAUSED: upheavals.paused,
    Fault.FROZEN: upheavals.frozen,
    Fault.ZOMBIE: upheavals.zombie,
    Fault.QUERY_ENDED: upheavals.query_ended,
    Fault.LEFT: upheavals.left,
    Fault.RELAUNCHED: upheavals.relaunched,
    Fault.STUCK: upheavals.stuck,
    Fault.COMMIT_LOST: with_fault("kafka.commit", Fault.COMMIT_LOST),
    Fault.COMMIT_UNKNOWN: with_fault("kafka.commit", Fault.COMMIT_UNKNOWN),
    Fault.COMMIT_DELAYED: with_fault("kafka.commit", Fault.COMMIT_DELAYED),
    Fault.COMMIT_DOUBLED: with_fault("kafka.commit", Fault.COMMIT_DOUBLED),
    Fault.FOREIGN_COMMIT: mishaps.foreign_commit,
    Fault.BROKERS_DOWN: mishaps.brokers_down,
    Fault.PARTITIONS_ADDED: mishaps.partitions_added,
    Fault.RECREATED: mishaps.recreated,
    Fault.SILENT: mishaps.mood(Fault.SILENT),
    Fault.REFUSED: mishaps.mood(Fault.REFUSED),
    Fault.ANSWER_DELAYED: with_fault("http.ask", Fault.ANSWER_DELAYED),
    Fault.POST_DOUBLED: mishaps.post_doubled,
    Fault.REGISTRY_UNREADABLE: mishaps.registry(Fault.REGISTRY_UNREADABLE),
    Fault.REGISTRY_EMPTY: mishaps.registry(Fault.REGISTRY_EMPTY),
    Fault.REGISTRY_OLD: mishaps.registry(Fault.REGISTRY_OLD),
    Fault.TASK_KILLED: mishaps.task_killed,
    Fault.TWO_ATTEMPTS: mishaps.two_attempts,
    Fault.CLEARED: mishaps.cleared,
    Fault.TASK_DELAYED: mishaps.task_delayed,
    Fault.CLOCK_JUMP: mishaps.clock_jump,
    Fault.ISOLATED: mishaps.isolated,
    Fault.READMITTED: mishaps.readmitted,
    Fault.DRAINED: mishaps.drained,
    Fault.RESTART_EXPECTED: mishaps.restart_expected,
    Fault.RECONFIGURED: mishaps.reconfigured,
}
ACTS: dict[str, Act] = {**STEPS, **{fault.name: act for fault, act in FAULTS.items()}}
