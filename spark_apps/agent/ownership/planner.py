"""Plans the next batch. A plan never delays a hand-off. No threads.

- A batch starts when the last batch has passed, but at most every `batch_interval_s`. If a newly started partition has
  records, a batch starts at once. A batch reads up to the present end of the log. A batch that takes all available
  records first waits up to `ENDS_WAIT_S` for a newer answer about the log's end.
- With `min_offsets`, a batch waits for this many offsets, but at most until `max_delay_s` after the last batch. Starts
  and stops do not wait for it, and the waiting partitions do not count as stalled.
- While a partition comes to this consumer (for `handoff_s` at most), and in the partition's first batch, a batch has at
  most the offsets of `handoff_batch_s` at the recent throughput. Spark runs one batch at a time, so a long batch would
  delay the new partition.
- A closing partition is left out of further batches. It is closed when its last batch has passed the sink; the `start`
  of the next `offer` shows this.
- The same `start` gives the same batch until that batch has passed.
- A new batch needs a recent fetch of the committed entries (`Batches.readable`).
- With at-most-once delivery, a batch is offered when its ends are committed.
- Failed partitions have separate batches (`failing`).
- A partition without a record for the topic's `idle_s` gets an empty range, so that its event time advances.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.ports import Clock
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.settings import Pacing
from spark_apps.records.batches import SMALL_RECORDS, BatchOffset, Range, admit, piece_size
from spark_apps.records.options import SourceOptions

ENDS_WAIT_S = 0.2
"""Maximum seconds that a batch waits for the log's ends. A request takes some milliseconds, more on a busy host.

