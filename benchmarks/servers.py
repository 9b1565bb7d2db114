"""What benchmarks share on real servers: one ZooKeeper and one broker for the duration of a block, and waits."""

import tempfile
import time
from collections.abc import Callable, Iterator
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


def until(holds: Callable[[], bool], what: str, limit_s: float = 120.0) -> None:
    """Wait until `holds` returns True. Raises `TimeoutError` after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {limit_s:g} s; the machine may be too busy to measure on")
        time.sleep(0.05)
