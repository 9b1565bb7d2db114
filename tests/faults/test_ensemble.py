"""Three ZooKeeper servers, of which the majority is lost for a while; a connection that carries nothing any more."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import State
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble, EmbeddedZooKeeper
from coordinator_tasks.service.nodes.directives import read_directive
from coordinator_tasks.wiring import open_coordinator
from tests.faults.proxy import Proxy
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
ALL = range(4)
WITHOUT_S = 10.0
"""Without a majority: longer than any session."""


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


def test_a_giver_without_zookeeper_is_told_by_the_coordinator_and_the_hand_off_ends(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka
) -> None:
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers)
    site.settings = replace(site.settings, status_token="asked")  # a node is taken only from who has the token
    managed = Managed(site)
    try:
        with Proxy(zookeeper.connect_string) as proxy, managed.looping():
            giver = managed.join("a", replace(site.settings, zookeeper=proxy.address, session_timeout_s=12.0))
            managed.stable("a")
            traffic = Traffic(site)
            life = site.incarnation("a")
            proxy.swallow()
            managed.join("b")
            wait_for(lambda: managed.state() is State.CLOSING, "the hand-off is under way", LIMIT_S)
            wait_for(lambda: site.zk.find(site.paths.member("a")) is None, "the session of the giver ends", LIMIT_S)
            managed.stable("ab")
            managed.ledger.grown(ALL, "both read, the giver as well")
            assert site.zk.find(site.paths.member("a")) is None, "the hand-off was over before the giver came back"
            proxy.let_through()
            wait_for(lambda: giver.status.health == "ok", "the giver is back", LIMIT_S)
            managed.stable("ab")
            sent = traffic.close()
            managed.consumed(sent)
        with open_coordinator(site.settings) as c:
            assert read_directive(c, "a").isolation is None, "who answers is not isolated"
        assert site.incarnation("a") == life
        assert sum(len(record.moves) for record in managed.history()) == len(ALL) + len(ALL) // 2
        managed.judge(sent)
    finally:
        managed.close()
