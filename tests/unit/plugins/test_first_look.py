"""An operator's first look: names, health, false alarms, and each move once."""

import re

import pytest
from coordinator_ui.data.topic_summary import LATE_S

from coordinator_tasks.core.model import Ending, Fleet
from coordinator_tasks.core.ports import Delete
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.service.nodes.fleet import record_end
from tests.fakes.cluster import Cluster
from tests.unit.plugins.pages_site import a_hand_off, pages_of, stable, text_of, under_way
from tests.unit.plugins.test_live import answers


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
