"""The consumer's rules: which partitions to run, and which to give up, under the accepted topic node.

Rules (numbers as in the hand-off of the design):
- A consumer acts on one whole read of the topic node, the *accepted* node. `accepts` decides whether a new read
  replaces the accepted node. A vanished or unreadable node replaces nothing, so the consumer keeps its partitions. Only
  `removed` means stop everything. While the stored node is not the accepted node, no further partition starts.
- 3: The consumer starts the partitions that `assignments` gives to its own incarnation. The consumer stops a partition
  without a holding, unless the consumer is the taker of a hand-off with a release.
- 4: Only the giver of a hand-off releases the partition, after the last commit, with the hand-off's epoch. The giver
  releases the partition even if it does not run there. An isolated consumer never releases.
- 5: The taker starts when the release has the hand-off's epoch, generation and giver.
- If the node's `since` is newer than the consumer's holding, the partition is stopped, and started again from the
  committed position.

Pure: the agent reads, calls `grants` and `changes`, and performs the results.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.core.model import Handoff, Release, Token, TopicNode


class Reading(StrEnum):
    """A consumer's reaction to a new read of the topic node."""

    ACT = "act"  # accept the read
    SAME = "same"  # equal to the accepted node
    OLDER = "older"  # a lower epoch of the same generation: keep the accepted node, report the read
    FOREIGN = "foreign"  # another generation that does not cover our actions: keep the node, report the read


def accepts(accepted: TopicNode | None, seen: TopicNode) -> Reading:
    """Compare a new read with the accepted node. Only `ACT` replaces the accepted node."""
    if accepted is None:
        return Reading.ACT
    if seen.generation != accepted.generation:
        covered = seen.supersedes.get(accepted.generation, -1)
        return Reading.ACT if covered >= accepted.epoch and seen.epoch > accepted.epoch else Reading.FOREIGN
    if seen.epoch > accepted.epoch:
        return Reading.ACT
    return Reading.SAME if seen.epoch == accepted.epoch else Reading.OLDER


def _of_ours(accepted: TopicNode | None, consumer: str, incarnation: int, isolated: bool) -> TopicNode | None:
    """Return the accepted node if it allows this incarnation to run or release partitions."""
    if accepted is None or accepted.removed or isolated or accepted.incarnations.get(consumer) != incarnation:
        return None
    return accepted


class Via(StrEnum):
    """Why a consumer may run a partition."""

    ASSIGNED = "assigned"  # in `assignments`, and every earlier owner has confirmed the close
    GUARDED = "guarded"  # in `assignments`, and an earlier owner may still have a process
    RELEASED = "released"  # taker of a hand-off after the giver's release


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to run one partition under `token`. A taker starts from the position in `release`."""

    partition: int
    token: Token
    via: Via
    release: Release | None = None


def grants(
    accepted: TopicNode | None, consumer: str, incarnation: int, releases: Mapping[int, Release], isolated: bool
) -> dict[int, Grant]:
    """Return what this incarnation may run now. `releases`: partition → last release, for partitions to take over."""
    node, found = _of_ours(accepted, consumer, incarnation, isolated), dict[int, Grant]()
    if node is None:
        return found
    for partition, owner in node.assignments.items():
        if owner == consumer:
            via = Via.GUARDED if partition in node.guarded else Via.ASSIGNED
            token = Token(node.since[partition], incarnation, node.generation)
            found[partition] = Grant(partition, token, via, _of_holding(releases.get(partition), token))
    for partition, entry in node.handoff.items():
        release = releases.get(partition)
        if entry.taker == consumer and release is not None and releases_entry(release, entry, node.generation):
            token = Token(entry.epoch, incarnation, node.generation)
            found[partition] = Grant(partition, token, Via.RELEASED, release)
    return found


def _of_holding(release: Release | None, token: Token) -> Release | None:
    """Return the release if its hand-off began this holding. An older release may be of a former topic of the name."""
    same = release is not None and (release.epoch, release.generation) == (token.epoch, token.generation)
    return release if same else None


def releases_entry(release: Release, entry: Handoff, generation: str) -> bool:
    """Return whether the release belongs to this hand-off: same epoch, giver and generation."""
    return release.epoch == entry.epoch and release.by == entry.giver and release.generation == generation


def takes_over(accepted: TopicNode | None, consumer: str, incarnation: int, isolated: bool) -> dict[int, Handoff]:
    """Return the hand-offs to this incarnation. It warms up, and watches the partitions' nodes for the releases."""
    node = _of_ours(accepted, consumer, incarnation, isolated)
    return {} if node is None else {p: entry for p, entry in node.handoff.items() if entry.taker == consumer}


def owes_release(accepted: TopicNode | None, consumer: str, incarnation: int, isolated: bool) -> dict[int, Handoff]:
    """Return the hand-offs that this incarnation has to release once the partitions are stopped."""
    node = _of_ours(accepted, consumer, incarnation, isolated)
    return {} if node is None else {p: entry for p, entry in node.handoff.items() if entry.giver == consumer}


def may_hold(accepted: TopicNode | None, consumer: str, incarnation: int, isolated: bool) -> dict[int, int]:
    """Return partition → epoch, for the status, of all that the node lets this incarnation run or take over."""
    node = _of_ours(accepted, consumer, incarnation, isolated)
    return {} if node is None else all_may_hold(node).get(consumer, {})


def all_may_hold(node: TopicNode) -> dict[str, dict[int, int]]:
    """Return consumer → `may_hold` of its incarnation in the node. One pass serves a thousand consumers."""
    found: dict[str, dict[int, int]] = {}
    if node.removed:
        return found
    for partition, owner in node.assignments.items():
        found.setdefault(owner, {})[partition] = node.since[partition]
    for partition, entry in node.handoff.items():
        found.setdefault(entry.taker, {})[partition] = entry.epoch
    return found


@dataclass(frozen=True, slots=True)
class Changes:
    """The agent's work: partitions to stop (finish the batch, commit), to start, and to release once stopped."""

    stop: tuple[int, ...]
    start: tuple[Grant, ...]
    release: tuple[int, ...]


def changes(
    granted: Mapping[int, Grant],
    running: Mapping[int, Token],
    closing: Collection[int],
    owed: Mapping[int, Handoff],
    released: Mapping[int, int],
) -> Changes:
    """Compare granted with running partitions.

    `running`: partition → the token of its acquisition. `closing`: partitions that are stopping. `released`: partition
    → the epoch of our last release.
    """
    stop = tuple(sorted(p for p, token in running.items() if p not in closing and _outdated(granted.get(p), token)))
    start = tuple(granted[p] for p in sorted(granted.keys() - running.keys()))
    release = tuple(sorted(p for p, entry in owed.items() if p not in running and released.get(p) != entry.epoch))
    return Changes(stop, start, release)


def _outdated(grant: Grant | None, token: Token) -> bool:
    return grant is None or grant.token.epoch > token.epoch
