"""The size of a fleet, its code and environment, and the replacement of its processes."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.codecs.member_codec import encode_directive
from coordinator_tasks.core.errors import BadFleet, InvalidName, NotManaged
from coordinator_tasks.core.model import Directive, Draining, Ending, Fleet, Isolation, State
from coordinator_tasks.core.ports import Delete
from coordinator_tasks.core.protocol.znodes import put
from coordinator_tasks.service.actions.action import ActionResult
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import idle_consumers, redeployment, scaling
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.service.nodes.observe import PLATFORM
from coordinator_tasks.service.plan import overrides, transitions
from coordinator_tasks.service.run import upkeep
from coordinator_tasks.service.watch import overview
from tests.fakes.cluster import PERSON, Cluster
from tests.fakes.counted import counted
from tests.world.shop import Shop, open_shop
from tests.world.site import stable_site

APP = "billing"
TOLD = {"application": "app.py", "arguments": ("--set", "x=1"), "conf": {"spark.cores.max": "2"}}


@pytest.fixture
def shop() -> Cluster:
    cluster = Cluster()
    fleet.set_fleet(cluster.coordinator, Fleet(APP, consumers=("b-1", "b-2"), **TOLD))
    return cluster


def consumers(shop: Cluster) -> tuple[str, ...]:
    return fleet.fleet_of(shop.coordinator, APP).consumers


def scaled(shop: Cluster, count: int, pattern: str = "") -> scaling.Scaled:
    return scaling.scale(shop.coordinator, APP, count, pattern, by="ada", why="load")


def test_a_fleet_grows_by_the_pattern_of_its_ids_and_keeps_the_rest(shop: Cluster) -> None:
    before = shop.server.zxid
    assert scaling.would_scale(shop.coordinator, APP, 4).joins == ("b-3", "b-4")
    assert shop.server.zxid == before
    assert scaled(shop, 4).joins == ("b-3", "b-4")
    found = fleet.fleet_of(shop.coordinator, APP)
    assert found.consumers == ("b-1", "b-2", "b-3", "b-4")
    assert {name: getattr(found, name) for name in TOLD} == TOLD
    written = shop.server.zxid
    assert scaled(shop, 4).joins == ()
    assert shop.server.zxid == written, "the same again changes nothing"


def test_it_shrinks_by_draining_the_highest_numbers_in_one_transaction(shop: Cluster) -> None:
    scaled(shop, 10)
    for consumer in ("b-9", "b-10"):
        shop.join(consumer)
    before = shop.server.zxid
    assert scaled(shop, 7).leaves == ("b-10", "b-9", "b-8")
    assert shop.server.zxid == before + 1
    assert consumers(shop) == tuple(f"b-{number}" for number in range(1, 8))
    drained = {one: directives.read_directive(shop.coordinator, one).draining for one in ("b-8", "b-9", "b-10")}
    assert {(one.by, one.why) for one in drained.values() if one is not None} == {("ada", "load")}
    assert None not in drained.values(), "b-8 has not registered, but its process may be starting"


def test_the_dry_run_of_a_smaller_fleet_reads_once_who_is_registered() -> None:
    site = stable_site("b-1", "b-2", "b-3", "b-4", names=("orders", "payments", "refunds"))
    fleet.set_fleet(site.coordinator, Fleet(APP, "app.py", tuple(site.processes)))
    c, requests = counted(site.coordinator)
    lines = ACTIONS["scale"].run(c, {"app": APP, "count": 1}, PERSON, dry_run=True).lines
    assert len(lines) == 3 * 3 + 1
    assert requests.lists[c.paths.members] == 1


def test_the_dry_run_of_a_fleet_as_it_is_says_that_nothing_changes(shop: Cluster) -> None:
    given = {"app": APP, "consumers": ["b-1", "b-2"], "why": "", "code": "", "environment": {}, **TOLD}
    done = ACTIONS["set_fleet"].would(shop.coordinator, given, PERSON)
    assert done.text == "nothing would change: billing should have 2 consumers: b-1, b-2"


def test_who_was_drained_is_let_in_again(shop: Cluster) -> None:
    shop.join("b-2")
    scaled(shop, 1)
    scaled(shop, 2)
    assert consumers(shop) == ("b-1", "b-2")
    assert directives.read_directive(shop.coordinator, "b-2").draining is None


def test_ids_of_others_and_of_isolated_consumers_are_left_out(shop: Cluster) -> None:
    fleet.set_fleet(shop.coordinator, Fleet("other", "app.py", ("b-3",)))
    shop.join("b-4")
    directives.isolate(shop.coordinator, "b-4", by="ada", why="broken")
    assert scaled(shop, 3).joins == ("b-5",)


def test_it_may_shrink_to_nothing_and_then_needs_a_pattern(shop: Cluster) -> None:
    scaled(shop, 0)
    assert consumers(shop) == ()
    with pytest.raises(
        BadFleet, match=r"\(none\) have no common form that ends in a number; .* --pattern billing-\{\}"
    ):
        scaled(shop, 1)
    assert scaled(shop, 1, "b-{}").joins == ("b-1",)


@pytest.mark.parametrize(
    ("app", "count", "pattern", "error", "says"),
    [
        ("nosuch", 3, "", NotManaged, r"has no fleet 'nosuch' \(it has: billing\)"),
        ("a/b", 3, "", InvalidName, "cannot be a"),
        (APP, -1, "", BadFleet, "0 to 10000 consumers, and not -1"),
        (APP, 10_001, "", BadFleet, "and not 10001"),
        (APP, 3, "b", BadFleet, "needs {} once"),
        (APP, 3, "{}-{}", BadFleet, "needs {} once"),
        (APP, 3, "b/{}", InvalidName, "cannot be a consumer id"),
        (APP, 3, "x" * 70 + "{}", InvalidName, "more than 64"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    shop: Cluster, app: str, count: int, pattern: str, error: type[Exception], says: str
) -> None:
    before = shop.server.zxid
    with pytest.raises(error, match=says):
        scaling.scale(shop.coordinator, app, count, pattern, by="ada", why="")
    assert shop.server.zxid == before


def test_the_form_says_what_a_consumer_that_leaves_would_keep(site: Shop) -> None:
    def shown(count: int) -> list[str]:
        return ACTIONS["scale"].lines(site.coordinator, {"app": APP, "count": count}, PERSON, dry_run=True)

    gives = "b would give away 1 partition of orders, and leave"
    assert shown(1) == [gives, "billing would have 1 consumer: a"]
    keeps = "would keep {} of orders until another consumer is there that reads it"
    assert shown(0)[:2] == [f"b {keeps.format('1 partition')}", f"a {keeps.format('2 partitions')}"]
    overrides.set_frozen(site.coordinator, "orders", frozen=True, actor=PERSON)
    assert shown(1)[0] == "b would keep 1 partition of orders until the topic is unfrozen"


# Code and environment ------------------------------------------------------------------------------------------------


def test_the_version_of_the_code_stands_in_the_launch(shop: Cluster) -> None:
    wanted = Fleet(
        APP, "/opt/{code}/main.py", ("b-1",), ("--set", "lib={code}"), environment={"TZ": "UTC"}, code="1.4.2"
    )
    fleet.set_fleet(shop.coordinator, wanted)
    (launch,) = fleet.missing(shop.coordinator)
    assert launch.application == "/opt/1.4.2/main.py"
    assert launch.arguments == ("--set", "lib=1.4.2", "--attribute", "code=1.4.2")
    assert launch.environment == {"TZ": "UTC"}
    assert fleet.fleet_of(shop.coordinator, APP).application == "/opt/{code}/main.py"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"code": "a b"}, "'a b' cannot be a version of code"),
        ({"code": "../x"}, "cannot be a version of code"),
        ({"application": "/opt/{code}/main.py"}, "names {code} and has no version of the code"),
        ({"environment": {"A=B": "x"}}, "cannot name a variable"),
    ],
)
def test_a_version_or_variable_that_cannot_be_is_refused(shop: Cluster, more: Mapping[str, Any], says: str) -> None:
    with pytest.raises(BadFleet, match=says):
        fleet.set_fleet(shop.coordinator, Fleet(**{"app": APP, "application": "app.py", "consumers": ("b-1",), **more}))


def test_the_application_with_its_version_has_to_be_allowed(shop: Cluster) -> None:
    c = replace(shop.coordinator, allowed=AllowedLaunches("/opt/1.*/main.py"))
    wanted = Fleet("web", "/opt/{code}/main.py", ("w-1",), code="1.4")
    fleet.set_fleet(c, wanted)
    with pytest.raises(BadFleet, match=r"does not allow the application '/opt/2\.0/main\.py'"):
        fleet.set_fleet(c, replace(wanted, code="2.0"))


def test_form_and_command_say_what_a_fleet_was_and_becomes(shop: Cluster) -> None:
    given = {"app": APP, "application": "app.py", "consumers": ["b-1", "b-3"], "code": "2", "conf": {}}
    lines = ACTIONS["set_fleet"].lines(shop.coordinator, given, PERSON, dry_run=True)
    assert lines == [
        "billing: code was '' and would become '2'",
        "billing: arguments was '--set x=1' and would become ''",
        "billing: conf was 'spark.cores.max=2' and would become ''",
        "billing: b-3 would join",
        "billing: b-2 would no longer be wanted; drain it, or it reads on while it lives",
    ]
    assert consumers(shop) == ("b-1", "b-2")
    assert _set(shop, given).text.splitlines() == [
        "billing should have 2 consumers: b-1, b-3; the missing ones are launched",
        lines[-1].replace("would", "will"),
    ]
    assert consumers(shop) == ("b-1", "b-3")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "fleet 'tax' names no topics, so its consumers take every topic, unless their code names some"),
        (["--topics=ord.*"], "fleet 'tax' takes topic 'orders', which fleet 'billing' takes too"),
    ],
)
def test_a_second_fleet_that_takes_a_topic_of_another_needs_force_and_is_named(arguments: list[str], says: str) -> None:
    shop = Cluster()
    fleet.set_fleet(shop.coordinator, Fleet(APP, "app.py", ("b-1",), ("--pipeline=orders=m:f",)))
    given = {"app": "tax", "application": "app.py", "consumers": ["t-1"], "arguments": arguments}
    for dry_run in (True, False):
        with pytest.raises(BadFleet, match=f"{re.escape(says)}.*, or --force"):
            ACTIONS["set_fleet"].lines(shop.coordinator, given, PERSON, dry_run=dry_run)
    assert [one.app for one in fleet.fleets(shop.coordinator)] == [APP]
    assert says in _set(shop, {**given, "force": True}).text
    assert says in _set(shop, given).text, "what is set already is named, and stays"
    (shown,) = (one for one in overview.consumers(shop.coordinator) if one.consumer == "t-1")
    assert any(says in report for report in shown.reports)


@pytest.mark.parametrize(
    ("ask", "end", "says"),
    [
        (directives.isolate, directives.readmit, "isolated and would not be launched; let it in again: `readmit b-2`"),
        (
            directives.drain,
            lambda c, consumer, by: directives.undrain(c, consumer),
            "drained and would not be launched; let it in again: `undrain b-2 --fleet billing`",
        ),
    ],
    ids=["isolated", "drained"],
)
def test_a_fleet_names_the_consumers_that_are_not_launched(
    shop: Cluster, ask: Callable[..., object], end: Callable[..., object], says: str
) -> None:
    given = {"app": APP, "application": "app.py", "consumers": ["b-1", "b-2"]}
    shop.join("b-2")
    ask(shop.coordinator, "b-2", by="ada", why="broken disk")
    assert ACTIONS["set_fleet"].would(shop.coordinator, given, PERSON).text.splitlines()[-1] == f"b-2 is {says}"
    listed = "billing should have 2 consumers: b-1, b-2; the missing ones are launched"
    assert _set(shop, given).text.splitlines() == [listed, f"b-2 is {says}".replace("would", "will")]
    end(shop.coordinator, "b-2", by="ada")
    assert _set(shop, given).text == listed


def _set(shop: Cluster, given: Mapping[str, Any]) -> ActionResult:
    return ACTIONS["set_fleet"].run(shop.coordinator, given, PERSON, dry_run=False)


def test_an_undrained_consumer_returns_to_its_fleet_in_one_transaction(shop: Cluster) -> None:
    shop.join("b-2")
    directives.drain(shop.coordinator, "b-2", by="ada", why="new disk")
    assert consumers(shop) == ("b-1",)
    before = shop.server.zxid
    given = {"consumer": "b-2", "app": APP}
    shown = ACTIONS["undrain"].lines(shop.coordinator, given, PERSON, dry_run=True)
    assert shown == ["b-2 would get partitions again", "b-2 would return to the fleet billing"]
    assert shop.server.zxid == before
    ACTIONS["undrain"].run(shop.coordinator, given, PERSON, dry_run=False)
    assert (consumers(shop), directives.read_directive(shop.coordinator, "b-2").draining) == (("b-1", "b-2"), None)
    with pytest.raises(NotManaged, match="has no fleet 'nosuch'"):
        directives.undrain(shop.coordinator, "b-2", "nosuch")


# Redeployment --------------------------------------------------------------------------------------------------------


@pytest.fixture
def site() -> Shop:
    shop = open_shop()
    shop.starts("b")
    shop.settle()
    fleet.set_fleet(shop.coordinator, Fleet(APP, "app.py", ("a", "b")))
    return shop


def stepped(shop: Shop) -> list[str]:
    return list(redeployment.advance(shop.coordinator))


def begun(shop: Shop) -> Coordinator:
    """A redeployment has begun, and drains a."""
    redeployment.redeploy(shop.coordinator, APP, by="ada", why="")
    assert stepped(shop) == ["a gives its partitions away and ends, to be launched again as the fleet billing says now"]
    return shop.coordinator


def left(shop: Shop, consumer: str, incarnation: int) -> None:
    """The process has given everything away and left, and its end is known."""
    member = shop.coordinator.discovery.members()[consumer]
    assert member.incarnation == incarnation
    shop.zk.transact([Delete(shop.paths.member(consumer))])
    fleet.record_end(shop.coordinator, consumer, incarnation, Ending.LEFT)


def owners(shop: Shop) -> set[str]:
    return set(shop.node.assignments.values())


def test_a_fleet_is_replaced_one_consumer_after_the_other(site: Shop) -> None:
    c = site.coordinator
    assert owners(site) == {"a", "b"}
    begun = redeployment.redeploy(c, APP, by="ada", why="new code")
    assert begun.replaced == {"a": 1, "b": 1}
    for consumer, other in (("a", "b"), ("b", "a")):
        assert stepped(site) == [
            f"{consumer} gives its partitions away and ends, to be launched again as the fleet billing says now"
        ]
        assert stepped(site) == [], "nothing more while it drains"
        assert consumer in fleet.fleet_of(c, APP).consumers
        transitions.plan(c, ["orders"], PERSON)
        site.settle()
        assert owners(site) == {other}
        assert fleet.missing(c) == ()
        left(site, consumer, 1)
        assert fleet.missing(c) == (), "while it is drained nobody launches it"
        assert stepped(site) == [f"{consumer} has left: it is launched again as the fleet billing says now"]
        assert [one.consumer for one in fleet.missing(c)] == [consumer]
        assert stepped(site) == [], "the next one waits for it"
        site.join(consumer)
        transitions.plan(c, ["orders"], PERSON)
        assert site.state is not State.STABLE
        assert stepped(site) == [], "and while partitions move"
        site.settle()
    assert stepped(site) == []
    assert {one: c.discovery.members()[one].incarnation for one in ("a", "b")} == {"a": 2, "b": 2}
    assert redeployment.redeploy(c, APP, by="ada", why="again").replaced == {"a": 2, "b": 2}


def test_any_call_continues_what_another_one_began(site: Shop) -> None:
    redeployment.redeploy(site.coordinator, APP, by="ada", why="")
    lines = list(upkeep.upkeep(site.coordinator, ["orders"]).lines)
    assert lines == ["a gives its partitions away and ends, to be launched again as the fleet billing says now"]
    draining = directives.read_directive(site.coordinator, "a").draining
    assert (draining.by, draining.why, draining.incarnation) == (APP, "redeployment", 0)


def test_an_undrain_says_that_a_redeployment_drains_the_consumer_again(site: Shop) -> None:
    c, given = site.coordinator, {"consumer": "a", "app": ""}
    again = "the redeployment of billing is not over: it drains a, and launches it again when it has left"
    assert ACTIONS["undrain"].lines(c, given, PERSON, dry_run=True) == ["a is not drained: nothing would change"]
    begun(site)
    assert ACTIONS["undrain"].lines(c, given, PERSON, dry_run=True) == ["a would get partitions again", again]
    assert ACTIONS["undrain"].run(c, given, PERSON, dry_run=False).text == f"a will get partitions again\n{again}"
    assert stepped(site) == ["a gives its partitions away and ends, to be launched again as the fleet billing says now"]
    left(site, "a", 1)
    stepped(site)
    site.join("a")
    assert ACTIONS["undrain"].lines(c, given, PERSON, dry_run=True) == ["a is not drained: nothing would change"]


def test_a_fleet_that_is_set_meanwhile_leaves_nobody_drained(site: Shop) -> None:
    begun(site)
    given = {"app": APP, "application": "newer.py", "consumers": ["a", "b"]}
    done = ACTIONS["set_fleet"].run(site.coordinator, given, PERSON, dry_run=False)
    assert done.text == "billing should have 2 consumers: a, b; the missing ones are launched"
    transitions.plan(site.coordinator, ["orders"], PERSON)
    site.settle()
    left(site, "a", 1)
    assert stepped(site) == ["a has left: it is launched again as the fleet billing says now"]
    assert [one.application for one in fleet.missing(site.coordinator)] == ["newer.py"]


def test_what_a_person_has_drained_is_left_to_the_person(site: Shop) -> None:
    redeployment.redeploy(site.coordinator, APP, by="ada", why="")
    directives.drain(site.coordinator, "a", by="ada", why="broken disk")
    assert stepped(site) == [], "the fleet has one consumer left, which would keep everything"
    assert directives.read_directive(site.coordinator, "a").draining is not None


@pytest.mark.parametrize("act", ["drain", "scale"])
def test_whom_a_person_drains_beside_a_redeployment_is_drained_by_that_person(site: Shop, act: str) -> None:
    c = begun(site)
    given = {"consumer": "a"} if act == "drain" else {"app": APP, "count": 0}
    ACTIONS[act].run(c, {**given, "why": "broken disk"}, PERSON, dry_run=False)
    fleet.set_fleet(c, Fleet(APP, "app.py", ("a", "b")))
    left(site, "a", 1)
    assert stepped(site) == [], "a redeployment lets in whom it has drained, and nobody else"
    draining = directives.read_directive(c, "a").draining
    assert (draining.by, draining.why) == (PERSON.who, "broken disk")


def test_who_had_restarted_by_itself_before_is_replaced_too(site: Shop) -> None:
    asked = Directive("a", draining=Draining("a", "asked to end", 0.0, incarnation=1))
    site.zk.transact([put(site.paths.directive("a"), encode_directive(asked), -1)])
    left(site, "a", 1)
    site.join("a")
    transitions.plan(site.coordinator, ["orders"], PERSON)
    site.settle()
    redeployment.redeploy(site.coordinator, APP, by="ada", why="")
    assert stepped(site) == ["a gives its partitions away and ends, to be launched again as the fleet billing says now"]


def test_a_consumer_lost_with_its_host_during_a_drain_is_launched_again(site: Shop) -> None:
    """No report of the end, so the platform isolates the absent and silent consumer."""
    c = begun(site)
    asked = directives.read_directive(c, "a")
    isolated = Isolation(PLATFORM, "absent and silent for 30 s", site.clock.now(), incarnation=1, readmit=True)
    site.zk.transact(
        [put(site.paths.directive("a"), encode_directive(replace(asked, isolation=isolated)), asked.version)]
    )
    assert stepped(site) == [], "it is still registered"
    site.zk.transact([Delete(site.paths.member("a"))])
    assert stepped(site) == ["a has left: it is launched again as the fleet billing says now"]
    assert [one.consumer for one in fleet.missing(c)] == ["a"]


def test_an_isolated_consumer_lost_with_its_host_during_a_drain_is_launched_again(site: Shop) -> None:
    c = begun(site)
    site.zk.transact([Delete(site.paths.member("a"))])
    directives.isolate(c, "a", by="kim", why="its host is gone")
    transitions.plan(c, ["orders"], PERSON)
    site.statuses.answers.pop("a", None)
    assert list(idle_consumers.give_up(c, ["orders"])) == []
    site.clock.advance(c.policy.absent_after_s - 1)
    directives.readmit(c, "a", by="kim")
    assert stepped(site) == [], "it may answer again"
    site.clock.advance(1)
    assert stepped(site) == ["a has left: it is launched again as the fleet billing says now"]
    assert [one.consumer for one in fleet.missing(c)] == ["a"]


def test_a_redeployment_is_not_over_before_the_last_one_is_let_in_again(site: Shop) -> None:
    """Another redeployment, or an upgrade, would forget the drain, and the consumer would never be launched."""
    c = begun(site)
    left(site, "a", 1)
    assert redeployment.pending(c, fleet.fleet_of(c, APP)) == {"a", "b"}
    with pytest.raises(BadFleet, match="is being redeployed: a, b still run as before; wait for it"):
        redeployment.would_redeploy(c, APP)
    stepped(site)
    assert redeployment.pending(c, fleet.fleet_of(c, APP)) == {"b"}


def test_no_consumer_is_drained_while_its_fleet_changes(site: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    redeployment.redeploy(site.coordinator, APP, by="ada", why="")
    real = redeployment.all_stable

    def overtaken(c: Coordinator) -> bool:
        fleet.set_fleet(c, Fleet(APP, "app.py", ("b",)))
        return real(c)

    monkeypatch.setattr(redeployment, "all_stable", overtaken)
    assert stepped(site) == []
    assert directives.read_directive(site.coordinator, "a").draining is None


def test_the_only_consumer_cannot_be_replaced_and_it_is_said_what_to_do(site: Shop) -> None:
    fleet.set_fleet(site.coordinator, Fleet("alone", "app.py", ("c",)))
    site.join("c")
    with pytest.raises(
        BadFleet, match=r"c is the only live consumer of the fleet 'alone'.*; scale the fleet to 2 first"
    ):
        redeployment.would_redeploy(site.coordinator, "alone")
    fleet.set_fleet(site.coordinator, Fleet("alone", "app.py", ("c", "d")))
    with pytest.raises(BadFleet, match=r"; ask again when d is there; `status` says why not$"):
        redeployment.would_redeploy(site.coordinator, "alone")


def test_who_has_partitions_of_a_frozen_topic_is_not_replaced(site: Shop) -> None:
    overrides.set_frozen(site.coordinator, "orders", frozen=True, actor=PERSON)
    with pytest.raises(BadFleet, match=r"topic 'orders' is frozen, so a, b keep its partitions; unfreeze it"):
        redeployment.would_redeploy(site.coordinator, APP)


def notes(shop: Shop) -> dict[str, tuple[str, ...]]:
    """Consumer → its report in `status` and on the pages, for consumers with a report."""
    return {one.consumer: one.reports for one in overview.consumers(shop.coordinator) if one.reports}


def test_a_redeployment_waits_for_a_topic_that_is_frozen_later_and_says_so(site: Shop) -> None:
    c = site.coordinator
    redeployment.redeploy(c, APP, by="ada", why="")
    overrides.set_frozen(c, "orders", frozen=True, actor=PERSON)
    says = "the redeployment of billing waits: topic 'orders' is frozen, so a keeps its partitions; unfreeze it"
    assert list(upkeep.redeploy(c)) == [says]
    assert notes(site) == {"a": (says,)}
    assert directives.read_directive(c, "a").draining is None, "it would give away its other topics, and stay"
    overrides.set_frozen(c, "orders", frozen=False, actor=PERSON)
    assert len(list(upkeep.redeploy(c))) == 1
    overrides.set_frozen(c, "orders", frozen=True, actor=PERSON)
    assert list(upkeep.redeploy(c)) == [says], "also if it is frozen while a drains"
    overrides.set_frozen(c, "orders", frozen=False, actor=PERSON)
    assert (list(upkeep.redeploy(c)), notes(site)) == ([], {})


def scaled_to_one(site: Shop) -> None:
    stepped(site)
    scaling.scale(site.coordinator, APP, 1, by="kim", why="")


def never_leaves(site: Shop) -> None:
    stepped(site)
    site.kafka.delete_topic("orders")
    assert list(upkeep.redeploy(site.coordinator)) == []
    site.clock.advance(site.coordinator.policy.stuck_after_s)


def never_stable(site: Shop) -> None:
    site.starts("c")
    transitions.plan(site.coordinator, ["orders"], PERSON)
    assert (list(upkeep.redeploy(site.coordinator)), site.state) == ([], State.CLOSING)
    site.clock.advance(site.coordinator.policy.stuck_after_s)


@pytest.mark.parametrize(
    ("happens", "waits", "at", "goes_on", "then"),
    [
        (
            scaled_to_one,
            "a is the only consumer of the fleet, so it keeps its partitions; scale the fleet to 2",
            "a",
            lambda site: directives.undrain(site.coordinator, "b", APP),
            [],
        ),
        (
            lambda site: left(site, "a", 1),
            "a is not registered; `status` says why, and it goes on when a is there",
            "b",
            lambda site: site.join("a"),
            ["b gives its partitions away and ends, to be launched again as the fleet billing says now"],
        ),
        (never_leaves, "a has not left for 120 s; `topics` and `status` say what it still has", "a", None, []),
        (never_stable, "orders has not been Stable for 120 s; `topics` says what is waited for", "", None, []),
    ],
)
def test_a_redeployment_says_what_it_waits_for(
    site: Shop, happens: Callable[[Shop], None], waits: str, at: str, goes_on: Callable[[Shop], object], then: list[str]
) -> None:
    c = site.coordinator
    redeployment.redeploy(c, APP, by="ada", why="")
    happens(site)
    says = f"the redeployment of billing waits: {waits}"
    assert list(upkeep.redeploy(c)) == [says]
    assert notes(site) == {at: (says,)} or not at
    if goes_on is not None:
        goes_on(site)
        assert (list(upkeep.redeploy(c)), notes(site)) == (then, {})


def test_a_fleet_without_a_live_consumer_has_nothing_to_replace(shop: Cluster) -> None:
    found = ACTIONS["redeploy"].run(shop.coordinator, {"app": APP}, PERSON, dry_run=False)
    assert found.text == "no consumer of billing lives: nothing will be replaced"
