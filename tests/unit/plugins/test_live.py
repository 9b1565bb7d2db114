"""The live page's data: what topics wait for, who is how far behind, and what an operator may ask for from there."""

import itertools
import math
import random
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from coordinator_ui import live, render
from coordinator_ui.access import may_read_cluster
from coordinator_ui.live import advice, drain_s
from coordinator_ui.topic_summary import TopicSummary
from coordinator_ui.trends import EVERY_S, KEEP_S, MOST_POINTS, Standing, Trends

from coordinator_tasks.core.lag import WINDOW, LagStatus
from coordinator_tasks.core.model import (
    ConsumerStatus,
    Fleet,
    RunningPartition,
    State,
    Token,
    TopicStatus,
)
from coordinator_tasks.service import directives, fleet
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.survey import _LagWindow
from tests.fakes.cluster import Cluster
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


def test_the_log_of_a_consumer_that_is_gone_stays_linked(shop: Cluster) -> None:
    shop.coordinator = replace(shop.coordinator, log_url="http://{host}:8000/{consumer}/{incarnation}")
    stable(shop, {0: "a"})
    session = shop.server.connect()
    register(shop, "a", session)
    a, _ = now(shop)["consumers"]
    assert a["driver_log"] == "http://a:8000/a/1"
    session.close()
    a, _ = now(shop)["consumers"]
    assert (a["registered"], a["driver_log"]) == (None, "http://a:8000/a/1")


def test_the_speed_is_measured_between_two_looks(shop: Cluster) -> None:
    stable(shop, {0: "a"})
    client = pages_of(shop)
    client.app.state.shared._fresh_s = -1.0  # type: ignore[attr-defined]
    path = "/api/v1/clusters/shop/live"
    answers(shop, "a", {0: 1_000}, position=100)
    assert client.get(path).json()["topics"][0]["speed"] is None
    shop.clock.sleep(10)
    answers(shop, "a", {0: 920}, position=200)
    topic = client.get(path).json()["topics"][0]
    assert (topic["speed"], topic["rate"], topic["drain_s"]) == (10, 2, 115)
    assert topic["trend"] == [1_000, 920]
    assert topic["advice"].startswith("Another consumer would help little: partition 0")


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


def test_each_partition_has_burrows_status_and_the_answer_says_what_it_means(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "a", 2: "b"})
    client = pages_of(shop)
    client.app.state.shared._fresh_s = -1.0  # type: ignore[attr-defined]
    data: Any = {}
    for look in range(WINDOW):
        answers(shop, "a", {0: 5, 1: 0}, position=100)
        answers(shop, "b", {2: 5 + look}, position=100 + look)
        data = client.get("/api/v1/clusters/shop/live").json()
        assert (data["partitions"]["status"][:3] == ["OK", "OK", "OK"]) == (look < WINDOW - 1)
        shop.clock.sleep(EVERY_S)
    assert data["partitions"]["status"] == ["STALL", "OK", "WARN", None]
    assert {one.name for one in LagStatus if one is not LagStatus.ERR} == set(data["statuses"])


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
    assert (one["running"], one["wanted"], one["missing"]) == (1, 2, ["c"])


def test_a_store_that_is_down_is_said_as_data(shop: Cluster) -> None:
    shop.server.stop()
    answer = pages_of(shop).get("/api/v1/clusters/shop/live")
    assert (answer.status_code, answer.json()["code"]) == (503, "KPC-041")
    (one,) = pages_of(shop).get("/api/v1/summary").json()["clusters"]
    assert one["problem"].startswith("KPC-041")


# Trends ----------------------------------------------------------------------------------------------------------------


def test_a_former_owners_series_ends_with_the_move() -> None:
    trends = Trends()
    for step, owner in enumerate(("a", "a", "b", "b")):
        trends.add("shop", 100.0 + EVERY_S * step, [Standing("orders", 0, owner, 0.0, 10.0 + step)])
    assert trends.series("shop", "orders", 0) == {"a": [(100, 10), (110, 11)], "b": [(120, 12), (130, 13)]}
    assert trends.series("shop", "orders", 1) == {}


def test_a_partition_that_moved_has_no_speed_yet() -> None:
    trends = Trends()
    trends.add("shop", 100.0, [Standing("orders", 0, "a", 50.0), Standing("orders", 1, "a", 50.0)])
    moved = [Standing("orders", 0, "b", 90.0), Standing("orders", 1, "a", 150.0)]
    assert trends.speeds("shop", 110.0, moved) == {("orders", 1): 10.0}


def test_moments_are_kept_for_an_hour_and_never_too_close() -> None:
    trends = Trends()
    for at in range(0, 2 * int(KEEP_S), 5):
        trends.add("shop", float(at), [Standing("orders", 0, "a", 0.0, float(at))])
    (points,) = trends.series("shop", "orders").values()
    times = [at for at, _ in points]
    assert times[-1] - times[0] <= KEEP_S
    assert min(b - a for a, b in itertools.pairwise(times)) >= EVERY_S
    assert len(trends.totals("shop", "orders")) <= 60


