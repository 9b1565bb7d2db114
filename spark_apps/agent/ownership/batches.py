"""The handed-out batch of one topic: commit, passage through the sink, and duration."""

from collections.abc import Collection, Iterable, Mapping
from math import inf

from coordinator_tasks.core.measure.buckets import BATCH_S, Buckets
from coordinator_tasks.core.model import Failure, Stall
from coordinator_tasks.core.ports import Clock
from spark_apps.agent.ownership.batch_times import BatchTimes
from spark_apps.agent.ownership.failing import Failing
from spark_apps.agent.ownership.grants import Grants
from spark_apps.agent.ownership.holdings import Holdings
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import Phase
from spark_apps.delivery import SinkEntry, SinkStep
from spark_apps.records.batches import Range


class Batches:
    """The batches of one topic; at most one is handed out and not yet covered (passed the sink).

    `outstanding`: number and ranges of the handed-out batch. `last`: the last batch, for the status. `seconds`:
    durations of batches. `offsets`: number of offsets that have passed the sink. `until_goal`: read only records that
    existed when each partition was taken up.
    """

    def __init__(self, holdings: Holdings, grants: Grants, failing: Failing, clock: Clock, fresh_s: float) -> None:
        self.outstanding: tuple[int, tuple[Range, ...]] | None = None
        self.until_goal = False
        self.last: dict[str, float] = {}
        self.seconds = Buckets(BATCH_S)
        self.offsets = 0
        self._holdings = holdings
        self._grants = grants
        self._failing = failing
        self._clock = clock
        self._fresh_s = fresh_s
        self._times = BatchTimes()
        self._is_overdue = False

    def readable(self) -> dict[int, OwnedPartition]:
        """Return the partitions for the next batch: ready, recently fetched, and not waiting after a failure."""
        now, waiting = self._clock.monotonic(), self._failing.waiting()
        ready = self._holdings.ready().items()
        return {p: h for p, h in ready if p not in waiting and h.is_sure(now, self._fresh_s)}

    def hand_out(self, batch: int, ranges: Collection[Range]) -> None:
        """Note a planned batch. The batch before is covered; the new batch's partitions now count as running."""
        now = self._clock.monotonic()
        for one in ranges:
            held = self._holdings.held[one.partition]
            held.hand_out(one.end, now, commit_first=self._holdings.terms.commit_first)
            if one.size:
                held.passes.hand_out(one.size, 0 if held.log.offset is None else held.log.offset - one.start, now)
        self.outstanding = (batch, tuple(ranges))
        offsets = sum(one.size for one in ranges)
        self._times.begin(offsets, now)
        self.last = {"batch": float(batch), "offsets": float(offsets), "planned_at": self._clock.now()}

    def cover(self, batch: int) -> None:
        """Note that all batches up to this number have passed the sink."""
        if self.outstanding is not None and self.outstanding[0] <= batch:
            _, ranges = self.outstanding
            self.outstanding = None
            now, stalls = self._clock.monotonic(), self._holdings.stalls
            kept_below, any_s, longest_s, slowest = stalls.kept_below(now), 0.0, 0.0, -1
            for one in ranges:
                held = self._holdings.held.get(one.partition)
                if held is not None and held.token.epoch == one.token_epoch:
                    held.cover(one.end, now)
                    stall_s = held.passes.passed(now) if one.size else 0.0
                    if stall_s > longest_s and not held.closing:
                        any_s = max(any_s, stall_s)
                        if one.token_epoch < kept_below:
                            longest_s, slowest = stall_s, one.partition
            if ranges:
                self._failing.passed(ranges)
            stalls.note(any_s, longest_s, slowest, now)
            self.offsets += sum(one.size for one in ranges)
            took_s = self._times.end(now)
            if took_s is not None:
                self.seconds.add(took_s)
            self.last["passed_at"] = self._clock.now()
        self._grants.apply()

    def stalls(self) -> dict[int, Stall]:
        """Return the stalls of kept partitions by epoch. The stall of the batch under way counts so far."""
        now, held = self._clock.monotonic(), self._holdings.held
        kept_below = self._holdings.stalls.kept_below(now)
        if self.outstanding is not None and kept_below < inf:
            kept = [
                held[p.partition] for p in self.outstanding[1] if p.partition in held and p.token_epoch < kept_below
            ]
            slowest = min((h for h in kept if not h.closing), key=lambda h: h.passes.stalled_at, default=None)
            if slowest is not None:
                stall_s = now - slowest.passes.stalled_at
                self._holdings.stalls.note(stall_s, stall_s, slowest.grant.partition, now)

        def unmoved(epoch: int) -> int:
            return sum(1 for h in held.values() if h.token.epoch < epoch and not h.closing)

        return self._holdings.stalls.told(unmoved, now)

    def unconfirmed(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return two sets of the handed-out batch's partitions: waiting for a commit, and no longer to be delivered."""
        held, found = self._holdings.held, self.outstanding
        if found is None or not self._holdings.terms.commit_first:
            return frozenset(), frozenset()
        is_rejected = self._holdings.is_rejected
        mine = {one for one in found[1] if one.partition in held and not is_rejected(one.partition, one.token_epoch)}
        waiting = {one.partition for one in mine if not held[one.partition].has_committed(one.end)}
        return frozenset(waiting), frozenset(one.partition for one in found[1] if one not in mine)

    def withdraw(self, partitions: Collection[int]) -> None:
        """Take partitions out of the handed-out batch. No record of these partitions has passed the sink."""
        if self.outstanding is not None:
            batch, ranges = self.outstanding
            self.outstanding = (batch, tuple(one for one in ranges if one.partition not in partitions))
        for partition in self._holdings.held.keys() & set(partitions):
            self._holdings.held[partition].discard()
        self._grants.apply()

    def fail(self, partitions: Collection[int], why: str) -> None:
        """Note that the sink or the pipeline has failed at these partitions' part of the batch. The part is read again.

        With at-most-once delivery the part was committed before, so it is not read again.
        """
        failed = (
            [one for one in self.outstanding[1] if one.partition in partitions] if self.outstanding is not None else []
        )
        self.withdraw(partitions)
        self._failing.fail(failed, why)
        held = [self._holdings.held[p] for p in self._holdings.held.keys() & set(partitions)]
        for one in held if self._holdings.terms.claims else ():
            if one.phase is Phase.READY and not one.closing:
                one.claim_again()
        if self.outstanding is not None and not self.outstanding[1]:
            self.drop()

    def refuse(self, refused: Mapping[int, SinkEntry]) -> None:
        """Note that the sink has left out these partitions of the batch: the sink holds another owner's token."""
        for partition in refused.keys() & self._holdings.held.keys():
            self._grants.refused(partition, refused[partition])
        self.withdraw(refused.keys())

    def drop(self) -> None:
        """Note that the query has ended, so its batch will not pass."""
        self.outstanding = None
        self._times.drop()
        for held in self._holdings.held.values():
            held.discard()

    def adds(self) -> dict[int, SinkStep]:
        """Return token, start and end of each partition in the batch under way."""
        held, ranges = self._holdings.held, self.outstanding[1] if self.outstanding is not None else ()
        return {p.partition: SinkStep(held[p.partition].token, p.start, p.end) for p in ranges if p.partition in held}

    def waits(self, partitions: Iterable[int]) -> None:
        """Do not count these partitions as stalled: their records wait for a larger batch."""
        for partition in partitions:
            self._holdings.held[partition].progressed_at = self._clock.monotonic()

    def end_of(self, held: OwnedPartition) -> int | None:
        """Return the offset up to which to read; `None` if unknown."""
        return held.log.goal if self.until_goal else held.log.offset

    @property
    def caught_up(self) -> bool:
        """Return whether all records present at take-up have passed, and no further partition is awaited."""
        paused = self._holdings.paused
        held = {p: h for p, h in self._holdings.held.items() if p not in paused}
        done = all(h.phase is Phase.READY and h.log.goal is not None and h.passed >= h.log.goal for h in held.values())
        return bool(self._holdings.held) and done and self.outstanding is None and not self._grants.awaited()

    def stalled(self, limit_s: float) -> tuple[int, ...]:
        """Return the partitions with unread records that have made no progress for `limit_s`."""
        now = self._clock.monotonic()
        ready = self._holdings.ready().items()
        late = {p: h for p, h in ready if now - h.progressed_at > limit_s}
        return tuple(sorted(p for p, h in late.items() if (self.end_of(h) or 0) > h.passed))

    def overdue(self, limit_s: float) -> str:
        """Return why the batch under way is stuck (longer than `limit_s` and far longer than usual); empty if it is
        not.

        `stuck` then reports the batch as a failure of its partitions.
        """
        now = self._clock.monotonic()
        self._is_overdue = self._times.exceeds(now, limit_s)
        return self._times.told(now) if self._is_overdue else ""

    def stuck(self) -> tuple[Failure, ...]:
        """Return the stuck batch as a failure of its partitions; empty if no batch is stuck."""
        if not self._is_overdue or self.outstanding is None:
            return ()
        now = self._clock.monotonic()
        partitions = tuple(sorted({batch_range.partition for batch_range in self.outstanding[1]}))
        return (Failure(partitions, self._times.told(now), for_s=self._times.age_s(now)),)

    def kept(self, limit_s: float, most_s: float) -> str:
        """Return a sentence about revoked partitions that cannot stop because their batch does not end; empty if none.

        The batch has taken longer than `limit_s` and far longer than usual, or longer than `most_s`.
        """
        now = self._clock.monotonic()
        mine = sorted(p for p, h in self._holdings.held.items() if h.closing and h.pending)
        if not mine or not self._times.exceeds(now, limit_s, most_s):
            return ""
        return f"partitions {mine} were taken away and cannot stop: {self._times.told(now)}"
