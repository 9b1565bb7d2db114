"""Upgrades of fleets: in steps, held and judged, back again, paused, and with a death between any two writes."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from coordinator_tasks.adapters.discovery import claim_incarnation
from coordinator_tasks.core.codecs.history_codec import encode_record
from coordinator_tasks.core.codecs.packed import wrapped
from coordinator_tasks.core.codecs.upgrade_codec import decode_upgrade, encode_upgrade
from coordinator_tasks.core.errors import (
    BadFleet,
    BadRule,
    BadUpgrade,
    CoordinatorError,
    LookAgain,
    Malformed,
    NotManaged,
    Refused,
    StoreUnavailable,
)
from coordinator_tasks.core.fleet.upgrade import Rule, Upgrade, UpgradeMark, UpgradePhase, rates
from coordinator_tasks.core.fleet.upgrade_rule import Facts
from coordinator_tasks.core.model import Ending, Fleet, FleetVersion, Pause, Pauses, Split, State, Unmoved
from coordinator_tasks.core.names import MAX_ID_BYTES
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.core.text.partition_text import ranges
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.fleets import redeployment, scaling, upgrade_report, upgrades
from coordinator_tasks.service.fleets.upgrade_begin import MAX_PARTITIONS
from coordinator_tasks.service.nodes import action_log, directives, fleet, topics, upgrade_store
from coordinator_tasks.service.nodes.topics import configuration
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import overrides, rollback
from coordinator_tasks.service.run import upkeep
from coordinator_tasks.service.watch import overview
from coordinator_tasks.site_rules import rules_of
from tests.fakes.cluster import PERSON
from tests.world.upgrading import APP, NEW, OLD, UpgradingSite, to_v2, upgrading_site


@pytest.fixture
def site() -> UpgradingSite:
    return upgrading_site(partitions=8)


def at(phase: UpgradePhase, step: int = 0) -> Callable[[Upgrade], bool]:
    return lambda one: one.phase is phase and one.step == step


def split(site: UpgradingSite, topic: str = "orders") -> Split | None:
    return configuration(site.coordinator, topic).split


def stored(site: UpgradingSite) -> dict[str, tuple[bytes, int]]:
    """Everything in ZooKeeper, with its version."""
    found: dict[str, tuple[bytes, int]] = {}
    paths = [site.paths.base]
    for path in paths:
        node = site.zk.get(path)
        found[path] = node.data, node.stat.version
        paths += [f"{path}/{child}" for child in site.zk.children(path)]
    return found


def moved(site: UpgradingSite, topic: str = "orders") -> list[tuple[int, str, str]]:
    return [(one.partition, one.giver, one.taker) for record in site.history(topic) for one in record.moves]


def is_as_before(site: UpgradingSite) -> None:
    found = fleet.fleet_of(site.coordinator, APP)
    assert (found.consumers, found.code, found.runs) == (OLD, "v1", {})
    assert set(site.owners().values()) == set(OLD)
    assert split(site) is None
    assert not set(NEW) & set(site.processes)
    assert site.state().state is State.STABLE


# It passes -----------------------------------------------------------------------------------------------------------


def test_it_passes_all_steps_and_the_old_consumers_leave() -> None:
    site = upgrading_site(partitions=20)
    before = len(moved(site))
    to_v2(site)
    done = site.ends()
    assert done.phase is UpgradePhase.DONE
    assert set(site.owners().values()) == set(NEW)
    assert site.consumers() == NEW
    found = fleet.fleet_of(site.coordinator, APP)
    assert (found.code, found.name, found.runs) == ("v2", "v2", {})
    assert found.versions == {"v1": FleetVersion("/opt/{code}/main.py", ("--set", "x=1"), code="v1")}
    assert split(site) is None
    assert not set(OLD) & set(site.processes)
    moves = moved(site)[before:]
    assert sorted(p for p, _, _ in moves) == list(range(20)), "each partition moves once"
    assert {(giver in OLD, taker in NEW) for _, giver, taker in moves} == {(True, True)}


def test_each_step_moves_its_share_and_no_other_partition() -> None:
    site = upgrading_site(partitions=20)
    before = site.owners()
    to_v2(site)
    assert split(site) == Split(APP, NEW)
    for step, count in enumerate((1, 10, 20)):
        found = site.turns_until(at(UpgradePhase.HOLDING, step))
        now = site.owners()
        mine = {p for p, who in now.items() if who in NEW}
        assert mine == set(found.chosen["orders"])
        assert len(mine) == count
        assert {p: who for p, who in now.items() if p not in mine} == {
            p: who for p, who in before.items() if p not in mine
        }


def test_the_record_of_the_largest_upgrade_fits_into_a_write(site: UpgradingSite) -> None:
    chance, every = random.Random(1), range(MAX_PARTITIONS)
    positions = {p: chance.randrange(10**12) for p in every}
    mark = UpgradeMark(site.clock.now(), {"orders": positions})
    found = rates(mark, {"orders": {p: at + chance.randrange(10**6) for p, at in positions.items()}}, mark.at + 10.7)
    largest = replace(
        to_v2(site).upgrade,
        chosen={"orders": tuple(p for p in every if chance.random() < 0.95)},
        mark=mark,
        baseline=found,
        old_consumers=tuple(f"shop-{number}" for number in range(5_000)),
        new_consumers=tuple(f"shop-{number}" for number in range(5_000, 10_000)),
        incarnations={f"shop-{number}": chance.randrange(1, 50) for number in range(5_000, 10_000)},
    )
    raw = encode_upgrade(largest)
    assert len(raw) < site.coordinator.policy.max_write_bytes
    assert decode_upgrade("/upgrades/shop", raw, largest.app, largest.version) == largest


@pytest.mark.parametrize(
    "damage",
    [
        {"mark": {"at": 1.0, "positions": {"orders": {"partitions": "0-1", "values": [1]}}}},
        {"mark": {"at": 1.0, "positions": {"orders": {"partitions": "0-1", "values": [1, "x"]}}}},
        {"baseline": {"orders": {"partitions": "1-0", "values": [1, 2]}}},
        {"baseline": {"orders": {"partitions": "0", "values": 1}}},
        {"chosen": {"orders": "0-2000000000"}},
        {"chosen": {"orders": [0]}},
    ],
)
def test_a_packed_record_that_is_damaged_is_refused(site: UpgradingSite, damage: dict[str, Any]) -> None:
    mark = UpgradeMark(1.0, {"orders": {0: 7, 1: 8}})
    upgrade = replace(to_v2(site).upgrade, mark=mark, baseline={"orders": {0: 1.5}}, chosen={"orders": (0, 2)})
    plain = json.loads(encode_upgrade(upgrade))
    positions = {"orders": {"partitions": "0-1", "values": [7, 8]}}
    whole = plain | {
        "mark": {"at": 1.0, "positions": positions},
        "baseline": {"orders": {"partitions": "0", "values": [1.5]}},
        "chosen": {"orders": "0,2"},
    }
    assert decode_upgrade("/upgrades/shop", wrapped(2, whole), APP, upgrade.version) == upgrade
    with pytest.raises(Malformed):
        decode_upgrade("/upgrades/shop", wrapped(2, whole | damage), APP, upgrade.version)


def test_the_same_version_on_new_hosts_and_then_back_to_a_version_it_had(site: UpgradingSite) -> None:
    to_v2(site, name="v1", version=None, steps=(100,))
    assert site.ends().phase is UpgradePhase.DONE
    assert site.consumers() == NEW
    to_v2(site, steps=(100,))
    assert site.ends().phase is UpgradePhase.DONE
    assert site.consumers() == OLD, "the lowest free ids, which are let in again"
    to_v2(site, name="v1", version=None, steps=(100,))
    assert site.ends().phase is UpgradePhase.DONE
    assert fleet.fleet_of(site.coordinator, APP).code == "v1"


def test_topics_outside_of_the_upgrade_stay_with_the_old_consumers_until_the_leave() -> None:
    site = upgrading_site(partitions=4, names=("orders", "payments"))
    begun = to_v2(site, topics=("orders",), steps=(50, 100))
    assert begun.lines[-2] == "payments would move when b-1, b-2 leave, in no step"
    site.turns_until(at(UpgradePhase.HOLDING, 1))
    assert set(site.owners("orders").values()) == set(NEW)
    assert set(site.owners("payments").values()) == set(OLD)
    assert site.ends().phase is UpgradePhase.DONE
    assert set(site.owners("payments").values()) == set(NEW)
    assert split(site, "payments") is None


def test_the_present_name_is_not_a_version_of_that_name_that_was_rolled_back(site: UpgradingSite) -> None:
    to_v2(site, name="v1", steps=(100,))
    upgrades.roll_back(site.coordinator, APP, by="kim", why="")
    assert site.ends().phase is UpgradePhase.ROLLED_BACK
    to_v2(site, name="v1", version=None, steps=(100,))
    assert site.ends().phase is UpgradePhase.DONE
    assert fleet.fleet_of(site.coordinator, APP).code == "v1"


def test_a_long_name_that_is_used_twice_can_be_gone_back_to(site: UpgradingSite) -> None:
    name = "v" * MAX_ID_BYTES
    for code in ("v2", "v3"):
        to_v2(site, name=name, version=FleetVersion("/opt/{code}/main.py", code=code), steps=(100,))
        site.ends()
    to_v2(site, name=upgrade_store.read(site.coordinator, APP).old_name, version=None, steps=(100,))
    assert site.ends().phase is UpgradePhase.DONE
    assert fleet.fleet_of(site.coordinator, APP).code == "v2"


def test_a_pin_to_an_old_consumer_holds_until_that_one_leaves(site: UpgradingSite) -> None:
    overrides.set_pins(site.coordinator, "orders", "b-1", [0], actor=PERSON)
    site.settles()
    begun = to_v2(site, steps=(100,))
    assert begun.lines[1:3] == (
        "step 1 (100 %) would move partitions 0-7 of orders, and would be held for 60 s",
        "partition 0 of orders is pinned to b-1, and would stay there until b-1 leaves",
    )
    site.turns_until(at(UpgradePhase.HOLDING))
    assert site.owners()[0] == "b-1"
    assert site.ends().phase is UpgradePhase.DONE
    assert site.owners()[0] in NEW


# It fails ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (lambda site: site.lag.update({"b-4": 5_000}), "step 2 of 3 (50 %): a lag of more than 30 s: orders/"),
        (lambda site: site.reports.update({"b-3": "no disk"}), "1 error: b-3: no disk"),
        (lambda site: site.dies("b-3"), "1 error: b-3 "),
    ],
    ids=["a lag", "it reports something", "it dies and is started again"],
)
def test_what_goes_wrong_in_the_second_step_moves_everything_back(
    site: UpgradingSite, happens: Callable[[UpgradingSite], None], says: str
) -> None:
    to_v2(site)
    site.turns_until(at(UpgradePhase.HOLDING, 1))
    happens(site)
    done = site.ends()
    assert done.phase is UpgradePhase.ROLLED_BACK
    assert says in done.reason
    assert not says.startswith("step") or (done.reason.startswith(says) and "50 s" in done.reason)
    is_as_before(site)


def brokers_are_away(site: UpgradingSite, *, away: bool) -> None:
    site.kafka_away = away
    for consumer in NEW:
        site.reports.pop(consumer, None)
    if away:
        site.reports.update(dict.fromkeys(NEW, "the brokers do not answer within 10 s"))


def sink_is_away(site: UpgradingSite, *, away: bool) -> None:
    for consumer in (*OLD, *NEW):
        site.reports.pop(consumer, None)
        if away:
            site.reports[consumer] = f"the sink does not answer, {len(consumer) + int(consumer[-1])} s"


@pytest.mark.parametrize("phase", [UpgradePhase.STARTING, UpgradePhase.MOVING, UpgradePhase.HOLDING])
@pytest.mark.parametrize("dependency", [brokers_are_away, sink_is_away])
def test_an_outage_of_what_both_versions_need_is_waited_for(
    site: UpgradingSite, dependency: Callable[..., None], phase: UpgradePhase
) -> None:
    to_v2(site, patience_s=120.0)
    before = site.turns_until(lambda one: one.phase is phase)
    dependency(site, away=True)
    site.lag.update(dict.fromkeys(NEW, 9_000))
    moves = len(moved(site))
    site.turns(20)
    found = upgrade_store.read(site.coordinator, APP)
    assert (found.phase, found.step, found.reason) == (phase, before.step, "")
    assert phase is UpgradePhase.MOVING or len(moved(site)) == moves, "no step begins"
    waits = upgrades.why_waits(site.coordinator, found)
    assert waits.startswith(
        ("KPC-042: Kafka does not answer within 10 s", "old and new consumers have the same errors: ")
    )
    assert waits.endswith("it goes on by itself then, or goes back by `roll-back-upgrade billing`")
    dependency(site, away=False)
    site.turns(5)
    found = upgrade_store.read(site.coordinator, APP)
    assert phase is not UpgradePhase.HOLDING or "caught up first" in upgrades.why_waits(site.coordinator, found)
    site.lag.clear()
    done = site.ends()
    assert done.phase is UpgradePhase.DONE
    assert any(event.text.startswith("goes on after ") for event in done.events)


def sink_fails(site: UpgradingSite, *consumers: str) -> None:
    site.away = dict.fromkeys(consumers, "SinkUnavailable: the database does not answer")


def test_a_sink_that_is_away_in_the_last_step_is_waited_for(site: UpgradingSite) -> None:
    """No old consumer uses the sink any more, so no old consumer reports the outage."""
    to_v2(site, patience_s=300.0)
    site.turns_until(at(UpgradePhase.HOLDING, 2))
    sink_fails(site, *NEW)
    site.turns(12)
    found = upgrade_store.read(site.coordinator, APP)
    assert (found.phase, found.reason, found.paused) == (UpgradePhase.HOLDING, "", "")
    assert "the sink is away, and no old consumer uses it any more: b-3: orders: SinkUnavailable" in (
        upgrades.why_waits(site.coordinator, found)
    )
    site.away.clear()
    assert site.ends().phase is UpgradePhase.DONE


@pytest.mark.parametrize("lasts", [True, False], ids=["for ever", "every other time"])
def test_who_calls_a_sink_away_beyond_the_patience_makes_the_upgrade_pause(site: UpgradingSite, lasts: bool) -> None:
    to_v2(site, patience_s=120.0)
    site.turns_until(at(UpgradePhase.HOLDING, 2))
    for turn in range(14):
        sink_fails(site, *NEW if lasts or turn % 2 else ())
        site.turn()
    found = upgrade_store.read(site.coordinator, APP)
    assert (found.phase, found.reason) == (UpgradePhase.HOLDING, "")
    assert "b-4: orders: SinkUnavailable: the database does not answer; first reported 1" in found.paused
    assert found.paused.endswith("`continue-upgrade billing` waits once more, `roll-back-upgrade billing` goes back")
    assert set(site.owners().values()) == set(NEW)
    site.away.clear()
    upgrades.go_on(site.coordinator, APP, by="ada", why="the database is back")
    assert site.ends().phase is UpgradePhase.DONE


@pytest.mark.parametrize(("steps", "step"), [((100,), 0), ((50, 100), 0), ((5, 50, 100), 1)])
def test_new_consumers_alone_are_not_always_believed(site: UpgradingSite, steps: tuple[int, ...], step: int) -> None:
    to_v2(site, steps=steps)
    site.turns_until(at(UpgradePhase.HOLDING, step))
    sink_fails(site, *NEW)
    done = site.ends()
    assert done.phase is UpgradePhase.ROLLED_BACK
    assert "SinkUnavailable: the database does not answer" in done.reason
    is_as_before(site)


def test_a_partition_that_a_person_has_paused_is_not_judged() -> None:
    site = upgrading_site(partitions=1)
    positions.set_paused(site.coordinator, "orders", [0], paused=True, actor=PERSON)
    site.settles()
    site.lag.update(dict.fromkeys(NEW, 100_000))
    to_v2(site, steps=(100,))
    assert site.ends().phase is UpgradePhase.DONE


@pytest.mark.parametrize(("waiting", "phase"), [(10, UpgradePhase.ROLLED_BACK), (0, UpgradePhase.DONE)])
def test_a_slow_partition_fails_if_records_wait(site: UpgradingSite, waiting: int, phase: UpgradePhase) -> None:
    site.speed.update(dict.fromkeys(NEW, 40.0))
    site.lag.update(dict.fromkeys(NEW, waiting))
    to_v2(site, rule=Rule(min_rate=0.5))
    done = site.ends()
    assert done.phase is phase
    if phase is UpgradePhase.ROLLED_BACK:
        assert "less than 50% of the records per second before: orders/" in done.reason
        assert "40.0 after 100.0 records/s" in done.reason


@pytest.mark.parametrize("reason", ["", "exit code 2: no module named shop"])
def test_a_consumer_that_does_not_start_ends_the_upgrade_and_its_reason_is_told(
    site: UpgradingSite, reason: str
) -> None:
    site.broken = {"b-4"}
    to_v2(site, patience_s=120.0)
    if reason:
        site.turns(2)
        incarnation = claim_incarnation(site.zk, site.paths, "b-4", 1)
        fleet.record_end(site.coordinator, "b-4", incarnation, Ending.REAPED, reason)
    assert site.ends().reason == f"b-4 did not start within 120 s{f': b-4: {reason}' if reason else ''}"
    is_as_before(site)


def test_partitions_that_cannot_move_end_the_upgrade_and_are_named(site: UpgradingSite) -> None:
    to_v2(site, patience_s=120.0)
    site.turns_until(at(UpgradePhase.HOLDING))
    overrides.set_frozen(site.coordinator, "orders", frozen=True, actor=PERSON)
    found = site.turns_until(lambda one: bool(one.reason))
    assert "step 2 of 3 (50 %) did not move within 120 s: orders: partitions" in found.reason
    assert found.reason.endswith("are with others: it is frozen")
    overrides.set_frozen(site.coordinator, "orders", frozen=False, actor=PERSON)
    assert site.ends().phase is UpgradePhase.ROLLED_BACK


# Members change meanwhile --------------------------------------------------------------------------------------------


def test_a_dead_new_consumer_leaves_its_partitions_to_the_other_new_consumer(site: UpgradingSite) -> None:
    to_v2(site, rule=Rule(max_errors=5))
    found = site.turns_until(at(UpgradePhase.HOLDING, 1))
    site.broken = {"b-3"}
    site.dies("b-3")
    site.turn()
    assert {who for p, who in site.owners().items() if p in found.chosen["orders"]} == {"b-4"}
    assert {who for p, who in site.owners().items() if p not in found.chosen["orders"]} == set(OLD)
    site.broken = set()
    assert site.ends().phase is UpgradePhase.DONE


def test_if_all_new_consumers_die_the_old_ones_take_over_and_give_back(site: UpgradingSite) -> None:
    to_v2(site, rule=Rule(max_errors=5))
    found = site.turns_until(at(UpgradePhase.HOLDING, 1))
    site.broken = set(NEW)
    for consumer in NEW:
        site.dies(consumer)
    site.turn()
    assert set(site.owners().values()) == set(OLD)
    site.turns_until(at(UpgradePhase.MOVING, 1))
    site.broken = set()
    site.turns_until(at(UpgradePhase.HOLDING, 1))
    assert {p for p, who in site.owners().items() if who in NEW} == set(found.chosen["orders"])


# A person ------------------------------------------------------------------------------------------------------------


def test_paused_nothing_moves_and_a_held_step_begins_again(site: UpgradingSite) -> None:
    to_v2(site)
    site.turns_until(at(UpgradePhase.HOLDING))
    upgrades.pause(site.coordinator, APP, by="kim", why="night")
    owners, count = site.owners(), len(moved(site))
    site.turns(40)
    found = upgrade_store.read(site.coordinator, APP)
    assert (found.phase, found.step, found.paused) == (UpgradePhase.HOLDING, 0, "by kim: night")
    assert (site.owners(), len(moved(site))) == (owners, count)
    resumed = upgrades.go_on(site.coordinator, APP, by="kim", why="")
    following = site.turns_until(at(UpgradePhase.MOVING, 1))
    assert following.since_at - resumed.since_at >= 60.0
    assert site.ends().phase is UpgradePhase.DONE


PHASES = [
    (UpgradePhase.STARTING, 0),
    (UpgradePhase.MOVING, 0),
    (UpgradePhase.HOLDING, 0),
    (UpgradePhase.MOVING, 1),
    (UpgradePhase.HOLDING, 1),
    (UpgradePhase.HOLDING, 2),
    (UpgradePhase.DRAINING, 2),
]


@pytest.mark.parametrize(("turns", "paused"), [(0, True), (1, False)])
@pytest.mark.parametrize(("phase", "step"), PHASES)
def test_it_can_be_rolled_back_in_every_phase(phase: UpgradePhase, step: int, turns: int, paused: bool) -> None:
    site = upgrading_site(partitions=4)
    site.lingering = {"b-2"}  # otherwise over at once
    to_v2(site)
    site.turns_until(at(phase, step))
    site.turns(turns)
    if paused:
        upgrades.pause(site.coordinator, APP, by="kim", why="")
    upgrades.roll_back(site.coordinator, APP, by="kim", why="wrong prices")
    done = site.ends()
    assert done.phase is UpgradePhase.ROLLED_BACK
    assert done.reason == "rolled back by kim: wrong prices"
    is_as_before(site)


def test_old_consumers_that_have_left_are_there_before_anything_goes_back_to_them(site: UpgradingSite) -> None:
    to_v2(site, steps=(100,))
    site.turns_until(at(UpgradePhase.DRAINING))
    site.broken, site.lingering = {"b-1"}, {"b-2"}
    site.turn()
    assert "b-1" not in site.processes
    upgrades.roll_back(site.coordinator, APP, by="kim", why="")
    site.turns(10)
    assert set(site.owners().values()) <= {*NEW}
    assert upgrade_store.read(site.coordinator, APP).phase is UpgradePhase.RESTORING
    site.broken = set()
    assert site.ends().phase is UpgradePhase.ROLLED_BACK
    is_as_before(site)


def test_the_same_request_again_changes_nothing(site: UpgradingSite) -> None:
    to_v2(site)
    for request in (upgrades.pause, upgrades.go_on, upgrades.roll_back):
        request(site.coordinator, APP, by="kim", why="")
        before = stored(site)
        request(site.coordinator, APP, by="kim", why="")
        assert stored(site) == before, request.__name__


def test_what_persons_ask_for_stands_in_the_history_with_who_and_why(site: UpgradingSite) -> None:
    given = {"app": APP, "version": "v2", "code": "v2", "why": "new prices", "hold_minutes": 1, "patience_minutes": 10}
    given |= {"max_lag_s": 30, "max_errors": 0, "min_rate": 0}
    ACTIONS["upgrade"].run(site.coordinator, given, PERSON, dry_run=False)
    ACTIONS["pause_upgrade"].run(site.coordinator, {"app": APP, "why": "night"}, PERSON, dry_run=False)
    found = action_log.asked(site.coordinator, APP)
    assert [(one.action, one.actor.who, one.why) for one in found] == [
        ("pause_upgrade", "ada", "night"),
        ("upgrade", "ada", "new prices"),
    ]
    assert {one.field for one in found[0].changes} == {"paused", "events"}


# The site's own rule -------------------------------------------------------------------------------------------------


def test_a_rule_that_raises_pauses_it_and_nothing_moves(site: UpgradingSite) -> None:
    answers: list[Exception | str] = [BadRule("the rule 'prices' failed with KeyError: 'x'; correct it")]

    def rule(_: Facts) -> str:
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    site.coordinator = replace(site.coordinator, rules={"prices": lambda: rule})
    to_v2(site, rule=Rule(call="prices"))
    found = site.turns_until(lambda one: bool(one.paused))
    assert (found.phase, found.step) == (UpgradePhase.HOLDING, 0)
    assert found.paused == "KPC-025: the rule 'prices' failed with KeyError: 'x'; correct it"
    owners = site.owners()
    site.turns(20)
    assert site.owners() == owners
    answers[0] = "prices differ"
    upgrades.go_on(site.coordinator, APP, by="kim", why="corrected")
    done = site.ends()
    assert done.reason == "step 1 of 3 (5 %): prices differ"
    is_as_before(site)


# Deaths --------------------------------------------------------------------------------------------------------------


def dying(site: UpgradingSite) -> list[str]:
    """Every call of `advance` dies at the first write; every second call has written. Return the deaths."""
    session, deaths = site.server.connect(), list[str]()
    c = replace(site.coordinator, zk=session)

    def turn() -> None:
        UpgradingSite.turn(site)
        for _ in range(4):
            session.lose_next_write(applied=len(deaths) % 2 == 0)
            try:
                site.said += upgrades.advance(c, site.said)
            except StoreUnavailable as error:
                deaths.append(str(error))

    site.turn = turn  # type: ignore[method-assign]
    site.advances = False
    return deaths


def test_a_death_at_every_write_of_an_upgrade_that_passes_is_continued(site: UpgradingSite) -> None:
    to_v2(site)
    deaths = dying(site)
    done = site.ends()
    assert done.phase is UpgradePhase.DONE
    assert len(deaths) > 30
    assert [one.text for one in done.events] == _told_without_deaths()
    assert site.consumers() == NEW
    assert set(site.owners().values()) == set(NEW)


def test_a_death_at_every_write_of_an_upgrade_that_goes_back_is_continued(site: UpgradingSite) -> None:
    to_v2(site)
    deaths = dying(site)
    site.lingering = {"b-2"}
    site.turns_until(at(UpgradePhase.DRAINING, 2))
    site.turn()
    assert "b-1" not in site.processes
    upgrades.roll_back(site.coordinator, APP, by="kim", why="")
    assert site.ends().phase is UpgradePhase.ROLLED_BACK
    assert len(deaths) > 30
    is_as_before(site)


def _told_without_deaths() -> list[str]:
    site = upgrading_site(partitions=8)
    to_v2(site)
    return [one.text for one in site.ends().events]


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_death_at_the_begin_leaves_all_of_it_or_nothing(site: UpgradingSite, applied: bool) -> None:
    site.zk.lose_next_write(applied=applied)
    with pytest.raises(StoreUnavailable):
        to_v2(site)
    assert (upgrade_store.find(site.coordinator, APP) is not None) == applied
    assert (split(site) is not None) == applied
    assert bool(fleet.fleet_of(site.coordinator, APP).runs) == applied
    if not applied:
        to_v2(site)
    assert site.ends().phase is UpgradePhase.DONE


def test_a_slow_process_writes_nothing_for_a_step_that_is_over(site: UpgradingSite) -> None:
    to_v2(site)
    stale = site.turns_until(at(UpgradePhase.MOVING, 0))
    site.turns_until(at(UpgradePhase.HOLDING, 1))
    before = stored(site)
    with pytest.raises(LookAgain, match="changed by somebody else"):
        upgrades.ensure(site.coordinator, stale)
    assert stored(site) == before


def test_two_at_once_have_one_effect(site: UpgradingSite) -> None:
    to_v2(site)
    turn = site.turn

    def both() -> None:
        turn()
        site.said += upgrades.advance(site.coordinator, site.said)

    site.turn = both  # type: ignore[method-assign]
    done = site.ends()
    assert [one.text for one in done.events] == _told_without_deaths()


# Refusals ------------------------------------------------------------------------------------------------------------


def frozen(site: UpgradingSite) -> None:
    overrides.set_frozen(site.coordinator, "orders", frozen=True, actor=PERSON)


def being_redeployed(site: UpgradingSite) -> None:
    redeployment.redeploy(site.coordinator, APP, by="ada", why="")


def split_by_another(site: UpgradingSite) -> None:
    topics.change_config(site.coordinator, "orders", lambda old: replace(old, split=Split("other", ("x",))))


def with_no_module(site: UpgradingSite) -> None:
    site.coordinator = replace(site.coordinator, rules=rules_of({"mine": "nosuch_rules:mine"}))


def nothing(_: UpgradingSite) -> None:
    pass


REFUSED: list[tuple[str, Callable[[UpgradingSite], object], dict[str, Any], type[CoordinatorError], str]] = [
    ("fleet", nothing, {"app": "nosuch"}, NotManaged, r"no fleet 'nosuch' \(it has: billing\)"),
    ("version", nothing, {"name": "v9", "version": None}, BadUpgrade, r"no version 'v9' \(it has: v1\); say what it"),
    ("step of 0", nothing, {"steps": (0, 100)}, BadUpgrade, "a step of 0 % cannot be"),
    ("step of 101", nothing, {"steps": (5, 101)}, BadUpgrade, "a step of 101 % cannot be"),
    ("no steps", nothing, {"steps": ()}, BadUpgrade, "the last one 100"),
    ("steps that fall", nothing, {"steps": (50, 5, 100)}, BadUpgrade, "larger than the one before"),
    ("equal steps", nothing, {"steps": (5, 5, 100)}, BadUpgrade, "larger than the one before"),
    ("steps that end early", nothing, {"steps": (5, 50)}, BadUpgrade, "the last one 100"),
    ("hold", nothing, {"hold_s": -1.0}, BadUpgrade, "a hold of -1 s cannot be"),
    ("endless hold", nothing, {"hold_s": float("inf")}, BadUpgrade, "a hold of inf s cannot be"),
    ("patience", nothing, {"patience_s": float("nan")}, BadUpgrade, "a patience of nan s cannot be"),
    ("rate", nothing, {"rule": Rule(min_rate=2.0)}, BadUpgrade, "a least rate of 2 cannot be"),
    ("errors", nothing, {"rule": Rule(max_errors=-1)}, BadUpgrade, "-1 errors cannot be"),
    ("rule", nothing, {"rule": Rule(call="mine")}, BadRule, r"no rule 'mine' \(they have: none\); add it"),
    ("rule's module", with_no_module, {"rule": Rule(call="mine")}, BadRule, "cannot be imported: ModuleNotFoundError"),
    ("count", nothing, {"count": 10001}, BadUpgrade, "10001 new consumers cannot be"),
    ("topic", nothing, {"topics": ("nosuch",)}, NotManaged, "'nosuch' is not managed"),
    ("code", nothing, {"version": FleetVersion("app.py", code="a/b")}, BadFleet, "'a/b' cannot be a version of code"),
    ("variable", nothing, {"version": FleetVersion("a.py", environment={"1": ""})}, BadFleet, "'1' cannot name a var"),
    ("frozen", frozen, {}, BadUpgrade, "'orders' is frozen, so b-1, b-2 keep its partitions; unfreeze it"),
    ("another one", to_v2, {}, BadFleet, "is being upgraded to 'v2'; wait for it, or roll it back"),
    ("redeployment", being_redeployed, {}, BadUpgrade, "is being redeployed: b-1, b-2 still run as before; wait"),
    ("other split", split_by_another, {}, BadUpgrade, "part of the upgrade of 'other'; wait for that one"),
]


@pytest.mark.parametrize(
    ("before", "changes", "error", "says"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_begin_is_refused_and_nothing_changes(
    site: UpgradingSite,
    before: Callable[[UpgradingSite], object],
    changes: dict[str, Any],
    error: type[CoordinatorError],
    says: str,
) -> None:
    before(site)
    nodes = stored(site)
    with pytest.raises(error, match=says) as found:
        to_v2(site, **changes)
    assert isinstance(found.value, Refused)
    assert stored(site) == nodes


def test_other_requests_for_the_fleet_and_its_topics_are_refused_meanwhile(site: UpgradingSite) -> None:
    to_v2(site)
    c, before = site.coordinator, stored(site)
    for ask in (
        lambda: fleet.set_fleet(c, Fleet(APP, "app.py", OLD)),
        lambda: scaling.scale(c, APP, 5, by="ada", why=""),
        lambda: redeployment.redeploy(c, APP, by="ada", why=""),
    ):
        with pytest.raises(BadFleet, match="is being upgraded to 'v2'"):
            ask()
    with pytest.raises(Refused, match="part of the upgrade of 'billing'"):
        rollback.preview(c, "orders", "1-abc")
    assert stored(site) == before


def test_a_dry_run_says_what_a_pause_a_continuation_and_a_way_back_would_do(site: UpgradingSite) -> None:
    to_v2(site)

    def would(name: str) -> str:
        return ACTIONS[name].would(site.coordinator, {"app": APP}, PERSON).text.splitlines()[-1]

    back = "everything would move back to b-1, b-2, and b-3, b-4 would leave"
    assert would("pause_upgrade") == "it would be paused: nothing more moves until it is continued or rolled back"
    assert (would("continue_upgrade"), would("roll_back_upgrade")) == ("nothing would change", back)
    upgrades.pause(site.coordinator, APP, by="kim", why="")
    assert (would("pause_upgrade"), would("continue_upgrade")) == ("nothing would change", "it would continue")
    assert would("roll_back_upgrade") == back
    upgrades.roll_back(site.coordinator, APP, by="kim", why="")
    assert would("roll_back_upgrade") == "nothing would change"
    upgrades.pause(site.coordinator, APP, by="kim", why="")
    assert would("roll_back_upgrade") == "it would continue to go back"


def test_a_fleet_that_is_upgraded_takes_back_only_consumers_of_the_upgrade(site: UpgradingSite) -> None:
    c = site.coordinator
    site.starts("x-1")
    to_v2(site)
    site.turn()
    for own in ("b-1", "b-3"):
        directives.drain(c, own, by="kim", why="a mistake")
        directives.undrain(c, own, APP)
        assert own in site.consumers()
    before = stored(site)
    with pytest.raises(BadFleet, match="is being upgraded to 'v2'"):
        directives.undrain(c, "x-1", APP)
    assert stored(site) == before


@pytest.mark.parametrize("request_", [upgrades.pause, upgrades.go_on, upgrades.roll_back])
def test_without_an_upgrade_there_is_nothing_to_control(site: UpgradingSite, request_: Callable[..., Upgrade]) -> None:
    with pytest.raises(NotManaged, match=r"'billing' has no upgrade \(fleets with one: none\)"):
        request_(site.coordinator, APP, by="kim", why="")
    to_v2(site, steps=(100,), hold_s=0.0)
    site.ends()
    with pytest.raises(BadUpgrade, match=r"is done, .* to go back, upgrade to 'v1': `upgrade billing v1`"):
        request_(site.coordinator, APP, by="kim", why="")


@pytest.mark.parametrize("dry_run", [False, True])
def test_one_that_finishes_is_not_done_and_cannot_be_rolled_back(site: UpgradingSite, dry_run: bool) -> None:
    begun = to_v2(site, steps=(100,)).upgrade
    upgrade_store.save(site.coordinator, replace(begun, version=0, phase=UpgradePhase.FINISHING))
    says = r"v2 is Finishing: b-1, b-2 have left, .* wait until it is Done, .* `upgrade billing v1`"
    with pytest.raises(BadUpgrade, match=says):
        ACTIONS["roll_back_upgrade"].run(site.coordinator, {"app": APP, "why": ""}, PERSON, dry_run=dry_run)


def test_a_record_that_cannot_be_read_stops_no_other_upgrade(site: UpgradingSite) -> None:
    to_v2(site)
    site.zk.transact([Create(site.paths.upgrade("broken"), b"{")])
    problems: list[str] = []
    for _ in range(5):
        site.turn()
        list(upgrades.advance(site.coordinator, problems))
    assert "the upgrade of broken waits: /consumers/shop/upgrades/broken: is not JSON" in problems[0]
    assert upgrade_store.read(site.coordinator, APP).phase is not UpgradePhase.STARTING


def test_a_topic_that_cannot_be_read_stops_no_upgrade_of_others(site: UpgradingSite) -> None:
    begun = to_v2(site).upgrade
    site.zk.transact([Create(f"{site.paths.configs}/{name}", b"{") for name in ("broken", "no topic")])
    upgrades.ensure(site.coordinator, replace(begun, version=0, phase=UpgradePhase.FINISHING))
    assert split(site) is None


def test_a_dry_run_says_what_each_step_moves_and_writes_nothing(site: UpgradingSite) -> None:
    given = {"app": APP, "version": "v2", "code": "v2", "hold_minutes": 1, "patience_minutes": 10, "steps": [50, 100]}
    given |= {"max_lag_s": 30, "max_errors": 0, "min_rate": 0.5}
    before = stored(site)
    done = ACTIONS["upgrade"].run(site.coordinator, given, PERSON, dry_run=True)
    assert stored(site) == before
    assert done.lines[0] == "b-3, b-4 would start with v2 beside b-1, b-2 (v1)"
    assert done.lines[2:] == (
        "step 2 (100 %) would move partitions 0-7 of orders, and would be held for 60 s",
        "everything would go back at a lag of more than 30 s, more than 0 errors or less than 50% of the records per second before",
    )


def test_a_drained_old_consumer_stays_drained_after_a_roll_back(site: UpgradingSite) -> None:
    to_v2(site)
    site.turns_until(at(UpgradePhase.HOLDING))
    directives.drain(site.coordinator, "b-1", by="kim", why="old host")
    site.turns(5)
    upgrades.roll_back(site.coordinator, APP, by="kim", why="")
    assert site.ends().phase is UpgradePhase.ROLLED_BACK
    assert site.consumers() == ("b-2",)
    assert set(site.owners().values()) == {"b-2"}


# The report ----------------------------------------------------------------------------------------------------------


def with_pauses(site: UpgradingSite) -> None:
    """Each ended rebalance is measured: partition p waited for p tenths of a second, or had no pause (0)."""
    every = site.history()
    for record in every:
        moves = {move.partition for one in every if one.rebalance == record.rebalance for move in one.moves}
        if record.target is State.STABLE and record.pauses is None:
            measured = tuple(
                Pause(p, wait_s=p / 10 or None, error_s=0.01, least=p == 3, usual_s=0.25) for p in sorted(moves)
            )
            pauses = Pauses(measured, unmoved=Unmoved(7, 0.004, 6, "b-2", 0.003))
            path = site.paths.record("orders", record.sequence)
            site.zk.transact([SetData(path, encode_record(replace(record, pauses=pauses)))])


def test_the_report_has_the_stall_of_every_partition_and_the_control(site: UpgradingSite) -> None:
    to_v2(site)
    site.turns_until(at(UpgradePhase.HOLDING, 1))
    with_pauses(site)
    site.lag["b-4"] = 5_000
    done = site.ends()
    found = upgrade_report.report(site.coordinator, APP)
    there = {one.partition for one in found.moved if one.taker in NEW}
    rest = set(range(8)) - there
    assert there == {one.partition for one in found.moved if one.giver in NEW}
    assert (len(there), len(found.moved)) == (4, 8)
    assert found.stayed == tuple(("orders", p) for p in sorted(rest))
    assert f"not measured: partitions {ranges(there)} of orders" in found.lines
    assert f"did not move: partitions {ranges(rest)} of orders" in found.lines
    with_pauses(site)
    found = upgrade_report.report(site.coordinator, APP)
    assert {one.partition: one.pause and one.pause.wait_s for one in found.moved} == {p: p / 10 or None for p in there}
    assert found.control["orders"].longest_s == 0.004
    lines = found.lines
    assert lines[:3] == (
        "upgrade of billing to v2, asked by ada: new release",
        "RolledBack",
        f"it goes back: {done.reason}",
    )
    assert lines[-1] == (
        "control: of 7 partitions of orders that did not move, 6 of b-2 stood still longest: 4.0 ms, usual 3.0 ms"
    )
    top = max(there)
    (said,) = {line.partition(": ")[2] for line in lines if line.startswith(f"orders/{top} from ")}
    assert said == f"extra pause {top * 100 - 250} ms (total {top * 100} ms (±10 ms), usual 250 ms)"
    assert ("at least" in "".join(lines)) == (3 in there)
    assert ("nothing waited: partition 0 of orders" in lines) == (0 in there)
    assert "not measured" not in "".join(lines)


def test_the_report_has_what_moved_among_the_old_consumers_as_well(site: UpgradingSite) -> None:
    to_v2(site)
    site.turns_until(at(UpgradePhase.HOLDING, 1))
    lost = {p for p, who in site.owners().items() if who == "b-1"}
    site.broken = {"b-1"}
    site.dies("b-1")
    site.turn()
    with_pauses(site)
    found = upgrade_report.report(site.coordinator, APP)
    assert {one.partition for one in found.moved if one.cause == "gone: b-1 (reaped)"} == lost != set()
    assert not lost & {partition for _, partition in found.stayed}
    last = max(lost)
    assert any(
        line.startswith(f"orders/{last} from b-1 to b-2: ") and line.endswith("; gone: b-1 (reaped)")
        for line in found.lines
    )
    assert f"{len(lost)} of them are no steps of the upgrade, and have other causes" in found.lines


def test_a_partition_that_was_planned_again_in_a_rebalance_is_counted_once(site: UpgradingSite) -> None:
    to_v2(site)
    site.turns_until(at(UpgradePhase.HOLDING))
    every = site.history()
    plan, later = next(pair for pair in pairwise(every) if {move.taker for move in pair[0].moves} & set(NEW))
    assert plan.rebalance == later.rebalance
    path = site.paths.record("orders", later.sequence)
    site.zk.transact([SetData(path, encode_record(replace(later, moves=plan.moves)))])
    with_pauses(site)
    found = upgrade_report.report(site.coordinator, APP)
    assert [one.partition for one in found.moved] == [one.partition for one in plan.moves]


def test_the_report_has_nothing_of_what_moved_since(site: UpgradingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    to_v2(site, steps=(100,))
    assert site.ends().phase is UpgradePhase.DONE
    with_pauses(site)
    before = upgrade_report.report(site.coordinator, APP)
    rebalances = len({one.rebalance for one in site.history()})
    directives.drain(site.coordinator, "b-3", by="kim", why="next week")
    site.turns(20)
    with_pauses(site)
    assert len({one.rebalance for one in site.history()}) > rebalances
    assert upgrade_report.report(site.coordinator, APP) == before
    monkeypatch.setattr(upgrade_report, "MAX_REBALANCES", rebalances)
    assert upgrade_report.report(site.coordinator, APP) == before, "what moved since takes no place from it"


def test_a_report_before_anything_has_moved_says_so(site: UpgradingSite) -> None:
    with pytest.raises(NotManaged):
        upgrade_report.report(site.coordinator, APP)
    to_v2(site)
    done = ACTIONS["upgrade_report"].run(site.coordinator, {"app": APP}, PERSON, dry_run=False)
    assert done.lines == (
        "upgrade of billing to v2, asked by ada: new release",
        "Starting",
        "after 0 s: b-3, b-4 start with v2 beside b-1, b-2",
        "no partition has moved",
    )


def test_a_run_that_follows_does_the_steps_until_it_ends_or_pauses(site: UpgradingSite) -> None:
    watch = ACTIONS["upgrade"].watch
    assert watch is not None
    to_v2(site, steps=(100,))
    site.advances = False
    said: list[str] = []
    for _ in range(60):
        site.turn()
        ended, lines = watch(site.coordinator, {"app": APP})
        said += lines
        if ended:
            break
    assert upgrade_store.read(site.coordinator, APP).phase is UpgradePhase.DONE
    assert "upgrade of billing to v2: billing runs v2" in said
    to_v2(site, name="v1", version=None)
    upgrades.pause(site.coordinator, APP, by="kim", why="night")
    ended, lines = watch(site.coordinator, {"app": APP})
    assert ended
    assert "Starting; paused: by kim: night" in list(lines)


def told_of_wait(site: UpgradingSite) -> str:
    """The common text of the command, the log of the stepping process, the log of Airflow's run, and `status`."""
    watch = ACTIONS["upgrade"].watch
    assert watch is not None
    (said,) = upkeep.upgrade(site.coordinator)
    assert list(watch(site.coordinator, {"app": APP})[1]) == [said]
    assert (
        said.replace("the upgrade of billing waits", "it waits") in upgrade_report.report(site.coordinator, APP).lines
    )
    assert said in {text for one in overview.consumers(site.coordinator) for text in one.reports}
    return said


