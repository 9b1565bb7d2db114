"""Which consumer was allowed to process which partition, and when, by ZooKeeper's history and the releases.

Rules (of the hand-off in docs/architecture.md, seen from outside):
- A `start` move begins a holding at its record's epoch and time. The previous holder is lost by then.
- A `hand-off` move names its epoch E. The giver's holding ends, and the taker's holding begins, with the release of
  this epoch, giver and generation: at ZooKeeper's time of its write, and at its offset. If, before the release, a
  record confirms the giver's close or counts the giver as lost, both happen with it. The taker's epoch is always E.
- A `barrier` move begins the new holding with the record that confirms the close of the last possible owner, at this
  record's epoch. A `stop` move ends the holding with such a record.
- A `restart` move ends the holding, and begins the same consumer's next holding, at its record's epoch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from coordinator_tasks.core.model import Move, MoveKind, Record
from coordinator_tasks.devstack.demo.evidence import SeenRelease


class End(StrEnum):
    """How a holding ended."""

    OPEN = "open"  # not ended
    RELEASED = "released"  # by the owner's release
    CONFIRMED = "confirmed"  # closed, and the coordinator has the confirmation
    LOST = "lost"  # the owner was gone or isolated, so its last work may be repeated
    RESTARTED = "restarted"  # the same owner started again from the committed position


@dataclass(frozen=True, slots=True)
class Holding:
    """The right of an incarnation to process a partition under an epoch.

    `from_at` and `until_at` bound the times of the rows. `until_offset`: the first offset after the holding; -1 if
    unknown. `kind`: the move that began the holding. `giver`: the previous holder.
    """

    partition: int
    consumer: str
    incarnation: int
    epoch: int
    kind: MoveKind
    giver: str
    from_at: float
    until_at: float = inf
    until_offset: int = -1
    end: End = End.OPEN


@dataclass(slots=True)
class _Pending:
    """A move that waits until `owners` (consumer → incarnation) have closed the partition.

    `release`: the giver's release, even if written later. `granted`: the incarnations in the record of the move.
    """

    move: Move
    epoch: int
    owners: dict[str, int]
    granted: Mapping[str, int]
    release: SeenRelease | None = None


class _Partition:
    """The state of one partition, from record to record."""

    def __init__(self, releases: Iterable[SeenRelease]) -> None:
        self.releases = {(seen.release.epoch, seen.release.by): seen for seen in releases}
        self.done: list[Holding] = []
        self.current: Holding | None = None
        self.pending: _Pending | None = None

    def move(self, move: Move, record: Record) -> None:
        self.released()  # if the giver released during the planning, the former taker may have begun
        match move.kind:
            case MoveKind.START | MoveKind.ADOPT | MoveKind.RESTART:
                self._end(record.at, End.RESTARTED if move.kind is MoveKind.RESTART else End.LOST)
                self._begin(move, record.epoch, record.incarnations, record.at)
            case MoveKind.HANDOFF:
                self.pending = _pending(move, record)
                seen = self.releases.get((record.epoch, move.giver))
                if seen is not None and seen.release.generation == record.generation:
                    self.pending.release = seen
            case MoveKind.BARRIER | MoveKind.STOP:
                self.pending = _pending(move, record)
                if self.current is not None:  # the incarnation of the holding; the id may have another by now
                    self.pending.owners[self.current.consumer] = self.current.incarnation

    def released(self, until_at: float = inf) -> None:
        """Apply the giver's release if it was written by `until_at`."""
        pending = self.pending
        seen = pending.release if pending is not None else None
        if pending is not None and seen is not None and seen.written_at <= until_at:
            self._end(seen.written_at, End.RELEASED, seen.release.offset)
            self._begin(pending.move, pending.epoch, pending.granted, seen.written_at)

    def confirmed(self, consumer: str, record: Record) -> None:
        if self.pending is None:
            return
        self.pending.owners.pop(consumer, None)
        if not self.pending.owners:
            self._go_on(record, End.CONFIRMED)

    def absent(self, record: Record) -> None:
        """Count owners as lost and closed if the record no longer grants anything to their incarnations."""
        if self.pending is not None and not self.pending.owners.items() & record.incarnations.items():
            self._go_on(record, End.LOST)

    def _go_on(self, record: Record, end: End) -> None:
        pending, self.pending = self.pending, None
        if pending is None:
            return
        late = pending.release if end is End.CONFIRMED else None
        self._end(record.at, end, late.release.offset if late is not None else -1)
        if pending.move.taker:
            epoch = pending.epoch if pending.move.kind is MoveKind.HANDOFF else record.epoch
            self._begin(pending.move, epoch, record.incarnations, record.at)

    def _end(self, at: float, end: End, offset: int = -1) -> None:
        if self.current is not None:
            self.done.append(replace(self.current, until_at=at, until_offset=offset, end=end))
        self.current, self.pending = None, None

    def _begin(self, move: Move, epoch: int, incarnations: Mapping[str, int], at: float) -> None:
        # Incarnations count from 1, so 0 (for a consumer that the record lacks) matches no row.
        incarnation = incarnations.get(move.taker, 0)
        self.current = Holding(move.partition, move.taker, incarnation, epoch, move.kind, move.giver, at)

    def all(self) -> list[Holding]:
        self.released()
        return [*self.done, self.current] if self.current is not None else self.done


def _pending(move: Move, record: Record) -> _Pending:
    owners = {move.giver: record.incarnations.get(move.giver, 0)}
    return _Pending(move, record.epoch, owners, record.incarnations)


def holdings(records: Sequence[Record], releases: Sequence[SeenRelease]) -> list[Holding]:
    """Return all holdings, by partition, in the order in which they began."""
    numbers = {move.partition for record in records for move in record.moves}
    found = {p: _Partition([seen for seen in releases if seen.partition == p]) for p in sorted(numbers)}
    for record in sorted(records, key=lambda r: r.sequence):
        for followed in found.values():
            followed.released(record.at)
        for consumer, partitions in record.confirmed.items():
            for partition in found.keys() & partitions:
                found[partition].confirmed(consumer, record)
        for followed in found.values():
            followed.absent(record)
        for move in record.moves:
            found[move.partition].move(move, record)
    return [holding for followed in found.values() for holding in followed.all()]


def owners_at(held: Iterable[Holding], at: float) -> dict[int, str]:
    """Return partition → its permitted owner at the time `at`."""
    return {h.partition: h.consumer for h in held if h.from_at <= at < h.until_at}
