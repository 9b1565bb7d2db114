"""What an operator reads first: names, health, alarms that are none, and each move once."""

import re

import pytest
from coordinator_ui.data.topic_summary import LATE_S
from coordinator_ui.names import NAMES
from coordinator_ui.registration import EXTERNAL_VIEWS
from coordinator_ui.texts import words

from coordinator_tasks.core.model import Actor, Ending, Explanation, Fleet, Reason
from coordinator_tasks.core.ports import Delete
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.service.nodes.fleet import record_end
from tests.fakes.cluster import Cluster
from tests.unit.plugins.pages_site import a_hand_off, pages_of, stable, text_of, under_way
from tests.unit.plugins.test_live import answers

RUN = "asset_triggered__2026-11-27T10:23:36.034494+00:00_8hkOYRDo"


@pytest.mark.parametrize("view", EXTERNAL_VIEWS, ids=lambda view: view["name"])
def test_a_page_has_one_name_in_the_menu_in_links_as_heading_and_as_title(shop: Cluster, view: dict[str, str]) -> None:
    a_hand_off(shop)
    path = view["href"].partition("/coordinator")[2].format(DAG_ID="rebalance", RUN_ID="run 1/x")
    html = pages_of(shop).get(path).text
    (heading,), (title,) = re.findall(r"<h1>(.*?)</h1>", html), re.findall(r"<title>(.*?)</title>", html)
    assert (heading.partition(" <")[0], title.partition(":")[0]) == (view["name"], view["name"])
    tabs = re.findall(r'href="[^"]*">([^<]+)<', html.partition("</nav>")[0])
    assert tabs == [name for key, name in NAMES.items() if key != "run"]


def test_the_id_of_a_run_is_said_in_one_line_and_leads_there(shop: Cluster) -> None:
    a_hand_off(shop, actor=Actor("airflow", "ada", "rebalance", RUN, "plan", 1))
    client = pages_of(shop)
    html = client.get("/rebalances").text
    assert "asset triggered 10:23:36 for ada" in text_of(html)
    assert RUN not in text_of(html)
    assert f'title="{RUN}"' in html
    for text in ("asset triggered 10:23", RUN):
        assert len(client.get("/api/v1/rebalances", params={"actor": text}).json()["rebalances"]) == 1, text
    assert words.run_name("backfill of " + 60 * "x") == "backfill of " + 17 * "x" + "..."


def test_a_hand_off_alarms_nobody_until_it_lasts_longer_than_usual(shop: Cluster) -> None:
    under_way(shop)  # since 10 s

    def alarms() -> list[bool]:
        client = pages_of(shop)
        pages = [client.get(path).text for path in ("/", "/clusters/shop/topics/orders")]
        (summary,) = client.get("/api/v1/summary").json()["clusters"]
        return [*('class="note"' in html for html in pages), any(one["bad"] for one in summary["health"][:1])]

    for owner in ("a", "b"):
        answers(shop, owner, {})
    assert alarms() == [False, False, False]
    shop.clock.sleep(LATE_S)
    assert alarms() == [True, True, True]
    a_hand_off(shop)  # took 2.25 s
    assert alarms() == [True, True, True]


@pytest.mark.parametrize(
    ("how", "reason", "drained", "shown", "offered"),
    [
        (Ending.LEFT, "", False, "left", []),
        (Ending.LEFT, "", True, "left", ["undrain"]),
        (Ending.LEFT, "it had to leave", False, "gone", []),
        (Ending.REAPED, "", False, "gone", []),
        (None, "", False, "live", ["drain", "isolate"]),
        (None, "", True, "draining", ["undrain", "isolate"]),
    ],
)
def test_who_has_left_cleanly_is_no_alarm_and_only_what_changes_something_is_offered(
    shop: Cluster, how: Ending | None, reason: str, drained: bool, shown: str, offered: list[str]
) -> None:
    stable(shop, dict.fromkeys(range(4), "a"))
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("b",)))
    if drained:
        directives.drain(shop.coordinator, "b", "ada", "new disk")
    if how is not None:
        shop.zk.transact([Delete(shop.paths.member("b"))])
        record_end(shop.coordinator, "b", 1, how, reason)
    client = pages_of(shop)
    row = (
        client.get("/").text.partition('aria-labelledby="consumers"')[2].partition('title="b"')[2].partition("</tr>")[0]
    )
    assert re.findall(r'class="state ([^"]+)"', row) == [shown]
    assert re.findall(r"/ask/(\w+)\?", row) == offered
    (one,) = [one for one in client.get("/api/v1/clusters/shop/live").json()["consumers"] if one["consumer"] == "b"]
    assert (one["presence"], one["offers"]) == (shown, offered)


@pytest.mark.parametrize(
    ("wanted", "said", "bad"),
    [
        ((), "2 consumers run in no fleet", False),
        (("a", "b"), "All 2 consumers that the fleets want run", False),
        (("a",), "The only consumer that the fleets want runs; 1 consumer runs in no fleet", False),
        (("a", "c"), "1 of the 2 consumers that the fleets want runs; missing: c; 1 consumer runs in no fleet", True),
    ],
)
def test_a_consumer_in_no_fleet_is_not_wanted(shop: Cluster, wanted: tuple[str, ...], said: str, bad: bool) -> None:
    stable(shop, {0: "a", 1: "a", 2: "b", 3: "b"})
    for owner, lag in (("a", {0: 3, 1: 0}), ("b", {2: 1, 3: 0})):
        answers(shop, owner, lag)
    if wanted:
        fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", wanted))
    client = pages_of(shop)
    lines = client.get("/api/v1/clusters/shop/live").json()["health"]
    assert {"says": said, "bad": bad} in lines
    assert (lines[0], lines[-1]["says"]) == ({"says": "The only topic is Stable", "bad": False}, "4 records behind")
    assert said in text_of(client.get("/runs/rebalance/run 1").text)
    assert client.get("/api/v1/summary").json()["clusters"][0]["health"] == lines


def test_a_rebalance_tells_each_move_once_and_folds_the_rest(shop: Cluster) -> None:
    why = Explanation("weighted", "00ff", "weighted by records: 3 moves", (Reason("a carried more", (1, 2, 3)),))
    a_hand_off(shop, plan=why)
    html = pages_of(shop).get("/clusters/shop/topics/orders/rebalances/2-abc").text
    open_part = re.sub(r"<details.*?</details>|<svg.*?</svg>", "", html, flags=re.DOTALL)
    assert open_part.count("<table") == 1
    assert text_of(open_part).count("a carried more") == 1
    assert re.findall(r"<summary[^>]*>([^<]+)<", html) == ["Before and after", "The whole rebalance", "Step by step"]
