"""Steps of a person's action, and above all the way back, wait for no approval; the same move outside of the action waits."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs.growth_codec import Growth, encode_growth
from coordinator_tasks.core.fleet.growth import GrowthDecision, GrowthKind, GrowthMove, Limits, Memory
from coordinator_tasks.core.fleet.upgrade import UpgradePhase
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.model import Ending, Fleet
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.core.protocol.znodes import put
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.fleets import redeployment, scaling
from coordinator_tasks.service.fleets import upgrades as upgrading
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.service.plan import overrides, plans_to_approve
from tests.fakes.cluster import PERSON, AllowEverything
from tests.world.site import Site, stable_site
from tests.world.upgrading import APP, NEW, OLD, UpgradingSite, to_v2, upgrading_site

BUDGET = Budget(moves=1, hours=("00:00-00:01",))
LIMITS = Limits(1, 6, start_up_s=60.0, window_s=180.0, act=True)


def upgradable() -> UpgradingSite:
    site = upgrading_site(partitions=8)
    site.coordinator = replace(site.coordinator, budget=BUDGET)
    return site


def fleet_site(*consumers: str) -> Site:
    """A fleet of these consumers with twelve partitions."""
    site = stable_site(*consumers, partitions=12)
    site.coordinator = replace(site.coordinator, budget=BUDGET, allowed=AllowEverything())
    fleet.set_fleet(site.coordinator, Fleet(APP, "app.py", consumers))
    return site


def waits(site: Site) -> bool:
    return bool(plans_to_approve.waiting(site.coordinator, ["orders"]))


def of_a(site: Site) -> list[int]:
    return sorted(site.owned("a"))[:2]


# Upgrades ------------------------------------------------------------------------------------------------------------


def test_an_upgrade_passes_all_its_steps_under_a_budget() -> None:
    site = upgradable()
    pinned = min(site.owned("b-1"))
    overrides.set_pins(site.coordinator, "orders", "b-1", [pinned], actor=PERSON)
    site.settles()
    to_v2(site)
    assert site.ends().phase is UpgradePhase.DONE
    assert set(site.owners().values()) == set(NEW)


def test_the_start_of_an_upgrade_reports_that_no_step_waits_for_approval() -> None:
    given = {"app": APP, "version": "v2", "code": "v2", "hold_minutes": 1, "patience_minutes": 1}
    given |= {"max_lag_s": 30, "max_errors": 0, "min_rate": 0}
    said = "its steps, and the way back, would need no approval, whatever the budget says"
    for site, told in ((upgradable(), True), (upgrading_site(partitions=8), False)):
        done = ACTIONS["upgrade"].run(site.coordinator, given, PERSON, dry_run=True)
        assert (done.lines[-1] == said) is told


@pytest.mark.parametrize("phase", [UpgradePhase.MOVING, UpgradePhase.HOLDING, UpgradePhase.DRAINING])
def test_the_way_back_of_an_upgrade_never_waits(phase: UpgradePhase) -> None:
    site = upgradable()
    to_v2(site, steps=(100,))
    site.turns_until(lambda one: one.phase is phase)
    upgrading.roll_back(site.coordinator, APP, by="ada", why="wrong prices")
    assert site.ends().phase is UpgradePhase.ROLLED_BACK
    assert set(site.owners().values()) == set(OLD)


def test_another_plan_waits_meanwhile_and_does_not_hold_up_the_way_back() -> None:
    site = upgradable()
    to_v2(site, steps=(50, 100))
    site.turns_until(lambda one: one.phase is UpgradePhase.HOLDING)
    mine = sorted(site.owned("b-1"))[:2]
    overrides.set_pins(site.coordinator, "orders", "b-2", mine, actor=PERSON)
    assert site.step(5).outcome is TopicOutcome.WAITING
    assert waits(site), "an upgrade has no part in a person's pins"
    site.reports["b-3"] = "something is wrong"
    assert site.ends().phase is UpgradePhase.ROLLED_BACK
    assert set(site.owners().values()) == set(OLD)


# What is nobody's step -----------------------------------------------------------------------------------------------


def just_grown(site: Site) -> None:
    remembers(site, GrowthDecision(GrowthKind.GROW, 0.0, 3, 4))
    overrides.set_pins(site.coordinator, "orders", "b", of_a(site), actor=PERSON)


def back_after_a_shrink(site: Site) -> None:
    remembers(site, GrowthDecision(GrowthKind.SHRINK, 0.0, 5, 4))
    site.dies("d")
    site.settles()
    site.starts("d")


def moved_long_ago(site: Site) -> None:
    remembers(
        site,
        GrowthDecision(GrowthKind.MOVE, 0.0, 4, 4, moves=tuple(GrowthMove("orders", p, "a", "e") for p in range(12))),
    )
    site.starts("e")


def moved_in_another_topic(site: Site) -> None:
    mine = of_a(site)
    remembers(
        site, GrowthDecision(GrowthKind.MOVE, 0.0, 4, 4, moves=tuple(GrowthMove("payments", p, "a", "b") for p in mine))
    )
    overrides.set_pins(site.coordinator, "orders", "b", mine, actor=PERSON)


def restart_that_moves_nothing(site: Site) -> None:
    directives.expect_restart(site.coordinator, "a", 600.0, moves=False, by="ada", why="")
    overrides.set_pins(site.coordinator, "orders", "b", of_a(site), actor=PERSON)


def drained_by_a_person_named_as_the_fleet(site: Site) -> None:
    directives.drain(site.coordinator, "a", by=APP, why="redeployment")


def drained_in_the_words_of_a_growth(site: Site) -> None:
    done = remembers(site, GrowthDecision(GrowthKind.SHRINK, 0.0, 5, 4, leaves=("e",)))
    directives.drain(site.coordinator, "a", by="ada", why=done.said)


@pytest.mark.parametrize(
    "asked",
    [
        *(just_grown, back_after_a_shrink, moved_long_ago, moved_in_another_topic, restart_that_moves_nothing),
        *(drained_by_a_person_named_as_the_fleet, drained_in_the_words_of_a_growth),
    ],
)
def test_what_only_stands_beside_it_waits(asked: Callable[[Site], None]) -> None:
    site = fleet_site("a", "b", "c", "d")
    asked(site)
    assert site.step(5).outcome is TopicOutcome.WAITING
    assert waits(site)


# Redeployments -------------------------------------------------------------------------------------------------------


def relaunched(site: Site, consumer: str) -> None:
    """The consumer gives everything away, leaves, and is launched again."""
    assert list(redeployment.advance(site.coordinator)), "it is drained"
    site.settles()
    assert consumer not in site.counts()
    site.dies(consumer, Ending.LEFT)
    assert list(redeployment.advance(site.coordinator)), "it may have partitions again"
    site.starts(consumer)


def test_a_redeployment_gives_away_and_back_under_a_budget() -> None:
    site = fleet_site("a", "b", "c")
    redeployment.redeploy(site.coordinator, APP, by="ada", why="new code")
    for consumer in ("a", "b", "c"):
        relaunched(site, consumer)
        site.settles()
        assert site.counts() == {"a": 4, "b": 4, "c": 4}


def test_a_claim_that_cannot_be_read_holds_up_nothing() -> None:
    site = fleet_site("a", "b", "c")
    redeployment.redeploy(site.coordinator, APP, by="ada", why="new code")
    relaunched(site, "a")
    site.zk.transact([SetData(site.paths.id("a"), b"{")])
    site.starts("stranger")
    assert site.step(5).outcome is TopicOutcome.WAITING


# Growth --------------------------------------------------------------------------------------------------------------


def remembers(site: Site, decision: GrowthDecision, *, act: bool = True, acted: bool = True) -> GrowthDecision:
    """The last decision of the growth policy; `acted`: the decision was executed; `act`: the policy may act now."""
    done = replace(decision, at=site.clock.now(), acted=acted, reasons=("load",))
    growth = Growth(APP, replace(LIMITS, act=act), Memory(100.0, (done,)))
    site.zk.ensure(site.paths.growths)
    site.zk.transact([put(site.paths.growth(APP), encode_growth(growth), -1)])
    return done


def shrinks(site: Site, **mode: bool) -> None:
    done = remembers(site, GrowthDecision(GrowthKind.SHRINK, 0.0, 4, 3, leaves=("d",)), **mode)
    scaling.drain_of(site.coordinator, APP, ["d"], by="autoscale", why=done.said)


def grows(site: Site, **mode: bool) -> None:
    remembers(site, GrowthDecision(GrowthKind.GROW, 0.0, 4, 5), **mode)
    scaling.scale(site.coordinator, APP, 5, "e{}", by="autoscale", why="load")
    site.starts("e1")


def moves(site: Site, **mode: bool) -> None:
    mine = of_a(site)
    remembers(
        site,
        GrowthDecision(GrowthKind.MOVE, 0.0, 4, 4, moves=tuple(GrowthMove("orders", p, "a", "b") for p in mine)),
        **mode,
    )
    overrides.set_pins(site.coordinator, "orders", "b", mine, actor=PERSON)


@pytest.mark.parametrize(("act", "acted"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("asked", [shrinks, grows, moves])
def test_a_growth_waits_for_nobody_while_a_person_lets_it(asked: Callable[..., None], act: bool, acted: bool) -> None:
    site = fleet_site("a", "b", "c", "d")
    before = dict(site.node().assignments)
    asked(site, act=act, acted=acted)
    site.step(5)
    assert waits(site) is not (act and acted)
    site.settles()
    assert (dict(site.node().assignments) != before) is (act and acted)


def test_an_unreadable_growth_exempts_nothing_and_holds_up_nothing() -> None:
    site = fleet_site("a", "b", "c")
    site.zk.ensure(site.paths.growths)
    site.zk.transact([put(site.paths.growth(APP), b"{", -1)])
    site.starts("stranger")
    assert site.step(5).outcome is TopicOutcome.WAITING


# Planned restarts ----------------------------------------------------------------------------------------------------


def test_what_a_planned_restart_gives_away_and_gets_back_waits_for_nobody() -> None:
    site = fleet_site("a", "b", "c")
    before = dict(site.node().assignments)
    directives.expect_restart(site.coordinator, "b", 600.0, moves=True, by="ada", why="new kernel")
    site.settles()
    assert "b" not in site.counts()
    site.dies("b", Ending.LEFT)
    site.starts("b")
    site.settles()
    assert dict(site.node().assignments) == before
