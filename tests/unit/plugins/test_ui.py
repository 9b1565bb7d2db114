"""The pages in Airflow's UI over a cluster in memory: contents, escaping, and rights to look."""

import asyncio
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from html import escape, unescape
from typing import Any

import pytest
from coordinator_plugin.pages_address import PREFIX
from coordinator_ui.access import ReadableCluster
from coordinator_ui.data import page_data
from coordinator_ui.data.reading import THREADS, ClusterReader
from coordinator_ui.data.topic_summary import summaries
from coordinator_ui.pages.render import MOST_IN_CELL
from coordinator_ui.pages.routes import RunResult, run_result
from coordinator_ui.registration import EXTERNAL_VIEWS, FASTAPI_APPS
from coordinator_ui.texts import words
from coordinator_ui.texts.rebalance_text import tell

from coordinator_tasks.adapters.discovery import ZooKeeperRegistry
from coordinator_tasks.core.codecs.former import former_causes
from coordinator_tasks.core.codecs.history_codec import with_pauses
from coordinator_tasks.core.errors import LookAgain, NotManaged, StoreUnavailable
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.model import (
    Actor,
    Answer,
    Condition,
    ConsumerStatus,
    Ending,
    Failure,
    Member,
    Move,
    MoveKind,
    Pause,
    Pauses,
    RunningPartition,
    State,
    StateSize,
    Token,
    TopicStatus,
    Unmoved,
)
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.core.text import cause_text
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, history, store, topics
from coordinator_tasks.service.nodes.fleet import record_end
from coordinator_tasks.service.nodes.history import Rebalance, rebalances
from coordinator_tasks.service.plan import overrides
from coordinator_tasks.service.watch import overview
from coordinator_tasks.service.watch.overview import ConsumerOverview, RunningTopic
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.zookeeper import paths_read
from tests.unit.plugins.pages_site import NASTY, a_hand_off, pages_of, stable, task, text_of, under_way, write

# What the pages tell ---------------------------------------------------------------------------------------------------


def test_a_rebalance_says_how_long_each_partition_stood_still_and_how_many_records_waited(shop: Cluster) -> None:
    a_hand_off(shop)
    path = shop.paths.record("orders", 2)
    found = Pauses(
        (
            Pause(1, 900_000.5, 900_000.51, 900_000.523, 12, 1_200, 0.023, 0.002, usual_s=0.02),
            Pause(2, None, None, 900_002.0, 3, None, 2.0, 0.001, least=True, most_s=3.5, usual_s=0.02),
            Pause(3, 900_000.25, 900_000.5),
        ),
        1,
        Unmoved(18, 0.004, 7, "c", 0.0035),
        (f"b says {NASTY}",),
    )
    node = shop.zk.get(path)
    shop.zk.transact([SetData(path, with_pauses(path, node.data, found))])
    page = pages_of(shop).get("/clusters/shop/topics/orders/rebalances/2-abc").text
    said = text_of(page)
    assert (
        "4 partitions moved; longest extra pause between 1.98 s and 3.48 s; longest total between 2.00 s and 3.50 s"
        in said
    )
    assert "18 unmoved: longest stall 4.0 ms (just before: 3.5 ms)" in said
    assert "1 10:00:00.500 10:00:00.510 10:00:00.523 23 ms (±2.0 ms) 20 ms 3.0 ms 12 1200" in said
    assert "2 unknown – 10:00:02.000 between 2.00 s and 3.50 s 20 ms between 1.98 s and 3.48 s 3 –" in said
    assert "3 10:00:00.250 10:00:00.500 none yet nothing waited unknown – 0 –" in said
    assert said.index(" between 2.00 s and 3.50 s 20 ms") < said.index(" 23 ms (±2.0 ms) 20 ms"), "the longest first"
    assert NASTY not in page
    assert "longest extra pause between 1.98 s and 3.48 s" in text_of(
        pages_of(shop).get("/clusters/shop/topics/orders").text
    )


def test_the_overview_names_states_owners_consumers_and_who_holds_a_topic_up(shop: Cluster) -> None:
    under_way(shop)
    directives.drain(shop.coordinator, "b", "ada", "new disk")
    said = text_of(pages_of(shop).get("/").text)
    assert "orders Closing 10.0 s 3 a: 2 (0–1) b: 1 (2) on their way: 3 none" in said
    assert "a does not answer (connection refused)" not in said, "its hand-off may still be as usual"
    assert "a live 1 – http://a:9001" in said
    assert "b draining 1 – http://b:9001" in said
    assert "draining by ada: new disk" in said


