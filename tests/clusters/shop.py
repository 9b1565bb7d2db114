"""A cluster of consumers whose topic is managed, with one consumer `a` that an engine runs, launched by the operator."""

import json
import os
import sqlite3
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from coordinator_plugin import cluster_mode
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.launch import LaunchConsumerOperator

from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.jars import pyspark_home
from coordinator_tasks.java import find_java
from coordinator_tasks.settings import plain_settings
from coordinator_tasks.wiring import open_coordinator
from tests.audit_rows import read_audit
from tests.clusters.kubernetes_node import Cluster
from tests.integration.real_site import Managed
from tests.sasl_kafka import SaslKafka

PASSWORD, TOKEN = "planted-kafka-password-7c1e", "planted-status-token-93ab"
LIMIT_S = 500.0
POLL_S = 0.1


def settings_secret(cluster: Cluster, broker: SaslKafka, managed: Managed) -> str:
    """Create the Secret of the documented manifests, whose Kafka asks for a password; returns its name."""
    sasl = broker.login(PASSWORD)
    settings = plain_settings(replace(managed.site.settings, kafka=sasl))
    name = f"coordinator-{managed.site.cluster}"
    cluster.secret(name, settings_json=json.dumps(settings), kafka_json=json.dumps(sasl))
    return name


def launch(monkeypatch: pytest.MonkeyPatch, connections: dict[str, dict[str, Any]], **fields: Any) -> None:
    """Launch `a` as a task does, with these connections; `fields` are those of the operator."""
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    LaunchConsumerOperator(task_id="launch", consumer="a", **fields)._launch(CoordinatorHook(fields["cluster"]))


def submit_to_kubernetes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process submit; only the provider's client is missing here: it follows drivers, which no launch here does."""
    monkeypatch.setenv("SPARK_HOME", str(pyspark_home()))
    monkeypatch.setenv("JAVA_HOME", str(find_java().home))
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setattr(cluster_mode, "provider_problem", lambda _: "")


class Watched(ABC):
    """A managed topic whose consumers run on an engine."""

    managed: Managed

    @abstractmethod
    def said(self) -> str:
        """What the engine and the consumers say, for a test that fails."""

    @abstractmethod
    def follow(self) -> None:
        """Take the new rows over into the ledger."""

    def wait_for(self, holds: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> float:
        """Seconds until `holds`; an error with what is said then."""
        begun = time.monotonic()
        while not holds():
            if time.monotonic() - begun > limit_s:
                raise AssertionError(f"not within {limit_s:g} s: {what}\n{self.said()}")
            time.sleep(POLL_S)
        return time.monotonic() - begun

    def stable(self, owners: Collection[str]) -> dict[int, str]:
        """Wait until exactly these own something and the topic is Stable; who owns what."""
        self.wait_for(lambda: self.managed._is_stable(owners), f"Stable with {owners}")
        return dict(self.managed.node().assignments)

    def grown(self, what: str, by: int = 30) -> float:
        """Wait until every partition has so many more rows."""
        self.follow()
        ledger = self.managed.ledger
        wanted = {p: len(set(ledger.offsets(p))) + by for p in range(self.managed.site.partitions)}

        def enough() -> bool:
            self.follow()
            return all(len(set(ledger.offsets(p))) >= count for p, count in wanted.items())

        return self.wait_for(enough, what)


class Shop(Watched):
    """The rows of `a` come by its audit, in `audit`; Kafka asks for a password."""

    def __init__(self, broker: SaslKafka, managed: Managed, folder: Path) -> None:
        self.broker, self.managed, self.folder = broker, managed, folder
        self.audit = folder / "audit"
        self.audit.mkdir()
        self._taken: Counter[int] = Counter()  # rows of each incarnation

    def submit(
        self, monkeypatch: pytest.MonkeyPatch, spark: dict[str, Any], application: str, conf: dict[str, str]
    ) -> None:
        """Launch `a` with this Spark connection."""
        host, _, port = self.managed.site.zookeeper.partition(":")
        kafka = {
            "bootstrap.servers": self.broker.sasl_bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
        }
        connections = {
            "ZOOKEEPER_DEFAULT": {
                "conn_type": "generic",
                "host": host,
                "port": int(port),
                "extra": {"status_token": TOKEN, "session_timeout_s": 4},
            },
            "KAFKA_DEFAULT": {"conn_type": "kafka", "login": "alice", "password": PASSWORD, "extra": kafka},
            "SPARK_DEFAULT": spark,
        }
        monkeypatch.setenv("COORDINATOR_CLUSTERS", self.managed.site.cluster)
        launch(
            monkeypatch,
            connections,
            cluster=self.managed.site.cluster,
            application=application,
            application_args=["--default", "spark_apps.pipelines.audit:build", "--set", f"auditFolder={self.audit}"],
            conf=conf,
            base=str(self.folder / "runs"),
        )

    def incarnation(self) -> int:
        """Of the registered `a`; 0 = it is not registered."""
        with open_coordinator(self.managed.site.settings) as c:
            member = c.discovery.members().get("a")
            return 0 if member is None else member.incarnation

    def address(self) -> str:
        """Under which the coordinator asks `a`."""
        with open_coordinator(self.managed.site.settings) as c:
            return c.discovery.members()["a"].address

    def follow(self) -> None:
        """Take the new rows of `a` over into the ledger."""
        try:
            found = read_audit(self.audit)
        except sqlite3.OperationalError:  # a new incarnation has not made its table yet
            return
        for incarnation, rows in groupby(found, itemgetter("incarnation")):
            new = list(rows)[self._taken[incarnation] :]
            self._taken[incarnation] += len(new)
            self.managed.ledger.rows += [
                Row("a", incarnation, one["epoch"], one["partition"], one["offset"], 0, 0.0, one["processed_at"])
                for one in new
            ]
