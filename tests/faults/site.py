"""Servers that hosts of their own reach, each under an address of its own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import HOST
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble
from tests.faults.case import Failed
from tests.faults.netns import Host, Network
from tests.faults.servers import Servers


@dataclass
class Site:
    """The network, and servers that each host reaches under an address of its own."""

    network: Network
    servers: Servers
    ensemble: EmbeddedEnsemble

    @property
    def zookeepers(self) -> tuple[str, ...]:
        return self.network.servers[:-1]

    @property
    def kafka(self) -> str:
        return self.network.servers[-1]

    def server_of(self, host: Host) -> str:
        """Where its session is: each server lists the addresses of its clients."""
        for address, server in zip(self.zookeepers, self.ensemble.servers, strict=True):
            if f"/{host.address}:" in server.ask("stat"):
                return address
        raise Failed(f"no ZooKeeper server has a connection from {host}")


class ReachableKafka(EmbeddedKafka):
    """Listens everywhere, and tells everybody one address that all hosts reach."""

    reached_at = HOST

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.reached_at}:{self.port}"

    def _listeners(self) -> dict[str, str]:
        own = f"PLAINTEXT://{HOST}:{self.port}"
        found = super()._listeners()
        return {
            **found,
            "listeners": found["listeners"].replace(own, f"PLAINTEXT://0.0.0.0:{self.port}"),
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
        }


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """Raises `NoRights`."""
    with ExitStack() as ending:
        network = ending.enter_context(Network())
        ensemble, kafka = EmbeddedEnsemble(folder / "zookeeper"), ReachableKafka(folder / "kafka")
        kafka.reached_at = network.servers[-1]
        for server in ensemble.servers:
            file = server._settings_path
            file.write_text(file.read_text().replace(f"clientPortAddress={HOST}\n", ""))
        ending.enter_context(ensemble)
        ending.enter_context(kafka)
        connect = ",".join(f"{at}:{one.port}" for at, one in zip(network.servers, ensemble.servers, strict=False))
        servers = Servers(connect, kafka.bootstrap_servers, folder.name)
        ending.callback(servers.close)
        yield Site(network, servers, ensemble)
