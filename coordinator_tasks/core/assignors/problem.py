"""The problem that a strategy solves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Member


@dataclass(frozen=True, slots=True)
class Problem:
    """A topic's partitions and the possible owners.

    - `members`: id → live member, a possible owner.
    - `owned`: partition → present owner.
    - `fixed`: partition → owner that must not change (in flight or pinned). The owner need not be a member.
    - `loads`: member → number of partitions of other topics.
    - `parameters`: the strategy's parameters.
    - `weights`: partition → weight, in the measure that the parameters name. A missing weight is unknown.
    - `carried`: member → weight of its partitions of other topics, in the same unit.
    - `zones`: partition → the racks of its replicas, the preferred leader's first.
    """

    topic: str
    partitions: tuple[int, ...]
    members: Mapping[str, Member]
    owned: Mapping[int, str] = field(default_factory=dict)
    fixed: Mapping[int, str] = field(default_factory=dict)
    loads: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[int, float] = field(default_factory=dict)
    carried: Mapping[str, float] = field(default_factory=dict)
    zones: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
