"""Consumers without partitions: conditions to believe their end and launch again."""

import pytest

from coordinator_tasks.adapters.discovery import claim_incarnation
from coordinator_tasks.core.model import Ending, Fleet, Silence, Unreachable
from coordinator_tasks.service.fleets import idle_consumers
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.service.watch import overview
from spark_apps.spark.warm_up import FIRST_LIMIT_S
from tests.world.site import Site, stable_site


@pytest.fixture
def site() -> Site:
    """b of a fleet of two holds no partition, and b's host is gone."""
    made = stable_site("a", "b", partitions=1)
    fleet.set_fleet(made.coordinator, Fleet("app", "app.py", ("a", "b")))
    assert made.counts() == {"a": 1}
    made.dies("b", None)
    made.statuses.answers["b"] = Unreachable(Silence.SILENT, "no answer")
    return made


def looked(site: Site) -> list[str]:
    return list(idle_consumers.give_up(site.coordinator, ["orders"]))


def shown(site: Site) -> str:
    return {one.consumer: one.presence for one in overview.consumers(site.coordinator)}["b"]


def missing(site: Site) -> list[str]:
    return [launch.consumer for launch in fleet.missing(site.coordinator)]


def test_who_is_silent_for_long_is_launched_again(site: Site) -> None:
    assert (looked(site), missing(site)) == ([], [])
    site.clock.advance(site.policy.absent_after_s - 1)
    assert (looked(site), missing(site)) == ([], [])
    site.clock.advance(1)
    assert looked(site) == ["b, which held nothing, counts as gone: absent and silent for 30 s"]
    assert (looked(site), missing(site)) == ([], ["b"])
    site.starts("b")
    site.dies("a")
    site.settles()
    assert (looked(site), site.counts()) == ([], {"b": 1})


@pytest.mark.parametrize("minutes", [0, 1])
def test_a_readmitted_consumer_is_launched_without_a_known_end(site: Site, minutes: int) -> None:
    c, until_at = site.coordinator, site.clock.now() + 60 * minutes if minutes else 0.0
    directives.isolate(c, "b", by="ada", why="broken disk", until_at=until_at)
    assert (looked(site), missing(site)) == ([], [])
    site.clock.advance(60)
    assert (looked(site), missing(site)) == ([], ["b"] if minutes else [])
    directives.readmit(c, "b", by="ada")
    assert missing(site) == ["b"]
    claim_incarnation(site.zk, site.paths, "b", 1)
    assert missing(site) == [], "it starts"
    site.starts("b")
    site.settles()
    assert directives.complete_readmissions(c) == ("b",)


def test_whom_a_person_lets_in_again_is_launched_though_its_host_dies_once_more_at_the_start(site: Site) -> None:
    c = site.coordinator
    directives.isolate(c, "b", by="ada", why="broken disk")
    directives.readmit(c, "b", by="ada")
    claim_incarnation(site.zk, site.paths, "b", 1)
    for passed_s in (0.0, fleet.STARTS_S + site.policy.absent_after_s - 1):
        site.clock.advance(passed_s)
        assert (looked(site), missing(site)) == ([], []), "it may still start"
    site.clock.advance(1)
    assert (looked(site), missing(site)) == ([], ["b"])


def test_a_readmitted_consumer_that_answers_is_not_launched() -> None:
    site = stable_site("a", "b", partitions=1)
    fleet.set_fleet(site.coordinator, Fleet("app", "app.py", ("a", "b")))
    directives.isolate(site.coordinator, "b", by="ada", why="cut off")
    site.loses_session("b")
    directives.readmit(site.coordinator, "b", by="ada")
    for _ in range(3):
        looked(site)
        site.clock.advance(60)
        assert missing(site) == []


def test_a_refusing_address_proves_the_end_within_a_session(site: Site) -> None:
    site.statuses.answers["b"] = Unreachable(Silence.REFUSED, "connection refused")
    assert looked(site) == []
    site.clock.advance(site.zk.session_timeout_s)
    assert looked(site) == ["b, which held nothing, counts as gone: its address refuses"]
    assert missing(site) == ["b"]


def test_who_holds_something_or_starts_or_is_in_no_fleet_is_left_alone(site: Site) -> None:
    site.dies("a", None)
    before = site.server.zxid
    fleet.set_fleet(site.coordinator, Fleet("app", "app.py", ("a",)))
    fleet.record_end(site.coordinator, "b", 1, Ending.REAPED)
    after = site.server.zxid
    for _ in range(3):
        assert looked(site) == []
        site.clock.advance(60)
    assert (site.isolation("a"), site.isolation("b")) == (None, None)
    assert site.server.zxid == after > before


def test_who_never_registers_is_launched_again_when_no_start_takes_as_long(site: Site) -> None:
    """The host has died during the start: no report of the end."""
    fleet.record_end(site.coordinator, "b", 1, Ending.REAPED)
    drawn = claim_incarnation(site.zk, site.paths, "b", 1)
    limit_s = fleet.STARTS_S + site.policy.absent_after_s
    assert fleet.STARTS_S == FIRST_LIMIT_S
    for passed_s in (0.0, limit_s - 1):
        site.clock.advance(passed_s)
        assert (looked(site), missing(site), shown(site)) == ([], [], "starting")
    site.clock.advance(1)
    assert looked(site) == ["b, which has not registered, counts as gone: absent and silent for 210 s"]
    assert (looked(site), missing(site), shown(site)) == ([], ["b"], "isolated")
    assert claim_incarnation(site.zk, site.paths, "b", 1) == drawn + 1
    assert (looked(site), missing(site), shown(site)) == ([], [], "starting"), "another start has its own time"
