"""What must hold of a run, whatever was killed in it: judged from the sink, Kafka's log of commits and ZooKeeper's history.

In Jepsen's manner (its Kafka workload): lost, duplicated, skipped, rewound and unowned, epoch by epoch, and no consumer's
word counts. The rights are read from the history and the releases by the demonstration's `ownership`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from coordinator_tasks.core.model import MoveKind, Record, State, Token
from coordinator_tasks.devstack.demo.checker import disordered, lost_records, repeated, unowned_rows
from coordinator_tasks.devstack.demo.evidence import Produced, Row, SeenRelease
from coordinator_tasks.devstack.demo.ownership import Holding, holdings
from tests.faults.commit_log import LoggedCommit, by_partition

TOLERANCE_S = 0.005
"""The broker's and ZooKeeper's times are cut to milliseconds; everything is on one host."""


@dataclass(frozen=True, slots=True)
class Run:
    """`base` and `target` are the first offset to be processed and the one after the last, by partition.

    `killed`: consumer and incarnation. `rows` keep the order of each writer, `commits` that of the broker.
    """

    base: Mapping[int, int]
    target: Mapping[int, int]
    rows: Sequence[Row]
    commits: Sequence[LoggedCommit]
    records: Sequence[Record]
    releases: Sequence[SeenRelease]
    killed: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Findings:
    """`wrong`: sentences by kind, all empty in the good case; `explained`: repetitions that a kill accounts for."""

    wrong: Mapping[str, list[str]]
    explained: list[str]

    def problems(self) -> list[str]:
        """All that is wrong, each with its kind."""
        return [f"{kind}: {text}" for kind, texts in self.wrong.items() for text in texts]


def check(run: Run) -> Findings:
    """Judge a run; never raises for what the evidence says."""
    rows = sorted(run.rows, key=lambda row: (row.partition, row.processed_at))
    held = _adopted(holdings(run.records, run.releases))
    clean, by_kill, _ = repeated(rows, held, run.killed)
    produced = [Produced(p, n, n, 0.0) for p, first in run.base.items() for n in range(first, run.target[p])]
    invented = [row for row in rows if row.sequence != row.offset or row.offset < run.base.get(row.partition, 0)]
    wrong = {
        "lost": lost_records(produced, rows),
        "invented": [f"{_of(row)} holds {row.sequence}" for row in invented],
        "unowned": unowned_rows(rows, held),
        "duplicated": clean + list(_repeated_though_committed(rows, run.commits)),
        "disordered": disordered(rows, held),
        "rewound": list(_rewound(run.commits)),
        "skipped": list(_skipped(run.base, rows, run.commits)),
        "commits unowned": list(_unowned_commits(run.commits, held)),
        "history": list(_history_faults(run.records)),
    }
    return Findings(wrong, by_kill)


def _repeated_though_committed(rows: Sequence[Row], commits: Sequence[LoggedCommit]) -> Iterator[str]:
    """A kill explains what was not committed: processing again what was is nobody's right."""
    logged = by_partition(list(commits))
    effective = {partition: _effective(entries) for partition, entries in logged.items()}
    for row in rows:
        times, offsets = effective.get(row.partition, ([], []))
        known = bisect_right(times, row.processed_at - TOLERANCE_S)
        if known and row.offset < offsets[known - 1]:
            yield f"{_of(row)} processed when {offsets[known - 1]} was committed already"


def _effective(entries: Sequence[LoggedCommit]) -> tuple[list[float], list[int]]:
    """Times and values of the effective position: that of the newest token."""
    newest: Token | None = None
    times: list[float] = []
    offsets: list[int] = []
    for one in entries:
        if newest is None or (one.entry.token is not None and one.entry.token >= newest):
            newest = one.entry.token or newest
            times.append(one.at)
            offsets.append(one.entry.offset)
    return times, offsets


