"""Who asked for what, as a page and as data: every action with its actor, found by a filter, in pages."""

from collections.abc import Mapping
from html import unescape
from typing import Any

import pytest
from coordinator_ui.data.paging import ListPage, merged
from coordinator_ui.pages import action_list
from coordinator_ui.pages.action_list import ORDER

from coordinator_tasks.core.codecs.history_codec import encode_asked
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.model import ActionRecord, Actor, FieldChange
from coordinator_tasks.core.names import spelled
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.nodes import action_log
from tests.fakes.cluster import Cluster
from tests.fakes.zookeeper import paths_read
from tests.unit.plugins.pages_site import NASTY, pages_of, text_of

ADA = Actor("airflow", "ada", "pause", "manual__1", "pause", 1)
BOB = Actor("command", "kim, as user bob")
START = 900_000.0


def ask(shop: Cluster, number: int, actor: Actor = ADA, **more: Any) -> None:
    values = {"action": "pause", "about": f"topic-{number}", "why": f"reason {number}", **more}
    change = FieldChange(f"config/topic-{number}", "paused", "[]", "[1]")
    shop.zk.ensure(shop.paths.asked)
    one = ActionRecord(actor=actor, at=START + 100 * number, changes=(change,), **values)
    shop.zk.transact([Create(f"{shop.paths.asked}/", encode_asked(one), sequence=True)])


@pytest.fixture
def busy(shop: Cluster) -> Cluster:
    """Nine actions after the one that has added the topic of the fixture."""
    for name in shop.zk.children(shop.paths.asked) if shop.zk.find(shop.paths.asked) else ():
        raise AssertionError(name)
    for number in range(9):
        ask(
            shop, number, BOB if number % 2 else ADA, action={2: "undo_offsets", 4: "set_strategy"}.get(number, "pause")
        )
    return shop


def abouts(shop: Cluster, **query: Any) -> list[str]:
    return [one["about"] for one in pages_of(shop).get("/api/v1/actions", params=query).json()["actions"]]


@pytest.mark.parametrize(
    ("action", "given", "about"),
    [
        ("pause", {"topic": "orders", "partitions": [1]}, "orders"),
        ("drain", {"consumer": "a"}, "a"),
        ("set_fleet", {"app": "billing", "application": "app.py", "consumers": ["b-1"]}, "billing"),
    ],
)
def test_an_action_has_a_user_and_a_reason(shop: Cluster, action: str, given: Mapping[str, Any], about: str) -> None:
    ACTIONS[action].lines(shop.coordinator, {**given, "why": "agreed with kim"}, ADA, dry_run=False)
    client = pages_of(shop)
    (one,) = client.get("/api/v1/actions").json()["actions"]
    assert (one["action"], one["about"], one["why"], one["cluster"]) == (action, about, "agreed with kim", "shop")
    assert one["actor"] == {
        "kind": "airflow",
        "who": "ada",
        "dag": "pause",
        "run": "manual__1",
        "task": "pause",
        "try": 1,
    }
    assert one["changes"]
    page = client.get("/actions").text
    assert f"ada manual__1 {spelled(action)} {about} shop agreed with kim" in text_of(page)
    assert 'href="/airflow/dags/pause/runs/manual__1/tasks/pause?try_number=1"' in page
    assert ('href="/airflow/coordinator/clusters/shop/topics/orders"' in page) is (about == "orders")


def test_a_name_that_was_given_stands_beside_the_operating_systems_user(shop: Cluster) -> None:
    ask(shop, 1, BOB)
    assert "kim, as user bob at a terminal pause" in text_of(pages_of(shop).get("/actions").text)
    ask(shop, 2, Actor("airflow", "", "autoscale", "scheduled__1", "look", 1))
    assert "nobody: a schedule scheduled__1 pause" in text_of(pages_of(shop).get("/actions").text)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"actor": "ADA"}, [8, 6, 4, 2, 0]),
        ({"actor": "bob"}, [7, 5, 3, 1]),
        ({"actor": "manual__1", "about": "topic-6"}, [6]),
        ({"action": "set-strategy"}, [4]),
        ({"action": "offsets undo"}, [2]),
        ({"action": "set strategy"}, [4]),
        ({"action": "set_strategy"}, [4]),
        ({"about": "TOPIC-3"}, [3]),
        ({"after": "1970-01-11T10:11:40"}, [8, 7]),
        ({"before": "1970-01-11T10:01:40Z"}, [0]),
        ({"actor": "zoe"}, []),
    ],
)
def test_a_filter_leaves_what_it_names(busy: Cluster, query: dict[str, str], found: list[int]) -> None:
    assert abouts(busy, **query) == [f"topic-{number}" for number in found]


@pytest.mark.parametrize("most_read", [6_000, 4, 1])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_have_no_gap_between(busy: Cluster, monkeypatch: pytest.MonkeyPatch, limit: int, most_read: int) -> None:
    monkeypatch.setattr(action_list, "MOST_READ", most_read)
    found, rest = [], ""
    for _ in range(20):
        answer = pages_of(busy).get("/api/v1/actions", params={"limit": limit, "rest": rest, "actor": "ada"}).json()
        found += [one["about"] for one in answer["actions"]]
        rest = answer["rest"] or ""
        if not rest:
            break
    assert found == [f"topic-{number}" for number in (8, 6, 4, 2, 0)]


