"""The live page's data: waits of topics, lags, and actions on offer."""

import asyncio
import math
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coordinator_ui.data import live
from coordinator_ui.data.live import advice, drain_s
from coordinator_ui.data.reading import SharedAnswers
from coordinator_ui.data.topic_summary import TopicSummary
from coordinator_ui.data.trends import LOOK_S, PartitionNow, Trend, Trends
from coordinator_ui.pages import render

from coordinator_tasks.core.measure.lag import WINDOW, LagStatus
from coordinator_tasks.core.measure.lag_moments import EVERY_S, FRESH_S, KEPT, LagMoment, slot_of
from coordinator_tasks.core.model import Committed, ConsumerStatus, Fleet, RunningPartition, State, Token, TopicStatus
from coordinator_tasks.core.ports import Create
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import overrides
from coordinator_tasks.service.watch import lag_moments
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.zookeeper import paths_read
from tests.unit.plugins.pages_site import NASTY, pages_of, register, stable, text_of, under_way


def answers(shop: Cluster, consumer: str, lags: dict[int, int], position: int = 0, rate: float | None = 2.0) -> None:
    running = {
        p: RunningPartition(position, Token(1, 1, "g"), started=True, lag_records=lag, rate=rate)
        for p, lag in lags.items()
    }
    status = ConsumerStatus(consumer, "shop", 1, "boot", "ok", {"orders": TopicStatus("g", 3, {}, running)})
    shop.statuses.answers[consumer] = status


def now(shop: Cluster, **more: Any) -> Any:
    return pages_of(shop, **more).get("/api/v1/clusters/shop/live").json()


def columns(data: Any, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(data["partitions"][name] for name in names), strict=True))


def test_partitions_say_what_their_present_owner_says(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "b"})
    answers(shop, "a", {0: 40, 1: 7})
    answers(shop, "b", {1: 0}, rate=None)
    data = now(shop)
    assert data["owners"] == ["a", "b"]
    assert columns(data, "partition", "owner", "lag", "lag_s", "rate") == [
        (0, 0, 40, 20, 2),
        (1, 1, 0, 0, None),
        (2, -1, None, None, None),
        (3, -1, None, None, None),
    ]
    assert [data["states"][state] for state in data["partitions"]["state"]] == ["runs", "runs", "nobody", "nobody"]
    (topic,) = data["topics"]
    assert (topic["lag"], topic["unowned"]) == (40, "2-3")


def test_what_is_on_its_way_names_giver_and_taker(shop: Cluster) -> None:
    under_way(shop)
    data = now(shop)
    assert [[data["owners"][at] for at in move[2:]] + move[1:2] for move in data["moves"]] == [["a", "b", 3]]
    assert data["states"][data["partitions"]["state"][3]] == "gives"
    assert data["topics"][0]["says"].startswith("It waits for 1 partition to close: a does not answer")


def test_a_draining_and_an_isolated_consumer_are_told_and_may_be_asked_back(shop: Cluster) -> None:
    stable(shop, {0: "a"})
    directives.drain(shop.coordinator, "a", "ada", "new disk")
    directives.isolate(shop.coordinator, "b", by="ada", why="bad host")
    a, b = now(shop)["consumers"]
    assert (a["draining"], a["asked"]) == (True, "draining by ada: new disk")
    assert (b["isolated"], b["asked"]) == (True, "isolated by ada: bad host")
    assert (a["host"], a["capacity"], a["partitions"]) == ("a", 1.0, 1)


def test_a_consumers_spark_ui_and_log_are_linked_and_what_is_no_address_is_said(shop: Cluster) -> None:
    shop.coordinator = replace(shop.coordinator, log_url="https://logs/{consumer}/{application_id}")
    stable(shop, {0: "a"})
    register(shop, "a", spark_ui="http://driver:4040", application_id="app-1")
    register(shop, "b", spark_ui="javascript:alert(1)", application_id=NASTY)
    a, b = now(shop)["consumers"]
    assert (a["spark_ui"], a["driver_log"]) == ("http://driver:4040", "https://logs/a/app-1")
    assert (b["spark_ui"], b["driver_log"]) == ("", "")
    assert [note for note in a["notes"] + b["notes"] if "Spark" in note] == [
        "its Spark UI is said to be at 'javascript:alert(1)', which is no address of a page; no link is shown",
        f"its Spark application is said to be '{NASTY}', which is no id; it is left out",
    ]


