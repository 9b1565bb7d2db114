"""The doctor's findings about ZooKeeper's session, sizes and clocks, on the fake."""

from dataclasses import replace
from typing import Any, cast

import pytest

from coordinator_tasks.adapters.discovery import ZooKeeperRegistry
from coordinator_tasks.adapters.server_versions import NOT_TOLD, REFUSES, TAKES
from coordinator_tasks.core.codecs.codec import encode_node
from coordinator_tasks.core.codecs.history_codec import encode_record
from coordinator_tasks.core.model import Actor, Member, Record, State, TopicNode
from coordinator_tasks.core.ports import Create, Delete
from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.doctor import CheckResult, DoctorFinding, zookeeper
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
    assert zookeeper._session(asked, zk).result is CheckResult.OK
    longer = replace(asked, session_timeout_s=4 * cluster.zk.session_timeout_s)
    one = zookeeper._session(longer, zk)
    assert one.result is CheckResult.WARNING
    assert f"grants a time-out of {cluster.zk.session_timeout_s:g} s" in one.says
    assert "maxSessionTimeout" in one.mend


def sizes(
    cluster: Cluster, share: float, takes: dict[str, str] | None = None
) -> tuple[DoctorFinding, DoctorFinding, int]:
    """Findings for a largest node of this share of the default limit, and the size in the request to the servers."""
    cluster.zk.transact([Create(cluster.paths.topic("orders"), b"x" * int(share * zookeeper.JUTE_BYTES))])
    asked: list[int] = []

    def answer(size: int) -> dict[str, str]:
        asked.append(size)
        return takes if takes is not None else {"zk1:2181": TAKES}

    one, other = zookeeper._sizes(cast(Any, cluster.zk), cluster.paths, Side.CONSUMER, answer)
    return one, other, asked[0]


def test_the_largest_node_is_named_with_its_share_of_the_limit(cluster: Cluster) -> None:
    node, limit, asked = sizes(cluster, 0.1)
    assert (node.result, limit.result, asked) == (CheckResult.OK, CheckResult.OK, zookeeper.JUTE_BYTES)
    assert f"{cluster.paths.topic('orders')}, has" in node.says
    assert "10%" in node.says
    assert limit.says == "each server takes a request of 1,048,575 bytes"


def test_a_node_that_this_account_may_not_read_is_named_beside_the_others_size(cluster: Cluster) -> None:
    path = cluster.paths.topic("payments")
    cluster.zk.transact([Create(path), Create(cluster.paths.topic("orders"), b"x" * 9)])
    cluster.zk.denied.add(path)
    denied, size, _ = zookeeper._sizes(cast(Any, cluster.zk), cluster.paths, Side.COORDINATOR, lambda _: {"zk": TAKES})
    assert (denied.result, denied.says.startswith(f"{path} may not be used")) == (CheckResult.FAILED, True)
    assert "the largest of 1 nodes" in size.says


@pytest.mark.parametrize(
    ("takes", "result", "says"),
    [
        ({"zk1": TAKES, "zk2": TAKES}, CheckResult.OK, "each server takes a request of 1,198,372 bytes"),
        ({"zk1": TAKES, "zk2": REFUSES}, CheckResult.WARNING, "zk2 hangs up on a request of 1,198,372 bytes"),
        ({"zk1": NOT_TOLD}, CheckResult.OK, "not told"),
    ],
)
def test_servers_take_a_large_node(cluster: Cluster, takes: dict[str, str], result: CheckResult, says: str) -> None:
    node, limit, asked = sizes(cluster, 0.8, takes)
    assert (limit.result, asked) == (result, 1_198_372)
    assert limit.says.startswith(says)
    proved = set(takes.values()) == {TAKES}
    assert node.result is (CheckResult.OK if proved else CheckResult.WARNING)
    assert bool(node.mend) is not proved


def test_a_server_with_a_smaller_limit_than_the_default_is_named_and_one_that_is_down_is_not(cluster: Cluster) -> None:
    _, limit, _ = sizes(cluster, 0.01, {"zk1": REFUSES, "zk2": TAKES, "zk3": NOT_TOLD})
    assert limit.says == "zk1 hangs up on a request of 1,048,575 bytes: its jute.maxbuffer is smaller"
    assert "-Djute.maxbuffer" in limit.mend
    cluster.zk.transact([Delete(cluster.paths.topic("orders"))])
    _, limit, _ = sizes(cluster, 0.01, {"zk2": TAKES, "zk3": NOT_TOLD})
    assert (limit.result, limit.says) == (
        CheckResult.OK,
        "each server takes a request of 1,048,575 bytes; zk3 does not tell",
    )


