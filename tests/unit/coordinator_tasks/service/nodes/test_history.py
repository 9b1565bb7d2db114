from dataclasses import replace

import pytest

from coordinator_tasks import show
from coordinator_tasks.core.codecs.history_codec import PACK_RECORDS_OVER, decode_record, encode_record, with_pauses
from coordinator_tasks.core.errors import Malformed, UnknownVersion
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Actor, Move, MoveKind, Pauses, Record, State
from coordinator_tasks.core.ports import Create
from coordinator_tasks.service.nodes.history import LEAST_RECORDS, kept, prune, prune_bytes, rebalances, records
from coordinator_tasks.service.run import upkeep
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


def test_a_long_record_is_packed_and_read_again(shop: Cluster) -> None:
    moves = tuple(Move(n, f"consumer-{n % 40}", f"consumer-{n % 39}", MoveKind.HANDOFF) for n in range(2_000))
    record = Record("orders", State.STABLE, State.CLOSING, 1, "gen", "r", "c", run(1), 5.0, 1.0, 1.0, moves)
    plain, packed = encode_record(record), encode_record(record, PACK_RECORDS_OVER)
    assert len(packed) < len(plain) / 2
    assert decode_record("p", packed, 3) == decode_record("p", plain, 3)
    assert decode_record("p", with_pauses("p", packed, Pauses((), 1)), 3).pauses == Pauses((), 1)
    with pytest.raises(UnknownVersion, match="format version 3; this release reads 1 to 2"):
        decode_record("p", packed.replace(b'"version":2', b'"version":3'), 3)


def test_records_beyond_the_bytes_go_once_an_hour_and_the_newest_stay(shop: Cluster) -> None:
    for n in range(200):
        write(shop, f"r{n}", State.STABLE, State.STABLE, float(n), rebalance_s=0.0)
    size = len(shop.zk.get(shop.paths.record("orders", 199)).data)
    deleted = []
    for _ in range(60):
        deleted.append(prune_bytes(shop.coordinator, "orders", 100 * size))
        shop.clock.advance(60.0)
    assert (sum(deleted), sorted(deleted)[-2]) == (sum(deleted), 0)
    assert len(records(shop.coordinator, "orders", 200)) in (100, 101)
    for _ in range(60):
        prune_bytes(shop.coordinator, "orders", 0)
        shop.clock.advance(60.0)
    assert len(records(shop.coordinator, "orders", 200)) == LEAST_RECORDS


def test_the_log_says_which_records_went_for_their_bytes(shop: Cluster) -> None:
    for n in range(80):
        write(shop, f"r{n}", State.STABLE, State.STABLE, float(n), rebalance_s=0.0)
    shop.coordinator = replace(shop.coordinator, policy=Policy(history_bytes=20_000))
    said: list[str] = []
    for _ in range(60):
        said += upkeep.upkeep(shop.coordinator, ["orders", "payments"]).lines
        shop.clock.advance(60.0)
    (line,) = [one for one in said if one.startswith("orders: old records pruned")]
    assert "beyond 10,000 bytes (a share of policy.history_bytes)" in line
    assert 50 <= len(records(shop.coordinator, "orders")) < 80
