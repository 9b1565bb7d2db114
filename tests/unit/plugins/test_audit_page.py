"""The ownership audit as a page and as data: content, sharing between requests, foreign texts escaped."""

from html import escape
from typing import Any

import pytest
from coordinator_ui.data import audits
from coordinator_ui.pages.render import environment

from coordinator_tasks.service.watch import audit as service
from tests.fakes.cluster import Cluster
from tests.unit.plugins.pages_site import NASTY, pages_of, text_of
from tests.world.site import Site, stable_site

DATA = "/api/v1/clusters/shop/audit"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop")
    monkeypatch.setattr(audits, "BETWEEN_S", 0.01)


@pytest.fixture
def site() -> Site:
    return stable_site("a", "b")


def kinds(found: Any) -> list[tuple[str, list[int], bool]]:
    return [(one["kind"], one["partitions"], one["alarm"]) for one in found["findings"]]


def intruded(site: Site) -> None:
    """Somebody without a token has committed partition 0."""
    site.kafka.stored["g", "orders", 0] = (3, "")


def test_a_healthy_cluster_shows_who_commits_what(site: Site) -> None:
    said = text_of(pages_of(site).get("/audit").text)
    assert "Ownership audit of cluster shop" in said
    assert "by two looks, 10 ms apart" in said
    assert "old code KPC-084 – – a runs a release that does not say its number" in said
    found = pages_of(site).get(DATA).json()
    assert {one["who"] for one in found["committers"]} == {"a", "b"}
    assert (found["alarms"], found["problems"], found["topic"]) == (0, [], "")


def test_every_finding_stands_with_what_to_do_and_the_worst_first(site: Site) -> None:
    intruded(site)
    client = pages_of(site)
    found = client.get(DATA).json()
    assert kinds(found)[0] == ("intruder", [0], True)
    assert (found["counts"]["intruder"], found["counts"]["two_owners"], found["alarms"]) == (1, 0, 1)
    page = client.get("/clusters/shop/audit").text
    assert 'class="state alarm">intruder<' in page
    assert 'class="state doubt">old code<' in page
    said = text_of(page)
    assert "partition 0 of orders: somebody without a token has committed it over" in said
    assert "stop the intruder, or give the intruder a group of its own" in said
    assert said.index("intruder KPC-082") < said.index("old code KPC-084")


def test_one_topic_can_be_audited_alone_and_its_page_leads_there(site: Site) -> None:
    site.add_topic("clicks", 2)
    site.settles()
    client = pages_of(site)
    assert {one["topic"] for one in client.get(f"{DATA}?topic=clicks").json()["committers"]} == {"clicks"}
    assert {one["topic"] for one in client.get(DATA).json()["committers"]} == {"clicks", "orders"}
    assert "/clusters/shop/audit?topic=orders" in client.get("/clusters/shop/topics/orders").text
    (problem,) = client.get(f"{DATA}?topic=none").json()["problems"]
    assert problem.startswith("none is not audited: KPC-012")


def test_what_cannot_be_looked_at_is_said_and_hides_nothing_else(site: Site) -> None:
    site.kafka.down = True
    page = text_of(pages_of(site).get("/audit").text)
    assert "Left out: the committed offsets of orders are not audited: " in page
    assert "Nothing is committed in what could be looked at." in page


def test_an_audit_of_no_topic_says_so() -> None:
    client = pages_of(Cluster())
    said = text_of(client.get("/audit").text)
    assert "No topic is managed, so there is nothing to audit." in said
    assert "Every partition has one owner" not in said
    said = text_of(client.get("/audit?topic=none").text)
    assert "Left out: none is not audited: KPC-012" in said
    assert "No topic could be audited." in said


def test_all_viewers_share_one_audit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[object] = []
    once = service.look

    def look(*given: Any) -> Any:
        looks.append(given)
        return once(*given)

    monkeypatch.setattr(service, "look", look)
    client = pages_of(site)
    for path in ("/audit", "/clusters/shop/audit", DATA):
        assert client.get(path).status_code == 200
    assert len(looks) == 2


def test_rows_beyond_the_bound_are_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "MOST_ROWS", 1)
    monkeypatch.setitem(environment().globals, "most_rows", 1)
    client = pages_of(site)
    assert client.get(DATA).json()["left_out"] == {"findings": 1, "committers": 1}
    said = text_of(client.get("/audit").text)
    assert "And 1 more finding: coordinator audit lists all of them." in said


@pytest.mark.parametrize("name", [NASTY, "\u202egnirts", "x" * 300, "{{ 7 * 7 }}"])
def test_the_name_of_a_hostile_client_is_text(site: Site, name: str) -> None:
    site.kafka.members["g"] = (f"{name} at 10.0.0.7",)
    client = pages_of(site)
    page = client.get("/audit").text
    assert "<script>alert" not in page
    mark = "\u2068" if "\u202e" in name else ""
    assert f"<bdi>{mark}orders: {escape(name)} at 10.0.0.7 subscribes with group g" in page
    (one,) = [one for one in client.get(DATA).json()["findings"] if one["kind"] == "intruder"]
    assert one["who"] == f"{name} at 10.0.0.7"
