"""A real Kafka on loopback: one broker, or a cluster of three. A process is broker and controller (combined mode)."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.ports import HOST, free_port, listening
from coordinator_tasks.devstack.embedded.processes import (
    ManagedProcess,
    ProcessSpec,
    ServerGroup,
    marked_environment,
    run_to_end,
)
from coordinator_tasks.java import OPTIONS_VARIABLES, QUICK_START_OPTIONS, find_java, properties

STOP_TIMEOUT_S = 30.0
FORMAT_TIMEOUT_S = 60.0
HEAP_OPTION = "-Xmx512m"

FIXED_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "num.recovery.threads.per.data.dir": "2",
    # The first entry of an index maps the whole file. With the default of 10 MB, this takes 8 to 60 ms for each of a
    # partition's two indexes, so with a thousand partitions one request of a producer took half a minute.
    "log.index.size.max.bytes": str(256 * 1024),
    # After kill -9, the broker's old registration blocks its next start for a session, which is 9 s by default.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}

BROKERS = 3
REPLICATED_SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


@dataclass(frozen=True, slots=True)
class Quorum:
    """What the nodes of a cluster share: the cluster id, and node number → port of the node's controller."""

    cluster_id: str
    ports: Mapping[int, int]

    @classmethod
    def of(cls, nodes: int) -> Self:
        # The tool that formats the folder would read a leading dash as an option.
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")
        return cls(cluster_id, {node: free_port() for node in range(1, nodes + 1)})

    @property
    def voters(self) -> str:
        """Return ``node@host:port`` of each controller."""
        return ",".join(f"{node}@{HOST}:{port}" for node, port in self.ports.items())


class EmbeddedKafka(ManagedProcess):
    """A broker. ``data_dir`` keeps data and log, also over restarts.

    Anybody on this machine may use the listener. ``settings`` take precedence over our broker settings. ``node`` and
    ``quorum`` (used by :class:`EmbeddedBrokers`) are the broker's number and its cluster.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        node: int = 1,
        quorum: Quorum | None = None,
        settings: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = QUICK_START_OPTIONS,
    ) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.node = node
        self._quorum = quorum or Quorum.of(1)
        self._overrides = dict(settings or {})
        self._java = (str(find_java().executable), *java_options, HEAP_OPTION, "-cp", jars.kafka_class_path())
        super().__init__(self._spec(), ready=self._answers)

    @property
    def bootstrap_servers(self) -> str:
        """Return ``host:port`` of the listener without authentication."""
        return f"{HOST}:{self.port}"

    def spawn(self) -> None:
        """Start the broker and do not wait. Format the data folder on first use. If the broker runs, do nothing."""
        if self.running:
            return
        self._write_settings()
        if not (self._store / "meta.properties").exists():
            self._format()
        super().spawn()

    @property
    def _store(self) -> Path:
        return self.data_dir / "data"

    @property
    def _settings_path(self) -> Path:
        return self.data_dir / "server.properties"

    def _answers(self) -> bool:
        return listening(self.port)

    def _spec(self) -> ProcessSpec:
        return ProcessSpec(
            name="Kafka" if len(self._quorum.ports) == 1 else f"Kafka broker {self.node}",
            argv=(*self._java, "kafka.Kafka", str(self._settings_path)),
            log_path=self.data_dir / "kafka.log",
            # By default the simple logger writes level info, which is thousands of lines at every start.
            env={"JDK_JAVA_OPTIONS": "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"},
            not_inherited=OPTIONS_VARIABLES,
            stop_timeout_s=STOP_TIMEOUT_S,
        )

    def _format(self) -> None:
        arguments = ("format", "-t", self._quorum.cluster_id, "-c", str(self._settings_path))
        run_to_end(
            [*self._java, "kafka.tools.StorageTool", *arguments],
            FORMAT_TIMEOUT_S,
            marked_environment(self.spec.env, self.spec.not_inherited),
            failure=f"Kafka's data folder {self._store} was not formatted",
            advice="delete the folder, or name another one, and start again",
        )

    def _write_settings(self) -> None:
        self._store.mkdir(parents=True, exist_ok=True)
        settings = {**FIXED_SETTINGS, **self._listeners(), "log.dirs": str(self._store), **self._overrides}
        self._settings_path.touch(mode=0o600)
        self._settings_path.write_text(properties("".join(f"{key}={value}\n" for key, value in settings.items())))

    def _listeners(self) -> dict[str, str]:
        own = f"PLAINTEXT://{HOST}:{self.port}"
        return {
            "node.id": str(self.node),
            "controller.quorum.voters": self._quorum.voters,
            "listeners": f"{own},CONTROLLER://{HOST}:{self._quorum.ports[self.node]}",
            "advertised.listeners": own,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }


class EmbeddedBrokers(ServerGroup[EmbeddedKafka]):
    """Three brokers, each with a replica of every topic. ``servers[i]`` can be stopped, killed and started alone."""

    def __init__(self, data_dir: Path) -> None:
        quorum = Quorum.of(BROKERS)
        folders = {node: data_dir / f"broker-{node}" for node in quorum.ports}
        super().__init__(
            EmbeddedKafka(folder, node=node, quorum=quorum, settings=REPLICATED_SETTINGS)
            for node, folder in folders.items()
        )

    @property
    def bootstrap_servers(self) -> str:
        """Return all brokers, ``host:port,host:port,host:port``."""
        return ",".join(server.bootstrap_servers for server in self.servers)