@pytest.mark.parametrize(("many", "folded"), [(MOST_IN_CELL, False), (MOST_IN_CELL + 1, True)])
def test_what_very_many_consumers_and_topics_have_is_folded_on_the_overview(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch, many: int, folded: bool
) -> None:
    stable(shop, {number: f"c{number}" for number in range(many)})
    each = ConsumerOverview("a", "live", topics=tuple(RunningTopic(f"t{number}") for number in range(many)))
    monkeypatch.setattr(overview, "consumers", lambda *_: [each])
    page = pages_of(shop).get("/").text
    owners, runs = (
        f'<details id="owners-orders"><summary>{many} owners<',
        f'<details id="runs-a"><summary>{many} topics<',
    )
    assert (owners in page, runs in page) == (folded, folded)
    assert page.count("t0: ") == page.count("c0: ") == 1, "nothing is left out"


@pytest.mark.parametrize("path", ["/", "/clusters/shop/topics/orders"])
def test_a_topic_with_partitions_that_nobody_owns_is_never_shown_as_stable_and_well(shop: Cluster, path: str) -> None:
    stable(shop, {0: "a", 1: "a"})
    page = pages_of(shop).get(path).text
    assert 'class="state unowned">Stable, not owned<' in page
    assert 'class="state Stable"' not in page
    assert words.meaning(State.STABLE) not in page
    assert "note bad" in page
    topics.remove_topic(shop.coordinator, "orders", PERSON)
    page = pages_of(shop).get(path).text
    assert 'class="state Stable"' in page, "one that was removed misses nobody"


def test_a_draining_consumer_with_partitions_is_shown_with_the_remedy(shop: Cluster) -> None:
    stable(shop, dict.fromkeys(range(4), "a"))
    path, client = "/clusters/shop/topics/orders", pages_of(shop)
    assert "drains" not in text_of(client.get("/").text) + text_of(client.get(path).text)
    directives.drain(shop.coordinator, "a", "ada", "new disk")
    assert "a drains and still has them" in text_of(client.get("/").text)
    assert "a drains and still has 0–3: the next plan gives them to others. A plan that" in text_of(
        client.get(path).text
    )
    overrides.set_frozen(shop.coordinator, "orders", frozen=True, actor=PERSON)
    assert "a drains and keeps 0–3 until the topic is unfrozen." in text_of(client.get(path).text)
    overrides.set_frozen(shop.coordinator, "orders", frozen=False, actor=PERSON)
    directives.drain(shop.coordinator, "b", "ada", "new disk")
    assert "a drains and keeps 0–3 until another consumer is there that reads it." in text_of(client.get(path).text)


def test_the_page_of_a_topic_says_where_a_plan_waits_for_approval(shop: Cluster) -> None:
    stable(shop, dict.fromkeys(range(4), "a"))
    path = "/clusters/shop/topics/orders"
    assert "approval" not in text_of(pages_of(shop).get(path).text)
    shop.coordinator = replace(shop.coordinator, budget=Budget(moves=1))
    page = pages_of(shop).get(path).text
    assert '<a target="_top" href="/airflow/required_actions">Required Actions</a>' in page
    assert "A plan that exceeds the budget of this site waits for a person's approval" in text_of(page)


def test_a_topic_page_shows_giver_taker_reason_and_duration_of_each_move(shop: Cluster) -> None:
    a_hand_off(shop)
    under_way(shop)
    html = pages_of(shop).get("/clusters/shop/topics/orders").text
    said = text_of(html)
    assert "3 partitions moved, pause not measured" in said
    assert "Stable → Closing → Starting → Stable in 2.2 s. Run by" in said
    assert "Why: b joined" in said
    how = "its one possible owner releases it, and the new one continues from that offset"
    assert f"1–3 a b hand-off : {how} 1.5 s 2.2 s" in said
    assert "Stable → Closing → Starting → Stable" in said
    assert 'href="/airflow/dags/rebalance/runs/run%201%2Fx/tasks/settle?try_number=2"' in html
    assert 'title="a gives 3 away">gives' in html
    assert 'title="b takes 3 over">takes' in html


def test_who_does_not_answer_and_what_an_absent_owner_is_waited_for_are_shown(shop: Cluster) -> None:
    under_way(shop)
    ZooKeeperRegistry(shop.zk, shop.paths, shop.clock).deregister("b", 1)
    absent = "incarnation 1 is absent: it keeps its partitions until its end is known, or it has been silent for 30 s"
    client = pages_of(shop)
    assert f"{absent} and is isolated" in text_of(client.get("/clusters/shop").text)
    said = text_of(client.get("/clusters/shop/topics/orders").text)
    assert f"Owners that do not answer: a: http://a:9001 refuses b: {absent} and is isolated" in said