def test_the_speed_is_measured_between_two_looks(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "b", 2: "b", 3: "b"})
    answers(shop, "b", dict.fromkeys((1, 2, 3), 0), rate=0.0)
    client = pages_of(shop)
    client.app.state.shared._fresh_s = -1.0  # type: ignore[attr-defined]
    path = "/api/v1/clusters/shop/live"
    answers(shop, "a", {0: 1_000}, position=100)
    assert client.get(path).json()["topics"][0]["speed"] is None
    shop.clock.sleep(10)
    answers(shop, "a", {0: 920}, position=200)
    topic = client.get(path).json()["topics"][0]
    assert (topic["speed"], topic["rate"], topic["drain_s"]) == (10, 2, 115)
    assert topic["advice"].startswith("Another consumer would help little: partition 0")


class Look:
    """The result of one look."""


def test_an_answer_that_is_too_old_to_be_shared_is_not_kept() -> None:
    async def look() -> Look:
        return Look()

    async def looks(fresh_s: float) -> Look | None:
        shared = SharedAnswers(fresh_s)
        found = weakref.ref(await shared.get("shop orders", look))
        await shared.get("shop bills", look)
        return found()

    assert asyncio.run(looks(math.inf)) is not None
    assert asyncio.run(looks(-1.0)) is None


def test_a_consumer_has_the_figures_of_its_partitions_together(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "a", 2: "b", 3: "b"})
    client = pages_of(shop)
    client.app.state.shared._fresh_s = -1.0  # type: ignore[attr-defined]
    consumers: Any = []
    for look in range(2):
        answers(shop, "a", {0: 30, 1: 50}, position=100 * look)
        answers(shop, "b", {2: 8, 3: 0}, position=10 * look, rate=None)
        consumers = client.get("/api/v1/clusters/shop/live").json()["consumers"]
        shop.clock.sleep(10)
    names = ("lag", "lag_s", "rate", "speed", "drain_s")
    assert [[one[name] for name in names] for one in consumers] == [[80, 20, 4, 20, 5], [8, None, None, 2, None]]


def commit(shop: Cluster, offsets: dict[int, int], lag: int = 5) -> None:
    """The group's commits, with so many records behind each."""
    group = shop.kafka.offsets("readers")
    for partition, offset in offsets.items():
        _, end = shop.kafka.log("orders", partition)
        shop.kafka.append("orders", partition, max(0, offset + lag - end))
        group.commit("orders", {partition: Committed(offset, None, "")})


def minutes(shop: Cluster, *each: dict[int, int]) -> None:
    """These offsets are committed in each minute, and the coordinator keeps a moment."""
    for offsets in each:
        shop.clock.sleep(EVERY_S)
        commit(shop, offsets)
        assert list(lag_moments.keep(shop.coordinator, ["orders"])) == []


def test_each_partition_has_burrows_status_and_the_answer_says_what_it_means(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "b"})
    answers(shop, "a", {0: 5})
    answers(shop, "b", {1: 5})
    minutes(shop, *({0: 100, 1: 100 + step} for step in range(WINDOW)))
    data = now(shop)
    assert data["partitions"]["status"] == ["STALL", "WARN", None, None]
    assert {one.name for one in LagStatus if one is not LagStatus.ERR} == set(data["statuses"])
    assert data["judged"] == shop.clock.now()
    shop.clock.sleep(FRESH_S + 1)
    data = now(shop)
    assert (data["partitions"]["status"], data["judged"]) == ([None] * 4, None), "it is not judged by what is old"


def test_two_servers_and_one_that_begins_again_show_the_same_trend(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "b"})
    first = pages_of(shop)
    path = "/api/v1/clusters/shop/trend"
    minutes(shop, {0: 100}, {0: 110})
    assert len(first.get(path, params={"topic": "orders"}).json()["series"][0]["at"]) == 2
    minutes(shop, {0: 120, 1: 50})
    for asked in ({"topic": "orders"}, {"topic": "orders", "partition": 0}, {"consumer": "a"}):
        found = first.get(path, params=asked).json()
        assert found["series"]
        assert pages_of(shop).get(path, params=asked).json() == found
    assert now(shop)["topics"][0]["trend"] == [5, 5, 10]


