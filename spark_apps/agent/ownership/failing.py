"""Failures of the sink, the pipeline or other user code, and the time of each retry.

The rules are the same with Spark and without. Times are the clock's monotonic seconds.
- A batch of several partitions fails: each half is retried alone, at once, until the bad partition is found.
- A single partition fails: a tenth of its offsets is retried, at once. Each retry that passes doubles the next retry,
  until all offsets before the bad record have passed.
- A single offset fails: its partition waits, twice as long after each failure, up to `MOST_S`.
- Two groups of partitions fail for the same reason, and no group has passed in between: the sink counts as away. All
  groups with this reason wait; then the least recently tried group is retried for all.
- `SinkUnavailable` means that the sink is away, whatever the text: all groups with this error wait, up to
  `MOST_AWAY_S`. When one group passes, the other groups are retried in one batch without a limit, because an outage
  does not mean that a record is bad.
- A group passes: all groups that failed for the same reason are due at once.
- A failure ends when the partition is paused, is closed, or has another grant (a seek, a move, another process).
No record is skipped: a record that never passes stops only its own partition.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from coordinator_tasks.core.model import Failure
from coordinator_tasks.core.ports import Clock
from coordinator_tasks.core.protocol.claims import one_line
from coordinator_tasks.core.text.partition_text import agreed, counted, named
from spark_apps.agent.ownership.holdings import Holdings
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.reports import Problem
from spark_apps.delivery import sink_is_away
from spark_apps.records.batches import Range

FIRST_S, MOST_S = 1.0, 30.0
MOST_AWAY_S = 10.0
"""Longest pause in seconds while the sink is away. After the outage, partitions may wait this long."""
AWAY = "the sink is away"
"""The common cause of all `SinkUnavailable` failures, whose texts differ from try to try."""
MOST_IN_A_ROW = 16
NARROWER, WIDER = 10, 2
STEADY_S = 10.0
"""Seconds after which a restarted reading counts as working."""


def backoff_s(failures: int, why: str) -> float:
    """Return the pause in seconds after `failures` in a row, the last for the reason `why`; 0 without failures."""
    most_s = MOST_AWAY_S if sink_is_away(why) else MOST_S
    return min(most_s, FIRST_S * 2.0 ** min(failures - 1, 16)) if failures else 0.0


def _cause(why: str) -> str:
    """Return the cause that several failures share: `AWAY` if the sink is away, else the reason itself."""
    return AWAY if sink_is_away(why) else why


@dataclass(frozen=True, slots=True)
class _Group:
    """Partitions that are retried together.

    `epochs`: partition → epoch of the failed holding. `alone`: number of failures of a single offset. `until`: end of
    the offsets at which a single partition failed; 0 for several partitions. `most`: maximum offsets for the next retry
    of a single partition.
    """

    epochs: Mapping[int, int]
    why: str
    since: float
    tries: int = 0
    alone: int = 0
    until: int = 0
    most: int = 0
    tried_at: float = -inf
    again_at: float = -inf


@dataclass(frozen=True, slots=True)
class _Reading:
    """A failure to read the topic as a whole. `began_at`: time of the last restart (`None` = not restarted yet)."""

    why: str
    since: float
    tries: int
    again_at: float
    began_at: float | None = None


class Failing:
    """Failures of one topic. Used by one thread at a time."""

    def __init__(self, holdings: Holdings, clock: Clock) -> None:
        self._holdings = holdings
        self._clock = clock
        self._groups: list[_Group] = []
        # cause → sets of partitions that failed for this cause since the last pass
        self._in_a_row: dict[str, list[frozenset[int]]] = {}
        self._reading: _Reading | None = None

    # Events ----------------------------------------------------------------------------------------------------------

    def fail(self, ranges: Collection[Range], why: str) -> None:
        """Note a failed batch of these ranges. No offset of the batch counts as passed."""
        partitions = [one.partition for one in ranges]
        now, why, held = self._clock.monotonic(), one_line(why), self._holdings.held
        known = {p: one for one in self._current() for p in one.epochs}
        before = next((known[p] for p in sorted(partitions) if p in known), None)
        epochs = {p: held[p].token.epoch for p in sorted(partitions) if p in held and not held[p].closing}
        self._groups = _without(self._groups, epochs)
        if epochs:
            failed = _Group(epochs, why, now) if before is None else replace(before, epochs=epochs, why=why)
            single = len(ranges) == 1 and max(one.size for one in ranges) == 1
            alone = failed.alone + 1 if single else 0
            until = max(one.end for one in ranges) if len(epochs) == 1 else 0
            most = max(1, max(one.size for one in ranges) // NARROWER)
            failed = replace(failed, tries=failed.tries + 1, alone=alone, until=until, most=most, tried_at=now)
            self._groups += [replace(one, again_at=now + backoff_s(alone, why)) for one in _halves(failed)]
            self._wait_together(why, frozenset(epochs), now)

    def _wait_together(self, why: str, failed: frozenset[int], now: float) -> None:
        """If the sink is away, let all groups with this cause wait.

        The sink is away if the error says so, or if another group failed for this reason and no group has passed since.
        """
        cause, causes = _cause(why), {_cause(one.why) for one in self._groups}
        self._in_a_row = {known: sets for known, sets in self._in_a_row.items() if known in causes}
        in_a_row = self._in_a_row.setdefault(cause, [])
        is_away = cause == AWAY or any(map(failed.isdisjoint, in_a_row))
        in_a_row.append(failed)
        del in_a_row[:-MOST_IN_A_ROW]
        tries = len(in_a_row) if cause == AWAY else len(in_a_row) - 1
        again_at = now + backoff_s(tries, why) if is_away else -inf
        self._groups = [
            replace(one, again_at=max(one.again_at, again_at)) if _cause(one.why) == cause else one
            for one in self._groups
        ]
        for one in self._groups:
            self._excuse(one.epochs, one.again_at)

    def passed(self, ranges: Collection[Range]) -> None:
        """Note a passed batch of these ranges.

        A partition that failed alone recovers only when all its failed offsets have passed.
        """
        self._reading = None
        ends = {one.partition: one.end for one in ranges}
        tried = [one for one in self._groups if not one.epochs.keys().isdisjoint(ends)]
        causes = {_cause(one.why) for one in tried}
        if causes:
            unfinished = {p for one in tried for p in one.epochs if ends.get(p, one.until) < one.until}
            now, left = self._clock.monotonic(), _without(self._groups, ends.keys() - unfinished)
            left = [one if one.epochs.keys().isdisjoint(ends) else _widened(one, now) for one in left]
            left = _joined(left) if AWAY in causes else left
            self._groups = [replace(one, again_at=now) if _cause(one.why) in causes else one for one in left]
            self._in_a_row = {cause: sets for cause, sets in self._in_a_row.items() if cause not in causes}

    def reading_failed(self, why: str) -> float:
        """Note that the whole topic is no longer read. Return the seconds until the next try."""
        now, before = self._clock.monotonic(), self._reading_now()
        tries, since = (1, now) if before is None else (before.tries + 1, before.since)
        again_at = now + backoff_s(tries, why)
        self._reading = _Reading(one_line(why), since, tries, again_at)
        self._excuse(self._holdings.held, again_at)
        return again_at - now

    def reading_began(self) -> None:
        if self._reading is not None and self._reading.began_at is None:
            self._reading = replace(self._reading, began_at=self._clock.monotonic())

    def _excuse(self, partitions: Iterable[int], until: float) -> None:
        """Do not count waiting partitions as stalled."""
        for partition in partitions:
            held = self._holdings.held[partition]
            held.progressed_at = max(held.progressed_at, until)

    # Views -----------------------------------------------------------------------------------------------------------

    def waiting(self) -> frozenset[int]:
        """Return the partitions that must not be read now."""
        now = self._clock.monotonic()
        return frozenset(p for one in self._current() if one.again_at > now for p in one.epochs)

    def due(self) -> list[frozenset[int]]:
        """Return the groups that are due for a retry, the least recently tried first."""
        now = self._clock.monotonic()
        due = sorted((one for one in self._current() if one.again_at <= now), key=lambda one: one.tried_at)
        return [frozenset(one.epochs) for one in due]

    def most(self, partition: int) -> int | None:
        """Return the maximum offsets for the next retry of a partition that failed alone; `None` for no limit."""
        return next((one.most for one in self._current() if one.until and partition in one.epochs), None)

    def told(self) -> tuple[Failure, ...]:
        """Return the failures for the status: first the failed reading, then the others by reason."""
        now, found, reading = self._clock.monotonic(), list[Failure](), self._reading_now()
        if reading is not None:
            next_s = max(0.0, reading.again_at - now)
            away = sink_is_away(reading.why)
            found.append(Failure((), reading.why, reading.tries, now - reading.since, next_s, away))
        # A single bad offset is reported alone: good partitions of the same failed batch must not appear in its report.
        by_cause: dict[tuple[str, bool], list[_Group]] = {}
        for group in self._current():
            by_cause.setdefault((group.why, group.alone > 0), []).append(group)
        for (why, _), groups in by_cause.items():
            partitions = tuple(sorted(p for one in groups for p in one.epochs))
            tries, since = max(one.tries for one in groups), min(one.since for one in groups)
            next_s = max(0.0, min(one.again_at for one in groups) - now)
            found.append(Failure(partitions, why, tries, now - since, next_s, sink_is_away(why)))
        return tuple(found)

    def sentences(self) -> tuple[str, ...]:
        """Return the failures as sentences. A sentence changes only with a retry."""
        return tuple(
            f"{self._sentence(one)} (failed {counted(one.tries, 'time')}; {'' if one.partitions else 'it is '}tried again)"
            for one in self.told()
        )

    def problems(self) -> tuple[Problem, ...]:
        """Return the failures for the log, without their tries. A failure lasts while any of its partitions fails."""
        return tuple(Problem(self._sentence(one), _matters(one)) for one in self.told())

    def _sentence(self, one: Failure) -> str:
        if not one.partitions:
            return f"the topic is not read: {one.why}"
        where = self._where(one.partitions[0]) if len(one.partitions) == 1 else ""
        return f"{named(one.partitions)} {agreed(len(one.partitions), 'waits', 'wait')}{where}: {one.why}"

    def _where(self, partition: int) -> str:
        """Return the failing offsets as far as known. A single offset is named once it has failed alone."""
        group = next(group for group in self._current() if partition in group.epochs)
        passed = self._holdings.held[partition].passed
        if group.alone:
            return f" at offset {passed}"
        return f" between offsets {passed} and {group.until}" if group.until else ", not yet tried by itself"

    def _reading_now(self) -> _Reading | None:
        """Return the failure of the reading; `None` if the restarted reading has lasted for `STEADY_S`."""
        one, now = self._reading, self._clock.monotonic()
        if one is not None and one.began_at is not None and now - one.began_at >= STEADY_S:
            self._reading = None
        return self._reading

    def _current(self) -> list[_Group]:
        """Return the failures whose partitions still have the same holding and are not paused."""
        held, paused = self._holdings.held, self._holdings.paused
        for group in self._groups:
            over = [p for p, epoch in group.epochs.items() if p in paused or not _is_held(held.get(p), epoch)]
            if over:
                self._groups = _without(self._groups, over)
        return self._groups


def _matters(one: Failure) -> frozenset[Hashable]:
    """Return the subject of the failure: its partitions, or the reading as a whole."""
    return frozenset(("processing", partition) for partition in one.partitions) or frozenset({"reading"})


def _is_held(held: OwnedPartition | None, epoch: int) -> bool:
    return held is not None and not held.closing and held.token.epoch == epoch


def _without(groups: Sequence[_Group], partitions: Collection[int]) -> list[_Group]:
    left = (replace(one, epochs={p: e for p, e in one.epochs.items() if p not in partitions}) for one in groups)
    return [one for one in left if one.epochs]


def _halves(group: _Group) -> list[_Group]:
    """Return the next groups to try: the two halves, or the single partition again."""
    each = list(group.epochs.items())
    middle = len(each) // 2
    return [replace(group, epochs=dict(half)) for half in (each[:middle], each[middle:]) if half]


def _widened(group: _Group, now: float) -> _Group:
    """Return the unfinished group after a passed retry. The next retry is larger, and comes after the other groups."""
    return replace(group, most=group.most * WIDER, tried_at=now)


def _joined(groups: Sequence[_Group]) -> list[_Group]:
    """Return the groups, with all `SinkUnavailable` groups merged into one group without a limit."""
    away = [one for one in groups if sink_is_away(one.why)]
    if not away:
        return list(groups)
    epochs = {p: epoch for one in away for p, epoch in one.epochs.items()}
    since, last = min(one.since for one in away), max(away, key=lambda one: one.tries)
    joined = replace(last, epochs=dict(sorted(epochs.items())), since=since, alone=0, until=0)
    return [joined, *(one for one in groups if one not in away)]
