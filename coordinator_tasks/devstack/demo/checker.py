"""The checks of the demonstration: pure functions over rows, records, releases and task runs.

No consumer is trusted. A row is allowed only if, by ZooKeeper's history and the releases (`ownership`), the row's
consumer and incarnation had the partition under the row's epoch, at this time and up to this offset.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from coordinator_tasks.core.model import MoveKind, Record
from coordinator_tasks.core.text.partition_text import counted
from coordinator_tasks.devstack.demo.evidence import Evidence, MembershipEvent, Produced, Row, TaskRun
from coordinator_tasks.devstack.demo.ownership import End, Holding, holdings, owners_at

CLOCK_TOLERANCE_S = 0.005
"""ZooKeeper cuts times to milliseconds. All processes of the demonstration are on the same host."""
REPEATED_BATCHES_MAX = 1
"""Maximum batches of a killed consumer that are in the sink but not committed."""
SHOWN = 3


@dataclass(frozen=True, slots=True)
class DemoCheck:
    """A check: name, finding as a sentence, and examples of problems; no examples if the check has passed."""

    name: str
    found: str
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    """All checks, and the figures for the report."""

    checks: tuple[DemoCheck, ...]
    produced: int
    consumed: int
    lost: int
    unowned: int
    duplicated_by_clean_moves: int
    duplicated_by_kills: int
    held: tuple[Holding, ...] = field(repr=False, default=())

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


def check(evidence: Evidence) -> DemoVerdict:
    """Run every check. Never raises."""
    held = tuple(holdings(evidence.records, evidence.releases))
    lost, unowned = lost_records(evidence.produced, evidence.rows), unowned_rows(evidence.rows, held)
    clean, by_kill, unbounded = repeated(evidence.rows, held, evidence.killed)
    broken = disordered(evidence.rows, held)
    consumed = {(row.partition, row.offset) for row in evidence.rows}
    again, places = counted(len(by_kill), "record"), counted(len(broken), "place")
    checks = (
        _tasks_check(evidence.records, evidence.tasks),
        DemoCheck("no loop process lived", counted(len(evidence.loops), "coordinator loop"), evidence.loops),
        _check("nothing is lost", f"{len(evidence.produced)} produced, {len(lost)} of them not in the sink", lost),
        _invented_check(evidence.produced, evidence.rows),
        _check(
            "every record was processed by its owner",
            f"{counted(len(unowned), 'row')} without the right to it",
            unowned,
        ),
        _check("nothing was repeated by a clean move", counted(len(clean), "repeated record"), clean),
        _check("a crash repeats at most one batch of a partition", f"{again} repeated after the kill", unbounded),
        _check("no partition went back or skipped a range", f"{places} where offsets go back or skip some", broken),
        _moves_check(evidence.events, evidence.records, held, evidence.partitions),
        _clean_leave_check(evidence.events, held),
        _balance_check(evidence.counts),
    )
    return DemoVerdict(
        checks, len(evidence.produced), len(consumed), len(lost), len(unowned), len(clean), len(by_kill), held
    )


def lost_records(produced: Sequence[Produced], rows: Sequence[Row]) -> list[str]:
    """Return the produced records that the sink lacks."""
    there = {(row.partition, row.offset) for row in rows}
    return [f"partition {p.partition} offset {p.offset}" for p in produced if (p.partition, p.offset) not in there]


def unowned_rows(rows: Sequence[Row], held: Sequence[Holding]) -> list[str]:
    """Return the rows whose consumer did not own the partition, each with the reason."""
    granted = _by_grant(held)
    found = []
    for row in rows:
        reason = _why_unowned(row, granted.get(_grant(row)))
        if reason:
            found.append(f"{_shown(row)}: {reason}")
    return found


def _why_unowned(row: Row, holding: Holding | None) -> str:
    if holding is None:
        return "this incarnation was never granted this partition under this epoch"
    if row.processed_at < holding.from_at - CLOCK_TOLERANCE_S:
        return f"{holding.from_at - row.processed_at:.3f} s before it was granted"
    if row.processed_at > holding.until_at + CLOCK_TOLERANCE_S:
        return f"{row.processed_at - holding.until_at:.3f} s after it was {holding.end}"
    if 0 <= holding.until_offset <= row.offset:
        return f"it released the partition at offset {holding.until_offset}"
    return ""


def repeated(
    rows: Sequence[Row], held: Sequence[Holding], killed: frozenset[tuple[str, int]]
) -> tuple[list[str], list[str], list[str]]:
    """Return repeated processings: without a kill, because of a kill, and because of a kill beyond the bound.

    A kill is the cause only if the first processing was under a killed incarnation's lost holding, and the next under
    another holding. It is within the bound if the first was in one of the killed incarnation's last batches.
    """
    granted = _by_grant(held)
    last_batches = _last_batches(rows, killed)
    clean, by_kill, unbounded = [], [], []
    for same in _processings(rows):
        for first, again in pairwise(same):
            holding = granted.get(_grant(first))
            text = f"{_shown(first)} and again by {again.consumer} under epoch {again.epoch}"
            crashed = (first.consumer, first.incarnation) in killed and holding is not None and holding.end is End.LOST
            if not crashed or again.epoch == first.epoch:
                clean.append(text)
                continue
            by_kill.append(text)
            if first.processed_at not in last_batches[first.consumer, first.incarnation, first.partition]:
                unbounded.append(text)
    return clean, by_kill, unbounded


def _processings(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each record that has several rows, in the order of epochs and times."""
    ordered = sorted(rows, key=lambda r: (r.partition, r.offset, r.epoch, r.processed_at))
    for _, group in groupby(ordered, key=lambda r: (r.partition, r.offset)):
        if len(same := list(group)) > 1:
            yield same