def test_an_upgrade_without_consumers_that_could_take_the_rest_says_so(site: UpgradingSite) -> None:
    site.lingering = {"b-2"}
    to_v2(site, steps=(100,))
    site.turns_until(at(UpgradePhase.DRAINING))
    for consumer in NEW:
        directives.drain(site.coordinator, consumer, by="kim", why="broken")
    site.turn()
    waits = (
        "the upgrade of billing waits: no other consumer of the fleet is there to take what b-2 has; bring one back with "
        "`undrain b-3 --fleet billing`"
    )
    assert told_of_wait(site) == waits
    directives.undrain(site.coordinator, "b-3", APP)
    site.lingering = set()
    assert site.ends().phase is UpgradePhase.DONE


def test_an_upgrade_says_who_has_not_left_for_long(site: UpgradingSite) -> None:
    site.lingering = {"b-2"}
    to_v2(site, steps=(100,), patience_s=120.0)
    site.turns_until(at(UpgradePhase.DRAINING))
    site.turn()
    assert not list(upkeep.upgrade(site.coordinator))
    site.clock.advance(120.0)
    assert told_of_wait(site) == (
        "the upgrade of billing waits: b-2 has not left for 120 s; `topics` and `status` say what it still has"
    )
    site.lingering = set()
    assert site.ends().phase is UpgradePhase.DONE


def test_upkeep_continues_an_upgrade(site: UpgradingSite) -> None:
    to_v2(site)
    site.turn()
    site.clock.advance(60.0)
    lines = list(upkeep.upkeep(site.coordinator, ["orders"]).lines)
    assert "upgrade of billing to v2: step 1 of 3 (5 %): 1 partition for v2" in [*site.said, *lines]
