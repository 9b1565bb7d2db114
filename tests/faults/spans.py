"""The checker for long clean runs: no row of its own for each record, but spans of consecutive offsets in one batch.

Nobody dies here, so nothing is explained: whatever is lost, invented, duplicated, skipped, rewound or unowned is wrong.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Record
from coordinator_tasks.devstack.demo.checker import unowned_rows
from coordinator_tasks.devstack.demo.evidence import Row, SeenRelease
from coordinator_tasks.devstack.demo.ownership import Holding, holdings
from tests.faults.checker import TOLERANCE_S, history_faults, rewound, unowned_commits
from tests.faults.commit_log import LoggedCommit, by_partition

KINDS = ("lost", "invented", "duplicated", "skipped", "rewound", "unowned", "history")


@dataclass(frozen=True, slots=True)
class Span:
    """Records from `first` to `end` (not included) of one partition in one batch; `foreign` of them hold another number
    than their offset, as no produced record does."""

    consumer: str
    incarnation: int
    epoch: int
    partition: int
    first: int
    end: int
    at: float
    foreign: int = 0


@dataclass(frozen=True, slots=True)
class CleanRun:
    """One topic. `base` and `target`: the first offset to be processed and the one after the last, by partition."""

    base: Mapping[int, int]
    target: Mapping[int, int]
    spans: Sequence[Span]
    commits: Sequence[LoggedCommit]
    records: Sequence[Record]
    releases: Sequence[SeenRelease]


@dataclass
class Faults:
    """How many records (or commits, or transitions) are wrong, by kind, and a sentence for each place."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    sentences: list[str] = field(default_factory=list)

    def add(self, kind: str, number: int, sentence: str) -> None:
        self.counts[kind] += number
        self.sentences.append(f"{kind}: {sentence}")


def check_spans(run: CleanRun) -> Faults:
    """Judge a run from the sink, the broker's log of commits, the history and the releases."""
    faults = Faults()
    held = holdings(run.records, run.releases)
    commits = by_partition(list(run.commits))
    for partition, first in run.base.items():
        own = sorted((one for one in run.spans if one.partition == partition), key=lambda one: one.at)
        _order(partition, first, run.target[partition], own, faults)
        for sentence in _ahead(first, own, commits.get(partition, [])):
            faults.add("skipped", 1, f"partition {partition}: {sentence}")
    for one in run.spans:
        if one.foreign or one.first < run.base.get(one.partition, one.first + 1):
            faults.add("invented", max(1, one.foreign), str(one))
    for sentence in _unowned(run.spans, held):
        faults.add("unowned", 1, sentence)
    for sentence in unowned_commits(run.commits, held):
        faults.add("unowned", 1, sentence)
    for sentence in rewound(run.commits):
        faults.add("rewound", 1, sentence)
    for sentence in history_faults(run.records):
        faults.add("history", 1, sentence)
    return faults


def _order(partition: int, first: int, target: int, spans: Sequence[Span], faults: Faults) -> None:
    """In the order of processing each span begins where the last one ended."""
    expected = first
    covered = _Covered()
    for one in spans:
        if one.first > expected:
            faults.add("skipped", one.first - expected, f"from {expected} to {one}")
        elif one.first < expected:
            faults.add("rewound", expected - one.first, f"from {expected} to {one}")
        again = covered.add(one.first, one.end)
        if again:
            faults.add("duplicated", again, str(one))
        expected = one.end
    for begin, end in covered.gaps(first, target):
        faults.add("lost", end - begin, f"partition {partition} from {begin} to {end}")


class _Covered:
    """Offsets as disjoint intervals in ascending order."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, first: int, end: int) -> int:
        """How many of these were there already."""
        low, high = bisect_left(self._ends, first), bisect_right(self._begins, end)
        inner = zip(self._begins[low:high], self._ends[low:high], strict=True)
        again = sum(max(0, min(end, e) - max(first, b)) for b, e in inner)
        if low < high:
            first, end = min(first, self._begins[low]), max(end, self._ends[high - 1])
        self._begins[low:high], self._ends[low:high] = [first], [end]
        return again

    def gaps(self, first: int, target: int) -> Iterator[tuple[int, int]]:
        """What is missing between these two."""
        at = first
        for begin, end in zip(self._begins, self._ends, strict=True):
            if begin > at:
                yield at, min(begin, target)
            at = max(at, end)
        if at < target:
            yield at, target


def _ahead(base: int, spans: Sequence[Span], commits: Sequence[LoggedCommit]) -> Iterator[str]:
    """A committed position says that everything before it had passed a sink by then."""
    times = [one.at for one in spans]
    passed = [base]
    for one in spans:
        passed.append(max(passed[-1], one.end))
    for commit in commits:
        before = passed[bisect_right(times, commit.at + TOLERANCE_S)]
        if commit.entry.offset > before:
            yield f"{commit.entry.owner} committed {commit.entry.offset} when {before} had passed"


def _unowned(spans: Sequence[Span], held: Sequence[Holding]) -> list[str]:
    """A span is its owner's if its last record is."""
    rows = [Row(s.consumer, s.incarnation, s.epoch, s.partition, s.end - 1, s.end - 1, 0.0, s.at) for s in spans]
    return unowned_rows(rows, held)
