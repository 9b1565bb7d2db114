"""Growth of a fleet: measurements, missing decisions, actions, memory."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pytest

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.codecs.growth_codec import decode_growth, encode_growth
from coordinator_tasks.core.codecs.member_codec import encode_fleet, encode_leave
from coordinator_tasks.core.errors import BadFleet, BadGrowth, LookAgain, Malformed, NotManaged, StoreUnavailable
from coordinator_tasks.core.fleet.growth import GrowthKind, Limits
from coordinator_tasks.core.model import Answer, ConsumerStatus, Draining, Fleet, Member, Silence, Unreachable
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.core.protocol.znodes import put
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.fleets import autoscale, redeployment, scaling
from coordinator_tasks.service.nodes import action_log, directives, fleet, growth_store, topics
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import overrides, transitions
from tests.fakes.cluster import PERSON, AllowEverything
from tests.world.site import LOOP, Site, stable_site

APP = "billing"
LIMITS = Limits(1, 6, utilisation=1.0, catch_up_s=100.0, start_up_s=10.0, window_s=30.0, shrink_pause_s=60.0)


@dataclass
class Traffic:
    """Answers of consumers: each partition gets `rate` and is read with `read` records/s from `began` on."""

    site: Site
    rate: float = 10.0
    read: float = 10.0
    lag: float = 0.0

    def of(self, consumer: str) -> Callable[[Member], Answer]:
        process, began = self.site.processes[consumer], self.site.clock.now()

        def answer(asked_of: Member) -> Answer:
            found = process.answer(asked_of)
            if not isinstance(found, ConsumerStatus):
                return found
            seconds = self.site.clock.now() - began
            position, lag = int(self.read * seconds), int(self.lag + (self.rate - self.read) * seconds)
            topics = {
                topic: replace(
                    status,
                    running={
                        p: replace(one, position=position, lag_records=max(0, lag)) for p, one in status.running.items()
                    },
                )
                for topic, status in found.topics.items()
            }
            return replace(found, topics=topics)

        return answer

    def flows(self, *consumers: str) -> None:
        for consumer in consumers:
            self.site.statuses.answers[consumer] = self.of(consumer)


def fleet_site(traffic: dict[str, float] | None = None, **limits: object) -> Site:
    site = stable_site("b-1", "b-2", partitions=8)
    site.coordinator = replace(site.coordinator, allowed=AllowEverything())
    fleet.set_fleet(site.coordinator, Fleet(APP, "app.py", ("b-1", "b-2")))
    autoscale.set_growth(site.coordinator, APP, replace(LIMITS, **limits))  # type: ignore[arg-type]
    Traffic(site, **(traffic or {})).flows("b-1", "b-2")
    return site


BUSY = {"rate": 50.0, "read": 25.0, "lag": 2_000.0}


def known_site(capacity: float = 100.0, **limits: object) -> Site:
    """A site with this known capacity of a consumer, in records/s."""
    site = fleet_site(**limits)
    growth = growth_store.read(site.coordinator, APP)
    known = replace(growth, memory=replace(growth.memory, capacity=capacity))
    site.zk.transact([SetData(site.paths.growth(APP), encode_growth(known))])
    return site


def uneven_site() -> Site:
    """The policy acts; b-1 is overloaded, and b-2 has room."""
    site = known_site(act=True)
    site.statuses.answers["b-1"] = Traffic(site, 30.0, 30.0).of("b-1")
    site.statuses.answers["b-2"] = Traffic(site, 2.0, 2.0).of("b-2")
    return site


def pins(site: Site) -> Mapping[int, str]:
    return topics.configuration(site.coordinator, "orders").pins


def look(site: Site) -> autoscale.Looked:
    (found,) = autoscale.look(site.coordinator, [APP], PERSON)
    return found


def wanted(site: Site) -> tuple[str, ...]:
    return fleet.fleet_of(site.coordinator, APP).consumers


def test_rates_lag_and_busy_consumers_are_measured_from_two_answers() -> None:
    site = fleet_site(BUSY)
    found = autoscale.measure(site.coordinator, fleet.fleet_of(site.coordinator, APP), 20.0)
    assert found.unsure == ""
    assert {(one.rate, one.read) for one in found.loads} == {(50.0, 25.0)}
    assert len(found.loads) == 8
    assert {one.lag for one in found.loads} == {2_500.0}
    assert found.busy == {"b-1": 100.0, "b-2": 100.0}
    calm = fleet_site({"rate": 10.0, "read": 10.0, "lag": 20.0})
    assert autoscale.measure(calm.coordinator, fleet.fleet_of(calm.coordinator, APP), 20.0).busy == {}


def test_partitions_that_a_person_has_paused_count_neither_with_their_lag_nor_as_busy() -> None:
    site = fleet_site(BUSY)
    positions.set_paused(site.coordinator, "orders", range(4), paused=True, actor=PERSON)
    site.settles()
    found = autoscale.measure(site.coordinator, fleet.fleet_of(site.coordinator, APP), 20.0)
    assert {one.partition for one in found.loads} == {4, 5, 6, 7}
    assert len(found.busy) == 1


def desired(site: Site) -> dict[str, int]:
    return {app: one.desired for app, one in autoscale.last_decisions(site.coordinator).items()}


def test_shadow_mode_reports_the_decision_and_publishes_the_number() -> None:
    site = fleet_site(BUSY)
    assert desired(site) == {}
    found = look(site)
    assert found.text.startswith("billing: would grow to 6 consumers: ")
    assert wanted(site) == ("b-1", "b-2")
    assert desired(site) == {APP: 6}
    assert [one.action for one in action_log.asked(site.coordinator, APP)] == [], "nobody has asked for anything"


PODS = ("billing-0", "billing-1")


def pods_site() -> Site:
    """Consumers with the ids of a StatefulSet's pods, in no fleet, and a consumer of another name."""
    site = stable_site(*PODS, "other-2", partitions=8)
    fleet.set_fleet(replace(site.coordinator, allowed=AllowEverything()), Fleet("other", "app.py", ("other-2",)))
    Traffic(site, **BUSY).flows(*PODS, "other-2")
    return site


