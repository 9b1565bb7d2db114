"""Kafka's entries as seen by each owner in its looks, and the owner's reactions.

- Running partitions have been looked at within a second before any other request, except the last commit of a closing
  partition. No commit is sent, and no record handed out, on a look older than two seconds.
- A newer token in the entry: the holding is over.
- An older token, no token, or an earlier commit of its own: the owner's next request rewrites the entry, so this happens
  only once. The owner does not let go of the partition before.
- Nothing else ends a holding: a newer token or another topic id in a fetch, or the broker's refusal of a commit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Committed, Token
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.ownership.work import Commit, CommitDone, Failed, FetchedOffsets, OffsetFetch, Result, Work
from tests.simulation.consumer import Consumer

LOOK_S = 1.0
FRESH_S = 2.0


@dataclass
class Asked:
    """The request under way, with the holdings and ready partitions at its time."""

    work: Work
    at: float
    held: dict[int, OwnedPartition]
    ready: frozenset[int]


@dataclass
class Owner:
    """One topic of a process: last look at each holding, entries to rewrite, and the last ended holding."""

    asked: Asked | None = None
    looked: dict[int, tuple[OwnedPartition, float]] = field(default_factory=dict)
    overwritten: dict[int, OwnedPartition] = field(default_factory=dict)
    over: dict[int, Token] = field(default_factory=dict)


@dataclass
class Looks:
    """`expect` takes a rule, whether it holds, and a sentence."""

    expect: Callable[[str, bool, str], None]
    _owners: dict[tuple[str, str], Owner] = field(default_factory=dict)

    def on_request(self, one: Consumer, topic: str, work: Work) -> None:
        owner = self._owners.setdefault((one.name, topic), Owner())
        held, now = _held(one, topic), one.kernel.now
        ready = frozenset(p for p, h in held.items() if h.phase is Phase.READY)
        owner.asked = Asked(work, now, held, ready)
        if isinstance(work, OffsetFetch):
            return
        sent = work.offsets.keys() if isinstance(work, Commit) else frozenset()
        urgent = any(held[p].closing for p in sent if p in held)
        for p, h in held.items():
            known, at = owner.looked.get(p, (None, 0.0))
            age_s = now - at if known is h else now
            if p in ready and not (urgent or h.closing or h.fenced):
                self.expect("looks", age_s <= LOOK_S, f"{one.name} last looked at {topic}-{p} {age_s:g} s ago")
            if p in sent:
                self.expect("looks", age_s <= FRESH_S, f"{one.name} commits {topic}-{p} on a look of {age_s:g} s ago")
            if owner.overwritten.get(p) is h and not h.fenced:
                self.expect(
                    "looks", p in sent, f"{one.name} has seen its entry of {topic}-{p} overwritten and leaves it"
                )

    def on_offer(self, one: Consumer, topic: str, partitions: Iterable[int]) -> None:
        """Check that the process hands out records of these partitions."""
        owner, held, now = self._owners[one.name, topic], _held(one, topic), one.kernel.now
        for p in partitions:
            known, at = owner.looked.get(p, (None, 0.0))
            age_s = now - at if known is held.get(p) else now
            told = f"{one.name} hands out records of {topic}-{p} on a look of {age_s:g} s ago"
            self.expect("looks", age_s <= FRESH_S, told)

    def on_answer(self, one: Consumer, topic: str, result: Result) -> None:
        """Take the answer to the process's request."""
        owner = self._owners[one.name, topic]
        asked, held = owner.asked, _held(one, topic)
        assert asked is not None
        if isinstance(asked.work, Commit) and isinstance(result, CommitDone):
            for p in asked.work.offsets:
                owner.overwritten.pop(p, None)
        over = _over(asked, result)
        owner.over.update({p: asked.held[p].token for p in over})
        if not isinstance(asked.work, OffsetFetch) or not isinstance(result, FetchedOffsets):
            return
        for p in asked.work.partitions:
            h, entry = held.get(p), result.entries.get(p)
            if h is None or asked.held.get(p) is not h:
                continue
            owner.looked[p] = (h, asked.at)
            if p in over:
                self.expect("looks", h.fenced, f"{one.name} has seen a newer owner of {topic}-{p} and goes on")
            elif p in asked.ready and not _is_own(entry, h):
                owner.overwritten[p] = h

    def is_over(self, one: Consumer, topic: str, partition: int, token: Token) -> bool:
        """Return whether Kafka has shown the process the end of the holding under this token."""
        owner = self._owners.get((one.name, topic))
        return owner is not None and owner.over.get(partition) == token

    def on_stopped(self, one: Consumer, topic: str, partition: int) -> None:
        """Check a partition that the process no longer holds."""
        owner = self._owners.get((one.name, topic))
        h = owner.overwritten.pop(partition, None) if owner is not None else None
        written = h is None or h.fenced
        self.expect("looks", written, f"{one.name} lets go of {topic}-{partition}, whose entry it has seen overwritten")


def _held(one: Consumer, topic: str) -> dict[int, OwnedPartition]:
    ownership = one.ownership(topic)
    return dict(ownership.holdings.held) if ownership is not None else {}


def _over(asked: Asked, result: Result) -> frozenset[int]:
    """Return the partitions with a holding ended by this answer."""
    if isinstance(asked.work, Commit) and isinstance(result, Failed):
        return frozenset(result.fenced) & asked.held.keys()
    if not isinstance(asked.work, OffsetFetch) or not isinstance(result, FetchedOffsets):
        return frozenset()
    known = {p: asked.held[p] for p in asked.work.partitions if p in asked.held}
    return frozenset(p for p, h in known.items() if _ends(h, result.entries.get(p), result.topic_id))


def _ends(held: OwnedPartition, entry: Committed | None, topic_id: str | None) -> bool:
    another = topic_id is not None and topic_id != held.topic_id
    return another or (entry is not None and entry.topic_id == held.topic_id and _is_newer(entry.token, held.token))


def _is_newer(token: Token | None, own: Token) -> bool:
    return token is not None and token > own


def _is_own(entry: Committed | None, held: OwnedPartition) -> bool:
    same = entry is not None and entry.topic_id == held.topic_id and entry.token == held.token
    return same and entry is not None and entry.offset >= (held.commits.acknowledged or 0)
