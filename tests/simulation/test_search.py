"""The exhaustive search itself: cut into pieces it comes to the same, and names can be exchanged."""

from pathlib import Path

from tests.simulation.search import Bounds, Search
from tests.simulation.symmetry import Exchange, Renaming

TINY = Bounds(2, 2, 2, 1, 1)
NAMELESS = Bounds(2, 2, 2, 1, 1, symmetric=True)


def searched(bounds: Bounds) -> Search:
    search = Search(bounds)
    search.run()
    assert search.complete
    return search


def test_a_search_that_was_put_aside_comes_to_the_same(tmp_path: Path) -> None:
    whole, pieces = searched(TINY), Search(TINY)
    pieces.run(0.05)
    assert not pieces.complete
    pieces.save(tmp_path / "search.pickle")
    again = Search.begun(TINY, tmp_path / "search.pickle")
    again.run()
    assert (again.reached, again.edges, again.quiet) == (whole.reached, whole.edges, whole.quiet)


def test_without_names_there_are_fewer_states_and_no_fewer_than_there_are_ways_to_name_them() -> None:
    named, nameless = searched(TINY), searched(NAMELESS)
    assert named.reached / len(Renaming.all(2, 2)) <= nameless.reached < named.reached / 2


def test_whatever_differs_only_by_names_has_one_state_that_stands_for_it() -> None:
    search = searched(NAMELESS)
    exchange = Exchange(search, 2, 2)
    for version in range(len(search.nodes)):
        found = {min(exchange._node_under(n, exchange._node_under(k, version)) for n in range(4)) for k in range(4)}
        assert len(found) == 1
    for state in range(len(search.states)):
        found = {min(exchange._state_under(n, exchange._state_under(k, state)) for n in range(4)) for k in range(4)}
        assert len(found) == 1