def _last_batches(
    rows: Sequence[Row], killed: frozenset[tuple[str, int]]
) -> Mapping[tuple[str, int, int], frozenset[float]]:
    times: dict[tuple[str, int, int], set[float]] = {}
    for row in rows:
        if (row.consumer, row.incarnation) in killed:
            times.setdefault((row.consumer, row.incarnation, row.partition), set()).add(row.processed_at)
    return {key: frozenset(sorted(found)[-REPEATED_BATCHES_MAX:]) for key, found in times.items()}


def disordered(rows: Sequence[Row], held: Sequence[Holding]) -> list[str]:
    """Return offsets that go back or are skipped, within a holding and from a partition's holding to the next.

    The next owner may begin before the last processed offset only if the former owner was lost. Another check bounds
    these repetitions.
    """
    found: list[str] = []
    granted = _by_grant(held)
    ordered = sorted(rows, key=lambda r: (r.partition, r.epoch, r.consumer, r.incarnation))
    for _, of_partition in groupby(ordered, key=lambda r: r.partition):
        next_offset, after_loss = -1, False
        for key, of_holding in groupby(of_partition, key=_grant):
            run = list(of_holding)
            found.extend(_breaks(run))
            first = run[0]
            if next_offset >= 0 and (first.offset > next_offset or (first.offset < next_offset and not after_loss)):
                found.append(
                    f"{_shown(first)}: epoch {first.epoch} begins at {first.offset}, the one before ended before {next_offset}"
                )
            next_offset = max(next_offset, *(row.offset + 1 for row in run))
            holding = granted.get(key)
            after_loss = holding is not None and holding.end in (End.LOST, End.RESTARTED)
    return found


def _breaks(run: Sequence[Row]) -> Iterator[str]:
    for before, row in pairwise(run):
        if row.offset != before.offset + 1:
            way = "back" if row.offset <= before.offset else "forward"
            yield f"{_shown(row)}: {way} from offset {before.offset} under one epoch"


def _invented_check(produced: Sequence[Produced], rows: Sequence[Row]) -> DemoCheck:
    real = {(one.partition, one.offset): one.sequence for one in produced}
    wrong = [_shown(row) for row in rows if real.get((row.partition, row.offset)) != row.sequence]
    return _check("every row is a produced record", counted(len(wrong), "row") + " of another content", wrong)


def _tasks_check(records: Sequence[Record], tasks: Sequence[TaskRun]) -> DemoCheck:
    states = {(one.dag, one.run, one.task, one.attempt): one.state for one in tasks}
    wrong: list[str] = []
    users: dict[tuple[str, str, str, int], Record] = {}
    for record in records:
        actor, what = record.actor, f"{record.source} -> {record.target} at epoch {record.epoch}"
        key = (actor.dag, actor.run, actor.task, actor.attempt)
        if actor.kind != "airflow":
            wrong.append(f"{what} was run by {actor.kind or 'nobody'} {actor.who}".rstrip())
        elif states.get(key) != "success":
            wrong.append(f"{what}: try {actor.attempt} of {actor.task} in {actor.run} is {states.get(key, 'unknown')}")
        elif key in users and _changes_something(record):
            wrong.append(f"{what} shares {actor.task} in {actor.run} with {users[key].source} -> {users[key].target}")
        if _changes_something(record):
            users.setdefault(key, record)
    if not records:
        wrong.append("there is no transition at all")
    return _check("every transition ran in its own successful Airflow task", counted(len(records), "transition"), wrong)


