import pytest

from coordinator_tasks import show
from coordinator_tasks.core.codecs.history_codec import encode_record
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.model import Actor, Move, MoveKind, Record, State
from coordinator_tasks.core.ports import Create
from coordinator_tasks.service.nodes.history import kept, prune, rebalances, records
from tests.fakes.cluster import Cluster
from tests.fakes.zookeeper import paths_read


@pytest.fixture
def shop() -> Cluster:
    cluster = Cluster()
    for topic in ("orders", "payments"):
        cluster.zk.ensure(cluster.paths.history(topic))
    return cluster


def run(attempt: int) -> Actor:
    return Actor("airflow", dag="rebalance", run=f"run-{attempt}", task="plan", attempt=1)


def write(cluster: Cluster, rebalance: str, source: State, target: State, at: float, **more: object) -> None:
    topic = str(more.pop("topic", "orders"))
    actor = more.pop("actor", run(1))
    record = Record(topic, source, target, 1, "gen", rebalance, f"cause of {rebalance}", actor, at, 1.0, **more)  # type: ignore[arg-type]
    cluster.zk.transact([Create(f"{cluster.paths.history(topic)}/", encode_record(record), sequence=True)])


def rebalance(cluster: Cluster, name: str, at: float, topic: str = "orders") -> None:
    move = Move(1, "a", "b", MoveKind.HANDOFF)
    write(cluster, name, State.STABLE, State.CLOSING, at, rebalance_s=0.0, moves=(move,), topic=topic)
    write(cluster, name, State.CLOSING, State.STARTING, at + 1, rebalance_s=1.0, actor=run(2), topic=topic)
    write(cluster, name, State.STARTING, State.STABLE, at + 3, rebalance_s=3.0, actor=run(2), topic=topic)


def test_records_come_newest_first_with_their_numbers(shop: Cluster) -> None:
    for n in range(450):
        write(shop, f"r{n}", State.STABLE, State.STABLE, float(n), rebalance_s=0.0)
    found = records(shop.coordinator, "orders", limit=301)
    assert [one.sequence for one in found] == list(range(449, 148, -1))
    assert found[0].at == 449.0
    assert records(shop.coordinator, "orders", limit=1)[0].sequence == 449
    assert records(shop.coordinator, "nothing") == ()


def test_a_rebalance_sums_up_its_records(shop: Cluster) -> None:
    rebalance(shop, "r1", 10.0)
    (one,) = rebalances(shop.coordinator, ["orders"])
    assert (one.rebalance, one.cause, one.began_at, one.ended_at, one.lasted_s) == ("r1", "cause of r1", 10, 13, 3)
    assert one.states == (State.STABLE, State.CLOSING, State.STARTING, State.STABLE)
    assert one.runs == (run(1), run(2))
    assert one.moves == (Move(1, "a", "b", MoveKind.HANDOFF),)


def test_the_newest_rebalances_need_few_records_of_each_topic(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        topic = f"topic-{number}"
        shop.zk.ensure(shop.paths.history(topic))
        for n in range(40):
            rebalance(shop, f"r{number}-{n}", 100.0 * n + number, topic)
    read = paths_read(shop.zk, monkeypatch)
    found = rebalances(shop.coordinator, (), 12)
    expected = [f"r{number}-39" for number in range(9, -1, -1)] + ["r9-38", "r8-38"]
    assert [one.rebalance for one in found] == expected
    assert len(read) <= 10 * 20, "all records of all topics were read: 60,000 for 300 topics"


def test_a_rebalance_whose_state_was_lost_is_not_under_way_for_ever(shop: Cluster) -> None:
    write(
        shop, "lost", State.STABLE, State.CLOSING, 10.0, rebalance_s=0.0, moves=(Move(1, "a", "b", MoveKind.HANDOFF),)
    )
    rebalance(shop, "next", 14.0)
    found = rebalances(shop.coordinator, ["orders"])
    assert [(one.rebalance, one.ended_at, one.lasted_s, one.given_up) for one in found] == [
        ("next", 17.0, 3.0, False),
        ("lost", 14.0, 4.0, True),
    ]
    assert "lost  given up after 4.0 s" in show.history(found)


def test_pruning_keeps_the_newest_and_the_numbers_go_on(shop: Cluster) -> None:
    for n in range(1_200):
        write(shop, f"r{n}", State.STABLE, State.STABLE, float(n), rebalance_s=0.0)
    assert prune(shop.coordinator, "orders", keep=100) == 1_100
    assert prune(shop.coordinator, "orders", keep=100) == 0
    write(shop, "next", State.STABLE, State.STABLE, 2_000.0, rebalance_s=0.0)
    found = records(shop.coordinator, "orders", limit=1_000)
    assert (len(found), found[0].sequence, found[-1].sequence) == (101, 1_200, 1_100)


def test_a_record_that_cannot_be_deleted_keeps_no_other(shop: Cluster) -> None:
    for n in range(10):
        write(shop, f"r{n}", State.STABLE, State.STABLE, float(n), rebalance_s=0.0)
    shop.zk.transact([Create(f"{shop.paths.record('orders', 2)}/child")])
    assert prune(shop.coordinator, "orders", keep=5) == 4
    assert [record.sequence for record in records(shop.coordinator, "orders", 7)] == [9, 8, 7, 6, 5, 2]


def test_a_record_that_cannot_be_read_is_named(shop: Cluster) -> None:
    shop.zk.transact([Create(f"{shop.paths.history('orders')}/", b"[]", sequence=True)])
    with pytest.raises(Malformed, match=r"^/consumers/shop/history/orders/0000000000: is not a JSON object"):
        records(shop.coordinator, "orders")


@pytest.mark.parametrize(("topics", "records"), [(0, 10_000), (10, 10_000), (40, 2_500), (200, 500), (1_000, 500)])
def test_many_topics_share_the_records_that_are_kept(topics: int, records: int) -> None:
    assert kept(topics) == records
