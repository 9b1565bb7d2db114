"""The registry of consumers goes away while ZooKeeper is up: everything is held as it is, and goes on afterwards."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = pytest.mark.integration
ALL = range(4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "registry"
    made.mkdir()
    return made


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, folder: Path) -> Iterator[Managed]:
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers)
    site.settings = replace(site.settings, discovery=f"file:{folder}", registry_ttl_s=3.0)
    made = Managed(site)
    yield made
    made.close()


def test_without_the_registry_everything_is_held_and_consumed_and_the_drain_is_done_when_it_is_back(
    managed: Managed, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    managed.join("a")
    managed.join("b")
    with managed.looping(), caplog.at_level(logging.WARNING):
        managed.stable("ab")
        traffic = Traffic(managed.site)
        managed.ledger.grown(ALL, "records flow")
        away = folder.rename(folder.with_name("away"))
        with open_coordinator(managed.site.settings) as c:
            directives.drain(c, "b", "test", "asked while the registry is away")
        before, known = managed.node(), managed.steps()
        wait_for(lambda: f"folder {folder} cannot be used" in caplog.text, "the coordinator holds and says so", LIMIT_S)
        managed.ledger.grown(ALL, "everything is consumed meanwhile", by=400)
        assert managed.node() == before
        assert managed.steps() == known
        away.rename(folder)
        managed.stable("a")
        sent = traffic.close()
        managed.consumed(sent)
    managed.judge(sent)