def test_a_long_log_is_read_only_as_far_as_the_page_needs_it(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(450):
        ask(shop, number)
    read = paths_read(shop.zk, monkeypatch)
    assert len(abouts(shop, limit=5)) == 5
    assert len(read) == 200
    read.clear()
    assert len(abouts(shop, after="1970-01-11T22:25:00")) == 3
    assert len(read) == 200, "an hour before the wanted time the search ends"


@pytest.mark.parametrize("why", ["broken", "denied"])
def test_a_record_that_cannot_be_read_is_named_and_hides_no_other(busy: Cluster, why: str) -> None:
    path = f"{busy.paths.asked}/0000000004"
    if why == "broken":
        busy.zk.transact([SetData(path, b"{broken")])
    else:
        busy.zk.denied.add(path)
    problems: list[str] = []
    assert len(action_log.asked(busy.coordinator, problems=problems)) == 8
    assert path in problems[0]
    answer = pages_of(busy).get("/api/v1/actions").json()
    assert len(answer["actions"]) == 8
    (problem,) = answer["problems"]
    assert path in problem
    assert problem in unescape(text_of(pages_of(busy).get("/actions").text))


def test_many_records_that_cannot_be_read_are_named_page_by_page(shop: Cluster) -> None:
    ask(shop, 0)
    for _ in range(450):
        shop.zk.transact([Create(f"{shop.paths.asked}/", b"{broken", sequence=True)])
    client, rest, named = pages_of(shop), "", 0
    while True:
        answer = client.get("/api/v1/actions", params={"limit": 100, "rest": rest}).json()
        assert len(answer["actions"]) + len(answer["problems"]) <= 100
        named += len(answer["problems"])
        if answer["rest"] is None:
            break
        assert "Nothing of this page can be read" in client.get(f"/actions?limit=100&rest={rest}").text
        rest = answer["rest"]
    assert (named, len(answer["actions"])) == (450, 1)


def record(at: float, sequence: int) -> ActionRecord:
    return ActionRecord("pause", "orders", ADA, at, sequence=sequence)


def test_clusters_are_one_list_by_time_and_each_goes_on_where_it_was() -> None:
    eu, us = (record(50, 9), record(30, 8)), (record(40, 3), record(20, 2))
    found = merged({"eu": ListPage(eu), "us": ListPage(us)}, ORDER, 3, {})
    assert [(name, one.at) for name, one in found.found] == [("eu", 50), ("us", 40), ("eu", 30)]
    assert found.rest == "eu:0,us:3"
    assert merged({"us": ListPage(us[1:])}, ORDER, 3, {"eu": "0", "us": "3"}).rest == ""


def test_a_silent_cluster_hides_no_other_and_keeps_its_place(busy: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop,eu")

    def connect(name: str) -> Any:
        if name == "eu":
            raise StoreUnavailable("ZooKeeper does not answer; check that it runs")
        from contextlib import nullcontext  # noqa: PLC0415

        return name, lambda: nullcontext(busy.coordinator)

    answer = pages_of(connect).get("/api/v1/actions?limit=2&rest=eu:7,shop:5").json()
    assert [one["about"] for one in answer["actions"]] == ["topic-4", "topic-3"]
    assert answer["problems"] == ["cluster eu: KPC-041: ZooKeeper does not answer; check that it runs"]
    assert answer["rest"] == "eu:7,shop:3"


@pytest.mark.parametrize(
    "request_",
    [
        *(f"/actions?{query}" for query in ("after=yesterday", "rest=x", "rest=shop:-1", "rest=a/b:1")),
        *(f"/rebalances?{query}" for query in ("after=yesterday", "rest=x", "rest=nan:orders")),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused_in_a_sentence(shop: Cluster, request_: str) -> None:
    answer = pages_of(shop).get(f"/api/v1{request_}")
    assert (answer.status_code, answer.json()["code"]) == (400, "KPC-010")
    assert pages_of(shop).get(request_).status_code == 400


@pytest.mark.parametrize("name", [NASTY, "\u202egnirts", "x" * 200, "{{ 7 * 7 }}"])
def test_hostile_words_are_text(shop: Cluster, name: str) -> None:
    actor = Actor("airflow", name, name, name, name, 1)
    ask(shop, 1, actor, about=name, why=name, action=name)
    client = pages_of(shop)
    for path in ("/actions", f"/actions?actor={name}"):
        page = client.get(path).text
        assert "<script>alert" not in page
        assert name in text_of(page.replace("&lt;", "\ue000").replace("&gt;", "\ue001")).replace("\ue000", "<").replace(
            "\ue001", ">"
        )
    (one,) = client.get("/api/v1/actions").json()["actions"]
    assert (one["actor"]["who"], one["about"], one["why"]) == (name, name, name)


def test_an_empty_list_says_so(shop: Cluster) -> None:
    assert "Nobody has asked for anything yet." in text_of(pages_of(shop).get("/actions").text)
