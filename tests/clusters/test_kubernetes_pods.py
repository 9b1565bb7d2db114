"""Consumers as driver pods on a real Kubernetes: kubelet, containerd and the image that the documentation builds."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.wiring import open_coordinator
from tests.clusters import images
from tests.clusters.kubernetes import SUBMITTER
from tests.clusters.kubernetes_node import Cluster
from tests.clusters.shop import PASSWORD, TOKEN, Shop, settings_secret, submit_to_kubernetes
from tests.integration.agent_site import Site, Traffic
from tests.integration.real_site import Managed
from tests.sasl_kafka import SaslKafka

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(3600)]
APPLICATION = "local:///opt/coordinator/spark_apps/main.py"
PODS = "/api/v1/namespaces/default/pods"
ENDED = {"Succeeded", "Failed"}


class PodShop(Shop):
    """Its consumer `a` is a driver pod."""

    def __init__(self, cluster: Cluster, broker: SaslKafka, managed: Managed, folder: Path) -> None:
        super().__init__(broker, managed, folder)
        self.cluster = cluster
        self.audit.chmod(0o777)  # pods run as another user
        self.secret = settings_secret(cluster, broker, managed)

    def launch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Launch `a` as a task does, with the rights of the documented account."""
        submit_to_kubernetes(monkeypatch)
        extra = {"deploy-mode": "cluster", "namespace": "default"}
        connection = {"conn_type": "spark", "host": f"k8s://{self.cluster.url}", "extra": extra}
        self.submit(monkeypatch, connection, APPLICATION, self.conf())

    def conf(self) -> dict[str, str]:
        submission, driver = "spark.kubernetes.authenticate.submission", "spark.kubernetes.driver"
        return {
            f"{submission}.caCertFile": str(self.cluster.ca),
            f"{submission}.oauthTokenFile": str(self.cluster.tokens[SUBMITTER]),
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark-driver",
            "spark.kubernetes.container.image": images.KUBERNETES_IMAGE,
            f"{driver}.podTemplateFile": str(images.MANIFESTS / "driver-pod.yaml"),
            f"{driver}.master": self.cluster.url,  # there is no address of services here
            f"{driver}.volumes.hostPath.audit.mount.path": str(self.audit),
            f"{driver}.volumes.hostPath.audit.options.path": str(self.audit),
            f"{driver}.request.cores": "0.1",
            "spark.kubernetes.executor.request.cores": "0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
        }

    def drivers(self) -> list[dict[str, Any]]:
        """The pods of `a`, oldest first."""
        found = self.cluster.ask(f"{PODS}?labelSelector=spark-role%3Ddriver")["items"]
        own = [one for one in found if one["metadata"]["name"].startswith(self.managed.site.cluster)]
        return sorted(own, key=lambda one: str(one["metadata"]["creationTimestamp"]))

    def running(self) -> list[dict[str, Any]]:
        """Those that have not ended."""
        return [one for one in self.drivers() if one["status"]["phase"] not in ENDED]

    def processes(self) -> list[psutil.Process]:
        """Of the driver: the JVM, and the consumer's Python below it."""
        found = []
        for process in psutil.process_iter(["cmdline", "name"]):
            line = process.info["cmdline"] or []
            if f"auditFolder={self.audit}" in line and any("main.py" in part for part in line):
                found.append(process)
        return [one for one in found if one.info["name"] in {"java", "python3.11"}]

    def said(self) -> str:
        pods = self.cluster.kubectl("get", "pods,events", "--output=wide")
        logs = [
            self.cluster.kubectl("logs", "--tail=60", one["metadata"]["name"])
            for one in self.drivers()
            if one["status"]["phase"] != "Pending"
        ]
        return "\n".join([pods, *logs])[-16_000:]

    def end(self) -> None:
        self.cluster.kubectl("delete", "pods", "--all", "--now")
        self.wait_for(lambda: not self.processes(), "no driver is left", 60.0)


@pytest.fixture
def shop(
    cluster: Cluster, broker: SaslKafka, keeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[PodShop]:
    site = Site(keeper.connect_string, broker.bootstrap_servers)
    allowed = AllowedLaunches(applications=APPLICATION)
    site.settings = replace(site.settings, status_token=TOKEN, allowed=allowed)
    managed = Managed(site)
    made = PodShop(cluster, broker, managed, tmp_path)
    monkeypatch.setenv("COORDINATOR_KUBERNETES_SECRET", made.secret)
    try:
        with managed.looping():
            yield made
    finally:
        made.end()
        managed.close()


def test_a_driver_pod_registers_reads_hands_over_and_leaves_when_it_is_deleted(
    shop: PodShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed = shop.managed
    traffic = Traffic(managed.site, per_second=20)
    try:
        shop.launch(monkeypatch)
        shop.wait_for(shop.incarnation, "a registers")
        shop.stable("a")
        shop.grown("rows of a")
        (pod,) = shop.running()
        assert urlsplit(shop.address()).hostname == pod["status"]["podIP"]
        names = [one["metadata"]["name"] for one in shop.cluster.ask(PODS)["items"]]
        shown = "".join(shop.cluster.kubectl("logs", name) for name in names)
        shown += shop.cluster.kubectl("get", "pods,configmaps,services,events", "--output=json")
        assert pod["metadata"]["name"] in shown
        assert not [secret for secret in (PASSWORD, TOKEN) if secret in shown]

        managed.join("b")
        assert sorted(shop.stable("ab").values()) == ["a", "a", "b", "b"]
        shop.grown("both read")
        shop.cluster.kubectl("delete", "pod", pod["metadata"]["name"])
        shop.stable("b")

        shop.launch(monkeypatch)
        shop.wait_for(shop.incarnation, "a registers again")
        shop.stable("ab")
        shop.grown("both read again")
        with open_coordinator(managed.site.settings) as c:
            directives.drain(c, "a", "test", "it leaves")
        shop.stable("b")
        shop.wait_for(lambda: not shop.running(), "the driver ends")
    finally:
        sent = traffic.close()
    (drained,) = shop.drivers()
    assert drained["status"]["phase"] == "Succeeded", shop.said()
    shop.follow()
    managed.consumed(sent)
    managed.judge(sent)


def test_kill_9_of_a_driver_makes_the_fleet_alone_start_it_again(
    shop: PodShop, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    traffic = Traffic(shop.managed.site, per_second=20)
    try:
        with open_coordinator(shop.managed.site.settings) as c:
            fleet.set_fleet(c, Fleet("shop", APPLICATION, ("a",)))
            shop.launch(monkeypatch)
            shop.wait_for(shop.incarnation, "a registers")
            shop.stable("a")
            shop.grown("rows of a")
            first = shop.incarnation()
            assert len(shop.processes()) == 2
            for process in shop.processes():
                process.send_signal(signal.SIGKILL)
            noticed = shop.wait_for(lambda: [one.consumer for one in fleet.missing(c)] == ["a"], "a is missing")
            record_property("noticed_s", round(noticed, 1))
            shop.wait_for(lambda: not shop.running(), "its pod has ended")
            (dead,) = shop.drivers()
            assert dead["status"]["containerStatuses"][0]["restartCount"] == 0, "Kubernetes starts it not again"
            shop.launch(monkeypatch)
            shop.wait_for(lambda: shop.incarnation() > first, "it is launched again")

            shop.stable("a")
            shop.grown("rows of the new incarnation")
            assert len(shop.running()) == 1
            assert len(shop.processes()) == 2
    finally:
        traffic.close()