def _rewound(commits: Sequence[LoggedCommit]) -> Iterator[str]:
    """The effective position never goes back, and nobody's own commits do."""
    for partition, entries in by_partition(list(commits)).items():
        _, offsets = _effective(entries)
        for before, after in pairwise(offsets):
            if after < before:
                yield f"partition {partition}: the effective position went from {before} back to {after}"
        own: dict[tuple[str, Token | None], int] = {}
        for one in entries:
            key = (one.entry.owner, one.entry.token)
            if one.entry.offset < own.get(key, 0):
                yield f"partition {partition}: {one.entry.owner} went from {own[key]} back to {one.entry.offset}"
            own[key] = one.entry.offset


def _skipped(base: Mapping[int, int], rows: Sequence[Row], commits: Sequence[LoggedCommit]) -> Iterator[str]:
    """A committed position says that everything before it had passed a sink by then."""
    first_seen: dict[tuple[int, int], float] = {}
    for row in rows:
        key = (row.partition, row.offset)
        first_seen[key] = min(row.processed_at, first_seen.get(key, row.processed_at))
    for partition, entries in by_partition(list(commits)).items():
        checked = base.get(partition, 0)
        for one in entries:
            for offset in range(checked, one.entry.offset):
                if first_seen.get((partition, offset), float("inf")) > one.at + TOLERANCE_S:
                    yield f"partition {partition}: {one.entry.owner} committed {one.entry.offset} before {offset} had passed"
                    break
            checked = max(checked, one.entry.offset)


def _unowned_commits(commits: Sequence[LoggedCommit], held: Sequence[Holding]) -> Iterator[str]:
    """Every token is that of a right which the history gave, and no commit is older than it."""
    granted = {(h.partition, h.consumer, h.incarnation, h.epoch): h for h in held}
    for one in commits:
        token = one.entry.token
        if token is None:
            continue  # where the test itself began
        holding = granted.get((one.partition, one.entry.owner, token.incarnation, token.epoch))
        what = f"partition {one.partition}: {one.entry.owner} committed {one.entry.offset} under {token}"
        if holding is None:
            yield f"{what}, which nobody granted"
        elif one.at < holding.from_at - TOLERANCE_S:
            yield f"{what} {holding.from_at - one.at:.3f} s before it was granted"
        elif 0 <= holding.until_offset < one.entry.offset:
            yield f"{what}, though it had released the partition at {holding.until_offset}"


def _adopted(held: Sequence[Holding]) -> list[Holding]:
    """Extend the right of a life to which a later plan gives the partition again, for as long as that life may run it.

    The life was adopted, or alone is left of several possible owners.
    """
    found: list[Holding] = []
    for one in reversed(held):
        later = found[-1] if found else one
        kept = later.kind is MoveKind.ADOPT or (later.kind is MoveKind.START and later.giver == later.consumer)
        goes_on = kept and _life(later) == _life(one)
        ends = {"until_at": later.until_at, "until_offset": later.until_offset, "end": later.end} if goes_on else {}
        found.append(replace(one, **ends))
    return found[::-1]


def _life(one: Holding) -> tuple[int, str, int]:
    return one.partition, one.consumer, one.incarnation


def _history_faults(records: Sequence[Record]) -> Iterator[str]:
    """One record per transition: each begins where the one before ended; epochs never fall, every plan has its own."""
    ordered = sorted(records, key=lambda r: r.sequence)
    if ordered and ordered[0].source is not State.INITIAL:
        yield f"the first record begins in {ordered[0].source}"
    for before, after in pairwise(ordered):
        if after.source is not before.target:
            yield f"record {after.sequence} begins in {after.source}, the one before ended in {before.target}"
        if after.epoch < before.epoch:
            yield f"record {after.sequence} has epoch {after.epoch} after {before.epoch}"
        if after.epoch == before.epoch and after.moves:
            yield f"record {after.sequence} moves partitions under epoch {after.epoch}, like the one before"
        if after.generation != before.generation:
            yield f"record {after.sequence} has another generation"


def _of(row: Row) -> str:
    return f"partition {row.partition} offset {row.offset} by {row.consumer} (epoch {row.epoch})"
