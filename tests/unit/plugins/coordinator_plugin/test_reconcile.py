"""Findings of the reconciliation, and the started runs."""

from dataclasses import replace

import pytest
from coordinator_plugin import stats
from coordinator_plugin.reconcile import MAX_TOLD, reconcile, runs

from coordinator_tasks.core.codecs.member_codec import encode_claim
from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.model import Ending, Fleet, IdClaim
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import directives, fleet, topics
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.counted import counted
from tests.world.site import stable_site


def test_reconcile_finds_due_topics_and_missing_consumers_and_lets_running_runs_be(shop: Cluster) -> None:
    shop.join("a")
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("c1",)))
    shop.kafka.add_partitions("orders", 2)
    findings = reconcile(shop.coordinator)
    assert (findings.due, findings.writable, findings.missing, findings.questions) == (("orders",), True, ("c1",), ())
    assert "orders has 2 new partitions" in findings.lines
    names = {
        "rebalance": "rebalance",
        "consumers": "consumers",
        "stuck_topic": "stuck_topic",
        "approve_plan": "approve_plan",
    }
    assert findings.fleets == ("app",)
    wanted = runs(findings, names, active_rebalances=0, launches=[{"trigger_dag_id": "consumers"}])
    assert [one["trigger_dag_id"] for one in wanted] == ["rebalance", "consumers"]
    assert runs(replace(findings, writable=False), names, active_rebalances=1) == []


def test_a_run_that_stands_still_keeps_nothing_from_being_done_that_can_be_done_now(shop: Cluster) -> None:
    shop.join("a")
    findings = reconcile(shop.coordinator)
    assert findings.writable

    def started(active: int) -> list[str]:
        return [one["trigger_dag_id"] for one in runs(findings, names, active_rebalances=active)]

    names = {"rebalance": "rebalance"} | dict.fromkeys(("consumers", "stuck_topic", "approve_plan"), "")
    assert (started(1), started(2)) == (["rebalance"], [])


def test_reconcile_finds_what_is_due_beside_a_fleet_and_a_topic_that_cannot_be_read(shop: Cluster) -> None:
    c = shop.coordinator
    for consumer in ("a", "b"):
        shop.join(consumer)
    fleet.set_fleet(c, Fleet("app", "app.py", ("c1",)))
    shop.kafka.create_topic("clicks", 1)
    topics.add_topic(c, "clicks", "g", actor=PERSON)
    directives.isolate(c, "b", by="ada", why="disk")
    directives.readmit(c, "b", by="ada")
    broken = [c.paths.fleet("app"), c.paths.topic("clicks")]
    shop.zk.transact([SetData(path, b"{") for path in broken])
    findings = reconcile(c)
    assert (findings.due, findings.missing) == (("orders",), ())
    assert any(line.startswith(broken[0]) for line in findings.lines)
    assert any(
        line.startswith("nobody who may run topic clicks is readmitted: ") and broken[1] in line
        for line in findings.lines
    )


def test_reconcile_finds_what_is_due_without_the_right_on_the_folder_of_fleets(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    fleet.set_fleet(c, Fleet("app", "app.py", ("c1",)))
    shop.zk.denied.add(c.paths.fleets)
    findings = reconcile(c)
    assert (findings.due, findings.missing) == (("orders",), ())
    said = f"{c.paths.fleets} may not be used by this ZooKeeper account"
    assert any(line.startswith(f"nobody is launched: {said}") for line in findings.lines)
    assert any("old code is not looked for: " in problem and said in problem for problem in findings.audited.problems)


def test_the_log_has_the_first_findings_of_a_large_audit_and_says_how_many_more_there_are(shop: Cluster) -> None:
    for number in range(MAX_TOLD + 2):
        shop.join(f"c{number:03}")
    lines = [line for line in reconcile(shop.coordinator).lines if "KPC-084" in line or "of the audit" in line]
    assert len(lines) == MAX_TOLD
    assert lines[-1] == "3 further findings of the audit: see `audit`"


def test_only_a_fleet_with_limits_of_growth_gets_a_run_of_autoscale_and_one_at_a_time(shop: Cluster) -> None:
    c, dag_ids = shop.coordinator, {"autoscale": "autoscale__eu", "consumers": "consumers__eu"}
    fleet.set_fleet(c, Fleet("app", "app.py", ("c1",)))
    assert runs(reconcile(c), dag_ids, active_rebalances=0) == []
    autoscale.set_growth(c, "app", Limits())
    findings = reconcile(c)
    assert findings.growing == ("app",)
    (run,) = runs(findings, dag_ids, active_rebalances=0)
    assert run == {"trigger_dag_id": "autoscale__eu", "trigger_run_id": None, "conf": {}}
    assert runs(findings, dag_ids, active_rebalances=0, active_autoscales=1) == []
    autoscale.end_growth(c, "app")
    assert runs(reconcile(c), dag_ids, active_rebalances=0) == []


def test_an_idle_reconcile_with_its_figures_asks_each_consumer_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "are_on", lambda: True)
    monkeypatch.setattr(stats, "_send", lambda *_: None)
    site = stable_site("a", "b", "c", names=("clicks", "orders"))
    site.clock.advance(3_600)  # no pause is measured any more
    fleet.set_fleet(site.coordinator, Fleet("app", "app.py", ("a", "b", "c", "d")))
    site.server.connect().transact(
        [Create(site.paths.id("d"), encode_claim(IdClaim("d", 1, ended={1: Ending.LEFT}, address="http://d:1")))]
    )
    c, requests = counted(site.coordinator)
    findings = reconcile(c)
    assert requests.polls == [("a", "b", "c")]
    stats.tell_figures(c, lambda: 60.0, findings.seen)
    assert requests.polls[1:] == [("d",)], "only the consumer that has not been asked yet"
    assert max(requests.nodes[c.paths.topic(name)] for name in ("clicks", "orders")) == 1


def test_partitions_that_this_reconcile_has_found_are_not_told_as_unowned() -> None:
    site = stable_site("a")
    site.kafka.add_partitions("orders", 2)
    findings = reconcile(site.coordinator)
    assert findings.due == ("orders",)
    assert not [line for line in findings.lines if "nobody reads" in line]
    assert [line for line in reconcile(site.coordinator).lines if "nobody reads" in line], "no plan came"


def test_the_figures_of_an_observation_count_a_recreated_topic_as_a_look_of_their_own_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stats, "are_on", lambda: True)
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(stats, "_tell_topic", lambda _cluster, one, behind: sent.append((one, behind)))
    site = stable_site("a", "b")
    site.kafka.create_topic("orders", 4)
    site.processes["a"].running["orders"].clear()
    observed = reconcile(site.coordinator).seen
    assert observed is not None
    stats.tell_figures(site.coordinator, lambda: 0.0)
    stats.tell_figures(site.coordinator, lambda: 0.0, observed)
    assert sent[0] == sent[1]
