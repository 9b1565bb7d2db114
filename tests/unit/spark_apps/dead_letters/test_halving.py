"""Which offsets are bad is found by halving, in order, with few attempts."""

from collections.abc import Sequence
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.dead_letters.halving import Span, Spans, apart, halves, size_of

Place = tuple[int, int]
SPANS = st.lists(st.integers(1, 40), min_size=1, max_size=4).map(
    lambda sizes: [Span(p, p * 100, p * 100 + size) for p, size in enumerate(sizes)]
)


def offsets(spans: Spans) -> list[Place]:
    return [(span.partition, offset) for span in spans for offset in range(span.start, span.end)]


class Log:
    """Delivers spans, all or nothing, except those with a bad record; counts the failures."""

    def __init__(self, bad: set[Place]) -> None:
        self.bad, self.delivered, self.found, self.failures = bad, list[Place](), list[Place](), 0

    def attempt(self, spans: Spans) -> None:
        if not self.bad.isdisjoint(offsets(spans)):
            self.failures += 1
            raise ValueError(spans)
        self.delivered += offsets(spans)

    def note(self, partition: int, offset: int, error: Exception) -> None:
        assert error.args == ([Span(partition, offset, offset + 1)],), "the record's own error"
        self.found.append((partition, offset))


@given(spans=SPANS, data=st.data(), fails=st.booleans())
def test_bad_offsets_are_found_and_others_delivered(spans: Sequence[Span], data: st.DataObject, fails: bool) -> None:
    bad = data.draw(st.sets(st.sampled_from(offsets(spans))))
    log = Log(bad)
    assert apart(spans, log.attempt, lambda _: True, log.note, fails=fails) == (not bad)
    assert log.found == sorted(bad)
    assert log.delivered == [place for place in offsets(spans) if place not in bad]
    assert log.failures <= len(bad) * (1 + ceil(log2(size_of(spans))))


@given(SPANS)
def test_two_halves_are_the_whole(spans: Sequence[Span]) -> None:
    if size_of(spans) > 1:
        first, second = halves(spans)
        assert offsets(first) + offsets(second) == offsets(spans)
        assert size_of(first) == size_of(spans) // 2


def test_an_error_that_no_record_has_caused_ends_the_search() -> None:
    log = Log({(0, 3)})
    with pytest.raises(ValueError, match="Span"):
        apart([Span(0, 0, 8)], log.attempt, lambda _: False, log.note)
    assert (log.failures, log.found) == (1, [])


def test_one_bad_record_of_ten_thousand_costs_few_failures() -> None:
    for offset in (0, 1, 4_999, 5_000, 7_777, 9_999):
        log = Log({(0, offset)})
        apart([Span(0, 0, 10_000)], log.attempt, lambda _: True, log.note, fails=True)
        assert log.failures <= 14
        assert len(log.delivered) == 9_999
