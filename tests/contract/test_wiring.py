"""The real neighbours, wired together from settings."""

import uuid
from pathlib import Path

import pytest

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.errors import IdInUse, LookAgain
from coordinator_tasks.core.model import Ending, Fleet, Member
from coordinator_tasks.core.ports import Create, Delete, VersionCheck
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes.directives import drain, read_directive
from coordinator_tasks.service.nodes.fleet import fleets, missing, record_end, set_fleet
from coordinator_tasks.wiring import Settings, open_consumer_session, open_coordinator


@pytest.fixture(params=["zookeeper", "file"])
def settings(
    request: pytest.FixtureRequest, zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path: Path
) -> Settings:
    return Settings(
        cluster=f"c{uuid.uuid4().hex[:8]}",
        zookeeper=f"{zookeeper.connect_string}/wiring",
        kafka={"bootstrap.servers": kafka.bootstrap_servers},
        discovery="zookeeper" if request.param == "zookeeper" else f"file:{tmp_path}",
        session_timeout_s=4.0,
        registry_ttl_s=0.5,
    )


def test_a_consumer_registers_is_seen_and_keeps_its_id(settings: Settings) -> None:
    with open_coordinator(settings) as c, open_consumer_session(settings) as session:
        member = Member("a", session.claim_incarnation("a"), "http://127.0.0.1:7001", c.boot_id)
        seen = c.zk.get(c.paths.id("a")).stat.version
        session.registry.register(member)
        assert c.discovery.members()["a"].incarnation == member.incarnation
        with pytest.raises(LookAgain):
            c.zk.transact([VersionCheck(c.paths.id("a"), seen), Create(f"{c.paths.base}/given-away")])
        with open_consumer_session(settings) as second:
            later = Member("a", second.claim_incarnation("a"), "http://127.0.0.1:7002", c.boot_id)
            assert later.incarnation > member.incarnation
            with pytest.raises(IdInUse):
                second.registry.register(later)
        session.registry.deregister("a", member.incarnation)
        assert "a" not in c.discovery.members()


def test_a_lost_counter_does_not_draw_a_number_that_lives_on(settings: Settings) -> None:
    with open_coordinator(settings) as c, open_consumer_session(settings) as session:
        drawn: list[int] = []
        for _ in range(2):
            drawn.append(session.claim_incarnation("lost"))
            c.zk.transact([Delete(c.paths.id("lost"))])
        assert len(set(drawn)) == 2


def test_draining_and_relaunching_a_fleet(settings: Settings) -> None:
    with open_coordinator(settings) as c, open_consumer_session(settings) as session:
        set_fleet(c, Fleet("etl", OWN_APPLICATIONS[0], ("a", "b")))
        assert [one.consumer for one in missing(c)] == ["a", "b"]
        incarnation = session.claim_incarnation("a")
        session.registry.register(Member("a", incarnation, "http://127.0.0.1:7001", c.boot_id))
        assert [one.consumer for one in missing(c)] == ["b"]
        assert drain(c, "a", "ada", "upgrade").draining is not None
        assert fleets(c)[0].consumers == ("b",)
        stats = [c.zk.get(path).stat.modified_zxid for path in (c.paths.directive("a"), c.paths.fleet("etl"))]
        assert stats[0] == stats[1]
        assert record_end(c, "a", incarnation, Ending.LEFT).ended == {incarnation: Ending.LEFT}
        assert read_directive(c, "a").version == 0
