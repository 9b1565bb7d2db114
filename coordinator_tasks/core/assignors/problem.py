"""What a strategy is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Member


@dataclass(frozen=True, slots=True)
class Problem:
    """One topic's partitions and the members that may have them.

    - `members`: the live members that may be given partitions, by id.
    - `owned`: partition → the member that has it now; a former member's is left out.
    - `fixed`: partitions that stay where they are (in flight or pinned); the member may be one outside `members`.
    - `loads`: how many partitions of other topics each member carries.
    - `parameters`: the strategy's own.
    - `weights`: what each partition weighs in the measure that the parameters name; one that is missing is unknown.
    - `carried`: what each member carries of other topics, in the same unit.
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
