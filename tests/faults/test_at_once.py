"""Eight attempts of one step at the same moment, each with a session of its own: exactly one effect."""

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, State
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.wiring import Settings, open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import wait_for
from tests.integration.real_site import LIMIT_S, QUICK
from tests.integration.test_real_coordinator import Cluster

pytestmark = pytest.mark.integration
ATTEMPTS = 8
Task = Callable[[Coordinator, Sequence[str], Actor], list[TopicReport]]
JOIN: list[tuple[Task, State, State]] = [
    (transitions.plan, State.STABLE, State.CLOSING),
    (transitions.start, State.CLOSING, State.STARTING),
    (transitions.settle, State.STARTING, State.STABLE),
]


@pytest.fixture
def cluster(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Cluster]:
    name = f"o{uuid.uuid4().hex[:8]}"
    broker = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": "1"}
    policy = replace(QUICK, settle_s=0.0, flap_registrations=1000)
    settings = Settings(name, zookeeper.connect_string, broker, session_timeout_s=4.0, policy=policy)
    ConfluentKafkaAdmin(broker).create_topic(name, 6)
    with open_coordinator(settings) as c:
        topics.add_topic(c, name, f"g-{name}", actor=PERSON)
    made = Cluster(settings, name)
    yield made
    made.close()


def at_once(coordinators: Sequence[Coordinator], task: Task, topic: str) -> list[TopicReport]:
    """Each attempt's report; all begin at the same moment."""
    gate = threading.Barrier(len(coordinators))

    def attempt(number: int, c: Coordinator) -> TopicReport:
        gate.wait()
        (report,) = task(c, [topic], Actor("loop", f"attempt {number}"))
        return report

    with ThreadPoolExecutor(len(coordinators)) as pool:
        return list(pool.map(attempt, range(len(coordinators)), coordinators))


def test_eight_attempts_of_a_step_have_one_effect(cluster: Cluster) -> None:
    cluster.join("a")
    with ExitStack() as ending:
        coordinators = [ending.enter_context(open_coordinator(cluster.settings)) for _ in range(ATTEMPTS)]
        c = coordinators[0]
        cluster.settle(c, "a")
        for consumer in ("b", "d"):
            cluster.join(consumer)
            for task, source, target in JOIN:
                before = cluster.records(c)
                look = {State.CLOSING: transitions.await_closed, State.STARTING: transitions.await_started}.get(source)
                if look is not None:
                    wait_for(lambda look=look: look(c, [cluster.topic]).confirmed, f"{source} is confirmed", LIMIT_S)
                reports = at_once(coordinators, task, cluster.topic)
                new = cluster.records(c)[len(before) :]
                assert [(one.source, one.target) for one in new] == [(source, target)]
                assert sum(one.outcome is TopicOutcome.WRITTEN for one in reports) == 1, reports
                assert {one.outcome for one in reports} <= {
                    TopicOutcome.WRITTEN,
                    TopicOutcome.UNCHANGED,
                    TopicOutcome.WAITING,
                }
        assert cluster.is_stable(c, "abd")
        epochs = [one.epoch for one in cluster.records(c)]
        assert epochs == sorted(epochs)
