"""Strategies: who gets what. Each is a pure, deterministic function of a `Problem`; add one by naming it in `ASSIGNORS`."""

from collections.abc import Mapping
from typing import Protocol

from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.assignors.strategies import ONE_TOPIC_ASSIGNORS
from coordinator_tasks.core.assignors.weighted import Weighted
from coordinator_tasks.core.errors import Refused

__all__ = ["ASSIGNORS", "Assignor", "Problem", "assignor", "validate"]


class Assignor(Protocol):
    """A strategy. It may give back fewer partitions than asked (the rest stays unowned), never other members."""

    def assign(self, problem: Problem) -> Mapping[int, str]:
        """Partition → member, for every partition of the problem, fixed ones included."""


ASSIGNORS: Mapping[str, Assignor] = {**ONE_TOPIC_ASSIGNORS, "weighted": Weighted()}


PARTIAL = frozenset({"weighted"})
"""Strategies that leave a partition without an owner rather than break a limit that a person has set."""


def assignor(name: str) -> Assignor:
    """The strategy of that name; raises `Refused` with the names there are."""
    found = ASSIGNORS.get(name)
    if found is None:
        raise Refused(f"there is no strategy {name!r}; choose one of {', '.join(sorted(ASSIGNORS))}")
    return found


def validate(problem: Problem, answer: Mapping[int, str], strategy: str) -> None:
    """Raise `Refused`, naming the breach, unless the answer is a valid assignment of the problem."""
    listed = set(problem.partitions)
    for partition, member in sorted(answer.items()):
        if partition not in listed:
            raise Refused(f"strategy {strategy!r} assigned partition {partition}, which the topic does not have")
        if member not in problem.members and problem.fixed.get(partition) != member:
            raise Refused(f"strategy {strategy!r} gave partition {partition} to {member!r}, which is no live member")
    for partition, member in sorted(problem.fixed.items()):
        if answer.get(partition) != member:
            raise Refused(f"strategy {strategy!r} moved partition {partition}, which is fixed to {member!r}")
    left = [p for p in problem.partitions if p not in answer]
    if left and problem.members and strategy not in PARTIAL:
        raise Refused(f"strategy {strategy!r} left partitions {left[:10]} without an owner beside live members")