Without this wait, a record that arrived during the last batch would miss the next batch.
"""


class BatchPlanner:
    """Plans the batches of one topic from the partitions that the consumer may run."""

    def __init__(self, ownership: TopicOwnership, clock: Clock, pacing: Pacing | None = None) -> None:
        self.ownership = ownership
        self.pacing = pacing or Pacing()
        self._clock = clock
        self._last: BatchOffset | None = None
        self._offered: BatchOffset | None = None
        self._next_at = 0.0
        self._planned_at = 0.0
        self._passed_at = -inf
        self._per_second = 0.0
        self._expecting_since: float | None = None
        self._was_alone = False
        self._latest_at = clock.monotonic() + self.pacing.max_delay_s

    def configure(self, options: SourceOptions) -> None:
        """Apply the options of the source. An absent option changes nothing."""
        most, least = options.max_offsets_per_trigger, options.min_offsets_per_trigger
        self.pacing = replace(
            self.pacing,
            max_offsets=self.pacing.max_offsets if most is None else most,
            min_offsets=self.pacing.min_offsets if least is None else least,
            max_delay_s=options.max_trigger_delay_s,
            min_partitions=options.min_partitions,
            max_records_per_task=options.max_records_per_partition,
        )
        self._latest_at = self._clock.monotonic() + self.pacing.max_delay_s

    def initial(self) -> BatchOffset:
        return BatchOffset(self.ownership.topic)

    def offer(self, start: BatchOffset) -> BatchOffset | None:
        """Return the batch after the passed batch `start`; `None` if there is none now. Raises `Refused`."""
        if start.batch > (self._last.batch if self._last is not None else 0):
            raise Refused(
                f"the checkpoint of topic '{self.ownership.topic}' is at batch {start.batch}, which this process did not "
                "plan; give every start of the application a checkpoint folder of its own"
            )
        self._cover(start.batch)
        if self._last is not None and self.ownership.batches.outstanding is not None:
            return self._confirmed(self._last)
        available, alone = self._chosen(self._available())
        started, idle = self._started(available), self._idle()
        due = bool(available) and (self._due(available, at_once=alone) or started)
        if not (due or idle):
            self.ownership.requests.want_ends()
            return None
        pacing, now, most = self.pacing, self._clock.monotonic(), self._limit(soon=self._expecting() or started)
        if due and not started and self._awaits_ends(available, most):
            self.ownership.requests.want_ends()
            return None
        ranges = [*(admit(available, most) if due else ()), *idle]
        piece = piece_size(ranges, pacing.min_partitions, pacing.max_records_per_task)
        batch = start.following(ranges, pacing.parallelism, piece)
        self.ownership.batches.hand_out(batch.batch, tuple(batch.ranges.values()))
        self._last, self._planned_at, self._next_at = batch, now, now + pacing.batch_interval_s
        if due:
            self._was_alone, self._latest_at = alone, now + pacing.max_delay_s
        return self._confirmed(batch)

    def _cover(self, batch: int) -> None:
        under_way = self.ownership.batches.outstanding
        self.ownership.batches.cover(batch)
        took_s = self._clock.monotonic() - self._planned_at
        if under_way is not None and self.ownership.batches.outstanding is None and took_s > 0:
            offsets = sum(one.size for one in under_way[1])
            self._per_second = offsets / took_s if offsets else self._per_second
            self._passed_at = self._clock.monotonic()

    def _expecting(self) -> bool:
        """Return whether a partition is coming to this consumer, for at most `handoff_s`."""
        now = self._clock.monotonic()
        if not self.ownership.holdings.expecting:
            self._expecting_since = None
        elif self._expecting_since is None:
            self._expecting_since = now
        return self._expecting_since is not None and now - self._expecting_since < self.pacing.handoff_s

    def _limit(self, *, soon: bool) -> int | None:
        """Return the maximum offsets of the next batch. `soon`: the batch has to end soon."""
        most = self.pacing.max_offsets
        if not soon:
            return most
        # A batch has a fixed cost too, so the limit grows until a batch takes as long as allowed.
        quick = max(SMALL_RECORDS, int(self._per_second * self.pacing.handoff_batch_s))
        return quick if most is None else min(most, quick)

    def _confirmed(self, batch: BatchOffset) -> BatchOffset | None:
        """Return the handed-out batch, without lost partitions, when it may be delivered; `None` before.

        With at-most-once delivery, a batch may be delivered after its commits.
        """
        waiting, lost = self.ownership.batches.unconfirmed()
        if lost and batch is not self._offered:
            batch = self._last = replace(batch, ranges={p: one for p, one in batch.ranges.items() if p not in lost})
            self.ownership.batches.withdraw(lost)
        if not batch.ranges:
            self.ownership.batches.cover(batch.batch)
            return None
        if waiting and batch is not self._offered:
            return None
        self._offered = batch
        return batch

    def _due(self, available: list[Range], *, at_once: bool) -> bool:
        now = self._clock.monotonic()
        if now < self._next_at:
            return False
        enough = (
            at_once
            or self.ownership.batches.until_goal
            or sum(one.size for one in available) >= self.pacing.min_offsets
        )
        if enough or now >= self._latest_at:
            return True
        self.ownership.batches.waits(one.partition for one in available)
        return False

    def _awaits_ends(self, available: Sequence[Range], most: int | None) -> bool:
        """Return whether to wait for the log's ends: they were read before the last pass, and may be further now."""
        if self._clock.monotonic() >= self._ends_until or self.ownership.requests.ends_at >= self._ends_until:
            return False
        if most is not None and sum(one.size for one in available) >= most:
            return False
        held = self.ownership.holdings.held
        return any(held[one.partition].log.asked_at < self._passed_at for one in available)

    @property
    def _ends_until(self) -> float:
        return self._passed_at + ENDS_WAIT_S

    @property
    def next_at(self) -> float:
        """Return until when only a started partition or a look at the log leads to a batch (monotonic seconds)."""
        now = self._clock.monotonic()
        return self._next_at if now < self._next_at else self._ends_until

    def report(self) -> BatchOffset | None:
        """Return for each partition the range from the last passed offset to the log's end."""
        reach = self.ownership.holdings.reach()
        if not reach:
            return None
        batch = self._last.batch if self._last is not None else 0
        ranges = {p: Range(p, passed, end, 0) for p, (passed, end) in sorted(reach.items())}
        return BatchOffset(self.ownership.topic, batch, 1, ranges)

    def _available(self) -> list[Range]:
        ready = sorted(self.ownership.batches.readable().items())
        ends = {p: self.ownership.batches.end_of(h) for p, h in ready}
        return [
            Range(p, h.position, end, h.token.epoch)
            for p, h in ready
            if (end := ends[p]) is not None and end > h.position
        ]

    def _idle(self) -> list[Range]:
        idle_s, now, batches = self.ownership.holdings.terms.idle_s, self._clock.monotonic(), self.ownership.batches
        if idle_s == inf or batches.until_goal:
            return []
        idle = [(p, h) for p, h in batches.readable().items() if h.is_idle(idle_s, now)]
        return [Range(p, h.position, h.position, h.token.epoch) for p, h in sorted(idle)]

    def _chosen(self, available: list[Range]) -> tuple[list[Range], bool]:
        """Return the ranges of the next batch, and whether the batch is a retry.

        Retries have separate batches, which take turns with other batches.
        """
        groups = self.ownership.failing.due()
        failed = next((g for g in groups if any(one.partition in g for one in available)), None)
        if failed is None:
            return available, False
        others = [one for one in available if not any(one.partition in g for g in groups)]
        if others and self._was_alone:
            return others, False
        return [self._narrowed(one) for one in available if one.partition in failed], True

    def _narrowed(self, one: Range) -> Range:
        most = self.ownership.failing.most(one.partition)
        return one if most is None else replace(one, end=min(one.end, one.start + most))

    def _started(self, available: list[Range]) -> bool:
        ready = self.ownership.holdings.ready()
        return any(not ready[one.partition].handed for one in available)
