"""Three ZooKeeper servers, of which the majority is lost for a while; connections that are cut."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble, EmbeddedZooKeeper
from tests.faults.proxy import Proxy
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ALL = range(4)
WITHOUT_S = 10.0
"""Without a majority: longer than any session."""
CUTS = 12


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedEnsemble]:
    with EmbeddedEnsemble(tmp_path_factory.mktemp("ensemble")) as three:
        yield three


@pytest.fixture
def managed(ensemble: EmbeddedEnsemble, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(ensemble.connect_string, kafka.bootstrap_servers))
    yield made
    made.close()


def test_without_a_majority_nothing_is_decided_and_nothing_moves_afterwards(
    ensemble: EmbeddedEnsemble, managed: Managed, caplog: pytest.LogCaptureFixture
) -> None:
    managed.join("a")
    managed.join("b")
    with managed.looping(), caplog.at_level(logging.WARNING):
        managed.stable("ab")
        before, known = managed.node(), len(managed.history())
        traffic = Traffic(managed.site)
        managed.ledger.grown(ALL, "records flow")
        leader = ensemble.leader()
        down = (leader, next(one for one in ensemble.servers if one is not leader))
        for server in down:
            server.kill()
        wait_for(lambda: "holding everything as it is" in caplog.text, "the coordinator holds and says so", LIMIT_S)
        began = time.monotonic()
        while time.monotonic() - began < WITHOUT_S:
            managed.ledger.grown(ALL, "consumers go on without a majority", by=10)
        ensemble.start()
        wait_for(lambda: "everything answers again; continuing" in caplog.text, "the coordinator goes on", LIMIT_S)
        managed.stable("ab")
        managed.ledger.grown(ALL, "everything is consumed afterwards")
        sent = traffic.close()
        managed.consumed(sent)
        after = managed.node()
    assert (after.assignments, after.since, after.generation) == (before.assignments, before.since, before.generation)
    assert after.epoch == before.epoch, "nothing was planned"
    assert len(managed.history()) == known
    managed.judge(sent)


def test_connections_that_are_cut_again_and_again_delay_and_nothing_else(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka
) -> None:
    with Proxy(zookeeper.connect_string) as proxy:
        managed = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers))
        through = replace(managed.site.settings, zookeeper=proxy.address)
        owners, cut, numbers = "a", 0, count()
        try:
            managed.join("a", through)
            with managed.looping(settings=through):
                managed.stable("a")
                traffic = Traffic(managed.site)
                for name in "bd":
                    managed.join(name, through)
                    owners += name
                    for _ in range(CUTS):
                        cut += proxy.cut()
                        managed.ledger.grown([next(numbers) % len(ALL)], "records flow", by=5)
                    managed.stable(owners)
                proxy.refuse()
                managed.ledger.grown(ALL, "everything goes on while ZooKeeper refuses")
                proxy.let_through()
                managed.stable(owners)
                sent = traffic.close()
                managed.consumed(sent)
            managed.judge(sent)
            print(f"\n{cut} connections cut")
            assert cut > CUTS
        finally:
            managed.close()
