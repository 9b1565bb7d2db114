"""Finds the bad records of a batch by halving its offsets."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Offsets `start` (inclusive) to `end` (exclusive) of a partition."""

    partition: int
    start: int
    end: int


Spans = Sequence[Span]


def size_of(spans: Spans) -> int:
    """Return the number of offsets in the spans."""
    return sum(span.end - span.start for span in spans)


def inside(spans: Spans) -> Callable[[int, int], bool]:
    """Return a function that tells whether a partition's offset is in the spans. A partition has at most one span."""
    by_partition = {span.partition: span for span in spans}

    def is_inside(partition: int, offset: int) -> bool:
        span = by_partition.get(partition)
        return span is not None and span.start <= offset < span.end

    return is_inside


def halves(spans: Spans) -> tuple[list[Span], list[Span]]:
    """Return the first and the second half of the offsets, of which there are at least two."""
    first, left = [], size_of(spans) // 2
    for place, span in enumerate(spans):
        size = span.end - span.start
        if size > left:
            cut = span.start + left
            if left:
                first.append(span._replace(end=cut))
            return first, [span._replace(start=cut), *spans[place + 1 :]]
        first.append(span)
        left -= size
    return first, []


def apart(
    spans: Spans,
    attempt: Callable[[Spans], None],
    blames: Callable[[Exception], bool],
    found: Callable[[int, int, Exception], None],
    *,
    fails: bool = False,
) -> bool:
    """Call `attempt` for all of the spans, in order. If an attempt fails, repeat it with each half of its offsets.

    `found` gets partition, offset and error of each single offset that fails. An error that no record may have caused
    (`blames` returns False) is raised at once. `fails`: skip the attempt with all offsets, which is known to fail.
    Returns whether no offset has failed.
    """
    single = size_of(spans) == 1
    if single or not fails:
        try:
            attempt(spans)
        except Exception as error:
            if not blames(error):
                raise
            if single:
                found(spans[0].partition, spans[0].start, error)
                return False
        else:
            return True
    first, second = halves(spans)
    first_passes = apart(first, attempt, blames, found)
    # If the first half passes, the second half must fail.
    return apart(second, attempt, blames, found, fails=first_passes) and first_passes
