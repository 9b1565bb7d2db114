"""Limits of one observation of the consumers: the order of requests, and how many bytes of the answers are read.

Owners are asked first. The limit of an owner's answer grows with the partitions that the owner may run. All other
consumers share their limits, because an account of consumers can register any number of consumers.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.adapters.http_exchange import BadAnswer
from coordinator_tasks.core.codecs.status_codec import MAX_STATUS_BYTES
from coordinator_tasks.core.model import Member

MOST_OTHERS = 2_048
"""Maximum consumers without partitions that are asked in one observation."""
OWNER_BYTES, PARTITION_BYTES = 256 * 1024, 1024
"""Bytes of an owner's answer: a base, and an addition for each partition that the owner may run (some 350 are needed).
"""
OTHER_BYTES = 16 * 1024
"""Bytes of the answer of a consumer without partitions."""
SHARED_BYTES = 32 * 1024 * 1024
"""Bytes that all answers of one observation may use beyond their own limits.

After a loss of ZooKeeper no owner is known. These bytes hold the statuses of 100,000 running partitions.
"""
READ_CPU_S = 2.0
"""Processor seconds in one observation for reading the answers of consumers without partitions."""


class NoBudget(Exception):
    """Other answers have used up a limit of this observation, so nothing is known about the consumer."""


@dataclass(frozen=True, slots=True)
class Order:
    """The order of requests.

    `owners`: by name. `others`: at random, consumers that have answered before alternate with new consumers.
    `left_out`: members that are not asked.
    """

    owners: tuple[Member, ...]
    others: tuple[Member, ...]
    left_out: tuple[Member, ...] = ()


def in_order(members: Collection[Member], known: Mapping[str, int]) -> Order:
    """Return the order of requests. `known`: consumer → partitions it may run; 0: it has only answered before."""
    owners = tuple(one for one in members if known.get(one.consumer, 0) > 0)
    answered = [one for one in members if known.get(one.consumer) == 0]
    unknown = [one for one in members if one.consumer not in known]
    for names in (answered, unknown):
        random.shuffle(names)  # no name is preferred: each process shuffles again
    shorter = min(len(answered), len(unknown))
    turns = [one for pair in zip(answered, unknown, strict=False) for one in pair]
    others = (*turns, *answered[shorter:], *unknown[shorter:])
    return Order(owners, others[:MOST_OTHERS], others[MOST_OTHERS:])


@dataclass(slots=True)
class SharedBytes:
    """The bytes left for all answers beyond their own limits."""

    left: int = field(default=SHARED_BYTES)


class Allowance:
    """The bytes of one answer: first its own limit, then shared bytes."""

    def __init__(self, shared: SharedBytes, partitions: int | None) -> None:
        self._own = OWNER_BYTES + PARTITION_BYTES * partitions if partitions else OTHER_BYTES
        self._shared, self._borrowed, self._taken = shared, 0, 0

    def take(self, count: int) -> None:
        """Count received bytes. Raises `BadAnswer` for an impossibly long answer, and `NoBudget` if none are left."""
        self._taken += count
        if self._taken > MAX_STATUS_BYTES:
            raise BadAnswer(f"the answer is longer than {MAX_STATUS_BYTES} bytes")
        beyond = max(0, self._taken - self._own) - self._borrowed
        if beyond > self._shared.left:
            raise NoBudget(f"not read: the long answers of this look had {SHARED_BYTES >> 20} MB together")
        self._shared.left -= beyond
        self._borrowed += beyond

    def give_back(self) -> None:
        """Return the shared bytes of a dropped answer."""
        self._shared.left += self._borrowed
        self._borrowed = 0
