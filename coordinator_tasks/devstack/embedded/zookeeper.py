"""A real ZooKeeper 3.9 on loopback: one server, or an ensemble of three for fault tests.

A session time-out may be 2 to 20 ticks (1 to 10 s with the default tick). Writes are not forced to the disk. They
survive kill -9 of the server, but not a power failure.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path

from coordinator_tasks.devstack.embedded import jars
from coordinator_tasks.devstack.embedded.errors import ProcessFailed
from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from coordinator_tasks.devstack.embedded.processes import READY_POLL_S, ManagedProcess, ProcessSpec, ServerGroup
from coordinator_tasks.java import OPTIONS_VARIABLES, QUICK_START_OPTIONS, find_java, properties

TICK_TIME_MS = 500
ENSEMBLE_SIZE = 3
ANSWER_TIMEOUT_S = 1.0
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
SERVING_MODES = frozenset({"standalone", "leader", "follower"})

SERVER_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOGGING = Path(__file__).with_name("log4j2.properties")


class EmbeddedZooKeeper(ManagedProcess):
    """A ZooKeeper server. ``data_dir`` keeps data and log, also over restarts.

    ``quorum`` (used by :class:`EmbeddedEnsemble`) has the server's number, and the ``server.N=...`` lines of all
    servers. ``settings``: further lines of ``zoo.cfg``, for example for a TLS port. ``java_options``: for the JVM.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        tick_time_ms: int = TICK_TIME_MS,
        quorum: tuple[int, tuple[str, ...]] | None = None,
        settings: Mapping[str, str] | None = None,
        java_options: tuple[str, ...] = (),
    ) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self.tick_time_ms = tick_time_ms
        self._quorum = quorum
        self._settings = settings or {}
        self._java_options = java_options
        self._write_settings()
        name = "ZooKeeper" if quorum is None else f"ZooKeeper server {quorum[0]}"
        super().__init__(self._spec(name), ready=lambda: self.mode() in SERVING_MODES)

    @property
    def connect_string(self) -> str:
        """Return ``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    def ask(self, word: str) -> str:
        """Return the answer to a four-letter word (``ruok``, ``srvr``, ``mntr``, ...); empty without an answer."""
        try:
            with socket.create_connection((HOST, self.port), timeout=ANSWER_TIMEOUT_S) as connection:
                connection.settimeout(ANSWER_TIMEOUT_S)
                connection.sendall(word.encode())
                parts = []
                while part := connection.recv(65536):
                    parts.append(part)
        except OSError:
            return ""
        return b"".join(parts).decode()

    def mode(self) -> str:
        """Return ``standalone``, ``leader`` or ``follower``; empty while it does not serve."""
        lines = self.ask("srvr").splitlines()
        return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode: ")), "")

    @property
    def _settings_path(self) -> Path:
        return self.data_dir / "zoo.cfg"

    def _spec(self, name: str) -> ProcessSpec:
        options = ("-Xmx256m", "-Dzookeeper.forceSync=no", f"-Dlog4j2.configurationFile={LOGGING}", *self._java_options)
        java = (str(find_java().executable), *QUICK_START_OPTIONS, *options, "-cp", jars.zookeeper_class_path())
        return ProcessSpec(
            name=name,
            argv=(*java, SERVER_MAIN, str(self._settings_path)),
            log_path=self.data_dir / "zookeeper.log",
            not_inherited=OPTIONS_VARIABLES,
            ready_timeout_s=READY_TIMEOUT_S,
            stop_timeout_s=STOP_TIMEOUT_S,
        )

    def _write_settings(self) -> None:
        store = self.data_dir / "data"
        store.mkdir(parents=True, exist_ok=True)
        lines = [
            f"tickTime={self.tick_time_ms}",
            f"dataDir={store}",
            f"clientPortAddress={HOST}",
            f"clientPort={self.port}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "4lw.commands.whitelist=ruok,srvr,mntr,stat,conf,wchs,envi",
            *(f"{name}={value}" for name, value in self._settings.items()),
        ]
        if self._quorum is not None:
            number, servers = self._quorum
            lines += ["initLimit=10", "syncLimit=5", *servers]
            (store / "myid").write_text(str(number))
        self._settings_path.write_text(properties("\n".join(lines) + "\n"))


class EmbeddedEnsemble(ServerGroup[EmbeddedZooKeeper]):
    """Three servers that elect a leader. Each ``servers[i]`` can be stopped, killed, paused and started alone."""

    def __init__(self, data_dir: Path, *, java_options: tuple[str, ...] = ()) -> None:
        numbers = range(1, ENSEMBLE_SIZE + 1)
        lines = tuple(f"server.{number}={HOST}:{free_port()}:{free_port()}" for number in numbers)
        super().__init__(
            EmbeddedZooKeeper(data_dir / f"server-{number}", quorum=(number, lines), java_options=java_options)
            for number in numbers
        )

    @property
    def connect_string(self) -> str:
        """Return all servers, ``host:port,host:port,host:port``."""
        return ",".join(server.connect_string for server in self.servers)

    def leader(self) -> EmbeddedZooKeeper:
        """Return the present leader. If an election is under way, wait for it."""
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline_s:
            for server in self.servers:
                if server.running and server.mode() == "leader":
                    return server
            time.sleep(READY_POLL_S)
        raise ProcessFailed(
            f"the ZooKeeper ensemble elected no leader within {READY_TIMEOUT_S:g} s: start enough of its servers for a majority"
        )
