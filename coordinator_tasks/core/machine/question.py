"""A topic's question for its strategy, and the answer computed together with all other topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from coordinator_tasks.core.assignors import Assignor, Problem, is_partial, validate


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """A topic's question. `sides`: the problem, or a problem for each side of an upgrade.

    `kept`: partitions that stay only because of the upgrade.
    """

    name: str
    strategy: Assignor
    problem: Problem
    sides: tuple[Problem, ...]
    kept: frozenset[int] = frozenset()

    def answered(self) -> dict[int, str]:
        """Return the strategy's valid answer for this topic alone. Raises `Refused`."""
        return self.checked([self.strategy.assign(side) for side in self.sides])

    def checked(self, answers: list[Mapping[int, str]]) -> dict[int, str]:
        """Return the union of these answers to the sides. Raises `Refused` if an answer is not valid."""
        owners: dict[int, str] = {}
        for side, answer in zip(self.sides, answers, strict=True):
            validate(side, answer, self.name, partial=is_partial(self.strategy))
            owners.update(answer)
        return owners

    def beside(self, loads: Mapping[str, int], carried: Mapping[str, float]) -> "PlanQuestion":
        """Return the same question with new loads of the other topics."""
        whole = {m: carried.get(m, 0.0) for m in self.problem.members}
        sides = [replace(side, loads=loads, carried={m: whole[m] for m in side.members}) for side in self.sides]
        return replace(self, problem=replace(self.problem, loads=loads, carried=whole), sides=tuple(sides))


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """The answer to a question. The loads of other topics may differ from the loads in the question.

    `before`, `after`: member → partitions of all topics shared by number; empty without another such topic. `inputs`: a
    digest of the questions of all other topics.
    """

    question: PlanQuestion
    answer: Mapping[int, str]
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    inputs: str = ""


class Together(Protocol):
    """The joint plan of all topics."""

    def answer(self, question: PlanQuestion) -> SharedAnswer | None:
        """Return the answer; `None` if this is not the topic's expected question. Raises `Refused`."""

    def moves(self, topic: str) -> bool:
        """Return whether the plan moves partitions of this topic."""
