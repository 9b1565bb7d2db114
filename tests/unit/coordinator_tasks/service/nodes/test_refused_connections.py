"""Refusals of registered consumers, noted between the looks."""

import pytest

from coordinator_tasks.core.model import Silence
from coordinator_tasks.service.nodes import observe, refused_connections
from tests.fakes.counted import counted
from tests.world.site import Site, stable_site


@pytest.fixture
def site() -> Site:
    """a and b share the four partitions of orders; Stable."""
    return stable_site("a", "b")


def noted(site: Site, before: frozenset[str] | None = frozenset()) -> tuple[frozenset[str], float]:
    """The refusing consumers, and the start of b's refusals by b's claim."""
    refusing = refused_connections.note(site.coordinator, site.coordinator.discovery.members(), before)
    return refusing, observe.load_claims(site.coordinator, ["b"], {})["b"].refused_at


def test_a_refusal_is_noted_once_and_taken_back_when_it_answers_again(site: Site) -> None:
    assert noted(site) == (frozenset(), 0.0)
    site.processes["b"].silence = Silence.REFUSED
    since_at = site.clock.now()
    refusing, first = noted(site)
    assert (refusing, first) == ({"b"}, since_at)
    site.clock.advance(1)
    assert noted(site, refusing) == ({"b"}, since_at)
    site.processes["b"].silence = None
    assert noted(site, refusing) == (frozenset(), 0.0)


def test_whoever_looks_for_the_first_time_reads_every_claim(site: Site) -> None:
    site.processes["b"].silence = Silence.REFUSED
    noted(site)
    site.processes["b"].silence = None
    assert noted(site)[1], "nobody told it of b"
    assert not noted(site, None)[1]


@pytest.mark.parametrize("silence", [Silence.SILENT, Silence.BROKEN, Silence.FOREIGN])
def test_only_a_refusal_counts(site: Site, silence: Silence) -> None:
    site.processes["b"].silence = silence
    assert noted(site) == (frozenset(), 0.0)


def test_the_claims_of_those_that_answer_are_not_read(site: Site) -> None:
    site.processes["b"].silence = Silence.REFUSED
    c, requests = counted(site.coordinator)
    refused_connections.note(c, c.discovery.members(), frozenset())
    assert requests.nodes[site.paths.id("b")]
    assert not requests.nodes[site.paths.id("a")]