def test_an_owner_that_is_not_well_and_why_a_last_life_ended_are_shown(shop: Cluster) -> None:
    under_way(shop)
    stuck = "stuck: the application has had no executor for 12 s"
    shop.statuses.answers["a"] = ConsumerStatus("a", "shop", 1, "boot", stuck, condition=Condition.STUCK)
    ZooKeeperRegistry(shop.zk, shop.paths, shop.clock).deregister("b", 1)
    record_end(shop.coordinator, "b", 1, Ending.REAPED, "exit code 1: <b>KeyError</b>")
    client = pages_of(shop)
    overview = client.get("/clusters/shop").text
    assert f"{stuck} " in text_of(overview)
    assert "incarnation 1 has ended: exit code 1: &lt;b&gt;KeyError&lt;/b&gt;" in overview
    assert f"Owners that are not well: a: {stuck}" in text_of(client.get("/clusters/shop/topics/orders").text)
    well = page_data.Consumers(
        (
            ConsumerOverview("a", "live", health="ok", condition=Condition.OK),
            ConsumerOverview("b", "live", health=stuck, condition=Condition.STUCK),
        )
    )
    assert well.unwell(("a", "b"), "orders") == [f"b: {stuck}"]


def test_the_state_that_owners_keep_stands_on_the_topics_page_the_largest_first(shop: Cluster) -> None:
    stable(shop, dict.fromkeys(range(4), "a"))
    token = Token(1, 1, "g")
    sizes = {0: StateSize(1_200, 5_000, 1_700_000_000_000), 1: StateSize(3, 90_000), 2: None}
    running = {p: RunningPartition(5, token, True, state=size) for p, size in sizes.items()}
    said = TopicStatus("g", 3, running=running)
    shop.statuses.answers["a"] = ConsumerStatus("a", "shop", 1, "boot", "ok", {"orders": said})
    page = text_of(pages_of(shop).get("/clusters/shop/topics/orders").text)
    assert "1,203 rows and 95,000 bytes in 2 partitions" in page
    assert "1 a 3 90,000 – 0 a 1,200 5,000 2023-11-14 22:13:20 UTC" in page
    shop.statuses.answers["a"] = ConsumerStatus("a", "shop", 1, "boot", "ok", {"orders": TopicStatus("g", 3)})
    assert "State" not in text_of(pages_of(shop).get("/clusters/shop/topics/orders").text)


def test_what_owners_cannot_process_is_told_once_with_its_cause(shop: Cluster) -> None:
    stable(shop, {0: "a", 1: "a", 2: "b", 3: "b"})
    away, bad = "SinkUnavailable: no route to the database", "ValueError: bad record"
    of_a = (Failure((0,), bad, 4, 9.0), Failure((), away, 2, 69.0, away=True))
    of_b = (Failure((2, 3), away, 5, 41.0, away=True),)
    for who, failures in (("a", of_a), ("b", of_b)):
        reports = tuple(f"it waits: {one.why} (failed {one.tries} times)" for one in failures)
        said = TopicStatus("g", 3, reports=reports, failures=failures)
        health = f"failing: topic orders: {reports[0]}"
        shop.statuses.answers[who] = ConsumerStatus(
            who, "shop", 1, "boot", health, {"orders": said}, condition=Condition.FAILING
        )
    outage = f"the sink does not answer for 69 s (a, b, partitions 0-3 of topic orders): {away}"
    client = pages_of(shop)
    page = text_of(client.get("/clusters/shop/topics/orders").text)
    assert f"Owners that are not well: {outage} a: it waits: {bad} (failed 4 times) " in page
    lines = [one["says"] for one in client.get("/api/v1/summary").json()["clusters"][0]["health"] if one["bad"]]
    assert lines[-2:] == [f"a cannot process partition 0 of topic orders for 9 s: {bad}", outage]
    assert away not in client.get("/clusters/shop").text


class Walked(tuple[RunningTopic, ...]):
    """Counts the iterations."""

    times = 0

    def __iter__(self) -> Iterator[RunningTopic]:
        self.times += 1
        return super().__iter__()


def many_consumers(monkeypatch: pytest.MonkeyPatch, count: int = 5_000) -> None:
    """Thousands of consumers with long names; one at the end has a problem."""
    each = [
        ConsumerOverview(f"{'consumer' * 6}-{n:04d}", "live", health="ok", condition=Condition.OK, address="http://h:1")
        for n in range(count)
    ]
    each[-7] = replace(each[-7], problem="it is too hot")
    monkeypatch.setattr(overview, "consumers", lambda *_: each)


