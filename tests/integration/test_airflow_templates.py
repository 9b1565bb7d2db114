"""Real Airflow renders no text of a consumer, fleet, znode or form: no command runs, no secret is shown.

A name that is a template is refused.
"""

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.codecs.status_codec import encode_status
from coordinator_tasks.core.model import Actor, ConsumerStatus, Fleet
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.airflow_client import AirflowClient
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.settings import Settings
from tests.airflow_calls import wait_for_run, xcom
from tests.integration.airflow_site import airflow_of, cluster_of, eventually, reconciled
from tests.integration.stub_consumer import BOOT_ID, StubConsumer

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(900)]

STUB = Path(__file__).with_name("stub_consumer.py")
PERSON = Actor("command", "ada")
TOKEN, PASSWORD = "token-not-to-be-seen", "password-not-to-be-seen"
EFFECT = "ranastemplate"
DAGS = ("reconcile", "consumers", "rebalance", "stuck_topic", "isolate")


class Liar(StubConsumer):
    """Acts on nothing, and once it lies, puts a template into all of its answer."""

    lie = ""

    def status(self) -> bytes:
        if not self.lie:
            return super().status()
        lie = ConsumerStatus(self.consumer, self.lie, self.incarnation, self.lie, self.lie, {}, (self.lie,))
        return encode_status(lie)


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    allowed = AllowedLaunches(applications=str(STUB), conf="spark.x")
    return cluster_of(zookeeper, kafka, status_token=TOKEN, allowed=allowed)


@pytest.fixture(scope="module")
def launched(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    """The run folder of the consumer that is launched, which is stopped in the end."""
    folder = RunFolder.of(tmp_path_factory.mktemp("consumers"), settings.cluster, "late")
    yield folder
    if folder.lock.exists():
        os.kill(int(folder.lock.read_text()), signal.SIGTERM)
        eventually(lambda: folder.exit_code() is not None)


@pytest.fixture(scope="module")
def airflow(
    settings: Settings, launched: RunFolder, airflow_factory: Callable[..., EmbeddedAirflow]
) -> Iterator[EmbeddedAirflow]:
    extra = {"policy": {"stuck_after_s": 3}, "status_token": TOKEN}
    secret, base = {"sasl.password": PASSWORD}, launched.path.parent.parent
    with airflow_of(settings, airflow_factory, set(DAGS), zookeeper=extra, kafka=secret, base=base) as server:
        yield server


def all_that_is_shown(client: AirflowClient) -> dict[str, Any]:
    """Every run, task instance, XCom, question and event, with its configuration, notes, labels and rendered fields."""
    every = "/dags/~/dagRuns/~"
    shown = {
        "runs": [client.dag_runs(dag_id) for dag_id in DAGS],
        "tasks": [
            client.task_instances(dag_id, run["dag_run_id"]) for dag_id in DAGS for run in client.dag_runs(dag_id)
        ],
        "questions": client.request("GET", f"{every}/hitlDetails?limit=100"),
        "keys": client.request("GET", f"{every}/taskInstances/~/xcomEntries?limit=1000"),
    }
    shown["xcoms"] = [
        xcom(client, one["dag_id"], one["run_id"], one["task_id"], key=one["key"], map_index=one["map_index"])
        for one in shown["keys"]["xcom_entries"]
    ]
    return shown


def asked_about(client: AirflowClient, topic: str) -> Any:
    """The question about this topic, when it is asked."""
    found = client.request("GET", "/dags/stuck_topic/dagRuns/~/hitlDetails?limit=100")["hitl_details"]
    return next((one for one in found if topic in one["subject"]), None)


def test_templates_of_consumers_znodes_and_forms_have_no_effect(
    airflow: EmbeddedAirflow, coordinator: Coordinator, settings: Settings, launched: RunFolder, tmp_path: Path
) -> None:
    client, c, touched = airflow.client, coordinator, tmp_path / "touched"
    secret = "{{ conn.zookeeper_default.extra }}{{ conn.kafka_default.extra }}{{ 'ran' ~ 'as' ~ 'template' }}"
    planted = f"{{{{ macros.uuid.os.popen('touch {touched}').read() }}}}{secret}"
    topic = f"t{uuid.uuid4().hex[:6]}"
    ConfluentKafkaAdmin(settings.kafka).create_topic(topic, 4)
    with Liar(settings, "liar") as liar:
        liar.deaf = True
        topics.add_topic(c, topic, f"g-{topic}", actor=PERSON)
        conf = {"spark.ui.enabled": "false", "spark.x": planted}
        fleet.set_fleet(c, Fleet("billing", str(STUB), ("late",), ("--note", planted), conf))
        # Asked about once: what it says by then is what is shown.
        eventually(lambda: c.zk.find(c.paths.state(topic)))
        liar.lie = planted
        member = json.loads(c.zk.get(c.paths.member("liar")).data)
        lied = member | {"rack": planted, "attributes": {planted: planted}}
        c.zk.transact([SetData(c.paths.member("liar"), json.dumps(lied).encode())])
        question = reconciled(airflow, lambda: asked_about(client, topic))
        eventually(lambda: "late" in c.discovery.members())
        form = {"cluster": settings.cluster, "consumer": "liar", "why": planted, "dry_run": False}
        run = client.trigger("isolate", conf=form)
        assert wait_for_run(client, "isolate", run, 150) == "success"
        # An address may carry a text as well, and answers with 404 there.
        claim = json.loads(c.zk.get(c.paths.member("liar")).data)
        elsewhere = claim | {"address": f"{claim['address']}/{planted}", "bootId": BOOT_ID}
        c.zk.transact([SetData(c.paths.member("liar"), json.dumps(elsewhere).encode())])
        for dag_id in ("reconcile", "rebalance"):
            wait_for_run(client, dag_id, client.trigger(dag_id), 150)
        shown = json.dumps(all_that_is_shown(client))
        fleet.set_fleet(c, Fleet("billing", str(STUB), ()))
    assert not touched.exists(), "a command has run"
    assert EFFECT not in shown
    assert TOKEN not in shown
    assert PASSWORD not in shown
    assert question["subject"] == f"{topic} is held up by liar"
    assert [line for line in question["body"].splitlines() if line.startswith("    liar") and "{{ macros" in line]
    isolation = directives.read_directive(c, "liar").isolation
    assert isolation is not None
    assert isolation.why == planted
    assert eventually(lambda: (launched.path / "note").exists() and (launched.path / "note").read_text()) == planted