def test_the_trend_has_records_and_seconds_by_owner_and_by_topic_of_a_consumer(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "a", 2: "b"})
    minutes(shop, {0: 100, 1: 40}, {0: 160, 1: 40})
    client, path = pages_of(shop), "/api/v1/clusters/shop/trend"
    (one,) = client.get(path, params={"topic": "orders"}).json()["series"]
    assert (one["name"], one["lag"], one["late_s"]) == ("a", [10, 10], [None, 5.0])
    (one,) = client.get(path, params={"consumer": "a"}).json()["series"]
    assert (one["name"], one["lag"]) == ("orders", [10, 10])
    (one,) = client.get(path, params={"topic": "orders", "partition": 1}).json()["series"]
    assert one["lag"] == [5, 5]
    assert client.get(path, params={"consumer": "nobody"}).json()["series"] == []


def test_viewers_share_one_look(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stable(shop, {0: "a"})
    looks: list[str] = []
    before = live.now

    def counted(c: Coordinator, topic: str) -> live.Now:
        looks.append(topic)
        return before(c, topic)

    monkeypatch.setattr(live, "now", counted)
    client = pages_of(shop)
    for _ in range(3):
        assert client.get("/api/v1/clusters/shop/live").status_code == 200
    assert client.get("/api/v1/summary").status_code == 200
    assert looks == [""]


def test_the_summary_says_what_needs_somebody(shop: Cluster) -> None:
    stable(shop, {0: "a"})
    answers(shop, "a", {0: 0})
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("a", "c")))
    (one,) = pages_of(shop).get("/api/v1/summary").json()["clusters"]
    assert (one["not_stable_count"], one["unowned_count"]) == (1, 3)
    assert one["oldest_unowned"]["partitions"] == "1-3"
    assert (one["running"], one["wanted"], one["missing"], one["missing_count"]) == (1, 2, ["c"], 1)
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("a", *(f"c{n}" for n in range(30)))))
    (one,) = pages_of(shop).get("/api/v1/summary").json()["clusters"]
    assert (len(one["missing"]), one["missing_count"]) == (live.MOST_TEXTS, 30)


def test_a_store_that_is_down_is_said_as_data(shop: Cluster) -> None:
    shop.server.stop()
    answer = pages_of(shop).get("/api/v1/clusters/shop/live")
    assert (answer.status_code, answer.json()["code"]) == (503, "KPC-041")
    (one,) = pages_of(shop).get("/api/v1/summary").json()["clusters"]
    assert one["problem"].startswith("KPC-041")


# Trends ----------------------------------------------------------------------------------------------------------------


def test_a_former_owners_series_ends_with_the_move(shop: Cluster) -> None:
    trends = Trends()
    for step, owner in enumerate(("a", "a", "b", "b")):
        stable(shop, {0: owner})
        minutes(shop, {0: 100 + step})
    series = trends.of(shop.coordinator).of_topic("orders", 0)
    first, last = series["a"], series["b"]
    assert [len(first), len(last)] == [2, 2]
    assert last[0].at == first[-1].at + EVERY_S
    assert trends.of(shop.coordinator).of_topic("orders", 1) == {}


def test_a_partition_that_moved_has_no_speed_yet(shop: Cluster) -> None:
    trends, trend = Trends(), Trend()
    before = [PartitionNow("orders", 0, "a", 50.0), PartitionNow("orders", 1, "a", 50.0)]
    assert trends.speeds(shop.coordinator, trend, before, whole=True) == {}
    shop.clock.sleep(10)
    part = [PartitionNow("others", 0, "a", 7.0)]
    assert trends.speeds(shop.coordinator, trend, part, whole=False) == {}
    moved = [PartitionNow("orders", 0, "b", 90.0), PartitionNow("orders", 1, "a", 150.0)]
    assert trends.speeds(shop.coordinator, trend, moved, whole=True) == {("orders", 1): 10.0}


def test_a_server_that_has_just_begun_has_the_speed_of_the_last_minute(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "a"})
    minutes(shop, {0: 100, 1: 100}, {0: 700, 1: 100})
    stable(shop, {0: "a", 1: "b"})
    answers(shop, "a", {0: 5}, position=700)
    answers(shop, "b", {1: 5}, position=100)
    assert columns(now(shop), "partition", "speed")[:2] == [(0, 10), (1, None)]
    shop.clock.sleep(FRESH_S)
    assert columns(now(shop), "partition", "speed")[:2] == [(0, None), (1, None)]