def test_many_partitions_are_kept_more_rarely() -> None:
    trends, many = Trends(), [Standing("orders", p, "a", 0.0, 1.0) for p in range(10_000)]
    for at in range(0, 600, 10):
        trends.add("shop", float(at), many)
    (points,) = trends.series("shop", "orders").values()
    assert points[1][0] - points[0][0] >= KEEP_S * len(many) / MOST_POINTS


def statuses(looks: Iterable[tuple[float, float, float]]) -> list[str]:
    """The status of a partition after each look at (time, position, lag); empty = not known."""
    trends, found = Trends(), []
    for at, position, lag in looks:
        trends.add("shop", at, [Standing("orders", 0, "a", position, lag)])
        status = trends.statuses("shop", "orders").get(0)
        found.append(status.name if status is not None else "")
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_page_and_the_metric_judge_the_same_looks_alike(seed: int) -> None:
    chance, metric = random.Random(seed), _LagWindow()
    position, end, looks, said = 0, 0, [], []
    for step in range(60):
        end += chance.choice((0, 5))
        position = max(0, min(end, position + chance.choice((0, 0, 0, 5, -3) if step % 20 else (5,))))
        at = EVERY_S * step
        metric.see(position, end, at, told=True)
        said.append(metric.lag("g", "orders", 0, "a", at, WINDOW * EVERY_S, told=True).status.name)
        looks.append((at, float(position), float(end - position)))
    assert statuses(looks) == said


def test_a_partition_of_which_nobody_says_anything_stops_after_a_window() -> None:
    silent = [(EVERY_S * step, math.nan, math.nan) for step in range(3, 4 + WINDOW)]
    behind = [(EVERY_S * step, 100.0, 7.0) for step in range(3)]
    level = [(EVERY_S * step, 100.0, 0.0) for step in range(3)]
    assert statuses(behind + silent) == ["OK"] * (3 + WINDOW) + ["STOP"]
    assert statuses(level + silent) == ["OK"] * 3 + [""] * len(silent), "nobody knows what was written since"
    assert statuses(silent) == [""] * len(silent)


def test_nothing_is_judged_by_looks_from_before_a_pause_without_viewers() -> None:
    before = [(EVERY_S * step, 100.0, 7.0) for step in range(WINDOW)]
    later = EVERY_S * WINDOW * 3
    assert statuses([*before, (later, math.nan, math.nan)])[-2:] == ["STALL", ""]
    assert statuses([*before, (later, 100.0, 7.0)])[-1] == "OK"


def test_a_look_at_one_topic_keeps_the_statuses_of_the_others() -> None:
    trends = Trends()
    for step in range(WINDOW + 2):
        others = [Standing("others", 0, "a", 100.0, 7.0)] if step % 6 else []
        trends.add("shop", EVERY_S * step, [Standing("orders", 0, "a", 100.0, 7.0), *others])
    assert trends.statuses("shop", "orders") == trends.statuses("shop", "others") == {0: LagStatus.STALL}


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
    standing = [Standing("orders", p, by[p], 0.0, float(lag)) for p, lag in enumerate(lags)]
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
    standing = [Standing("orders", p, "ab"[p // 2], 0.0, lag) for p, lag in enumerate(lags)]
    statuses = {p: LagStatus.STALL if p in stalled else LagStatus.WARN for p in range(4)}
    assert advice(one, standing, sum(lags), 10.0, 5.0, statuses).startswith(said)


def test_the_charting_library_is_the_one_that_was_published() -> None:
    listed = dict(line.split()[::-1] for line in (render.VENDOR / "SHA256").read_text().splitlines())
    files = {path for path in render.VENDOR.iterdir() if path.name != "SHA256"}
    assert {path.name: sha256(path.read_bytes()).hexdigest() for path in files} == listed
    assert "MIT" in (render.VENDOR / "uPlot-LICENSE.txt").read_text()


def test_no_page_names_another_host() -> None:
    for path in (*Path(render.TEMPLATES).iterdir(), *render.VENDOR.glob("*.js")):
        text = (
            path.read_text().replace("http://www.w3.org/2000/svg", "").replace("https://github.com/leeoniya/uPlot", "")
        )
        assert "https://" not in text.replace("https?://", ""), path


def test_the_live_page_is_a_frame_that_reads_nothing(shop: Cluster) -> None:
    shop.server.stop()
    client = pages_of(shop)
    page = client.get("/live")
    assert page.status_code == 200
    assert "Cluster shop now" in text_of(page.text)
    assert page.headers["content-security-policy"].count("'sha256-") == 4, "three scripts and one style"
    assert may_read_cluster in client.app.dependency_overrides  # type: ignore[attr-defined]
