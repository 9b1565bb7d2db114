"""The exhaustive search itself: a plain one comes to the same, in pieces too, and broken rules show."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks.core.machine import deciding
from tests.simulation import rules
from tests.simulation.rules import SILENT, Rules, put
from tests.simulation.states import Bounds, Found, Process, Shared
from tests.simulation.sweep import Search

TINY = Bounds(2, 2, 2, 1, 1)
DRAINED = Bounds(2, 1, 3, 0, 0, drains=1)
GIVEN_BACK = Bounds(2, 2, 4, 1, 0)
LATE = Bounds(2, 1, 99, 1, 0, late=True)
WHOLE = Bounds(2, 1, 99, 1, 0)
Site = tuple[Shared, tuple[Process | None, ...]]


def searched(bounds: Bounds) -> Search:
    search = Search(bounds)
    search.run()
    assert search.complete
    return search


class Plain:
    """Breadth first, one state after the other, every decision computed: slow, and simple."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, self.rules = bounds, Rules(bounds)
        self.edges = self.quiet = 0
        first = self.rules.first()
        self.seen: set[Site] = {first}
        layer = [first]
        while layer:
            layer = [found for site in layer for found in self._new_ones(site)]

    def _new_ones(self, site: Site) -> Iterator[Site]:
        by_itself = False
        for free, found in self._after(*site):
            self.edges += 1
            by_itself = by_itself or (free and found != site)
            if found not in self.seen:
                self.seen.add(found)
                yield found
        self.quiet += not by_itself

    def _after(self, shared: Shared, processes: tuple[Process | None, ...]) -> Iterator[tuple[bool, Site]]:
        for n, process in enumerate(processes):
            if process is None:
                for found, new in self.rules.restarted(n, shared):
                    yield False, (found, put(processes, n, new))
                continue
            for changed, releases in self.rules.moves(n, process, shared):
                yield True, (shared._replace(releases=releases), put(processes, n, changed))
            yield from ((False, found) for found in self._faults(n, process, shared, processes))
        yield from ((True, (self.rules.wrote(shared, written), processes)) for written in shared.looked)
        if not shared.looked and self.rules.epoch(shared) < self.bounds.epochs:
            yield from ((free, (found, processes)) for free, found in self._looks(shared, processes))

    def _faults(
        self, n: int, process: Process, shared: Shared, processes: tuple[Process | None, ...]
    ) -> Iterator[Site]:
        yield from ((found, put(processes, n, None)) for found in self.rules.crashed(n, shared))
        yield from ((found, processes) for found in self.rules.directed(n, shared))
        if shared.isolated[n] and self.rules.confirms_nothing(n, process, shared):
            yield shared._replace(isolated=put(shared.isolated, n, False)), processes

    def _looks(self, shared: Shared, processes: tuple[Process | None, ...]) -> Iterator[tuple[bool, Shared]]:
        missing = [put(processes, n, SILENT) for n, process in enumerate(processes) if process is not None]
        for at, told in enumerate([processes, *missing]):
            for written in self.rules.writes(shared, told):
                yield at == 0, self.rules.wrote(shared, written)
                if self.bounds.late:
                    yield False, shared._replace(looked=(written,))


@pytest.mark.parametrize("bounds", [TINY, DRAINED, GIVEN_BACK, LATE, WHOLE], ids=str)
def test_the_sweep_comes_to_what_a_plain_search_comes_to(bounds: Bounds) -> None:
    plain, sweep = Plain(bounds), searched(bounds)
    assert (sweep.reached, sweep.edges, sweep.quiet) == (len(plain.seen), plain.edges, plain.quiet)


def test_a_search_that_was_put_aside_comes_to_the_same(tmp_path: Path) -> None:
    whole, pieces = searched(TINY), Search(TINY)
    pieces.run(0.05)
    assert not pieces.complete
    pieces.save(tmp_path / "search.pickle")
    again = Search.begun(TINY, tmp_path / "search.pickle")
    again.run()
    assert (again.reached, again.edges, again.quiet) == (whole.reached, whole.edges, whole.quiet)
    assert "all of them" in str(again)


def test_two_owners_are_found_where_a_rule_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "why_not_closed", lambda *_: "")
    with pytest.raises(Found, match="a partition runs at two consumers"):
        searched(GIVEN_BACK)


def test_what_was_looked_at_before_a_readmission_must_not_be_written_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Bounds(2, 1, 99, 0, 1, late=True)
    assert searched(kept).reached
    monkeypatch.setattr(rules, "_guarded", lambda *_: False)
    with pytest.raises(Found, match="a partition runs at two consumers"):
        searched(kept)


def test_a_standstill_is_found_where_a_rule_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "why_not_all_started", lambda *_: "it is never enough")
    with pytest.raises(Found, match="it stands still before Stable"):
        searched(TINY)
