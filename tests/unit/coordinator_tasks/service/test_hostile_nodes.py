"""A wrong node of one consumer, fleet or topic is named, and affects only that consumer, fleet or topic.

The consumer keeps its partitions, the fleet is not launched, the topic is held, and all others are planned. Kafka settings that
load code, switch off TLS checks or log in are refused, or left out where stored.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from coordinator_plugin import changes
from coordinator_plugin.reconcile import reconcile
from coordinator_ui.data import page_data

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Ending, Fleet, Silence, State, Unreachable
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.nodes import directives, fleet, observe
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import audit, lag_moments, overview
from tests.world.site import LOOP, Site, stable_site

GARBAGE = {
    "no JSON": b"{",
    "a list": b"[]",
    "numbers of 311 digits": json.dumps(
        {"consumer": "b", "incarnation": 10**310, "registrations": [10**310], "isolated": {"by": "x", "at": 10**310}}
    ).encode(),
    "a later format": b'{"version":99}',
    "nothing that is text": b"\xff\x00",
    "deep": b"[" * 100_000,
}
NODES: dict[str, Callable[[Paths], str]] = {
    "members": lambda paths: paths.member("b"),
    "ids": lambda paths: paths.id("b"),
    "directives": lambda paths: paths.directive("b"),
}
TOPIC_NODES: dict[str, Callable[[Paths], str]] = {
    "config": lambda paths: paths.config("payments"),
    "state": lambda paths: paths.state("payments"),
    "assignments": lambda paths: paths.topic("payments"),
    "history": lambda paths: paths.history("payments"),
}
ETL = Fleet("etl", "etl.py", ("x", "z"))


def put(site: Site, path: str, raw: bytes) -> None:
    found = site.zk.find(path)
    site.zk.transact([Create(path, raw) if found is None else SetData(path, raw)])


def everything_else(site: Site) -> None:
    """All automatic runs, and all views for persons."""
    c = site.coordinator
    transitions.due(c)
    transitions.await_closed(c, ["orders"])
    transitions.await_started(c, ["orders"])
    transitions.preview(c, ["orders"])
    transitions.explain(c, "orders")
    overview.topics(c)
    page_data.cluster_page(c)
    page_data.topic_page(c, "orders", 5)
    fleet.missing(c)
    directives.complete_readmissions(c)
    reconcile(c)


@pytest.mark.parametrize("kind", NODES)
@pytest.mark.parametrize("garbage", [*GARBAGE, "no right"])
def test_an_unreadable_node_of_one_consumer_is_named_and_stops_no_consumer(kind: str, garbage: str) -> None:
    site, raw = stable_site("a", "b"), GARBAGE.get(garbage, b'{"version":1}')
    path, before = NODES[kind](site.paths), site.owned("b")
    put(site, path if garbage in GARBAGE else site.paths.directive("b"), raw)
    if garbage not in GARBAGE:
        site.zk.denied.add(path)
    site.starts("c")
    site.settles()
    assert site.counts()["c"] >= 1, "everybody else is planned"
    assert site.owned("b") == before, "its partitions stay with it"
    (report,) = transitions.step(site.coordinator, ["orders"], LOOP)
    assert report.outcome is not TopicOutcome.HELD
    assert any(path in sentence for sentence in report.left_out)
    assert path in overview.topics(site.coordinator)[0].reason
    assert {one.consumer: path in one.problem for one in overview.consumers(site.coordinator)}["b"]
    everything_else(site)
    assert garbage not in GARBAGE or site.zk.get(path).data == raw, "it is left as it is"


def test_what_may_not_be_kept_of_lags_and_requests_is_named_and_ends_no_upkeep() -> None:
    site = stable_site("a")
    folders = [site.paths.lags, site.paths.asked]
    for folder in folders:
        site.zk.ensure(folder)
    site.zk.denied.update(folders)
    lines = reconcile(site.coordinator).lines
    assert [any(folder in line for line in lines) for folder in folders] == [True, True]


@pytest.mark.parametrize("kind", TOPIC_NODES)
def test_a_missing_right_on_a_node_of_one_topic_holds_that_topic_alone(kind: str) -> None:
    site = stable_site("a", "b", names=("orders", "payments"))
    c, path = site.coordinator, TOPIC_NODES[kind](site.paths)
    site.dies("b")
    site.kafka.add_partitions("orders", 2)
    site.kafka.add_partitions("payments", 2)
    site.zk.denied.add(path)
    lines = reconcile(c).lines
    assert "orders has 2 new partitions" in lines
    assert any(path in line for line in lines)
    orders, payments = transitions.step(c, ["orders", "payments"], LOOP)
    assert (orders.outcome, payments.outcome) == (TopicOutcome.WRITTEN, TopicOutcome.HELD)
    assert path in payments.reason
    everything_else(site)
    list(lag_moments.keep(c, ["orders", "payments"]))
    audit.audit(c, between_s=0.0)
    changes.observe(c, changes.Scope.TOPICS, lambda: None)


@pytest.mark.parametrize("kind", ["ids", "directives"])
@pytest.mark.parametrize("how", [Ending.REAPED, None], ids=["said to be over", "silent"])
def test_who_has_an_unreadable_node_is_never_taken_for_gone(kind: str, how: Ending | None) -> None:
    site = stable_site("a", "b")
    before = site.owned("b")
    site.dies("b", how)
    put(site, NODES[kind](site.paths), b"{")
    for _ in range(5):
        site.clock.advance(site.policy.absent_after_s)
        site.settles()
    assert site.owned("b") == before
    if kind == "ids":
        assert site.isolation("b") is None
        directives.isolate(site.coordinator, "b", by="ann", why="its node is lost")
        site.settles()
        assert not site.owned("b")


def test_a_registration_that_cannot_be_read_is_somebodys_however_long_it_says_nothing() -> None:
    site = stable_site("a", "b")
    before = site.owned("b")
    put(site, site.paths.member("b"), b"{")
    site.statuses.answers["b"] = Unreachable(Silence.SILENT, "no answer")
    for _ in range(5):
        site.clock.advance(site.policy.absent_after_s)
        site.settles()
    assert (site.owned("b"), site.isolation("b")) == (before, None)


@pytest.mark.parametrize("raw", [b"{", b""])
def test_an_isolated_consumer_gets_nothing_back_when_its_directive_cannot_be_read(raw: bytes) -> None:
    site = stable_site("a", "b")
    directives.isolate(site.coordinator, "b", by="ann", why="wrong results")
    site.settles()
    assert not site.owned("b")
    put(site, site.paths.directive("b"), raw)
    assert site.paths.directive("b") in observe.snapshot(site.coordinator, {"orders": site.node()}).world.unclear["b"]
    site.settles()
    assert not site.owned("b")
    assert site.state().state is State.STABLE


@pytest.mark.parametrize("address", ["http://127.0.0.1:99999", ""])
def test_an_invalid_address_concerns_its_consumer_alone(address: str) -> None:
    site = stable_site("a", "b")
    path, before = site.paths.member("b"), site.owned("b")
    member = json.loads(site.zk.get(path).data)
    claim = json.loads(site.zk.get(site.paths.id("b")).data)
    put(site, path, json.dumps({**member, "address": address}).encode())
    put(site, site.paths.id("b"), json.dumps({**claim, "address": address}).encode())
    site.starts("c")
    site.settles()
    assert site.counts().keys() == {"a", "b", "c"}
    assert site.owned("b") == before
    assert address[:20] in overview.topics(site.coordinator)[0].reason
    site.processes.pop("b").zk.close()
    site.starts("b")  # the claim is readable, and forgets the address
    site.settles()
    assert "b" in site.counts()


# Fleets --------------------------------------------------------------------------------------------------------------


def launched(site: Site) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    return [one.consumer for one in fleet.missing(site.coordinator, problems)], problems


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_fleet_that_cannot_be_read_stops_no_other(garbage: str) -> None:
    site = stable_site("a")
    fleet.set_fleet(site.coordinator, ETL)
    put(site, site.paths.fleet("bad"), GARBAGE[garbage])
    missing, problems = launched(site)
    assert missing == ["x", "z"]
    assert site.paths.fleet("bad") in problems[0]
    assert {one.consumer for one in overview.consumers(site.coordinator)} == {"a", "x", "z"}
    fleet.set_fleet(site.coordinator, replace(ETL, consumers=("x", "y")))
    directives.drain(site.coordinator, "a", "ann", "new host")
    findings = reconcile(site.coordinator)
    assert (findings.missing, any(site.paths.fleet("bad") in line for line in findings.lines)) == (("x", "y"), True)
    everything_else(site)
    assert site.zk.get(site.paths.fleet("bad")).data == GARBAGE[garbage]


@pytest.mark.parametrize("kind", ["ids", "directives"])
def test_a_node_that_cannot_be_read_keeps_its_own_consumer_from_being_launched(kind: str) -> None:
    site = stable_site("a")
    fleet.set_fleet(site.coordinator, replace(ETL, consumers=("b", "z")))
    put(site, NODES[kind](site.paths), b"{")
    missing, problems = launched(site)
    assert missing == ["z"]
    assert problems[0].startswith(f"b is not launched: {NODES[kind](site.paths)}: ")


# Children ------------------------------------------------------------------------------------------------------------


def test_a_readmission_waits_for_no_other_consumer_whose_node_cannot_be_read() -> None:
    site = stable_site("a", "b", "c")
    for consumer in ("b", "c"):
        directives.isolate(site.coordinator, consumer, by="ann", why="x")
    site.settles()
    directives.readmit(site.coordinator, "b", "ann")
    put(site, site.paths.directive("c"), b"{")
    site.everybody_acts()
    problems: list[str] = []
    assert directives.complete_readmissions(site.coordinator, problems) == ("b",)
    assert problems[0].startswith(f"c is not readmitted: {site.paths.directive('c')}: ")


def test_ten_thousand_junk_registrations_make_no_long_sentence() -> None:
    site = stable_site("a", "b")
    for number in range(10_000):
        site.server.connect().transact([Create(site.paths.member(f"junk-{number}"), b"{", ephemeral=True)])
    (report,) = transitions.preview(site.coordinator, ["orders"])
    assert len(report.reason) < 5_000
    assert report.reason.endswith("and 9,990 more")
    assert len(report.left_out) == 11


def test_a_registration_of_megabytes_is_unreadable_and_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    site, at_once = stable_site("a", "b"), list[int]()
    for number in range(600):
        site.join(f"more-{number:03}")
    put(site, site.paths.member("more-000"), site.zk.get(site.paths.member("more-000")).data + b" " * 300_000)
    read = type(site.zk).get_many

    def counted(zk: Any, paths: Sequence[str]) -> Any:
        at_once.append(len(paths))
        return read(zk, paths)

    monkeypatch.setattr(type(site.zk), "get_many", counted)
    unclear: dict[str, str] = {}
    members = observe.load_members(site.coordinator, unclear)
    observe.load_claims(site.coordinator, members, unclear)
    assert (len(members), list(unclear)) == (602, ["more-000"])
    assert max(at_once) <= 256


def test_who_is_not_asked_keeps_what_it_has_gets_nothing_and_is_named() -> None:
    site = stable_site("a", "b")
    mine = site.owned("b")
    site.loses_session("b")
    site.processes["b"].silence = Silence.UNASKED
    site.starts("c")
    site.processes["c"].silence = Silence.UNASKED
    site.clock.advance(10 * site.policy.absent_after_s)
    site.settles()
    assert site.owned("b") == mine, "nobody knows whether it runs them"
    assert site.isolation("b") is None
    assert "c" not in site.node().assignments.values()
    (report,) = transitions.preview(site.coordinator, ["orders"])
    assert all(f"{name}: no answer; remove registrations" in report.reason for name in "bc")
    for name in "bc":
        site.processes[name].silence = None
    site.settles()
    assert "c" in site.node().assignments.values()
