"""The batch of one topic that is handed out: its commit, its way through the sink, and its time."""

from collections.abc import Collection, Iterable, Mapping

from coordinator_tasks.core.ports import Clock
from spark_apps.agent.ownership.batch_times import BatchTimes
from spark_apps.agent.ownership.grants import Grants
from spark_apps.agent.ownership.holdings import Holdings
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import Phase
from spark_apps.delivery import Standing, Step
from spark_apps.records.batches import Range


class Batches:
    """`outstanding`: the number and the ranges of the batch that is handed out and not covered; there is one at most.

    `last`: what the status says of the last batch.
    """

    def __init__(self, holdings: Holdings, grants: Grants, clock: Clock, fresh_s: float) -> None:
        self.outstanding: tuple[int, tuple[Range, ...]] | None = None
        self.last: dict[str, float] = {}
        self._holdings = holdings
        self._grants = grants
        self._clock = clock
        self._fresh_s = fresh_s
        self._times = BatchTimes()

    def readable(self) -> dict[int, OwnedPartition]:
        """The partitions that may be part of the next batch: those that are ready and freshly fetched."""
        now = self._clock.monotonic()
        return {p: h for p, h in self._holdings.ready().items() if h.is_sure(now, self._fresh_s)}

    def hand_out(self, batch: int, ranges: Collection[Range]) -> None:
        """A batch is planned, the one before it is covered: from now on its partitions count as running."""
        for one in ranges:
            self._holdings.held[one.partition].hand_out(one.end, self._holdings.terms.commit_first)
        self.outstanding = (batch, tuple(ranges))
        offsets = sum(one.size for one in ranges)
        self._times.begin(offsets, self._clock.monotonic())
        self.last = {"batch": float(batch), "offsets": float(offsets), "planned_at": self._clock.now()}

    def cover(self, batch: int) -> None:
        """Everything up to this batch has passed the sink."""
        if self.outstanding is not None and self.outstanding[0] <= batch:
            _, ranges = self.outstanding
            self.outstanding = None
            for one in ranges:
                held = self._holdings.held.get(one.partition)
                if held is not None and held.token.epoch == one.token_epoch:
                    held.cover(one.end, self._clock.monotonic())
            self._times.end(self._clock.monotonic())
            self.last["passed_at"] = self._clock.now()
        self._grants.apply()

    def unconfirmed(self) -> tuple[frozenset[int], frozenset[int]]:
        """Of the batch handed out: the partitions that wait for their commit, and those that must not be delivered."""
        held, found = self._holdings.held, self.outstanding
        if found is None or not self._holdings.terms.commit_first:
            return frozenset(), frozenset()
        is_rejected = self._holdings.is_rejected
        mine = {one for one in found[1] if one.partition in held and not is_rejected(one.partition, one.token_epoch)}
        waiting = {one.partition for one in mine if not held[one.partition].has_committed(one.end)}
        return frozenset(waiting), frozenset(one.partition for one in found[1] if one not in mine)

    def withdraw(self, partitions: Collection[int]) -> None:
        """These are no longer part of the batch handed out: nothing of it has passed the sink."""
        if self.outstanding is not None:
            batch, ranges = self.outstanding
            self.outstanding = (batch, tuple(one for one in ranges if one.partition not in partitions))
        for partition in self._holdings.held.keys() & set(partitions):
            self._holdings.held[partition].discard()
        self._grants.apply()

    def refuse(self, refused: Mapping[int, Standing]) -> None:
        """The sink has left out these partitions of the batch: it has another owner's token for them."""
        for partition in refused.keys() & self._holdings.held.keys():
            self._grants.refused(partition, refused[partition])
        self.withdraw(refused.keys())

    def drop(self) -> None:
        """The query is over: its batch will not pass."""
        self.outstanding = None
        self._times.drop()
        for held in self._holdings.held.values():
            held.discard()

    def adds(self) -> dict[int, Step]:
        """What the batch under way adds to each partition."""
        held, ranges = self._holdings.held, self.outstanding[1] if self.outstanding is not None else ()
        return {p.partition: Step(held[p.partition].token, p.start, p.end) for p in ranges if p.partition in held}

    def waits(self, partitions: Iterable[int]) -> None:
        """Records of these partitions wait for a larger batch: the partitions are not stalled."""
        for partition in partitions:
            self._holdings.held[partition].progressed_at = self._clock.monotonic()

    @property
    def caught_up(self) -> bool:
        """All records that were there when each partition was taken up have passed, and nothing more is awaited."""
        paused = self._holdings.paused
        held = {p: h for p, h in self._holdings.held.items() if p not in paused}
        done = all(h.phase is Phase.READY and h.log.goal is not None and h.passed >= h.log.goal for h in held.values())
        return bool(self._holdings.held) and done and self.outstanding is None and not self._grants.awaited()

    def stalled(self, limit_s: float) -> tuple[int, ...]:
        """Partitions with lag that have made no progress for `limit_s`."""
        now = self._clock.monotonic()
        ready = self._holdings.ready().items()
        return tuple(sorted(p for p, h in ready if (h.lag or 0) > 0 and now - h.progressed_at > limit_s))

    def overdue(self, limit_s: float) -> str:
        """Why the batch under way is taken for stuck: it takes longer than `limit_s` and far longer than is usual."""
        now = self._clock.monotonic()
        return self._times.told(now) if self._times.exceeds(now, limit_s) else ""

    def kept(self, limit_s: float, most_s: float) -> str:
        """Which partitions cannot be given away because their batch does not end; empty = none.

        It has taken longer than `limit_s` and far longer than is usual, or longer than `most_s`.
        """
        now = self._clock.monotonic()
        mine = sorted(p for p, h in self._holdings.held.items() if h.closing and h.pending)
        if not mine or not self._times.exceeds(now, limit_s, most_s):
            return ""
        return f"partitions {mine} were taken away and cannot stop: {self._times.told(now)}"
