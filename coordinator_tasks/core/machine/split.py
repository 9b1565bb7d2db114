"""While an upgrade moves partitions in steps: the partitions that each consumer may have. Pure."""

from collections.abc import Mapping
from typing import TypeAlias

from coordinator_tasks.core.model import Cause, CauseKind, Split

Side: TypeAlias = tuple[tuple[int, ...], Mapping[str, int]]
"""Partitions, and the consumers that may have these partitions: consumer → incarnation."""


def sides(split: Split | None, partitions: tuple[int, ...], able: Mapping[str, int]) -> list[Side]:
    """Return the sides of a split, or a single side without a split.

    A side without a consumer leaves its partitions to the other side, so that every partition has an owner.
    """
    if split is None:
        return [(partitions, able)]
    theirs = {c: i for c, i in able.items() if c in split.consumers}
    others = {c: i for c, i in able.items() if c not in split.consumers}
    if not theirs or not others:
        return [(partitions, able)]
    inside = tuple(p for p in partitions if p in split.partitions)
    outside = tuple(p for p in partitions if p not in split.partitions)
    return [side for side in ((inside, theirs), (outside, others)) if side[0]]


def kept(split: Split | None, owned: Mapping[int, str]) -> dict[int, str]:
    """Return partition → owner for partitions whose owner is on their side. An upgrade moves only the others."""
    if split is None:
        return {}
    return {p: c for p, c in owned.items() if (c in split.consumers) == (p in split.partitions)}


def cause(split: Split) -> Cause:
    """Return the split as a cause."""
    return Cause(CauseKind.SPLIT, split.consumers, tuple(sorted(split.partitions)), by=split.app)
