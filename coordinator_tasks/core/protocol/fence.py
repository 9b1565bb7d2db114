"""The fence in Kafka's committed metadata: who may go on, and where a new owner starts.

Kafka does not fence the commits of `assign()` consumers, and comparing and committing are two requests. So every owner
looks at the committed entry at least once a second and judges it here: a newer token means stop at once, an older one
or none means that somebody overwrote it: report it and write our own again.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from coordinator_tasks.core.model import Committed, Release, Seek, StartRule, Token

FAR = 2**32
"""Epochs: at a hundred writes a second a topic takes sixteen months for so many."""


def is_far_ahead(epoch: int, known: int) -> bool:
    """Whether an epoch that somebody says or has committed is one that the topic cannot have reached."""
    return epoch > known + FAR


def credible(committed: Committed, known: int) -> Committed:
    """The committed entry, without its token if that is of an epoch that the topic cannot have reached: it fences nobody."""
    if committed.token is None or not is_far_ahead(committed.token.epoch, known):
        return committed
    return replace(committed, token=None)


class Judgement(StrEnum):
    """What an owner does after a look at the committed entry of its partition."""

    OURS = "ours"
    REWRITE = "rewrite"  # an older token, none, or nothing committed: report and commit our own again
    FENCED = "fenced"  # a newer token: somebody else owns it now, stop at once


def judge(own: Token, committed: Committed | None, topic_id: str, consumer: str) -> Judgement:
    """Compare our token with the committed entry. An entry of another topic id is no owner's: it is overwritten.

    Two generations acquire at one epoch only if ZooKeeper was lost with everybody who knew of it, after the only commit
    under it was written over: of two such owners the one of the smaller incarnation stops, of two equal ones both. Only
    our own entry of a holding that was adopted by a new generation is of the former one; it is written again.
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
    """Where a new owner begins. `source` says in a word where the offset comes from, for status and reports."""

    offset: int
    source: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset that is still there and the one after the last, of one partition."""

    beginning: int
    end: int


class NoStart(Exception):
    """There is no committed offset and the start rule is `none`; the text is what the partition reports."""


def sought(committed: Committed | None, release: Release | None, topic_id: str, seek: Seek | None) -> Seek | None:
    """The seek that decides about a start: one that nobody has acquired the partition after.

    Whoever acquires commits its start under its token before it reads: a token of the seek's epoch or a later one, in the
    committed entry or the release, says that the seek has been done.
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
    """The position at acquisition: that of the newest token among the committed entry and the release.

    A release counts only with its own token: a committed entry with a newer one is at least as far, and one with the
    same token unless an earlier commit of that owner came late and overwrote its last. A commit of another topic id is
    ignored. A partition that appeared after the topic was first managed starts at its
    beginning whatever the rule says, so that nothing is lost. Raises `NoStart`.
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
            f"partition {partition} has no committed offset and startingOffsets is none; commit one for the group, "
            "or set the topic's start rule to earliest or latest"
        )
    return Start(bounds.end if rule is StartRule.LATEST else bounds.beginning, rule.value)


def _at_least_as_far(committed: Committed | None, release: Release) -> bool:
    if committed is None or committed.token is None:
        return False
    return committed.token > release.token or (committed.token == release.token and committed.offset >= release.offset)
