"""Prometheus scrapes a running cluster with the project's own files: what it says is true, and a stopped consumer raises an alert."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer as KafkaConsumer

from coordinator_tasks.core.codecs.growth_codec import encode_growth
from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import growth_store
from coordinator_tasks.wiring import open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration import keda
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.prometheus_server import (
    FOLDER,
    PROMETHEUS,
    Prometheus,
    environment_of,
    running_metrics,
    running_prometheus,
)
from tests.integration.real_site import Managed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        PROMETHEUS is None,
        reason="prometheus is not installed (Debian: apt-get install prometheus, or make install as root)",
    ),
]
TOKEN = "monitoring-token"
LIMIT_S = 60.0


@dataclass
class Monitored:
    """A cluster with the plain loop, consumers as processes, the command `metrics`, and Prometheus."""

    site: Site
    managed: Managed
    home: Path
    ending: ExitStack
    prometheus: Prometheus

    def consumer(self, name: str) -> ManagedProcess:
        return start_consumer(self.site, name, self.home, self.ending)


def start_consumer(site: Site, name: str, home: Path, ending: ExitStack) -> ManagedProcess:
    argv = (sys.executable, "-m", "spark_apps.plain", "--consumer", name, "--sink", str(home / f"{name}.rows"))
    path = site.paths.member(name)
    environment = {**environment_of(site, TOKEN), "COORDINATOR_LOG_FORMAT": "json"}
    spec = ProcessSpec(name, argv, home / f"{name}.log", environment)
    process = ManagedProcess(spec, lambda: site.zk.find(path) is not None)
    process.start()
    ending.callback(process.kill)
    return process


@pytest.fixture
def monitored(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Monitored]:
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers)
    with ExitStack() as ending:
        ending.callback(site.close)
        managed = Managed(site)
        ending.enter_context(managed.looping(settings=replace(site.settings, status_token=TOKEN)))
        start_consumer(site, "a", tmp_path, ending)
        managed.stable("a")
        listen = f"127.0.0.1:{free_port()}"
        ending.enter_context(running_metrics(tmp_path, listen, environment_of(site, TOKEN)))
        server = ending.enter_context(running_prometheus(tmp_path, listen, TOKEN))
        yield Monitored(site, managed, tmp_path, ending, server)


def test_what_prometheus_says_is_true_and_a_stopped_consumer_raises_an_alert(monitored: Monitored) -> None:
    ask, topic = monitored.prometheus, monitored.site.topic
    wait_for(lambda: ask.value("coordinator_survey_up") == 1, "the coordinator is scraped", LIMIT_S)
    traffic = Traffic(monitored.site)
    second = monitored.consumer("b")
    owners = monitored.managed.stable("ab")
    both = "count(count by (consumer_id) (kafka_consumergroup_group_lag))"
    wait_for(lambda: ask.value(both) == 2, "both consumers are found and scraped", LIMIT_S)
    told = {f"{p}": owner for p, owner in owners.items()}
    wait_for(lambda: owners_in(ask, topic) == told, "each partition is said to be its owner's", LIMIT_S)
    stable = f'coordinator_topic_state{{topic="{topic}",state="Stable"}}'
    epoch = monitored.managed.node().epoch
    wait_for(lambda: ask.value("coordinator_topic_epoch") == epoch, "Prometheus knows the join", LIMIT_S)
    wait_for(lambda: ask.value(stable) == 1, "Prometheus knows that it is Stable")
    wait_for(lambda: ask.value('coordinator_moves_total{kind="handoff"}') == 2, "the join has moved two partitions")
    wait_for(lambda: ask.value("coordinator_pause_seconds_count") == 2, "both pauses are measured", LIMIT_S)
    stored = [one.wait_s for one in monitored.managed.history()[-1].pauses.measured]  # type: ignore[union-attr]
    assert ask.value("coordinator_pause_seconds_sum") == pytest.approx(sum(one or 0 for one in stored), abs=1e-3)
    print(f"\npauses in Prometheus: {ask.value('coordinator_pause_seconds_sum')} s together, stored: {stored}")
    lag = ask.value("max(kafka_consumergroup_group_lag_seconds)")
    assert lag is not None
    assert lag < 5, "the consumers keep up"
    every_query_of_the_dashboard_is_answered(ask)
    assert not ask.firing()

    os.kill(second.pid, signal.SIGSTOP)
    took_s = wait_for(lambda: "CoordinatorConsumerAbsent" in ask.firing(), "the alert fires", LIMIT_S)
    orphans = 'kafka_consumergroup_group_lag{consumer_id="b",job="coordinator"}'
    assert len(ask.values(orphans)) == 2, "who looks for the coordinator tells the lag of who is silent"
    print(f"a stopped consumer raised its alert after {took_s:.1f} s")
    second.kill()
    monitored.managed.stable("a")
    wait_for(lambda: not ask.firing(), "the alert ends", LIMIT_S)
    wait_for(lambda: not ask.values('kafka_consumergroup_group_lag{consumer_id="b"}'), "b has no series any more")
    traffic.close()
    a_client_that_subscribes_with_the_group_raises_the_alarm_of_the_audit(monitored)


def owners_in(ask: Prometheus, topic: str) -> dict[str, str]:
    """Partition → its owner, or an empty text while it changes hands."""
    found = ask.values(f'kafka_consumergroup_group_offset{{topic="{topic}"}}')
    labels = [dict(re.findall(r"(partition|consumer_id)=(\w*)", one)) for one in found]
    return {one["partition"]: one.get("consumer_id", "") for one in labels}


def a_client_that_subscribes_with_the_group_raises_the_alarm_of_the_audit(monitored: Monitored) -> None:
    ask, site = monitored.prometheus, monitored.site
    intruders = 'coordinator_audit_findings{kind="intruder"}'
    assert ask.value(intruders) == 0
    # It commits nothing: that would be a second finding.
    client = {**site.settings.kafka, "group.id": site.group, "client.id": "tool", "enable.auto.commit": False}
    with closing(KafkaConsumer(client)) as intruder:
        intruder.subscribe([site.topic])

        def fires() -> bool:
            intruder.poll(0.2)
            return "CoordinatorOwnershipDisputed" in ask.firing()

        took_s = wait_for(fires, "the alert fires", LIMIT_S)
        assert ask.value(intruders) == 1
    print(f"an intruder in the group raised its alert after {took_s:.1f} s")
    wait_for(lambda: not ask.firing(), "the alert ends with it", LIMIT_S)


def test_keda_gets_the_number_that_the_growth_policy_finds_right(monitored: Monitored) -> None:
    """The consumer is as a pod of a StatefulSet is: in no fleet, and its id is the name of the set with a number."""
    server, asked = monitored.prometheus.address, keda.query(cluster_name=monitored.site.cluster)
    monitored.consumer("billing-0")
    wait_for(lambda: set(monitored.managed.node().assignments.values()) == {"a", "billing-0"}, "both read", LIMIT_S)
    monitored.managed.stable(["a", "billing-0"])
    wait_for(lambda: monitored.prometheus.value("coordinator_survey_up") == 1, "the coordinator is scraped", LIMIT_S)
    assert keda.number(server, asked) is None, "as long as nobody has looked, KEDA changes nothing"
    with open_coordinator(replace(monitored.site.settings, status_token=TOKEN)) as c:
        autoscale.set_growth(c, "billing", Limits(least=3, most=5))
        (looked,) = autoscale.look(c, ["billing"], PERSON)
        assert (looked.decision.count, looked.decision.desired) == (1, 3), looked.text
        wait_for(lambda: keda.number(server, asked) == 3, "Prometheus has the number", LIMIT_S)
        old = replace(looked.decision, at=looked.decision.at - 700)
        growth = growth_store.read(c, "billing")
        path, stale = c.paths.growth("billing"), replace(growth, memory=replace(growth.memory, latest=old))
        c.zk.transact([SetData(path, encode_growth(stale), growth.version)])
        wait_for(lambda: keda.number(server, asked) is None, "a number of eleven minutes ago is none", LIMIT_S)


def every_query_of_the_dashboard_is_answered(ask: Prometheus) -> None:
    """By Prometheus; those of what has happened here have a value."""
    board = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    empty = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$cluster", ".*").replace("$topic", ".*").replace("$__rate_interval", "1m")
            if not ask.values(query):
                empty.add(panel["title"])
    assert not empty