def test_the_overview_of_thousands_of_consumers_and_topics_stays_small_and_finds_each(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_consumers(monkeypatch)
    for number in range(page_data.MOST_ROWS):
        shop.kafka.create_topic(f"topic-{number:03d}", 1)
        topics.add_topic(shop.coordinator, f"topic-{number:03d}", "readers", actor=PERSON)
    client = pages_of(shop)
    page = client.get("/").text
    assert page.count('<th scope="row">') == 2 * page_data.MOST_ROWS
    assert len(page) < 400_000
    assert "Shown: 100 of 101 topics, 100 of 5000 consumers; those that need somebody come first." in text_of(page)
    assert "it is too hot" in page
    found = client.get("/?find=R-2999").text
    assert "-2999<" in found
    assert found.count('<th scope="row">') == 1


def test_the_page_of_a_topic_asks_only_the_consumers_of_the_topic(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    stable(shop, {0: "a"})
    asked = list[str]()
    once = shop.statuses.ask

    def ask(members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:
        asked.extend(one.consumer for one in members)
        return once(members, known)

    monkeypatch.setattr(type(shop.statuses), "ask", lambda _, *given: ask(*given))
    assert pages_of(shop).get("/clusters/shop/topics/orders").status_code == 200
    assert asked == ["a"]


def test_the_live_page_gets_one_topic_and_the_consumers_that_need_somebody(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.kafka.create_topic("large", 3_000)
    topics.add_topic(shop.coordinator, "large", "readers", actor=PERSON)
    stable(shop, {0: "a", 1: "a", 2: "a", 3: "a"})
    many_consumers(monkeypatch)
    live = pages_of(shop)

    def part(**asked: str) -> Any:
        return live.get("/api/v1/clusters/shop/live", params=asked).json()

    found = part(shown="orders")
    assert (found["shown"], found["partitions"]["partition"], found["left_out"]) == ("orders", [0, 1, 2, 3], 0)
    assert (len(found["consumers"]), found["consumers_found"], found["answering"]) == (200, 5_000, 5_000)
    assert found["consumers"][0]["notes"] == ["it is too hot"]
    assert [one["consumer"][-4:] for one in part(shown="orders", find="-2999")["consumers"]] == ["2999"]
    assert part(shown="")["shown"] == "large", "nobody reads it"
    assert set(part(shown="large", consumer="a")["partitions"]["topic"]) == {0, 1}
    assert part()["left_out"] == 0, "for a program"


@pytest.mark.parametrize("path", ["/", "/api/v1/clusters/shop/live"])
def test_consumers_are_not_walked_for_each_topic(shop: Cluster, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    names = [f"topic-{number}" for number in range(20)]
    for name in names:
        shop.kafka.create_topic(name, 1)
        topics.add_topic(shop.coordinator, name, "readers", actor=PERSON)
    said = Walked(RunningTopic(name, (0,), (0,), lag_records=700) for name in names)
    each = [
        ConsumerOverview(consumer, "live", health="ok", condition=Condition.OK, topics=said) for consumer in ("a", "b")
    ]
    monkeypatch.setattr(overview, "consumers", lambda *_: each)
    page = pages_of(shop).get(path)
    assert page.status_code == 200
    assert said.times <= 10, "five times of each consumer"
    assert page.text.count(' data-label="Lag">at least 1400</td>') == (20 if path == "/" else 0), "nobody owns them"


def test_the_page_of_a_removed_topic_says_nothing_of_its_last_plan(shop: Cluster) -> None:
    stable(shop, dict.fromkeys(range(4), "a"))
    topics.remove_topic(shop.coordinator, "orders", PERSON)
    path, client = "/clusters/shop/topics/orders", pages_of(shop)
    assert "Stable: it is being removed from the coordinator. Epoch 3" in text_of(client.get(path).text)
    stable(shop, {})
    page = text_of(client.get(path).text)
    assert "Stable: it was removed from the coordinator. Epoch 3" in page
    assert words.meaning(State.STABLE) not in page


def test_the_tab_of_a_run_shows_what_that_run_moved_and_nothing_else(shop: Cluster) -> None:
    a_hand_off(shop)
    write(
        shop,
        State.STABLE,
        State.CLOSING,
        900_004.0,
        Move(0, "a", "b", MoveKind.HANDOFF),
        rebalance="3-def",
        actor=task("plan", "run 2"),
    )
    client = pages_of(shop)
    assert "3 partitions moved, pause not measured" in text_of(client.get("/runs/rebalance/run 1/x").text)
    assert "1 partition on the way" in text_of(client.get("/runs/rebalance/run 2").text)
    assert "This run has changed nothing" in client.get("/runs/rebalance/run 3").text
    assert "this is a run of another one" in client.get("/runs/consumers/run 1").text


@pytest.mark.parametrize("what", ["broken", "folder", "record"])
def test_a_history_that_cannot_be_read_hides_nothing_else_of_a_run_or_of_its_topic(shop: Cluster, what: str) -> None:
    a_hand_off(shop)
    folder, mine = shop.paths.history("bills"), shop.paths.history("orders")
    shop.zk.ensure(folder)
    shop.zk.transact([Create(f"{folder}/", b"{broken" if what == "broken" else b"{}", sequence=True)])
    if what != "broken":
        shop.zk.denied.add(folder if what == "folder" else f"{folder}/0000000000")
    client = pages_of(shop)
    said = text_of(client.get("/runs/rebalance/run 1/x").text)
    assert "3 partitions moved, pause not measured" in said
    assert (f"{folder}/0000000000: is not JSON in UTF-8" if what == "broken" else folder) in said
    said = text_of(client.get("/runs/rebalance/run 3").text)
    assert folder in said
    assert "This run has changed nothing" not in said, "nobody knows"
    stable(shop, dict.fromkeys(range(4), "a"))
    shop.zk.denied.add(mine if what == "folder" else f"{mine}/0000000000")
    page = client.get("/clusters/shop/topics/orders")
    assert page.status_code == 200
    assert mine in text_of(page.text)


@pytest.mark.parametrize("why", ["broken", "denied"])
def test_a_last_record_that_cannot_be_read_hides_nothing_of_the_topic(shop: Cluster, why: str) -> None:
    stable(shop, dict.fromkeys(range(4), "a"))
    shop.zk.ensure(shop.paths.history("orders"))
    shop.zk.transact([Create(f"{shop.paths.history('orders')}/", b"{" if why == "broken" else b"{}", sequence=True)])
    path = f"{shop.paths.history('orders')}/0000000000"
    if why == "denied":
        shop.zk.denied.add(path)
    (one,) = summaries(shop.coordinator, ["orders"])
    assert (path in one.last_problem, one.problem) == (True, "")
    client = pages_of(shop)
    said = text_of(client.get("/").text)
    assert "a: 4 (0–3)" in said
    assert path in said
    said = text_of(client.get("/clusters/shop/topics/orders").text)
    assert words.meaning(State.STABLE) in said
    assert path in said
    data = client.get("/api/v1/clusters/shop/live").json()
    assert (data["topics"][0]["says"], data["topics"][0]["problem"]) == (
        "Every partition is where the last plan put it.",
        "",
    )


def test_the_tabs_of_a_cluster_lead_to_the_same_cluster(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop,books")
    client, base = pages_of(shop), "/airflow" + PREFIX
    for path in ("", "/topics/orders", "/live", "/audit", "/dead-letters", "/ask/drain"):
        tabs = re.findall(r'href="([^"]*)"', client.get(f"/clusters/books{path}").text.partition("</nav>")[0])
        assert tabs == [
            f"{base}/clusters/books",
            f"{base}/clusters/books/live",
            f"{base}/rebalances",
            f"{base}/actions",
            f"{base}/clusters/books/audit",
            f"{base}/clusters/books/dead-letters",
        ]
    assert f'href="{base}/live"' in client.get("/rebalances").text
    _, path = client.get("/clusters/books/topics/orders").text.split('"Breadcrumb">')
    assert path.startswith(f'<a href="{base}/clusters/books">books</a> / orders<')


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (
            RunResult(("a <b>gives</b> 3",), True, True, True, done=True),
            "Dry run: nothing was changed This is what drain would do.",
        ),
        (RunResult(("a <b>gives</b> 3",), False, True, True, done=True), "drain is done a &lt;b&gt;gives&lt;/b&gt; 3"),
        (
            RunResult((), False, True, True),
            "drain has ended without a result Airflow has no result of its task, as after a person has marked it as success. "
            "The history says whether anything was changed.",
        ),
        (RunResult((), True, True, True), "as after a person has marked it as success. Nothing was changed."),
        (
            RunResult((), False, True, False),
            "drain has failed A part may have been done before the error, and stays: the history says what was changed.",
        ),
        (RunResult((), True, True, False), "drain has failed It was a dry run: nothing was changed."),
        (
            RunResult(("a <b>gives</b> 3",), False, True, False, done=True),
            "drain has failed What is asked for here was done by the task drain. A later task has failed: its log begins",
        ),
        (RunResult((), False, False, False), "drain is under way"),
    ],
    ids=[
        *("a dry run", "done", "marked", "a marked dry run", "failed", "a failed dry run"),
        *("a failed later task", "under way"),
    ],
)
def test_the_tab_of_an_actions_run_says_what_was_changed(shop: Cluster, result: RunResult, says: str) -> None:
    html = pages_of(shop, result=result).get("/runs/drain/run 1").text
    assert says in text_of(html)
    assert "<b>gives" not in html
    assert ('id="live"' in html) != result.over
    assert ('href="/airflow/dags/drain/runs/run%201/tasks/drain"' in html) == ("The log of" in text_of(html))


@dataclass
class OneRun:
    """A session of Airflow's database with one failed run; the first task has returned `stored` (`None` = no result)."""

    stored: object

    def execute(self, _: object) -> "OneRun":
        return self

    def one_or_none(self) -> tuple[str, dict[str, Any]]:
        return "failed", {"dry_run": False, "topic": "orders"}

    def scalars(self) -> "OneRun":
        return self

    def first(self) -> object:
        return self.stored


@pytest.mark.parametrize(
    ("stored", "lines", "done"),
    [
        (None, (), False),
        ([], (), True),
        ('["a line"]', ("a line",), True),
        ("no JSON", ("no JSON",), True),
        ("[" * 100_000, ("[" * 100_000,), True),
        (7, ("7",), True),
        ("7", ("7",), True),
        ({"a": 1}, ("{'a': 1}",), True),
        ('["half \\ud800"]', ("half \\ud800",), True),
    ],
    ids=["nothing", "no lines", "a text", "no JSON", "deep", "number", "number as text", "object", "half a character"],
)
def test_an_action_is_done_once_its_task_has_returned(stored: object, lines: tuple[str, ...], done: bool) -> None:
    session: Any = OneRun(stored)
    found = run_result("drain", "run 1", session)
    assert found == RunResult(lines, False, True, False, done, {"dry_run": False, "topic": "orders"})
    assert run_result("rebalance", "run 1", session) is None


def form_after(shop: Cluster, dag_id: str, conf: dict[str, Any]) -> str:
    """The form linked from the result of a dry run; empty = Airflow's own form."""
    client = pages_of(shop, result=RunResult(("a line",), True, True, True, done=True, conf=conf))
    page = client.get(f"/runs/{dag_id}/run 1").text
    found = re.search(r'href="/airflow/coordinator([^"]*/ask/[^"]*)"', page)
    assert (found is None) == (f'href="/airflow/dags/{dag_id}"' in page)
    return client.get(unescape(found[1])).text if found is not None else ""


def test_after_a_dry_run_nothing_is_typed_twice(shop: Cluster) -> None:
    conf = {
        "cluster": "shop",
        "topic": "orders",
        "consumer": NASTY,
        "partitions": [0, 7],
        "why": 'a "b" & c',
        "other": 1,
    }
    form = form_after(shop, "pin", {**conf, "dry_run": True})
    assert 'value="orders"' in form
    assert ">\n0\n7</textarea>" in form
    assert NASTY not in form
    assert f'value="{escape(NASTY)}"' in form
    assert "a &#34;b&#34; &amp; c" in form
    assert 'id="field-dry_run" type="checkbox" checked' in form, "only a person takes the tick off"


def test_a_form_is_filled_in_with_lists_objects_and_ticks_as_they_were(shop: Cluster) -> None:
    told = {"app": "billing", "application": "app.py", "conf": {"spark.cores.max": "2"}, "consumers": ["b-1", "b-2"]}
    form = form_after(shop, "set_fleet", {**told, "arguments": ["--set", "x=1,2"], "environment": {}, "code": None})
    assert ">\n--set\nx=1,2</textarea>" in form
    assert ">\nb-1\nb-2</textarea>" in form
    assert "{&#34;spark.cores.max&#34;: &#34;2&#34;}</textarea>" in form
    moves = {"consumer": "a", "within": 2.5, "move": True, "why": ""}
    form = form_after(shop, "expect_restart", moves)
    assert 'type="checkbox" checked' in form.split('name="move"')[1]
    assert 'value="2.5"' in form


def test_a_topic_that_always_changes_hides_no_rebalance(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    a_hand_off(shop)
    shop.kafka.create_topic("payments", 1)
    topics.add_topic(shop.coordinator, "payments", "readers", actor=PERSON)
    torn, loaded = "changed 20 times while it was being read", store.load

    def load(zk: Any, paths: Any, topic: str) -> store.Stored:
        if topic == "orders":
            raise LookAgain(torn)
        return loaded(zk, paths, topic)

    monkeypatch.setattr(store, "load", load)
    client = pages_of(shop)
    assert torn in (overview := text_of(client.get("/").text))
    assert "payments Initial" in overview
    assert "orders: 3 partitions moved" in text_of(client.get("/clusters/shop/topics/orders/rebalances/2-abc").text)


# Stories ---------------------------------------------------------------------------------------------------------------


def the_one(shop: Cluster) -> Rebalance:
    (found,) = rebalances(shop.coordinator, ["orders"])
    return found


def test_a_move_that_was_planned_again_is_marked_and_both_causes_are_told(shop: Cluster) -> None:
    write(shop, State.STABLE, State.CLOSING, 900_000.0, Move(1, "a", "b", MoveKind.HANDOFF))
    write(shop, State.CLOSING, State.STARTING, 900_001.0, Move(1, "b", "c", MoveKind.START), cause="gone: b (reaped)")
    story = tell(the_one(shop), 900_005.0)
    assert [(row.taker, row.replaced, row.started_s) for row in story.rows] == [("b", True, None), ("c", False, None)]
    assert [words.why(cause) for cause in story.causes] == [
        "b joined",
        "b is gone (its launcher saw all its processes end)",
    ]
    assert story.headline == "1 partition on the way, for 5.0 s so far"


def test_what_was_confirmed_in_parts_stands_in_rows_of_its_own(shop: Cluster) -> None:
    moves = [Move(p, "a", "b", MoveKind.BARRIER) for p in (1, 2)]
    write(shop, State.STABLE, State.CLOSING, 900_000.0, *moves)
    write(shop, State.CLOSING, State.CLOSING, 900_001.0, confirmed={"a": (1,)})
    story = tell(the_one(shop), 900_002.0)
    assert [(row.partitions, row.closes, row.closed_s) for row in story.rows] == [((1,), True, 1.0), ((2,), True, None)]
    assert [step.after_s for step in story.steps] == [0.0, 1.0]


def test_a_run_and_a_rebalance_are_found_without_the_rest_of_a_long_history(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        begun_at, actor = 900_000.0 + 1_000.0 * number, task("plan", f"run {number}")
        write(shop, State.STABLE, State.STABLE, begun_at, rebalance=f"r{number}", actor=actor)
    (found,) = page_data.run_page(shop.coordinator, "run 7", 907_000.0, 907_001.0).rebalances
    assert found.rebalance == "r7"
    read = paths_read(shop.zk, monkeypatch)
    assert history.named(shop.coordinator, "r297", "orders").began_at == 1_197_000.0
    assert len(read) <= 20, "the tab of a run over 300 topics read 200 records of each, and ended at the page's limit"
    assert history.named(shop.coordinator, "r0", "orders").began_at == 900_000.0
    with pytest.raises(NotManaged, match="there is no rebalance 'r-none' of topic 'orders'"):
        history.named(shop.coordinator, "r-none", "orders")


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("joined: a, b", "a, b joined"),
        ("joined: a; draining: b (by ada: one; two)", "a joined; b is draining (by ada: one; two)"),
        ("isolated: a (by ada)", "a was isolated (by ada)"),
        ("gone: a (left); gone: b (unknown)", "a is gone (it left cleanly); b is gone (how is not known)"),
        ("gone: a (left: topic x: no)", "a is gone (it had to leave: topic x: no)"),
        ("gone: a (reaped: exit code 1 (x))", "a is gone (its launcher saw all its processes end: exit code 1 (x))"),
        ("no longer a target: a", "a is no longer given partitions"),
        (
            "gone: a (unknown, restart planned by ada: kernel)",
            "a is gone (how is not known, restart planned by ada: kernel)",
        ),
        ("first plan", "first plan"),
        ("", "no cause was recorded"),
    ],
)
def test_causes_are_sentences_and_unknown_ones_stay(cause: str, said: str) -> None:
    causes = former_causes(cause)
    assert (words.why(causes), cause_text.said(causes)) == (said, cause)


@pytest.mark.parametrize(
    ("actor", "said", "path"),
    [
        (task("plan", "r/1"), "plan, try 2", "/dags/rebalance/runs/r%2F1/tasks/plan?try_number=2"),
        (Actor("loop", "host-1"), "the plain loop on host-1", ""),
        (Actor("command", "ada"), "the command line (ada)", ""),
        (Actor(""), "unknown", ""),
    ],
    ids=["an Airflow task", "the loop", "a person", "nobody"],
)
def test_who_ran_it(actor: Actor, said: str, path: str) -> None:
    assert (words.actor(actor), words.task_path(actor)) == (said, path)


# Safety ----------------------------------------------------------------------------------------------------------------


def test_what_consumers_and_people_wrote_is_escaped_everywhere(shop: Cluster) -> None:
    move = Move(1, NASTY, NASTY, MoveKind.RESTART)
    actor = Actor("airflow", NASTY, NASTY, NASTY, NASTY, 1)
    write(
        shop,
        State.STABLE,
        State.CLOSING,
        900_000.0,
        move,
        cause=NASTY,
        actor=actor,
        rebalance=NASTY,
        confirmed={NASTY: (1,)},
    )
    directives.drain(shop.coordinator, "a", NASTY, NASTY)
    shop.statuses.answers["a"] = ConsumerStatus("a", "shop", 1, "boot", "ok", reports=(f"reported {NASTY}",))
    client = pages_of(shop)
    assert "reported &lt;script&gt;" in client.get("/").text, "a report is shown"
    nasty_rebalance = f"/clusters/shop/topics/orders/rebalances/{NASTY.replace('/', '%2F')}"
    for path in ("/", "/clusters/shop/topics/orders", nasty_rebalance, f"/runs/rebalance/{NASTY}"):
        answer = client.get(path)
        assert "<script>alert" not in answer.text, path
        assert "<script>alert" in answer.text.replace("&lt;", "<").replace("&gt;", ">") or answer.status_code == 404, (
            path
        )


def test_pages_let_nothing_foreign_in_and_are_not_kept(shop: Cluster) -> None:
    client = pages_of(shop)
    headers = client.get("/").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    headers = client.get("/api/v1/rebalances").headers
    assert (headers["content-type"], headers["cache-control"]) == ("application/json", "no-store")
    assert headers["x-content-type-options"] == "nosniff"


def test_what_every_airflow_process_loads_builds_no_page() -> None:
    (app,) = FASTAPI_APPS
    assert app["app"]._app is None
    assert {view["destination"] for view in EXTERNAL_VIEWS} == {"nav", "dag_run"}
    assert all(view["href"].startswith(PREFIX) and view["url_route"] for view in EXTERNAL_VIEWS)


# When ZooKeeper does not answer ----------------------------------------------------------------------------------------


def test_a_store_that_is_down_is_a_page_that_says_so_and_is_not_asked_again_at_once(shop: Cluster) -> None:
    opened: list[str] = []

    def connect(name: str) -> tuple[str, Callable[[], AbstractContextManager[Coordinator]]]:
        def opener() -> AbstractContextManager[Coordinator]:
            opened.append(name)
            raise StoreUnavailable("ZooKeeper at zk:2181 does not answer within 4 s; check that it runs")

        return name, opener

    client = pages_of(connect)
    for _ in range(3):
        answer = client.get("/clusters/shop/topics/orders")
        assert answer.status_code == 503
        assert "<strong>KPC-041</strong> ZooKeeper at zk:2181 does not answer" in answer.text
        assert 'id="live"' in answer.text
        assert "coordinator doctor examines all that the coordinator needs" in text_of(answer.text)
        assert "docs/errors.md explains KPC-041" in text_of(answer.text)
    assert opened == ["shop"]


def test_a_store_that_hangs_holds_neither_the_page_nor_the_next_one(shop: Cluster) -> None:
    free = threading.Event()

    @contextmanager
    def hanging() -> Iterator[Coordinator]:
        free.wait(60)
        yield shop.coordinator

    client = pages_of(lambda name: (name, hanging), page_limit_s=0.2)
    began_s = time.monotonic()
    for _ in range(5):
        answer = client.get("/")
        assert answer.status_code == 503
        assert "could not be read within 0.2 s" in answer.text
    assert time.monotonic() - began_s < 30
    free.set()


def test_a_store_that_hangs_keeps_no_page_of_another_cluster_waiting(shop: Cluster) -> None:
    free = threading.Event()

    def wait(_: Coordinator) -> None:
        free.wait(10)

    async def looks() -> None:
        reader = ClusterReader(lambda name: (name, lambda: nullcontext(shop.coordinator)))
        hanging = [asyncio.ensure_future(reader.read(ReadableCluster("far"), wait)) for _ in range(THREADS)]
        assert await asyncio.wait_for(reader.read(ReadableCluster("shop"), lambda c: c), 2.0) is shop.coordinator
        free.set()
        await asyncio.gather(*hanging)

    try:
        asyncio.run(looks())
    finally:
        free.set()


def test_pages_that_wait_for_a_thread_share_the_failure_of_their_store() -> None:
    opened: list[str] = []

    def opener() -> AbstractContextManager[Coordinator]:
        opened.append("shop")
        raise StoreUnavailable("away")

    async def looks() -> list[object]:
        reader = ClusterReader(lambda name: (name, opener), threads=1)
        return await asyncio.gather(
            *(reader.read(ReadableCluster("shop"), lambda c: c) for _ in range(3)), return_exceptions=True
        )

    assert list(map(str, asyncio.run(looks()))) == ["away"] * 3
    assert opened == ["shop"]


def test_what_a_form_no_longer_waits_for_is_not_begun(shop: Cluster) -> None:
    free, begun = threading.Event(), []

    def slow(_: Coordinator) -> None:
        begun.append("slow")
        free.wait(10)

    async def looks() -> None:
        reader = ClusterReader(lambda name: (name, lambda: nullcontext(shop.coordinator)), threads=1)
        first = asyncio.ensure_future(reader.read(ReadableCluster("shop"), slow))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(ReadableCluster("shop"), lambda _: begun.append("form")), 0.05)
        free.set()
        await first
        await reader.read(ReadableCluster("shop"), lambda _: begun.append("next"))

    asyncio.run(looks())
    assert begun == ["slow", "next"]


def test_all_pages_share_a_session_that_ends_without_readers(shop: Cluster) -> None:
    events: list[str] = []

    @contextmanager
    def opener() -> Iterator[Coordinator]:
        events.append("opened")
        yield shop.coordinator
        events.append("closed")

    client = pages_of(lambda name: (name, opener), linger_s=3.0)
    for path in ("/", "/", "/clusters/shop/topics/orders"):
        assert client.get(path).status_code == 200
    assert events == ["opened"]
    deadline_s = time.monotonic() + 60
    while events != ["opened", "closed"] and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert events == ["opened", "closed"]


def test_a_node_that_cannot_be_read_hides_none_of_the_rest(shop: Cluster) -> None:
    shop.kafka.create_topic("broken", 1)
    topics.add_topic(shop.coordinator, "broken", "g", actor=PERSON)
    shop.zk.transact([SetData(shop.paths.topic("broken"), b"[]")])
    said = text_of(pages_of(shop).get("/").text)
    assert "/consumers/shop/assignments/broken: is not a JSON object" in said
    assert "a live 1" in said
