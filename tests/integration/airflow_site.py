"""An Airflow with our DAGs over a cluster of its own, and what its tests wait for."""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import State
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.settings import Settings
from tests.airflow_calls import wait_for_run
from tests.fakes.cluster import PERSON

ROOT = Path(__file__).parents[2]


def cluster_of(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, **more: Any) -> Settings:
    """The settings of a new cluster."""
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    return Settings(f"c{uuid.uuid4().hex[:8]}", zookeeper.connect_string, servers, session_timeout_s=4.0, **more)


def connections_of(
    settings: Settings, zookeeper: Mapping[str, Any] | None = None, kafka: Mapping[str, Any] | None = None
) -> dict[str, dict[str, str]]:
    """Airflow's connections to a cluster, with these extras."""
    extra = json.dumps({"session_timeout_s": 4, **(zookeeper or {})})
    address = settings.kafka["bootstrap.servers"]
    return {
        "zookeeper_default": {"conn_type": "generic", "host": settings.zookeeper, "extra": extra},
        "kafka_default": {"conn_type": "kafka", "host": address, "extra": json.dumps(kafka or {})},
        "spark_default": {"conn_type": "spark", "host": "local[1]"},
    }


@contextmanager
def airflow_of(
    settings: Settings,
    factory: Callable[..., EmbeddedAirflow],
    dags: set[str],
    *,
    zookeeper: Mapping[str, Any] | None = None,
    kafka: Mapping[str, Any] | None = None,
    base: Path | None = None,
    env: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Iterator[EmbeddedAirflow]:
    """An Airflow that looks after this cluster; these DAGs at least have to be there.

    `zookeeper`, `kafka`: extras of the connections; `base`: the folder of the run folders, where it launches consumers;
    `env`: further variables of its services; `options`: options of Airflow itself.
    """
    launching = {
        "COORDINATOR_RUN_BASE": str(base),
        **{f"COORDINATOR_ALLOWED_{name.upper()}": value for name, value in asdict(settings.allowed).items()},
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
    }
    server = factory(
        ROOT / "dags",
        ROOT / "plugins",
        connections=connections_of(settings, zookeeper, kafka),
        env={"COORDINATOR_CLUSTERS": settings.cluster, **(launching if base is not None else {}), **(env or {})},
        expected_dags=dags,
        **({"settings": options} if options else {}),
    )
    yield server
    server.kill()


def eventually(holds: Callable[[], Any], limit_s: float = 180.0) -> Any:
    """What `holds` returns as soon as that is true; fails when it is not within the limit."""
    deadline_s = time.monotonic() + limit_s
    while not (found := holds()):
        assert time.monotonic() < deadline_s, f"not within {limit_s:g} s"
        time.sleep(0.2)
    return found


def reconciled(airflow: EmbeddedAirflow, holds: Callable[[], Any], limit_s: float = 180.0) -> Any:
    """As `eventually`, of what `reconcile` brings about: it runs again and again meanwhile, not only every minute."""

    def found() -> Any:
        return holds() or (
            wait_for_run(airflow.client, "reconcile", airflow.client.trigger("reconcile"), limit_s) and holds()
        )

    return eventually(found, limit_s)


def added(c: Coordinator, topic: str, group: str) -> bool:
    """Add a topic. A fresh broker makes its groups topic first, which may take longer than one request waits."""
    with suppress(KafkaUnavailable):
        topics.add_topic(c, topic, group, actor=PERSON)
        return True
    return False


def state_of(c: Coordinator, topic: str) -> State:
    """Where the topic stands."""
    node = c.zk.find(c.paths.state(topic))
    return codec.decode_state(c.paths.state(topic), node.data).state if node else State.INITIAL


def all_stable(c: Coordinator, topics: list[str]) -> bool:
    """Whether all of them are."""
    return all(state_of(c, topic) is State.STABLE for topic in topics)


def idle(airflow: EmbeddedAirflow) -> bool:
    """Whether no run of `rebalance` is queued or under way."""
    return all(run["state"] in ("success", "failed") for run in airflow.client.dag_runs("rebalance"))
