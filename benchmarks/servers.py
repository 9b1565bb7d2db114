"""The servers of most benchmarks: one ZooKeeper and one broker, for the duration of a block."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper


class Servers(NamedTuple):
    """Addresses, and a temporary folder for the benchmark."""

    folder: Path
    zookeeper: str
    kafka: str


@contextmanager
def served(name: str) -> Iterator[Servers]:
    """Yield separate servers for this benchmark; `name` begins the name of their folder."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{name}-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(folder / "zookeeper")).connect_string
        yield Servers(folder, zookeeper, stack.enter_context(EmbeddedKafka(folder / "kafka")).bootstrap_servers)
