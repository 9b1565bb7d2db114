"""Fixtures that all tests share: real servers, started once per test run and only if some test asks for them."""

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.ports import HOST
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.mysql_server import MySQLServer, mysql_or_skip
from tests.postgres_server import PostgresServer, postgres_or_skip
from tests.sasl_kafka import SaslKafka

# The servers are on this machine, which a proxy of the shell does not reach.
_without_proxy = os.environ.get("no_proxy") or os.environ.get("NO_PROXY")
os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, (_without_proxy, HOST, "localhost")))

# A busy machine is no failure: tests are never timed.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


SERVERLESS = tuple(str(Path(__file__).with_name(name)) for name in ("unit", "formats"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--part``: ``make test`` runs the first part, ``make test-all`` the rest; without the option both run."""
    what = "first: tests without servers, except those with the marker rest, and tests with the marker promise; rest: all others"
    parser.addoption("--part", choices=("first", "rest"), help=what)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the part that the command line names."""
    part = config.getoption("--part")
    if part is None:
        return
    kept, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        (kept if _is_first(item) == (part == "first") else others).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=others)


def _is_first(item: pytest.Item) -> bool:
    serverless = str(item.path).startswith(SERVERLESS) and item.get_closest_marker("rest") is None
    return serverless or item.get_closest_marker("promise") is not None


def pytest_collection_finish() -> None:
    """What is imported by now lives as long as the run: no collection of garbage goes through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def left_nothing_behind() -> Iterator[None]:
    """Open files and servers of one test file disturb all later test files: descriptors beyond 1,024 break `select`, and a
    closed server with a running thread takes a core."""
    before = _open_files()
    yield
    gc.collect()  # a client in a reference cycle closes its connections only at a collection
    assert _open_files() - before < 300, "close what the tests of this file open"
    serving = [thread.name for thread in threading.enumerate() if "serve_forever" in thread.name]
    assert not serving, "shut the servers down before they are closed"


def _open_files() -> int:
    return psutil.Process().num_fds()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A real ZooKeeper for the whole run: use a path or a cluster name of your own, and leave it running."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslKafka]:
    """A real broker for the whole run: use topics and groups of your own, and leave it running.

    It is in the rack ``r1``, and also has a SASL_PLAINTEXT listener for the user ``alice`` with the password
    ``alice-secret``. It keeps records of any time: Kafka would delete those of an earlier year 30 s after its start.
    """
    home, users = tmp_path_factory.mktemp("kafka"), {"alice": "alice-secret"}
    with SaslKafka(home, users=users, settings={"broker.rack": "r1", "log.retention.ms": "-1"}) as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL for the whole run: use tables or a cluster name of your own, and leave it running."""
    with postgres_or_skip() as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySQLServer]:
    """A real MariaDB or MySQL for the whole run: use tables or a cluster name of your own, and leave it running."""
    with mysql_or_skip() as server:
        yield server


@pytest.fixture(scope="session")
def airflow_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., EmbeddedAirflow]]:
    """Starts an Airflow with the arguments of :class:`EmbeddedAirflow` after ``home``; stops it at the end of the run.

    Its four services take 1 GB and ten seconds of both cores: share one per test file, in a fixture of that file, and
    stop it there (``kill()`` is the quickest).
    """
    with ExitStack() as stack:

        def start(dags_folder: Path, plugins_folder: Path | None = None, **options: Any) -> EmbeddedAirflow:
            home = tmp_path_factory.mktemp("airflow")
            return stack.enter_context(EmbeddedAirflow(home, dags_folder, plugins_folder, **options))

        yield start