def clocks(cluster: Cluster) -> list[DoctorFinding]:
    return list(zookeeper._consumers_clocks(cast(Any, cluster.zk), cluster.paths))


def test_the_clock_of_a_consumers_host_is_compared_by_its_registration(cluster: Cluster) -> None:
    assert clocks(cluster) == []
    cluster.join("a")
    (one,) = clocks(cluster)
    assert (one.result, one.says) == (CheckResult.OK, "the hosts of 1 consumer and ZooKeeper are at most 1 s apart")
    ahead = FakeClock(cluster.clock.now() + 42)
    member = Member("b", 7, "http://b:9007", "boot")
    ZooKeeperRegistry(cluster.server.connect(), cluster.paths, ahead).register(member)
    (one,) = clocks(cluster)
    assert (one.result, one.says) == (CheckResult.WARNING, "by ZooKeeper's clock b is 42.0 s ahead")


def planned(cluster: Cluster, topic: str, ahead_s: float, actor: Actor) -> None:
    """The newest record of a topic, by a host with a clock so far ahead."""
    record = Record(
        topic, State.INITIAL, State.STABLE, 1, "g", "1-a", "joined: a", actor, cluster.clock.now() + ahead_s, 0.0, 0.0
    )
    cluster.zk.ensure(cluster.paths.history(topic))
    cluster.zk.transact([Create(f"{cluster.paths.history(topic)}/", encode_record(record), sequence=True)])


@pytest.mark.parametrize(
    ("ahead_s", "result", "says"),
    [
        (0.0, CheckResult.OK, "who has planned 1 topic last agrees with ZooKeeper's clock"),
        (-4.0, CheckResult.OK, "who has planned 1 topic last"),  # all consumers were asked before the write
        (
            30.0,
            CheckResult.WARNING,
            "by ZooKeeper's clock 'run-1', who was the last to change orders, was 30.0 s ahead",
        ),
        (
            -30.0,
            CheckResult.WARNING,
            "by ZooKeeper's clock 'run-1', who was the last to change orders, was 30.0 s behind",
        ),
    ],
)
def test_the_planners_clock_is_compared(cluster: Cluster, ahead_s: float, result: CheckResult, says: str) -> None:
    planned(cluster, "orders", 500.0, Actor("loop", "ada"))
    planned(cluster, "orders", ahead_s, Actor("airflow", "ada", "rebalance", "run-1", "plan", 1))
    (one,) = zookeeper._coordinators_clocks(cast(Any, cluster.zk), cluster.paths)
    assert one.result is result
    assert one.says.startswith(says)
    assert ("NTP" in one.mend) is (result is CheckResult.WARNING)


def test_a_topic_is_idle_since_its_node_has_named_no_owner(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    node = TopicNode("b:9092", "g", 3, "gen", "id", {0: "a"}, {0: 1}, incarnations={"a": 1})
    for name, one in {
        "owned": node,
        "idle": replace(node, assignments={}, since={}),
        "removed": replace(node, assignments={}, since={}, removed=True),
    }.items():
        cluster.zk.transact([Create(cluster.paths.topic(name), encode_node(one))])
    cluster.zk.transact([Create(cluster.paths.topic("broken"), b"{")])
    cluster.zk.transact([Create(cluster.paths.topic("new"), b"")])
    cluster.clock.advance(50)
    monkeypatch.setattr("time.time", cluster.clock.now)
    assert zookeeper.idle_for(cast(Any, cluster.zk), cluster.paths) == {"idle": 50.0}


@pytest.mark.parametrize(
    ("address", "http", "result", "says"),
    [
        ("http://b:9007", "", CheckResult.FAILED, "b: plain http is registered, and is sent nothing"),
        ("http://b:9007", "allowed", CheckResult.WARNING, "b: the status token goes there in clear"),
        ("https://b:9007", "allowed", CheckResult.WARNING, "every consumer has https, and status_http still"),
        ("https://b:9007", "", CheckResult.OK, "every registered consumer has https"),
    ],
)
def test_a_consumer_with_plain_http_is_named_where_the_site_has_an_authority(
    cluster: Cluster, address: str, http: str, result: CheckResult, says: str
) -> None:
    registry = ZooKeeperRegistry(cluster.server.connect(), cluster.paths, cluster.clock)
    registry.register(Member("b", 7, address, "boot"))
    given = replace(settings(cluster), status_ca="/ca.pem", status_http=http)
    (one,) = zookeeper._plain_interfaces(given, cast(Any, cluster.zk), cluster.paths)
    assert (one.result, one.says.startswith(says)) == (result, True)
    assert not list(zookeeper._plain_interfaces(settings(cluster), cast(Any, cluster.zk), cluster.paths))
