"""The fence in Kafka's committed metadata: who may continue, and where a new owner starts.

Kafka does not fence the commits of `assign()` consumers, and comparing and committing are two requests. So every owner
reads the committed entry at least once a second, and judges the entry here. If the entry has a newer token, the owner
stops at once. If the entry has an older token or none, another client has overwritten our commit: the owner reports
this and commits our entry again.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from coordinator_tasks.core.model import Committed, Release, Seek, StartRule, Token

FAR = 2**32
"""A number of epochs. A topic with a hundred writes a second reaches it after sixteen months."""


def is_far_ahead(epoch: int, known: int) -> bool:
    """Return whether the epoch of an answer or a commit is too large for the topic to have reached."""
    return epoch > known + FAR


def credible(committed: Committed, known: int) -> Committed:
    """Return the committed entry, without the token if the topic cannot have reached the token's epoch.

    An entry without a token fences no consumer.
    """
    if committed.token is None or not is_far_ahead(committed.token.epoch, known):
        return committed
    return replace(committed, token=None)


class Judgement(StrEnum):
    """Meaning of a partition's committed entry for its owner."""

    OURS = "ours"
    REWRITE = "rewrite"  # an older token, no token, or nothing committed: report and commit our entry again
    FENCED = "fenced"  # a newer token: another consumer owns the partition, stop at once


def judge(own: Token, committed: Committed | None, topic_id: str, consumer: str) -> Judgement:
    """Compare our token with the committed entry. An entry of another topic id has no owner and is overwritten.

    Two generations can acquire a partition at the same epoch: ZooKeeper is lost, the only commit under that epoch is
    overwritten, and all consumers that knew the epoch are lost. Then the owner with the smaller incarnation stops; with
    equal incarnations both stop. Our own entry of the former generation is committed again, because the new generation
    has adopted the holding.
    """
    if committed is None or committed.token is None or committed.topic_id != topic_id:
        return Judgement.REWRITE
    found = committed.token
    if found == own and found.generation == own.generation:
        return Judgement.OURS
    adopted = found == own and committed.owner == consumer
    return Judgement.FENCED if found >= own and not adopted else Judgement.REWRITE


@dataclass(frozen=True, slots=True)
class Start:
    """Where a new owner begins. `source`: origin of the offset, for status and reports."""

    offset: int
    source: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first available offset of a partition, and the offset after the last."""

    beginning: int
    end: int


class NoStart(Exception):
    """There is no committed offset, and the start rule is `none`. The consumer reports the text for the partition."""


def sought(committed: Committed | None, release: Release | None, topic_id: str, seek: Seek | None) -> Seek | None:
    """Return the seek unless it is done. The start of a partition then follows the seek.

    An owner commits the start under its token before reading. So a token of the seek's epoch or later, in the committed
    entry or the release, proves that the seek is done.
    """
    known = committed if committed is not None and committed.topic_id in ("", topic_id) else None
    tokens = [one.token for one in (known, release) if one is not None and one.token is not None]
    return seek if seek is not None and all(token.epoch < seek.epoch for token in tokens) else None


def start_position(
    partition: int,
    committed: Committed | None,
    release: Release | None,
    topic_id: str,
    rule: StartRule,
    initial_partitions: int,
    bounds: Bounds,
) -> Start:
    """Return a new owner's start: of the committed entry and the release, the position with the newer token.

    - A committed entry with a newer token is at least as far as the release. With equal tokens the larger offset
      counts, because an earlier commit of that owner may have arrived late and overwritten its last commit.
    - A commit of another topic id is ignored.
    - A partition that appeared after the topic was first managed starts at its beginning under any rule, so that
      nothing is lost.

    Raises `NoStart`.
    """
    known = committed if committed is not None and committed.topic_id in ("", topic_id) else None
    if release is not None and not _at_least_as_far(known, release):
        return Start(release.offset, "release")
    if known is not None:
        return Start(known.offset, "committed")
    if partition >= initial_partitions:
        return Start(bounds.beginning, "new partition")
    if rule is StartRule.NONE:
        raise NoStart(
            "no committed offset, and the topic's start rule is none; choose its first offset: "
            f"reset-offsets TOPIC --partition {partition} --to earliest --why WHY --execute"
        )
    return Start(bounds.end if rule is StartRule.LATEST else bounds.beginning, rule.value)


def _at_least_as_far(committed: Committed | None, release: Release) -> bool:
    if committed is None or committed.token is None:
        return False
    return committed.token > release.token or (committed.token == release.token and committed.offset >= release.offset)
