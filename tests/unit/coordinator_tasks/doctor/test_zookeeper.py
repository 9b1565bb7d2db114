"""What the doctor says of ZooKeeper's session, sizes and clocks, on the fake."""

from dataclasses import replace
from typing import Any, cast

import pytest

from coordinator_tasks.adapters.discovery import ZooKeeperRegistry
from coordinator_tasks.core.kafka_rights import Side
from coordinator_tasks.core.model import Member
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.doctor import Finding, Result, zookeeper
from coordinator_tasks.wiring import Settings
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import Cluster


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def settings(cluster: Cluster) -> Settings:
    return Settings(cluster.name, "zk:2181", {"bootstrap.servers": "broker:9092"})


def test_a_shorter_session_than_asked_for_is_a_warning(cluster: Cluster) -> None:
    zk = cast(Any, cluster.zk)
    asked = replace(settings(cluster), session_timeout_s=cluster.zk.session_timeout_s)
    assert zookeeper._session(asked, zk).result is Result.OK
    longer = replace(asked, session_timeout_s=4 * cluster.zk.session_timeout_s)
    one = zookeeper._session(longer, zk)
    assert one.result is Result.WARNING
    assert f"grants a time-out of {cluster.zk.session_timeout_s:g} s" in one.says
    assert "maxSessionTimeout" in one.mend


@pytest.mark.parametrize(("share", "result"), [(0.1, Result.OK), (0.8, Result.WARNING)])
def test_the_largest_node_is_named_with_its_share_of_the_limit(cluster: Cluster, share: float, result: Result) -> None:
    path = cluster.paths.topic("orders")
    cluster.zk.transact([Create(path, b"x" * int(share * zookeeper.JUTE_BYTES))])
    one = zookeeper._sizes(cast(Any, cluster.zk), cluster.paths, Side.CONSUMER)
    assert one.result is result
    assert f"{path}, has" in one.says
    assert f"{share:.0%}" in one.says


def clocks(cluster: Cluster) -> list[Finding]:
    return list(zookeeper._consumers_clocks(cast(Any, cluster.zk), cluster.paths))


def test_the_clock_of_a_consumers_host_is_compared_by_its_registration(cluster: Cluster) -> None:
    assert clocks(cluster) == []
    cluster.join("a")
    (one,) = clocks(cluster)
    assert (one.result, one.says) == (Result.OK, "the hosts of 1 consumer and ZooKeeper are at most 1 s apart")
    ahead = FakeClock(cluster.clock.now() + 42)
    member = Member("b", 7, "http://b:9007", "boot")
    ZooKeeperRegistry(cluster.server.connect(), cluster.paths, ahead).register(member)
    (one,) = clocks(cluster)
    assert (one.result, one.says) == (Result.WARNING, "by ZooKeeper's clock b is 42.0 s ahead")


def test_a_registration_that_cannot_be_read_hides_no_other_clock(cluster: Cluster) -> None:
    cluster.join("a")
    cluster.join("b")
    node = cluster.zk.get(cluster.paths.id("b"))
    cluster.zk.transact([SetData(cluster.paths.id("b"), b"{", node.stat.version)])
    (one,) = clocks(cluster)
    assert "1 consumer and" in one.says
