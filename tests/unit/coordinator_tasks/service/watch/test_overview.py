"""What a person sees of topics and consumers."""

from coordinator_tasks import show
from coordinator_tasks.core.model import Ending
from coordinator_tasks.service.nodes import directives
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
