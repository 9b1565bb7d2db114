"""The releases that a consumer owes for one topic: waiting for an offset from Kafka, waiting for the write, or written.

If the partition ran here, its release follows its last commit. Otherwise the release has the offset committed in Kafka.
A consumer does not release a partition that was fenced or that a newer owner took.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from coordinator_tasks.core.model import Ago, Handoff, Release, Token
from coordinator_tasks.core.ports import Clock
from coordinator_tasks.core.protocol.holding import owes_release
from spark_apps.agent.ownership.holdings import Holdings, OwedRelease
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.passes import Passes
from spark_apps.agent.settings import Identity, Timing


class Releasing:
    """`outbox`: partition → release to write. `written`: partition → epoch of the last written release."""

    def __init__(self, identity: Identity, holdings: Holdings, clock: Clock, timing: Timing) -> None:
        self.outbox: dict[int, Release] = {}
        self.written: dict[int, int] = {}
        self._identity = identity
        self._holdings = holdings
        self._clock = clock
        self._timing = timing
        self._waits_until = -inf
        self._passes: dict[int, Passes] = {}  # of partitions that ran here and whose release is in the outbox

    @property
    def posted(self) -> Mapping[int, Release]:
        """Return the releases to write now. A release waits a moment for others, because a joint write costs less."""
        committing = any(h.closing and not (h.pending or h.parting or h.fenced) for h in self._holdings.held.values())
        return {} if committing and self._clock.monotonic() < self._waits_until else self.outbox

    def timed(self) -> dict[int, Release]:
        """Return the releases to write now, with times for measuring the standstill."""
        now = self._clock.monotonic()
        return {p: replace(release, ago=self._ago(p, release.epoch, now)) for p, release in self.posted.items()}

    def _ago(self, partition: int, epoch: int, now: float) -> Ago:
        passes, read_at = self._passes.get(partition, Passes()), self._holdings.stalls.read_at(epoch)
        read_s, passed_s, empty_s = (_before(at, now) for at in (read_at, passes.last_at, passes.empty_at))
        return Ago(read_s, passed_s, empty_s, passes.usual(now))

    def note(self, partition: int, epoch: int) -> None:
        """Note that our release or a newer release is on the partition's node."""
        self.written[partition] = epoch
        if partition in self.outbox and self.outbox[partition].epoch == epoch:
            del self.outbox[partition]
            self._passes.pop(partition, None)

    def is_written(self, partition: int, entry: Handoff) -> bool:
        return self.written.get(partition) == entry.epoch

    def owed(self, isolated: bool) -> dict[int, Handoff]:
        mine = self._identity
        owed = owes_release(self._holdings.accepted, mine.consumer, mine.incarnation, isolated)
        return {p: entry for p, entry in owed.items() if not self._fenced_since(p, entry)}

    def _fenced_since(self, partition: int, entry: Handoff) -> bool:
        """Return whether an owner newer than the entry took the partition, so that its release is not ours."""
        rejected = self._holdings.rejected.get(partition)
        return rejected is not None and rejected.by is not None and entry.epoch <= rejected.by.epoch

    def prune(self, owed: Mapping[int, Handoff]) -> None:
        """Drop the releases, and the requests for offsets, whose entries are no longer owed."""
        self.outbox = {p: r for p, r in self.outbox.items() if p in owed and owed[p].epoch == r.epoch}
        self._passes = {p: passes for p, passes in self._passes.items() if p in self.outbox}
        asked = self._holdings.owed_releases
        for partition in [p for p, one in asked.items() if owed.get(p) != one.entry]:
            del asked[partition]

    def closed(self, held: OwnedPartition, entry: Handoff) -> None:
        """Release a closed partition, unless the topic was recreated since."""
        same = held.topic_id == self._holdings.topic_id
        if held.commits.sent and not held.fenced and same:
            self._post(held.grant.partition, entry, held.passed, held.token)
            self._passes[held.grant.partition] = held.passes

    def owe(self, partitions: Iterable[int], owed: Mapping[int, Handoff]) -> None:
        """Post a release for each partition that does not run here, or ask Kafka for the committed offset first."""
        answered, self._holdings.answered = self._holdings.answered, {}
        for partition in partitions:
            entry, found = owed[partition], answered.get(partition)
            if partition in self.outbox or partition in self._holdings.owed_releases:
                continue
            if found is not None and found[0] == entry:
                self._post(partition, entry, found[1], found[2])
            else:
                self._holdings.owed_releases[partition] = OwedRelease(entry, self._holdings.number)

    def _post(self, partition: int, entry: Handoff, offset: int, token: Token) -> None:
        mine, generation = self._identity, self._holdings.generation
        if not self.outbox:
            self._waits_until = self._clock.monotonic() + self._timing.together_s
        self.outbox[partition] = Release(entry.epoch, mine.consumer, mine.incarnation, offset, generation, token)


def _before(at: float | None, now: float) -> float | None:
    """Return the seconds from `at` to `now`, rounded to the tenth of a millisecond; `None` if `at` is unknown."""
    return None if at is None or at == -inf else round(max(0.0, now - at), 4)