def test_pods_of_a_stateful_set_have_a_number_that_follows_how_many_there_are() -> None:
    site = pods_site()
    autoscale.set_growth(site.coordinator, APP, LIMITS)
    first = look(site)
    assert first.text.startswith("billing: would grow to ")
    assert (first.decision.count, desired(site)) == (2, {APP: first.decision.desired})
    site.starts("billing-2")
    Traffic(site, **BUSY).flows("billing-2")
    site.clock.advance(60)
    site.settles()
    assert look(site).decision.count == 3


def test_the_number_of_pods_stays_while_one_of_them_restarts() -> None:
    site = pods_site()
    autoscale.set_growth(site.coordinator, APP, LIMITS)
    look(site)
    before = growth_store.read(site.coordinator, APP)
    site.dies("billing-1")
    assert look(site).text == "billing: hold: nothing is decided: billing-1 is wanted and not there yet"
    site.starts("billing-1")
    site.clock.advance(9)
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert look(site).text == "billing: hold: nothing is decided: a rebalance is not finished"
    assert growth_store.read(site.coordinator, APP) == before, "a look that decides nothing is no new number"


def test_pods_are_not_let_act_and_without_pods_there_is_nothing_to_grow() -> None:
    site = pods_site()
    with pytest.raises(BadGrowth, match="billing-0 and the others of 'billing' are in no fleet"):
        autoscale.set_growth(site.coordinator, APP, replace(LIMITS, act=True))
    with pytest.raises(NotManaged, match=r"has no fleet 'shop'.*no consumer shop-0"):
        autoscale.set_growth(site.coordinator, "shop", LIMITS)
    fleet.set_fleet(replace(site.coordinator, allowed=AllowEverything()), Fleet("web", "app.py", PODS))
    with pytest.raises(NotManaged, match="has no fleet 'billing'"):
        autoscale.set_growth(site.coordinator, APP, LIMITS)


