"""The checker of the long clean runs: an honest one passes, and every kind of lie is counted as what it is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Token
from tests.faults.commit_log import LoggedCommit
from tests.faults.spans import CleanRun, Span, check_spans
from tests.unit.coordinator_tasks.devstack.demo.demo_evidence import GENERATION, PARTITIONS, RECORDS, honest


def clean() -> CleanRun:
    """A start and a hand-off, each record of partition 1 to 3 a span of its own."""
    evidence = honest()
    rows = sorted((r for r in evidence.rows if r.partition > 0), key=lambda r: (r.partition, r.processed_at, r.offset))
    spans = [
        Span(r.consumer, r.incarnation, r.epoch, r.partition, r.offset, r.offset + 1, r.processed_at) for r in rows
    ]
    commits = [
        LoggedCommit(
            s.partition, Committed(s.end, Token(s.epoch, s.incarnation, GENERATION), s.consumer, "c", "id"), s.at + 0.01
        )
        for s in spans
    ]
    partitions = range(1, PARTITIONS)
    return CleanRun(
        base=dict.fromkeys(partitions, 0),
        target=dict.fromkeys(partitions, RECORDS),
        spans=spans,
        commits=sorted(commits, key=lambda c: c.at),
        records=evidence.records,
        releases=evidence.releases,
    )


def wrong(run: CleanRun) -> dict[str, int]:
    return {kind: number for kind, number in check_spans(run).counts.items() if number}


def test_an_honest_run_has_nothing_wrong_however_its_spans_are_cut() -> None:
    run = clean()
    assert wrong(run) == {}
    joined: list[Span] = []
    for span in run.spans:
        last = joined[-1] if joined else None
        if (
            last is not None
            and replace(last, first=span.first, end=span.end, at=span.at) == span
            and last.at == span.at
        ):
            joined[-1] = replace(last, end=span.end)
        else:
            joined.append(span)
    assert wrong(replace(run, spans=joined)) == {}


def _index(run: CleanRun, partition: int, offset: int) -> int:
    return next(n for n, s in enumerate(run.spans) if (s.partition, s.first) == (partition, offset))


def without(run: CleanRun) -> CleanRun:
    return replace(run, spans=[s for s in run.spans if (s.partition, s.first) != (3, 20)])


def without_the_last(run: CleanRun) -> CleanRun:
    return replace(
        run,
        spans=[s for s in run.spans if (s.partition, s.end) != (3, RECORDS)],
        commits=[c for c in run.commits if (c.partition, c.entry.offset) != (3, RECORDS)],
    )


def again(run: CleanRun) -> CleanRun:
    place = _index(run, 3, 20)
    return replace(run, spans=[*run.spans[: place + 1], run.spans[place], *run.spans[place + 1 :]])


def swapped(run: CleanRun) -> CleanRun:
    place = _index(run, 3, 20)
    one, other = run.spans[place], run.spans[place + 1]
    early, late = replace(other, at=one.at), replace(one, at=other.at)
    return replace(run, spans=[*run.spans[:place], early, late, *run.spans[place + 2 :]])


def of_another_content(run: CleanRun) -> CleanRun:
    place = _index(run, 3, 20)
    return replace(run, spans=[*run.spans[:place], replace(run.spans[place], foreign=1), *run.spans[place + 1 :]])


def by_a_stranger(run: CleanRun) -> CleanRun:
    place = _index(run, 3, 20)
    stranger = replace(run.spans[place], incarnation=9)
    return replace(run, spans=[*run.spans[:place], stranger, *run.spans[place + 1 :]])


def committed_too_early(run: CleanRun) -> CleanRun:
    place = next(n for n, c in enumerate(run.commits) if (c.partition, c.entry.offset) == (3, 20))
    one = run.commits[place]
    ahead = replace(one, entry=replace(one.entry, offset=22))
    return replace(run, commits=[*run.commits[:place], ahead, *run.commits[place + 1 :]])


def committed_backwards(run: CleanRun) -> CleanRun:
    last = [c for c in run.commits if c.partition == 3][-1]
    return replace(run, commits=[*run.commits, replace(last, entry=replace(last.entry, offset=5))])


def without_a_record_of_history(run: CleanRun) -> CleanRun:
    return replace(run, records=run.records[1:])


@pytest.mark.parametrize(
    ("lie", "kinds"),
    [
        (without, {"lost", "skipped"}),
        (without_the_last, {"lost"}),
        (again, {"duplicated", "rewound"}),
        (swapped, {"skipped", "rewound"}),
        (of_another_content, {"invented"}),
        (by_a_stranger, {"unowned"}),
        (committed_too_early, {"skipped", "rewound"}),
        (committed_backwards, {"rewound"}),
    ],
)
def test_every_lie_is_counted_as_what_it_is(lie: Callable[[CleanRun], CleanRun], kinds: set[str]) -> None:
    assert wrong(lie(clean())).keys() == kinds


def test_a_transition_without_a_record_is_noticed() -> None:
    assert "history" in wrong(without_a_record_of_history(clean()))