def test_a_server_reads_each_moment_once(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stable(shop, {0: "a"})
    read: list[int] = []
    of_ring = lag_moments.read

    def counted(c: Coordinator, at: float, most: int, problems: dict[str, str] | None = None) -> list[LagMoment]:
        read.append(most + 1)
        return of_ring(c, at, most, problems)

    trends = Trends()
    monkeypatch.setattr(lag_moments, "read", counted)
    minutes(shop, {0: 1})
    read.clear()
    for _ in range(3):
        trends.of(shop.coordinator)
    assert read == [KEPT]
    minutes(shop, {0: 2}, {0: 3})
    read.clear()
    assert [one.at for one in trends.of(shop.coordinator).moments] == [
        shop.clock.now() - EVERY_S * n for n in (2, 1, 0)
    ]
    assert read == [2]


def test_an_unreadable_moment_rereads_no_hour_at_each_look(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    trends = Trends()
    shop.zk.ensure(shop.paths.lags)
    shop.zk.transact([Create(shop.paths.lag(slot_of(shop.clock.now() - EVERY_S)), b'{"version":2,"packed":""}')])
    read = paths_read(shop.zk, monkeypatch)
    for _ in range(12):
        assert trends.of(shop.coordinator).problems
        shop.clock.sleep(5)
    assert len(read) == KEPT
    assert trends.of(shop.coordinator).problems
    assert len(read) == 2 * KEPT


def test_the_hour_is_not_read_at_every_look_without_moments(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    stable(shop, {0: "a"})
    trends = Trends()
    minutes(shop, {0: 1})
    read = paths_read(shop.zk, monkeypatch)
    shop.clock.sleep(30 * EVERY_S)
    for looks in (KEPT, 3, 3):
        assert len(trends.of(shop.coordinator).moments) == 1
        assert len(read) == looks
        read.clear()
        shop.clock.sleep(LOOK_S)


def test_a_cluster_without_readers_is_forgotten_after_an_hour(shop: Cluster) -> None:
    trends, other = Trends(), Cluster("other", clock=shop.clock)
    for one in (shop, other):
        trends.of(one.coordinator)
    shop.clock.sleep(KEPT * EVERY_S)
    trends.of(other.coordinator)
    assert list(trends._known) == ["other"]


def test_a_moment_written_after_a_look_in_the_same_minute_is_read(shop: Cluster) -> None:
    stable(shop, {0: "a"})
    trends = Trends()
    minutes(shop, {0: 1})
    shop.clock.sleep(EVERY_S)
    assert len(trends.of(shop.coordinator).moments) == 1
    shop.clock.sleep(LOOK_S)
    assert list(lag_moments.keep(shop.coordinator, ["orders"])) == []
    assert len(trends.of(shop.coordinator).moments) == 2
    shop.clock._now -= 2 * LOOK_S
    assert len(trends.of(shop.coordinator).moments) == 1
    shop.clock.sleep(2 * LOOK_S)
    assert len(trends.of(shop.coordinator).moments) == 2


def test_moments_leave_the_trend_after_an_hour_and_when_the_clock_is_set_back(shop: Cluster) -> None:
    stable(shop, {0: "a"})
    trends = Trends()
    for step in range(2 * KEPT):
        minutes(shop, {0: step})
        found = trends.of(shop.coordinator).moments
    assert len(found) == KEPT
    shop.clock._now -= 10 * EVERY_S
    assert [one.at for one in trends.of(shop.coordinator).moments] == [one.at for one in found[:-10]]


# What helps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lag", "rate", "speed", "seconds"),
    [(0.0, 5.0, math.nan, 0.0), (100.0, 5.0, 15.0, 10.0), (100.0, 5.0, 5.0, math.inf), (100.0, 5.0, 1.0, math.inf)],
)
def test_the_time_until_nothing_is_left(lag: float, rate: float, speed: float, seconds: float) -> None:
    assert drain_s(lag, rate, speed) == seconds
    assert math.isnan(drain_s(lag, math.nan, speed)) or lag == 0


@pytest.mark.parametrize(
    ("owners", "lags", "speed", "said"),
    [
        ({"a": (0, 1), "b": (2, 3)}, (0, 0, 0, 0), 10.0, "would not help: the consumers keep up"),
        ({"a": (0, 1), "b": (2, 3)}, (100, 100, 100, 100), 5.0, "would help: the lag grows"),
        ({"a": (0, 1), "b": (2, 3)}, (100, 100, 100, 100), 50.0, "would shorten it: the lag is gone in 10.0 s"),
        ({"a": (0,), "b": (1, 2, 3)}, (900, 1, 1, 1), 5.0, "would help little: partition 0"),
        ({"a": (0,), "b": (1,), "c": (2,), "d": (3,)}, (100, 100, 100, 100), 5.0, "each consumer has one partition"),
        ({"a": (0, 1, 2, 3)}, (100, 100, 100, 100), math.nan, "It is not known yet"),
    ],
)
def test_whether_one_consumer_more_would_help(
    owners: dict[str, tuple[int, ...]], lags: tuple[int, ...], speed: float, said: str
) -> None:
    one = TopicSummary("orders", State.STABLE, partitions=(0, 1, 2, 3), owners=owners)
    by = {p: who for who, numbers in owners.items() for p in numbers}
    standing = [PartitionNow("orders", p, by[p], 0.0, float(lag)) for p, lag in enumerate(lags)]
    assert said in advice(one, standing, float(sum(lags)), 10.0, speed, {})


@pytest.mark.parametrize(
    ("stalled", "said"),
    [
        ((0,), "Another consumer would help"),
        ((3,), "Another consumer is no answer yet: 1 partition stands still. See Status first."),
        ((0, 1, 2), "Another consumer is no answer yet: 3 partitions stand still. See Status first."),
    ],
)
def test_where_the_lag_stands_still_a_consumer_more_is_no_answer(stalled: tuple[int, ...], said: str) -> None:
    one = TopicSummary("orders", State.STABLE, partitions=(0, 1, 2, 3), owners={"a": (0, 1), "b": (2, 3)})
    lags = (100.0, 100.0, 100.0, 310.0 if stalled == (3,) else 100.0)
    standing = [PartitionNow("orders", p, "ab"[p // 2], 0.0, lag) for p, lag in enumerate(lags)]
    statuses = {("orders", p): LagStatus.STALL if p in stalled else LagStatus.WARN for p in range(4)}
    assert advice(one, standing, sum(lags), 10.0, 5.0, statuses).startswith(said)


def test_of_a_frozen_paused_or_removed_topic_another_consumer_is_not_said_to_help(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "a", 2: "a", 3: "b"})
    answers(shop, "a", dict.fromkeys((0, 1, 2), 900))
    answers(shop, "b", {3: 900})
    c = shop.coordinator

    def told() -> str:
        return str(now(shop)["topics"][0]["advice"])

    overrides.set_frozen(c, "orders", frozen=True, actor=PERSON)
    assert told() == "Another consumer would not help: the topic is frozen, and every partition stays where it is."
    overrides.set_frozen(c, "orders", frozen=False, actor=PERSON)
    positions.set_paused(c, "orders", [3], paused=True, actor=PERSON)
    assert told().startswith("It is not known yet"), "the other ones have most of the lag"
    positions.set_paused(c, "orders", [0, 1], paused=True, actor=PERSON)
    assert told() == "Another consumer would not help: 3 partitions are paused."
    topics.remove_topic(c, "orders", PERSON)
    assert told() == ""


def test_where_an_owner_says_nothing_consumers_are_not_said_to_keep_up() -> None:
    one = TopicSummary("orders", State.STABLE, partitions=(0, 1, 2), owners={"a": (0,), "b": (1, 2)})
    standing = [
        PartitionNow("orders", 0, "a", 0.0, 0.0, 5.0),
        PartitionNow("orders", 1, "b"),
        PartitionNow("orders", 2, "b"),
    ]
    told = live._topic(one, standing, {}, {})
    assert (told["lag"], told["lag_unknown"]) == (0, 2)
    assert told["advice"] == (
        "It is not known whether another consumer would help: nobody says how far behind 2 partitions are."
    )


def test_where_nobody_reads_partitions_consumers_are_not_said_to_keep_up(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "a"})
    answers(shop, "a", {0: 0, 1: 0})
    (topic,) = now(shop)["topics"]
    assert (topic["lag"], topic["lag_unknown"], topic["drain_s"]) == (0, 2, None)
    assert topic["advice"] == "Another consumer would help if it may have them: nobody reads 2 partitions."
    assert " 2–3 at least 0 " in text_of(pages_of(shop).get("/").text)


def test_no_page_names_another_host() -> None:
    for path in (*Path(render.TEMPLATES).rglob("*.*"), *render.VENDOR.glob("*.js")):
        text = (
            path.read_text().replace("http://www.w3.org/2000/svg", "").replace("https://github.com/leeoniya/uPlot", "")
        )
        assert "https://" not in text.replace("https?://", ""), path
