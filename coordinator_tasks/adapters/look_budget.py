"""What one look at the consumers may cost: who is asked in which order, and how many bytes of their answers are read.

Owners are asked first and have bounds of their own, by what they may run. Everybody else shares bounds, since anybody with a consumer's
account can register without end.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.adapters.http_exchange import BadAnswer
from coordinator_tasks.core.codecs.status_codec import MAX_STATUS_BYTES
from coordinator_tasks.core.model import Member

MOST_OTHERS = 2_048
"""Consumers without partitions that one look asks."""
OWNER_BYTES, PARTITION_BYTES = 256 * 1024, 1024
"""Of an owner's answer: the first for what it reports, the second for each partition that it may run (some 350 are used)."""
OTHER_BYTES = 16 * 1024
"""Of the answer of a consumer without partitions."""
SHARED_BYTES = 32 * 1024 * 1024
"""What answers may need beyond that, in one look: after a loss of ZooKeeper nobody is known as an owner, and these are the statuses of
100,000 running partitions.
"""
READ_CPU_S = 2.0
"""Processor time for reading the answers of consumers without partitions, in one look."""


class NoBudget(Exception):
    """A bound of this look is used up by others; nothing is known of the consumer."""


@dataclass(frozen=True, slots=True)
class Order:
    """`owners`: by their names; `others`: in turn one that has answered before and one that has not, at random; `left_out`: the rest."""

    owners: tuple[Member, ...]
    others: tuple[Member, ...]
    left_out: tuple[Member, ...] = ()


def in_order(members: Collection[Member], known: Mapping[str, int]) -> Order:
    """Who is asked when. `known`: consumer → how many partitions it may run; 0 = none, and it has answered before."""
    owners = tuple(one for one in members if known.get(one.consumer, 0) > 0)
    answered = [one for one in members if known.get(one.consumer) == 0]
    unknown = [one for one in members if one.consumer not in known]
    for names in (answered, unknown):
        random.shuffle(names)  # a name gives no turn: each process begins anew
    shorter = min(len(answered), len(unknown))
    turns = [one for pair in zip(answered, unknown, strict=False) for one in pair]
    others = (*turns, *answered[shorter:], *unknown[shorter:])
    return Order(owners, others[:MOST_OTHERS], others[MOST_OTHERS:])


@dataclass(slots=True)
class Shared:
    """What is left for answers beyond their own bounds."""

    left: int = field(default=SHARED_BYTES)


class Allowance:
    """The bytes of one answer: `own` first, then what is shared."""

    def __init__(self, shared: Shared, partitions: int | None) -> None:
        self._own = OWNER_BYTES + PARTITION_BYTES * partitions if partitions else OTHER_BYTES
        self._shared, self._borrowed, self._taken = shared, 0, 0

    def take(self, count: int) -> None:
        """Raises `BadAnswer` for an answer that nobody gives, and `NoBudget`."""
        self._taken += count
        if self._taken > MAX_STATUS_BYTES:
            raise BadAnswer(f"the answer is longer than {MAX_STATUS_BYTES} bytes")
        beyond = max(0, self._taken - self._own) - self._borrowed
        if beyond > self._shared.left:
            raise NoBudget(f"not read: the long answers of this look had {SHARED_BYTES >> 20} MB together")
        self._shared.left -= beyond
        self._borrowed += beyond

    def give_back(self) -> None:
        """Of an answer that is not kept."""
        self._shared.left += self._borrowed
        self._borrowed = 0
