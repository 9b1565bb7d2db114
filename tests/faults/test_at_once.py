"""Eight attempts of one step at the same moment, each with a session of its own: exactly one effect."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, State
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import wait_for
from tests.integration.real_site import LIMIT_S
from tests.integration.stub_cluster import StubCluster, stub_cluster

pytestmark = pytest.mark.integration
ATTEMPTS = 8
Task = Callable[[Coordinator, Sequence[str], Actor], list[TopicReport]]
JOIN: list[tuple[Task, State, State]] = [
    (transitions.plan, State.STABLE, State.CLOSING),
    (transitions.start, State.CLOSING, State.STARTING),
    (transitions.settle, State.STARTING, State.STABLE),
]


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[StubCluster]:
    with stub_cluster(zookeeper, kafka, {"flap_registrations": 1000}, session_timeout_s=4.0) as made:
        yield made


def at_once(coordinators: Sequence[Coordinator], task: Task, topic: str) -> list[TopicReport]:
    """Each attempt's report; all begin at the same moment."""
    gate = threading.Barrier(len(coordinators))

    def attempt(number: int, c: Coordinator) -> TopicReport:
        gate.wait()
        (report,) = task(c, [topic], Actor("loop", f"attempt {number}"))
        return report

    with ThreadPoolExecutor(len(coordinators)) as pool:
        return list(pool.map(attempt, range(len(coordinators)), coordinators))


def test_eight_attempts_of_a_step_have_one_effect(cluster: StubCluster) -> None:
    cluster.join("a")
    with ExitStack() as ending:
        coordinators = [ending.enter_context(open_coordinator(cluster.settings)) for _ in range(ATTEMPTS)]
        c = coordinators[0]
        cluster.stable("a")
        for consumer in ("b", "d"):
            cluster.join(consumer)
            for task, source, target in JOIN:
                before = cluster.records()
                look = {State.CLOSING: transitions.await_closed, State.STARTING: transitions.await_started}.get(source)
                if look is not None:
                    wait_for(lambda look=look: look(c, [cluster.topic]).confirmed, f"{source} is confirmed", LIMIT_S)
                reports = at_once(coordinators, task, cluster.topic)
                new = cluster.records()[len(before) :]
                assert [(one.source, one.target) for one in new] == [(source, target)]
                assert sum(one.outcome is TopicOutcome.WRITTEN for one in reports) == 1, reports
                assert {one.outcome for one in reports} <= {
                    TopicOutcome.WRITTEN,
                    TopicOutcome.UNCHANGED,
                    TopicOutcome.WAITING,
                }
        assert cluster.is_stable("abd")
        epochs = [one.epoch for one in cluster.records()]
        assert epochs == sorted(epochs)