def test_it_grows_and_who_and_why_stand_in_the_history() -> None:
    site = fleet_site(BUSY, act=True)
    found = look(site)
    assert (found.decision.kind, found.decision.acted) == (GrowthKind.GROW, True)
    assert wanted(site) == ("b-1", "b-2", "b-3", "b-4", "b-5", "b-6")
    (record,) = action_log.asked(site.coordinator, APP, 1)
    assert (record.action, record.actor.who) == ("autoscale", PERSON.who)
    assert record.why.startswith("grow to 6 consumers: ")
    assert record.why.endswith("records/s are needed, and 2 x 100 are there")
    assert look(site).decision.reasons == ("nothing is decided: b-3 is wanted and not there yet",)
    assert len(wanted(site)) == 6


def test_growth_readmits_consumers_drained_by_growth_but_none_drained_by_a_person() -> None:
    site = fleet_site(BUSY, act=True, most=3)
    look(site)
    autoscale.set_growth(site.coordinator, APP, replace(LIMITS, act=True, most=2))
    site.starts("b-3")
    site.settles()
    Traffic(site, **BUSY).flows("b-1", "b-2", "b-3")
    assert look(site).decision.leaves == ("b-3",)
    directives.drain(site.coordinator, "b-2", by="ada", why="broken disk")
    autoscale.set_growth(site.coordinator, APP, replace(LIMITS, act=True, least=3, most=3))
    site.settles()
    assert look(site).decision.kind is GrowthKind.GROW
    assert wanted(site) == ("b-1", "b-3", "b-4")
    assert directives.read_directive(site.coordinator, "b-2").draining is not None


