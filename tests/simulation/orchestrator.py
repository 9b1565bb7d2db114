"""The orchestrator: attempts of tasks, each a process with a session, at any moment and several at once.

An attempt is a call of the production services. An attempt may be killed before any operation, doubled, stalled, and
run again long after the due time: knowledge of an earlier call never reaches the next call, as with Airflow's tasks.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Actor, Ending
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet, refused_connections
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.run import upkeep
from tests.simulation.kernel import Fiber, Host
from tests.simulation.registry import Listed

if TYPE_CHECKING:
    from tests.simulation.world import World

SESSION_S = 4.0
POLICY = Policy(settle_s=0.5, settle_max_s=2.0, absent_after_s=8.0, stuck_after_s=30.0, flap_backoff_s=2.0)

Call = Callable[[Coordinator, Actor], object]


TASKS: dict[str, Call] = {
    "plan": lambda c, actor: transitions.plan(c, transitions.topics(c), actor),
    "await_closed": lambda c, _: transitions.await_closed(c, transitions.topics(c)),
    "start": lambda c, actor: transitions.start(c, transitions.topics(c), actor),
    "await_started": lambda c, _: transitions.await_started(c, transitions.topics(c)),
    "settle": lambda c, actor: transitions.settle(c, transitions.topics(c), actor),
    "step": lambda c, actor: transitions.step(c, transitions.topics(c), actor),
    "chores": lambda c, _: [
        *upkeep.upkeep(c, transitions.topics(c)).lines,
        refused_connections.note(c, c.discovery.members()),
    ],
}
RUN = ("plan", "await_closed", "start", "await_started", "settle")


def reap(consumer: str, incarnation: int, reason: str = "") -> Call:
    """Return a launcher's call after the end of its consumer's processes."""
    return lambda c, _: fleet.record_end(c, consumer, incarnation, Ending.REAPED, reason)


class Attempt(Host):
    """An attempt of a task under way. `error` is its failure, if any."""

    def __init__(self, world: "World", task: str, call: Call, number: int, skew_s: float = 0.0) -> None:
        super().__init__(world.kernel, f"{task}#{number}")
        self.task = task
        self.skew_s = skew_s
        self.error = ""
        self.result: object = None
        self.session = world.server.connect(self, SESSION_S)
        self.began_at = self.kernel.now
        self.call = call
        c = world.coordinator(self, self.session)
        self._c = replace(c, discovery=Listed(world.registry, c.discovery))
        self.fiber = Fiber(self, task, self._run)

    def _run(self) -> None:
        try:
            self.result = self.call(self._c, Actor("airflow", dag="rebalance", run="r", task=self.task, attempt=1))
        except CoordinatorError as error:
            self.error = f"{type(error).__name__}: {error}"
        self.alive = False
        self.session.close()

    @property
    def ready(self) -> bool:
        return self.running and not self.fiber.dead and self.fiber.wake_at <= self.kernel.now

    def go(self, operations: int, fault: str = "") -> None:
        if not self.fiber.at and not self.fiber.dead:
            self.kernel.resume(self.fiber)
        self.fiber.fault = fault
        for _ in range(operations):
            if self.fiber.dead or self.fiber.wake_at > self.kernel.now:
                return
            self.kernel.resume(self.fiber)

    def dies(self) -> None:
        """Kill the attempt at the present place; the session ends after the time-out."""
        self.alive = False
        self.kernel.kill(self.fiber)
        self.session.abandon()
