"""The real neighbours, wired together from settings."""

import uuid
from pathlib import Path

import pytest

from coordinator_tasks.core.errors import IdInUse, LookAgain
from coordinator_tasks.core.model import Member
from coordinator_tasks.core.ports import Create, VersionCheck
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
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