def _changes_something(record: Record) -> bool:
    """Return whether a record is a transition, and not only a note of the last plan's inputs."""
    return record.source is not record.target or bool(record.moves)


def moves_of(event: MembershipEvent, records: Sequence[Record]) -> dict[int, tuple[str, str, MoveKind]]:
    """Return partition → first giver, last taker and last kind of its moves, from the event until Stable."""
    found: dict[int, tuple[str, str, MoveKind]] = {}
    for record in sorted(records, key=lambda r: r.sequence):
        if event.began_at <= record.at <= event.stable_at:
            for move in record.moves:
                if move.partition in found:
                    found[move.partition] = (found[move.partition][0], move.taker, move.kind)
                elif move.taker != move.giver:
                    found[move.partition] = (move.giver, move.taker, move.kind)
    return found


def _moves_check(
    events: Sequence[MembershipEvent], records: Sequence[Record], held: Sequence[Holding], partitions: int
) -> DemoCheck:
    wrong, said = _unasked(events, records), []
    for event in events:
        moves, before = moves_of(event, records), owners_at(held, event.began_at)
        takers = {taker for _, taker, _ in moves.values()}
        said.append(f"{event.kind} {len(moves)}")
        if event.kind == "join":
            due = partitions // (len(set(before.values())) + 1)
            fits = len(moves) == due and takers == {event.consumer}
            expected = f"exactly {due} to {event.consumer}"
        else:
            owned = {partition for partition, owner in before.items() if owner == event.consumer}
            fits = moves.keys() == owned and event.consumer not in takers
            expected = f"exactly {sorted(owned)} to others"
        if not fits:
            found = f"{sorted(moves)} to {', '.join(sorted(takers)) or 'nobody'}"
            wrong.append(f"the {event.kind} of {event.consumer} moved {found}, expected {expected}")
    return _check("each change moved exactly what it had to", "moved: " + ", ".join(said), wrong)


def _unasked(events: Sequence[MembershipEvent], records: Sequence[Record]) -> list[str]:
    """Return the moves after the first event that no event explains."""
    return [
        f"partition {move.partition} moved from {move.giver} to {move.taker}, and no change asked for it"
        for record in records
        if events and record.at > events[0].began_at
        if not any(event.began_at <= record.at <= event.stable_at for event in events)
        for move in record.moves
        if move.taker != move.giver
    ]


def _clean_leave_check(events: Sequence[MembershipEvent], held: Sequence[Holding]) -> DemoCheck:
    """Check that a drained consumer gave each partition away by a release or a confirmation, and lost none."""
    wrong: list[str] = []
    drained = [event for event in events if event.kind == "drain"]
    for event in drained:
        wrong.extend(
            f"partition {h.partition} of {event.consumer} is {h.end}"
            for h in held
            if h.consumer == event.consumer and h.end in (End.LOST, End.OPEN)
        )
    return _check("the drained consumer left cleanly", counted(len(drained), "drain"), wrong)


def _balance_check(counts: Sequence[Mapping[str, int]]) -> DemoCheck:
    """Check that the consumers' partitions over all topics differ by at most one, at each Stable."""
    shown = [" and ".join(str(one) for one in sorted(by_consumer.values(), reverse=True)) for by_consumer in counts]
    wrong = [
        ", ".join(f"{consumer} has {count}" for consumer, count in sorted(by_consumer.items()))
        for by_consumer in counts
        if max(by_consumer.values()) - min(by_consumer.values()) > 1
    ]
    if not counts:
        wrong.append("Stable was never seen")
    said = "partitions of each consumer: " + ", then ".join(shown)
    return _check("both topics are shared as one, to within one partition", said, wrong)


def _grant(of: Holding | Row) -> tuple[int, str, int, int]:
    return of.partition, of.consumer, of.incarnation, of.epoch


def _by_grant(held: Iterable[Holding]) -> dict[tuple[int, str, int, int], Holding]:
    return {_grant(h): h for h in held}


def _shown(row: Row) -> str:
    who = f"{row.consumer} (incarnation {row.incarnation}, epoch {row.epoch})"
    return f"partition {row.partition} offset {row.offset} by {who}"


def _check(name: str, found: str, problems: Sequence[str]) -> DemoCheck:
    rest = len(problems) - SHOWN
    return DemoCheck(name, found, (*problems[:SHOWN], *([f"and {rest} more"] if rest > 0 else [])))
