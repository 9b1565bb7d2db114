"""Actions: the report of a dry run, and the effect."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.errors import NotManaged, Refused
from coordinator_tasks.core.model import Actor, ConsumerStatus, Fleet
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.actions.action import ONCE
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.fleets import redeployment
from coordinator_tasks.service.nodes import action_log, directives, fleet, topics
from coordinator_tasks.service.plan import overrides, transitions
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.consumers import FakeDiscovery
from tests.world.site import LOOP, stable_site

AIRFLOW = Actor("airflow", "ada", "drain", "run", "drain", 1)


@pytest.fixture
def shop() -> Cluster:
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 4)
    topics.add_topic(cluster.coordinator, "orders", "g", actor=PERSON)
    cluster.statuses.answers["a"] = lambda member: ConsumerStatus("a", cluster.name, member.incarnation, "boot", "ok")
    return cluster


def planned(cluster: Cluster) -> None:
    """Consumer a has all partitions."""
    cluster.join("a")
    transitions.plan(cluster.coordinator, ["orders"], PERSON)


def said_of(action: str, shop: Cluster, given: Mapping[str, Any], *, dry_run: bool) -> list[str]:
    return ACTIONS[action].lines(shop.coordinator, given, AIRFLOW, dry_run=dry_run)


def test_an_isolation_says_whose_partitions_nobody_else_takes(shop: Cluster) -> None:
    planned(shop)
    given = {"consumer": "a", "why": "old disk"}
    loses = "a would lose at once 4 partitions of orders"
    alone = f"{loses}, and nobody else is there to take what it loses"
    assert said_of("isolate", shop, given, dry_run=True) == [alone]
    shop.join("b")
    assert said_of("isolate", shop, given, dry_run=True) == [loses]
    ACTIONS["drain"].run(shop.coordinator, {"consumer": "b", "why": ""}, PERSON, dry_run=False)
    assert ACTIONS["isolate"].run(
        shop.coordinator, given, PERSON, dry_run=False
    ).text == f"a is isolated\n{alone}".replace("would", "will")
    timed = given | {"for_s": 90}
    assert ACTIONS["isolate"].run(shop.coordinator, timed, PERSON, dry_run=False).lines == ("a is isolated for 90 s",)


@pytest.mark.parametrize("name", ["isolate", "readmit", "undrain"])
def test_what_needs_no_registry_is_done_while_that_does_not_answer(shop: Cluster, name: str) -> None:
    planned(shop)
    shop.join("b")
    fleet.set_fleet(shop.coordinator, Fleet("billing", "app.py", ("a", "b")))
    redeployment.redeploy(shop.coordinator, "billing", by="ada", why="")
    c = replace(shop.coordinator, discovery=FakeDiscovery(down=True))
    given = {"consumer": "a", "why": "old disk", "app": ""}
    for dry_run in (True, False):
        assert ACTIONS[name].lines(c, given, PERSON, dry_run=dry_run)


def test_a_redeployment_says_who_is_replaced_first_and_who_then(shop: Cluster) -> None:
    shop.join("a")
    shop.join("b")
    fleet.set_fleet(shop.coordinator, Fleet("billing", "app.py", ("b", "a")))
    given = {"app": "billing", "why": "new code"}
    assert said_of("redeploy", shop, given, dry_run=True) == ["a would be replaced first", "then b would be"]
    assert said_of("redeploy", shop, given, dry_run=False) == ["a will be replaced first", "then b will be"]


def test_a_task_that_is_tried_again_neither_does_nor_tells_again_what_was_taken_back_since(shop: Cluster) -> None:
    shop.join("a")
    given = {"consumer": "a", "why": "broken disk"}
    ACTIONS["drain"].run(shop.coordinator, given, AIRFLOW, dry_run=False)
    directives.undrain(shop.coordinator, "a")
    second = replace(AIRFLOW, attempt=2)
    told = ACTIONS["drain"].lines(shop.coordinator, given, second, dry_run=False)
    assert told == ["another try of this task has done it; start a new run to do it again"], "and not what it would do"
    again = ACTIONS["drain"].run(shop.coordinator, given, second, dry_run=False)
    assert (again.text, directives.read_directive(shop.coordinator, "a").draining) == (ONCE, None)
    ACTIONS["drain"].run(shop.coordinator, given, replace(AIRFLOW, run="another", attempt=2), dry_run=False)
    assert directives.read_directive(shop.coordinator, "a").draining is not None


@pytest.mark.parametrize("why", ["broken", "denied"])
def test_a_task_that_is_tried_again_is_not_stopped_by_a_record_that_cannot_be_read(shop: Cluster, why: str) -> None:
    shop.join("a")
    given = {"consumer": "a", "why": "old disk"}
    for action in ("drain", "undrain"):
        ACTIONS[action].run(shop.coordinator, {"consumer": "a", "why": ""}, PERSON, dry_run=False)
    path = f"{shop.paths.asked}/{action_log.names(shop.coordinator)[-1]}"
    if why == "broken":
        shop.zk.transact([SetData(path, b"{")])
    else:
        shop.zk.denied.add(path)
    again = replace(AIRFLOW, attempt=2)
    assert ACTIONS["drain"].run(shop.coordinator, given, again, dry_run=False).text != ONCE
    assert directives.read_directive(shop.coordinator, "a").draining is not None
    assert ACTIONS["drain"].run(shop.coordinator, given, replace(again, attempt=3), dry_run=False).text == ONCE


def test_a_task_that_is_tried_again_is_not_refused_for_what_has_changed_since(shop: Cluster) -> None:
    given = {"topic": "orders", "strategy": "weighted"}
    ACTIONS["set_strategy"].lines(shop.coordinator, given, AIRFLOW, dry_run=False)
    topics.remove_topic(shop.coordinator, "orders", actor=PERSON)
    again = ACTIONS["set_strategy"].lines(shop.coordinator, given, replace(AIRFLOW, attempt=2), dry_run=False)
    assert again == [ONCE]


def test_dry_runs_of_remove_and_add_topic_name_the_stopped_reading_and_the_new_management(shop: Cluster) -> None:
    given = {"topic": "orders", "group_id": "g", "start": "earliest", "strategy": ""}
    described = "with 4 partitions; group g, start earliest"
    already = f"orders is managed already, {described}: nothing would change"
    assert said_of("add_topic", shop, given, dry_run=True) == [already]
    assert said_of("add_topic", shop, given, dry_run=False) == [already, "orders stays as it is"]
    assert said_of("remove_topic", shop, {"topic": "orders"}, dry_run=True) == [
        "nobody reads orders, so nobody would stop"
    ]
    shop.zk.transact([SetData(shop.paths.topic("orders"), b"{")])
    (said,) = said_of("remove_topic", shop, {"topic": "orders"}, dry_run=True)
    assert said.startswith(f"who reads orders is not known: {shop.paths.topic('orders')}: ")
    topics.remove_topic(shop.coordinator, "orders", PERSON)
    assert said_of("add_topic", shop, given, dry_run=True) == [f"orders would be managed, {described}"]


def test_the_dry_run_of_a_removal_names_who_has_not_stopped_yet() -> None:
    site = stable_site("a", "b")
    stops = [f"{consumer} would stop and commit 2 partitions of orders" for consumer in ("a", "b")]
    assert ACTIONS["remove_topic"].lines(site.coordinator, {"topic": "orders"}, PERSON, dry_run=True) == stops
    topics.remove_topic(site.coordinator, "orders", PERSON)
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.node().assignments == {}
    assert ACTIONS["remove_topic"].lines(site.coordinator, {"topic": "orders"}, PERSON, dry_run=True) == stops
    site.settles()
    said = ACTIONS["remove_topic"].lines(site.coordinator, {"topic": "orders"}, PERSON, dry_run=True)
    assert said == ["nobody reads orders, so nobody would stop"]


def test_a_strategy_is_changed_by_a_form_and_a_dry_run_says_what_to(shop: Cluster) -> None:
    given = {"topic": "orders", "strategy": "weighted", "parameters": {"measure": "lag", "floor": 0.25}}
    said = ["orders has strategy 'balanced' (its defaults) now, and would get 'weighted' (floor=0.25, measure=lag)"]
    assert said_of("set_strategy", shop, given, dry_run=True) == said
    assert topics.configuration(shop.coordinator, "orders").strategy == ""
    assert said_of("set_strategy", shop, given, dry_run=False) == [*said, "the next plan uses it"]
    config = topics.configuration(shop.coordinator, "orders")
    assert (config.strategy, config.parameters) == ("weighted", {"measure": "lag", "floor": "0.25"})
    same = ["orders has strategy 'weighted' (floor=0.25, measure=lag) already: nothing would change"]
    assert said_of("set_strategy", shop, given, dry_run=True) == same
    wrong = {**given, "parameters": {"floor": 2}}
    with pytest.raises(Refused, match="'floor' of strategy 'weighted' is '2'"):
        said_of("set_strategy", shop, wrong, dry_run=True)
    with pytest.raises(NotManaged, match="'nothing' is not managed"):
        said_of("set_strategy", shop, {**given, "topic": "nothing"}, dry_run=True)


def test_a_strategy_of_a_frozen_topic_is_not_said_to_be_used_by_the_next_plan(shop: Cluster) -> None:
    overrides.set_frozen(shop.coordinator, "orders", frozen=True, actor=PERSON)
    given = {"topic": "orders", "strategy": "range", "parameters": {}}
    later = "orders is frozen, so its partitions would stay where they are until it is unfrozen"
    gets = "orders has strategy 'balanced' (its defaults) now, and would get 'range' (its defaults)"
    assert said_of("set_strategy", shop, given, dry_run=True) == [gets, later]
    done = ACTIONS["set_strategy"].run(shop.coordinator, given, PERSON, dry_run=False)
    then = later.replace("would", "will")
    assert (done.text, done.lines) == (f"topic orders has strategy range; {then}", (then,))


def test_offsets_are_reset_and_partitions_paused_by_forms_that_show_it_first(shop: Cluster) -> None:
    planned(shop)
    given = {"topic": "orders", "partitions": [1], "to": "earliest", "why": "wrong"}
    shown = ["orders: partition 1 would continue at 0, nothing was committed"]
    epoch = shop.zk.get(shop.paths.topic("orders")).stat.version
    assert said_of("reset_offsets", shop, given, dry_run=True) == shown
    assert shop.zk.get(shop.paths.topic("orders")).stat.version == epoch
    done = ["orders: partition 1 continues at 0, nothing was committed"]
    assert said_of("reset_offsets", shop, given, dry_run=False) == done
    assert said_of("reset_offsets", shop, given, dry_run=False) == [ONCE]
    said = "partition 1 of orders would be paused"
    assert said_of("pause", shop, given, dry_run=True) == [said]
    assert topics.configuration(shop.coordinator, "orders").paused == frozenset()
    said_of("pause", shop, given, dry_run=False)
    assert topics.configuration(shop.coordinator, "orders").paused == {1}
    assert said_of("resume", shop, {"topic": "orders"}, dry_run=True)[0] == (
        "partition 1 of orders would be read again"
    )


def test_a_topic_is_frozen_and_its_partitions_pinned_by_forms(shop: Cluster) -> None:
    planned(shop)
    given = {"topic": "orders", "consumer": "a", "partitions": [2]}
    said = ["orders: partition 2 would be pinned to a and would stay there"]
    assert said_of("pin", shop, given, dry_run=True) == said
    assert topics.configuration(shop.coordinator, "orders").pins == {}
    assert said_of("pin", shop, given, dry_run=False) == ["orders: partition 2 is pinned to a and will stay there"]
    assert said_of("pin", shop, given, dry_run=False) == ["no pin of orders will change"]
    assert topics.configuration(shop.coordinator, "orders").pins == {2: "a"}
    assert said_of("unpin", shop, {"topic": "orders"}, dry_run=False) == [
        "orders: partition 2 is free to move, was pinned to a"
    ]
    assert said_of("freeze", shop, given, dry_run=True) == ["orders would be frozen"]
    assert not topics.configuration(shop.coordinator, "orders").frozen
    said_of("freeze", shop, given, dry_run=False)
    assert said_of("freeze", shop, given, dry_run=False) == ["orders is frozen already: nothing would change"]
    said_of("unfreeze", shop, given, dry_run=False)
    assert not topics.configuration(shop.coordinator, "orders").frozen


@pytest.mark.parametrize(
    ("action", "given"),
    [
        ("pause", {"partitions": [0]}),
        ("resume", {}),
        ("freeze", {}),
        ("unfreeze", {}),
        ("pin", {"consumer": "a", "partitions": [0]}),
        ("unpin", {"partitions": [1]}),
        ("set_strategy", {"strategy": "range"}),
    ],
)
def test_what_is_asked_of_a_removed_topic_is_refused(shop: Cluster, action: str, given: Mapping[str, Any]) -> None:
    shop.join("a")
    overrides.set_pins(shop.coordinator, "orders", "a", [1], actor=PERSON)
    topics.remove_topic(shop.coordinator, "orders", PERSON)
    one, given = ACTIONS[action], {"topic": "orders", **given}
    says = "topic 'orders' is being removed, so nothing of it is assigned; add it again first"
    with pytest.raises(Refused, match=says):
        one.would(shop.coordinator, given, PERSON)
    with pytest.raises(Refused, match=says):
        one.run(shop.coordinator, given, PERSON, dry_run=False)