def while_measured(site: Site, monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> None:
    """Do this within the next measurement."""
    sleep, left = site.clock.sleep, [does]

    def slept(seconds: float) -> None:
        sleep(seconds)
        if seconds == autoscale.MEASURE_S and left:
            left.pop()()

    monkeypatch.setattr(site.clock, "sleep", slept)


def shrinking_site() -> Site:
    """The next look shrinks three consumers to two, the least."""
    site = known_site(act=True, least=2)
    scaling.scale(site.coordinator, APP, 3, by="ada", why="")
    site.starts("b-3")
    site.settles()
    Traffic(site, 1.0, 1.0).flows("b-1")
    Traffic(site, 1.0, 1.0, lag=5.0).flows("b-2", "b-3")
    look(site)
    site.clock.advance(60)
    return site


@pytest.mark.parametrize(
    ("kind", "site_of"),
    [
        (GrowthKind.GROW, partial(fleet_site, BUSY, act=True)),
        (GrowthKind.SHRINK, shrinking_site),
        (GrowthKind.MOVE, uneven_site),
    ],
)
def test_who_scales_a_fleet_while_it_is_measured_is_not_overruled(
    kind: GrowthKind, site_of: Callable[[], Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look(site_of()).decision.kind is kind
    site = site_of()
    while_measured(site, monkeypatch, partial(scaling.scale, site.coordinator, APP, 8, by="ada", why="month end"))
    with pytest.raises(LookAgain):
        look(site)
    assert len(wanted(site)) == 8
    assert pins(site) == {}
    assert growth_store.read(site.coordinator, APP).memory.decisions == ()


def test_it_shrinks_by_draining_the_cheapest_one() -> None:
    site = fleet_site({"rate": 100.0, "read": 50.0, "lag": 2_000.0})
    look(site)  # a consumer reads 200 records/s
    Traffic(site, 5.0, 5.0).flows("b-1", "b-2")
    autoscale.set_growth(site.coordinator, APP, replace(LIMITS, act=True))
    for _ in range(6):
        if look(site).decision.kind is GrowthKind.SHRINK:
            break
        site.clock.advance(15)
    assert wanted(site) == ("b-1",), "of two that cost the same, the higher number leaves"
    draining = directives.read_directive(site.coordinator, "b-2").draining
    assert draining.why.startswith("shrink to 1 consumer: ")


@pytest.mark.parametrize("act", [False, True])
@pytest.mark.parametrize("broken", ["silent", "unregistered", "rebalance", "redeployment", "upgrade", "lag"])
def test_nothing_is_decided_on_old_measurements_or_while_something_changes(broken: str, act: bool) -> None:
    site = fleet_site(BUSY, act=act)
    said = ""
    if broken == "silent":
        site.statuses.answers["b-2"] = Unreachable(Silence.SILENT, "no answer")
        said = "b-2 does not answer, so its measurements are old"
    elif broken == "unregistered":
        site.dies("b-2")
        said = "b-2 is wanted and not there yet"
    elif broken == "rebalance":
        site.starts("b-3")
        site.clock.advance(9)
        transitions.step(site.coordinator, ["orders"], LOOP)
        said = "a rebalance is not finished"
    elif broken == "redeployment":
        redeployment.redeploy(site.coordinator, APP, by="ada", why="")
        said = "the fleet is being redeployed: b-1, b-2 still run as before"
    elif broken == "upgrade":
        found_fleet = fleet.fleet_of(site.coordinator, APP)
        upgrading = replace(found_fleet, runs={"b-2": "1.5"}, versions={"1.5": fleet.version_of(found_fleet)})
        site.zk.transact([SetData(site.paths.fleet(APP), encode_fleet(upgrading))])
        said = "the fleet 'billing' is being upgraded to '1.5'; wait for it, or roll it back with `roll-back-upgrade billing`"
    else:
        site.statuses.answers["b-2"] = site.processes["b-2"].answer
        said = "b-2 does not know the lag of its partitions, or they move"
    before = wanted(site)
    found = look(site).decision
    assert (found.kind, found.reasons) == (GrowthKind.HOLD, (f"nothing is decided: {said}",))
    assert wanted(site) == before


def isolated(site: Site) -> None:
    directives.isolate(site.coordinator, "b-2", by="kim", why="bad disk")


def restarts(site: Site, *, moves: bool = False) -> None:
    directives.expect_restart(site.coordinator, "b-2", 600.0, moves=moves, by="kim", why="kernel")


def leaves(site: Site) -> None:
    site.zk.transact([put(site.paths.leave("b-2"), encode_leave(Draining("b-2", "asked to end", 5.0, 1)), -1)])


def unreadable(site: Site) -> None:
    site.zk.transact([put(site.paths.directive("b-2"), b"{", -1)])


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (isolated, "b-2 is isolated; readmit it, or take it out of the fleet"),
        (restarts, "b-2 is to restart"),
        (partial(restarts, moves=True), "b-2 is to restart"),
        (leaves, "b-2 gives its partitions away"),
        (unreadable, "/consumers/shop/directives/b-2: "),
    ],
)
def test_nothing_is_decided_while_a_consumer_keeps_too_little(happens: Callable[[Site], None], said: str) -> None:
    site = uneven_site()
    happens(site)
    site.settles()
    found = look(site).decision
    assert found.kind is GrowthKind.HOLD
    assert found.reasons[0].startswith(f"nothing is decided: {said}")


@pytest.mark.parametrize("person", ["", "b-1"])
def test_moves_are_pins_and_the_next_step_of_the_size_ends_those_that_nobody_has_changed(person: str) -> None:
    site = uneven_site()
    mine = site.owned("b-1")
    found = look(site).decision
    assert found.kind is GrowthKind.MOVE
    assert pins(site) == {move.partition: "b-2" for move in found.moves}
    assert set(pins(site)) < mine
    theirs = dict.fromkeys(pins(site), person) if person else {}
    for partition, consumer in theirs.items():
        overrides.set_pins(site.coordinator, "orders", consumer, [partition], actor=PERSON)
    site.settles()
    Traffic(site, **BUSY).flows("b-1", "b-2")
    site.clock.advance(100)
    assert look(site).decision.kind is GrowthKind.GROW
    assert pins(site) == theirs


def test_a_change_of_size_ends_no_pin_that_a_person_set_after_the_change_before() -> None:
    site = uneven_site()
    moved = look(site).decision.moves[0].partition
    site.settles()
    Traffic(site, **BUSY).flows("b-1", "b-2")
    site.clock.advance(100)
    assert look(site).decision.kind is GrowthKind.GROW
    site.starts(*wanted(site)[2:])
    site.settles()
    overrides.set_pins(site.coordinator, "orders", "b-2", [moved], actor=PERSON)
    site.settles()
    Traffic(site, 1.0, 1.0).flows(*wanted(site))
    look(site)
    site.clock.advance(100)
    assert look(site).decision.kind is GrowthKind.SHRINK
    assert pins(site) == {moved: "b-2"}


@pytest.mark.parametrize("why", ["not allowed", "changed meanwhile"])
def test_pins_stay_when_a_change_of_size_is_refused(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site = uneven_site()
    look(site)
    site.settles()
    moved = pins(site)
    Traffic(site, **BUSY).flows("b-1", "b-2")
    site.clock.advance(100)
    if why == "not allowed":
        site.coordinator = replace(site.coordinator, allowed=AllowedLaunches())
    else:
        while_measured(site, monkeypatch, partial(scaling.scale, site.coordinator, APP, 3, by="ada", why=""))
    with pytest.raises((BadFleet, LookAgain)):
        look(site)
    assert moved
    assert pins(site) == moved


@pytest.mark.parametrize("when", range(4))
def test_a_death_between_two_writes_leaves_both_or_none_of_them(when: int) -> None:
    site = fleet_site(BUSY, act=True)
    site.server.lose_write(when, applied=False)
    with suppress(StoreUnavailable):
        look(site)
    grown = len(wanted(site)) == 6
    kept = [one.kind for one in growth_store.read(site.coordinator, APP).memory.decisions]
    assert kept == ([GrowthKind.GROW] if grown else [])
    if not grown:
        assert look(site).decision.kind is GrowthKind.GROW
        assert len(wanted(site)) == 6


def test_what_cannot_be_is_refused_and_nothing_changes() -> None:
    site = fleet_site()
    before = site.server.zxid
    with pytest.raises(NotManaged, match="has no fleet 'other'"):
        autoscale.set_growth(site.coordinator, "other", LIMITS)
    with pytest.raises(BadGrowth, match="cannot grow from 7 to 6 consumers"):
        autoscale.set_growth(site.coordinator, APP, replace(LIMITS, least=7))
    with pytest.raises(NotManaged, match="the fleet 'other' has no limits of growth"):
        list(autoscale.look(site.coordinator, ["other"], PERSON))
    autoscale.set_growth(site.coordinator, APP, LIMITS)
    assert site.server.zxid == before, "the same again changes nothing"


def test_an_unreadable_node_stops_no_other_fleet() -> None:
    site = fleet_site()
    fleet.set_fleet(site.coordinator, Fleet("web", "app.py", ("w-1",)))
    autoscale.set_growth(site.coordinator, "web", LIMITS)
    site.zk.transact([SetData(site.paths.growth(APP), b"{")])
    problems: list[str] = []
    (found,) = autoscale.look(site.coordinator, (), PERSON, problems)
    assert found.app == "web"
    assert len(problems) == 1
    assert site.paths.growth(APP) in problems[0]
    assert desired(site) == {"web": 1}


def test_what_stops_a_fleet_that_is_named_is_refused_as_what_it_is() -> None:
    site = fleet_site(BUSY, act=True)
    site.coordinator = replace(site.coordinator, allowed=AllowedLaunches())
    before = site.server.zxid
    with pytest.raises(BadFleet, match="fleet 'billing' is not launched"):
        ACTIONS["autoscale"].run(site.coordinator, {"app": APP}, PERSON, dry_run=False)
    assert site.server.zxid == before
    every = ACTIONS["autoscale"].run(site.coordinator, {"app": ""}, PERSON, dry_run=False)
    assert every.text.startswith("the fleet billing is left as it is: fleet 'billing' is not launched")
    assert every.partial, "the command has exit code 1"


def test_what_is_kept_is_read_back_the_same_and_limits_that_cannot_be_are_malformed() -> None:
    site = fleet_site(BUSY)
    look(site)
    growth = growth_store.read(site.coordinator, APP)
    assert decode_growth("/x", encode_growth(growth), APP, growth.version) == growth
    wrong = replace(growth, limits=replace(LIMITS, least=9, most=3))
    with pytest.raises(Malformed, match="field 'limits' a fleet cannot grow from 9 to 3"):
        decode_growth("/x", encode_growth(wrong), APP, 0)


def test_limits_are_taken_away_by_at_most_0_and_the_fleet_is_left_alone() -> None:
    site = fleet_site(BUSY, act=True)
    given = {"app": APP, "most": 0, "act": True, "why": "not needed"}
    said = ["billing would have no limits of growth; `autoscale` would leave it alone"]
    done = ["billing has no limits of growth; `autoscale` will leave it alone"]
    before = site.server.zxid
    assert ACTIONS["set_growth"].lines(site.coordinator, given, PERSON, dry_run=True) == said
    assert site.server.zxid == before
    assert ACTIONS["set_growth"].lines(site.coordinator, given, PERSON, dry_run=False) == done
    assert growth_store.growing(site.coordinator) == []
    assert list(autoscale.look(site.coordinator, (), PERSON)) == []
    (record,) = action_log.asked(site.coordinator, APP, 1)
    assert [(one.field, one.after) for one in record.changes] == [("limits", "")]
    written = site.server.zxid
    assert ACTIONS["set_growth"].lines(site.coordinator, given, PERSON, dry_run=False) == done
    assert site.server.zxid == written, "the same again changes nothing"
    for dry_run in (True, False):
        with pytest.raises(NotManaged, match="has no fleet 'biling'"):
            ACTIONS["set_growth"].run(site.coordinator, {**given, "app": "biling"}, PERSON, dry_run=dry_run)


def test_whoever_takes_the_limits_away_is_told_which_pins_of_growth_stay() -> None:
    site = uneven_site()
    assert look(site).decision.kind is GrowthKind.MOVE
    (stay,) = pins(site)
    other = min(site.owned("b-1") - {stay})
    overrides.set_pins(site.coordinator, "orders", "b-1", [other], actor=PERSON)  # a person's own
    given = {"app": APP, "most": 0, "act": False, "why": ""}
    said = [
        "billing would have no limits of growth; `autoscale` would leave it alone",
        f"partition {stay} of orders would stay pinned by its moves: `unpin orders --partition {stay}` ends that",
    ]
    assert ACTIONS["set_growth"].lines(site.coordinator, given, PERSON, dry_run=True) == said
    assert ACTIONS["set_growth"].run(site.coordinator, given, PERSON, dry_run=False).text == "\n".join(said).replace(
        "would have", "has"
    ).replace("would", "will")
    assert set(pins(site)) == {stay, other}
    assert ACTIONS["set_growth"].lines(site.coordinator, given, PERSON, dry_run=False) == [
        "billing has no limits of growth; `autoscale` will leave it alone"
    ]


def test_undrain_warns_that_growth_may_drain_again() -> None:
    site = known_site(act=True)
    site.starts("b-3")
    directives.drain(site.coordinator, "b-3", by=PERSON.named, why="new host")
    given = {"consumer": "b-3", "app": APP}
    admitted = ["b-3 would get partitions again", "b-3 would return to the fleet billing"]
    again = "billing shrinks by its load: `autoscale` may drain one of its 3 consumers again; limits of growth with a --min of 3 keep them"
    lines = partial(ACTIONS["undrain"].lines, site.coordinator, given, PERSON, dry_run=True)
    assert lines() == [*admitted, again]
    autoscale.set_growth(site.coordinator, APP, replace(LIMITS, act=True, least=3))
    assert lines() == admitted
    autoscale.set_growth(site.coordinator, APP, replace(LIMITS, act=False))
    assert lines() == admitted


def test_the_form_and_the_command_set_limits_and_look() -> None:
    site = fleet_site(BUSY)
    given = {"app": APP, "least": 2, "most": 5, "act": False, "why": "evening"}
    said = ["billing would have 2 to 5 consumers; `autoscale` would only say what it finds right"]
    before = site.server.zxid
    assert ACTIONS["set_growth"].lines(site.coordinator, given, PERSON, dry_run=True) == said
    assert site.server.zxid == before
    assert ACTIONS["set_growth"].lines(site.coordinator, given, PERSON, dry_run=False) == [
        "billing has 2 to 5 consumers; `autoscale` will only say what it finds right"
    ]
    (record,) = action_log.asked(site.coordinator, APP, 1)
    assert (record.action, record.why, [one.field for one in record.changes]) == ("set_growth", "evening", ["limits"])
    done = ACTIONS["autoscale"].run(site.coordinator, {"app": APP}, PERSON, dry_run=False)
    assert done.text.startswith("billing: would grow to 5 consumers: ")
    assert len(action_log.asked(site.coordinator, APP)) == 1
