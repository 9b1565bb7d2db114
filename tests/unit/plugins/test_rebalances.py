"""The list of all rebalances, a rebalance on a time axis, and both as data."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from coordinator_ui.data import rebalance_search
from coordinator_ui.data.rebalance_search import RebalanceFilter
from coordinator_ui.data.timeline import WIDTH, Chart, TaskSpan, handoffs, whole
from coordinator_ui.texts.rebalance_text import tell

from coordinator_tasks.core.codecs.history_codec import with_pauses
from coordinator_tasks.core.model import Actor, Move, MoveKind, Pause, Pauses, State
from coordinator_tasks.core.ports import Delete, SetData
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.nodes.history import rebalances
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.zookeeper import paths_read
from tests.unit.plugins.pages_site import NASTY, a_hand_off, pages_of, register, stable, task, text_of, write
from tests.world.site import stable_site

NAMES = ("<b>bold</b>", "\u202egnirts", "x" * 200)


def rebalance(
    shop: Cluster, topic: str, number: int, at: float, *moves: Move, step_s: float = 1.0, **more: Any
) -> None:
    """A rebalance of three records, from this time on, for two seconds or twice `step_s`."""
    steps = ((State.STABLE, State.CLOSING), (State.CLOSING, State.STARTING), (State.STARTING, State.STABLE))
    values = {"topic": topic, "epoch": number, "rebalance": f"{number}-{topic}", "lasted_s": step_s, **more}
    for step, (source, target) in enumerate(steps):
        moved = moves if step == 0 else ()
        write(shop, source, target, at + step * step_s, *moved, rebalance_s=step * step_s, **values)


def hand_off(giver: str = "a", taker: str = "b", partition: int = 1) -> Move:
    return Move(partition, giver, taker, MoveKind.HANDOFF)


@pytest.fixture
def busy(shop: Cluster) -> Cluster:
    """Six rebalances of three topics in turn."""
    for number in range(6):
        topic = ("orders", "parcels", "bills")[number % 3]
        rebalance(
            shop,
            topic,
            number,
            900_000.0 + 100 * number,
            hand_off(),
            cause=f"joined: c{number}",
            actor=task("plan", f"run-{number}", "ada" if number == 4 else ""),
        )
    return shop


def names(shop: Cluster, query: str = "") -> list[str]:
    return [one["rebalance"] for one in pages_of(shop).get(f"/api/v1/rebalances{query}").json()["rebalances"]]


def test_rebalances_of_all_topics_stand_newest_first(busy: Cluster) -> None:
    assert names(busy) == ["5-bills", "4-parcels", "3-orders", "2-bills", "1-parcels", "0-orders"]
    page = text_of(pages_of(busy).get("/rebalances").text)
    order = [page.index(f"c{number} joined") for number in (5, 4, 3, 2, 1, 0)]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?topic=PARC", ["4-parcels", "1-parcels"]),
        ("?cause=c3 joined", ["3-orders"]),
        ("?cause=joined: c3", ["3-orders"]),
        ("?actor=ada", ["4-parcels"]),
        ("?actor=run-2", ["2-bills"]),
        ("?consumer=b&topic=bills", ["5-bills", "2-bills"]),
        ("?consumer=zoe", []),
        ("?after=1970-01-11T10:06:40", ["5-bills", "4-parcels"]),
        ("?before=1970-01-11T10:01:40Z", ["0-orders"]),
        ("?after=1970-01-11T10:01:40Z&before=1970-01-11T11:05:00%2B01:00", ["2-bills", "1-parcels"]),
    ],
)
def test_a_filter_leaves_what_it_names(busy: Cluster, query: str, found: list[str]) -> None:
    assert names(busy, query) == found


@pytest.mark.parametrize("most_read", [6_000, 4, 1])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_have_no_gap_between(busy: Cluster, monkeypatch: pytest.MonkeyPatch, limit: int, most_read: int) -> None:
    monkeypatch.setattr(rebalance_search, "MOST_READ", most_read)
    found, rest = [], ""
    for _ in range(20):
        answer = pages_of(busy).get("/api/v1/rebalances", params={"limit": limit, "rest": rest}).json()
        found += [one["rebalance"] for one in answer["rebalances"]]
        rest = answer["rest"] or ""
        if not rest:
            break
    assert found == ["5-bills", "4-parcels", "3-orders", "2-bills", "1-parcels", "0-orders"]


def test_a_later_page_reads_little_of_each_topic_to_begin(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    five = [f"t{number}" for number in range(5)]
    for number in range(100):
        for topic in five:
            rebalance(shop, topic, number, 900_000.0 + 10 * number)
    read = paths_read(shop.zk, monkeypatch)
    page = rebalance_search.rebalances(shop.coordinator, RebalanceFilter(before_at=900_505.0), 5)
    assert [(one.topic, one.rebalance) for one in page.found] == [(topic, f"50-{topic}") for topic in five]
    assert len(read) <= 35 * len(five), "the promise of docs/data-api.md"


def test_the_newest_record_of_each_topic_leaves_rebalances(many: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance_search, "MOST_READ", 7)
    assert len(rebalance_search.rebalances(many.coordinator, RebalanceFilter(), 3).found) == 3


def test_a_record_that_cannot_be_read_is_named_and_hides_no_other_topic(busy: Cluster) -> None:
    busy.zk.transact([SetData(busy.paths.record("orders", 5), b"{broken")])
    answer = pages_of(busy).get("/api/v1/rebalances").json()
    assert [one["topic"] for one in answer["rebalances"]] == ["bills", "parcels", "bills", "parcels"]
    (problem,) = answer["problems"]
    assert busy.paths.record("orders", 5) in problem
    assert problem in text_of(pages_of(busy).get("/rebalances").text)


@pytest.fixture
def many(shop: Cluster) -> Cluster:
    """Seven topics with two rebalances each: the second rebalances are newer than all first rebalances."""
    for number in range(7):
        topic = f"t{number}"
        shop.kafka.create_topic(topic, 1)
        topics.add_topic(shop.coordinator, topic, "g", actor=PERSON)
        for began_at in (900_000.0, 902_000.0):
            rebalance(shop, topic, int(began_at) + number, began_at + 10 * number)
    return shop


# One of them -----------------------------------------------------------------------------------------------------------


def test_both_sides_are_the_assignment_then_not_the_one_of_today(shop: Cluster) -> None:
    rebalance(shop, "orders", 1, 900_000.0, hand_off("a", "b", 1))
    rebalance(shop, "orders", 2, 900_100.0, hand_off("b", "a", 2))
    stable(shop, {0: "a", 1: "b", 2: "a", 3: "b"})
    whole = pages_of(shop).get("/api/v1/clusters/shop/topics/orders/rebalances/1-orders").json()
    assert (whole["before"], whole["after"]) == ({"a": [0, 1], "b": [2, 3]}, {"a": [0], "b": [1, 2, 3]})
    said = text_of(pages_of(shop).get("/clusters/shop/topics/orders/rebalances/1-orders").text)
    assert "a 2 partitions 1 0 1 partition 0" in said
    assert "b 2 partitions 2–3 3 partitions 1 2–3" in said


def measured(shop: Cluster) -> None:
    """The giver's last record at +500 ms, the release at +510, the taker's first at +523."""
    a_hand_off(shop)
    path = shop.paths.record("orders", 2)
    found = Pauses((Pause(1, 900_000.5, 900_000.51, 900_000.523, 12, 1_200, 0.023, 0.002), Pause(3, 900_000.25)))
    shop.zk.transact([SetData(path, with_pauses(path, shop.zk.get(path).data, found))])


def test_a_rebalance_whose_state_was_lost_is_said_to_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop")
    site = stable_site("a")
    site.starts("b")
    site.clock.advance(5)
    transitions.plan(site.coordinator, ["orders"], PERSON)
    assert site.state().state is State.CLOSING
    site.zk.transact([Delete(site.paths.state("orders"))])
    site.settles()
    client = pages_of(site)
    every = client.get("/api/v1/rebalances").json()["rebalances"]
    assert all(one["ended"] for one in every)
    (lost,) = [one for one in every if "lost" in one["headline"]]
    assert lost["headline"] == "2 partitions on the way when the topic's state was lost; the next rebalance went on"
    assert lost["seconds"] == lost["ended"] - lost["began"] > 0
    said = text_of(client.get(f"/clusters/shop/topics/orders/rebalances/{lost['rebalance']}").text)
    assert "Closing" in said
    assert "so far" not in said
    assert "it is under way" not in said
    assert 'state Closing">under way' not in client.get("/rebalances").text


EXACT = Pause(1, 900_000.5, 900_000.51, 900_000.523, 12, 1_200, 0.023, 0.002)
BEHIND = replace(EXACT, partition=2, wait_s=31.5, least=True)
IDLE = Pause(3, 900_000.25)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "pause not measured"),
        (Pauses((), 3), "pause not measured"),
        (Pauses((IDLE,), 2), "pause not measured"),
        (Pauses((replace(IDLE, partition=2), IDLE)), "nothing waited"),
        (Pauses((EXACT, IDLE)), "total pause 23 ms"),
        (Pauses((replace(EXACT, usual_s=0.02), IDLE)), "extra pause 3.0 ms"),
        (Pauses((replace(EXACT, usual_s=0.03),)), "no extra pause"),
        (Pauses((EXACT,), 1), "total pause at least 23 ms"),
        (Pauses((EXACT, BEHIND)), "longest total pause at least 31.50 s"),
        (Pauses((replace(BEHIND, wait_s=0.28, most_s=2.3, usual_s=0.5),)), "extra pause between 0.0 ms and 1.80 s"),
        (Pauses((replace(BEHIND, wait_s=0.011), replace(EXACT, partition=4))), "longest total pause at least 23 ms"),
    ],
    ids=[
        *("not yet", "all missing", "idle and missing", "idle", "usual unknown", "extra", "no extra", "one missing"),
        *("an older crash", "a crash", "a short crash"),
    ],
)
def test_no_headline_takes_confirmations_for_a_pause(shop: Cluster, found: Pauses | None, said: str) -> None:
    a_hand_off(shop)
    path = shop.paths.record("orders", 2)
    if found is not None:
        shop.zk.transact([SetData(path, with_pauses(path, shop.zk.get(path).data, found))])
    story = tell(rebalances(shop.coordinator, ["orders"])[0], 900_010.0)
    assert story.headline == f"3 partitions moved, {said}"
    page = text_of(pages_of(shop).get("/rebalances").text)
    short = re.sub("(longest |extra )*(total )?pause ", r"\2", said).replace("no extra pause", "none")
    assert f" {short} " in page.partition(story.headline)[2]


def test_a_rebalance_leads_to_the_spark_ui_and_the_log_of_its_consumers(shop: Cluster) -> None:
    shop.coordinator = replace(shop.coordinator, log_url="https://logs/{application_id}?q=1&r=2")
    a_hand_off(shop)
    stable(shop, {1: "b"})
    register(shop, "a", spark_ui="http://driver:4040", application_id="app-1")
    register(shop, "b", spark_ui="javascript:alert(1)", application_id="<b>")
    path = "/clusters/shop/topics/orders/rebalances/2-abc"
    page = pages_of(shop).get(path).text
    link = '<a target="_blank" rel="noopener noreferrer" href="{}">{}</a>'
    assert link.format("http://driver:4040", "Spark UI") in page
    assert link.format("https://logs/app-1?q=1&amp;r=2", "driver&#39;s log").replace("&#39;", "'") in page.replace(
        "&#39;", "'"
    )
    assert ("javascript:" in page, "<b>" in page) == (False, False)
    assert pages_of(shop).get(f"/api/v1{path}").json()["consumers"] == [
        {
            "consumer": "a",
            "incarnation": 1,
            "spark_ui": "http://driver:4040",
            "driver_log": "https://logs/app-1?q=1&r=2",
        }
    ]


def at(chart: Chart, lane: int) -> list[tuple[str, float]]:
    return [(mark.kind, mark.left) for mark in chart.lanes[lane].marks]


def test_marks_stand_where_their_times_are_on_the_axis(shop: Cluster) -> None:
    measured(shop)
    story = tell(rebalances(shop.coordinator, ["orders"])[0], 900_010.0)
    tasks = (
        TaskSpan(task("plan"), 899_999.0, 900_000.4, "success"),
        TaskSpan(task("start"), 900_001.0, 900_001.4, "success"),
    )
    chart = handoffs(story, tasks, 900_010.0)
    begin_s, end_s = 0.25 - 0.02, 0.523 + 0.02
    expected = [round(WIDTH * (s - begin_s) / (end_s - begin_s), 2) for s in (0.5, 0.51, 0.523)]
    assert [place for _, place in at(chart, 0)] == pytest.approx(expected, abs=0.05)
    assert [kind for kind, _ in at(chart, 0)] == ["last", "released", "first"]
    assert [part.kind for part in chart.lanes[0].parts] == ["gives", "stands", "takes"]
    assert "stood still for 23 ms" in chart.lanes[0].parts[1].text
    assert [lane.label for lane in chart.bands] == ["plan"], "the other task ran later"
    assert chart.bands[0].path.startswith("/dags/rebalance/runs/run%201%2Fx/tasks/plan")
    assert "+300 ms" in [tick.text for tick in chart.ticks]
    everything = whole(story, tasks, 900_010.0)
    assert [lane.label for lane in everything.bands] == ["plan", "start"]
    assert [line.text.split(":")[0] for line in everything.lines] == ["plan", "start", "settle"]


def test_a_crash_has_a_bar_of_what_is_certain_and_before_it_of_what_is_possible(shop: Cluster) -> None:
    a_hand_off(shop)
    path, first_at = shop.paths.record("orders", 2), 900_000.5
    crashed = Pause(1, None, None, first_at, 12, None, 0.28, 0.002, least=True, most_s=2.3, usual_s=0.5)
    shop.zk.transact([SetData(path, with_pauses(path, shop.zk.get(path).data, Pauses((crashed,), 2)))])
    chart = handoffs(tell(rebalances(shop.coordinator, ["orders"])[0], 900_010.0), (), 900_010.0)
    perhaps, stands, takes = chart.lanes[0].parts
    assert [part.kind for part in (perhaps, stands, takes)] == ["perhaps", "stands", "takes"]
    assert stands.width / (perhaps.width + stands.width) == pytest.approx(0.28 / 2.3, abs=0.01)
    assert stands.text == "stood still for between 280 ms and 2.30 s"


def test_the_page_draws_the_chart_and_leads_to_the_tasks(shop: Cluster) -> None:
    measured(shop)
    tasks = [TaskSpan(task("plan"), 899_999.0, 900_000.4, "success")]
    page = pages_of(shop, tasks=tasks).get("/clusters/shop/topics/orders/rebalances/2-abc").text
    assert "a&#39;s last record passed the sink: 10:00:00.500 UTC, +500 ms after the plan" in page
    assert 'href="/airflow/dags/rebalance/runs/run%201%2Fx/tasks/plan?try_number=2"' in page
    assert "plan, success: 1.4 s" in page


def test_a_rebalance_under_way_is_drawn_up_to_now(shop: Cluster) -> None:
    write(shop, State.STABLE, State.CLOSING, 900_000.0, hand_off())
    story = tell(rebalances(shop.coordinator, ["orders"])[0], 900_010.0)
    chart = whole(
        story,
        (TaskSpan(Actor("airflow", "", "rebalance", "r", "confirm_closed", 1), 900_001.0, 0.0, "running"),),
        900_010.0,
    )
    assert "a has not confirmed that it closed: 10" in chart.lanes[0].parts[0].text
    assert "running: 9.0 s" in chart.bands[0].parts[0].text
    assert handoffs(story, (), 900_010.0) is None
    assert [(one.consumer, one.waited_s, one.over) for one in story.waits] == [("a", 10.0, False)]


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_are_text(shop: Cluster, name: str) -> None:
    moves = (Move(1, name, NASTY, MoveKind.HANDOFF),)
    rebalance(shop, "orders", 1, 900_000.0, *moves, cause=f"joined: {name}", actor=Actor("loop", name))
    for path in ("/rebalances", "/clusters/shop/topics/orders/rebalances/1-orders"):
        page = pages_of(shop).get(path).text
        assert (NASTY in page, "<b>bold" in page) == (False, False)
    data = pages_of(shop).get("/api/v1/rebalances").text
    assert json.loads(data)["rebalances"][0]["causes"] == [f"joined: {name}"]
