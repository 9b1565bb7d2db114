"""The overview of topics and consumers for a person."""

from dataclasses import replace

from coordinator_tasks import show
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.model import Ending, Fleet
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.service.watch import overview
from tests.world.site import Site, stable_site


def status_of(site: Site, consumer: str) -> str:
    return next(
        line
        for line in str(show.consumers(overview.consumers(site.coordinator))).splitlines()
        if line.startswith(f"{consumer} ")
    )


def test_a_consumer_that_is_gone_is_not_said_to_be_draining() -> None:
    site = stable_site("a", "b")
    directives.drain(site.coordinator, "a", by="ada", why="old host")
    assert "draining by ada" in status_of(site, "a")
    site.settles()
    site.dies("a", Ending.REAPED)
    site.settles()
    assert ("gone" in status_of(site, "a"), "draining" in status_of(site, "a")) == (True, False)


def test_a_topic_that_nobody_has_is_not_called_stable_as_if_it_were_well() -> None:
    site = stable_site("a")
    assert "Stable  " in str(show.topics(overview.topics(site.coordinator)))
    site.dies("a", Ending.REAPED)
    site.settles()
    assert "Stable: nobody has it" in str(show.topics(overview.topics(site.coordinator)))


def test_a_person_reads_the_first_of_many_registrations_that_answer_nothing() -> None:
    """An account with the right to register can make any number of consumers; a program gets all, and owners are always shown."""
    junk = [overview.ConsumerOverview(f"junk{n:04}", "live", problem="is not JSON") for n in range(10_000)]
    owner = overview.ConsumerOverview("z", "detached", problem="no answer", topics=(overview.RunningTopic("orders"),))
    lines = show.consumers_text([*junk, owner]).splitlines()
    assert len(lines) == 1 + 50 + 1 + 1
    assert lines[-2].startswith("z ")
    assert lines[-1] == "and 9,950 more that have no partition and do not answer; --json gives all"
    assert len(show.consumers_text(junk[:50]).splitlines()) == 1 + 50
    assert len(show.consumers([*junk, owner]).csv.splitlines()) == 1 + 10_001


def test_a_live_consumer_is_not_said_to_be_refused_by_the_lists_of_this_host() -> None:
    site = stable_site("a")
    launching = replace(site.coordinator, allowed=AllowedLaunches(applications="/opt/other.py"))
    fleet.set_fleet(launching, Fleet("sales", "/opt/other.py", ("a", "b")))
    problems = {
        one.consumer: one.problem for one in overview.consumers(replace(site.coordinator, allowed=AllowedLaunches()))
    }
    assert problems["a"] == ""
    assert problems["b"].startswith("fleet 'sales' is not launched: ")


def test_a_consumer_ended_by_an_error_is_shown_before_silent_consumers() -> None:
    silent = [
        overview.ConsumerOverview(f"c{number}", "not started", problem="never registered") for number in range(60)
    ]
    failed = overview.ConsumerOverview(
        "z", "gone", problem="never registered", ended="incarnation 5 has ended: no module shop"
    )
    text = show.consumers_text([*silent, failed])
    assert "no module shop" in text
    assert text.endswith("and 11 more that have no partition and do not answer; --json gives all")
