"""A topic's question for its strategy, and an answer that takes all other topics into account."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from coordinator_tasks.core.assignors import Assignor, Problem, is_partial, validate


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """A topic's question. `sides`: one problem, or during an upgrade a problem for each side.

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
        """Return the union of these answers, one for each side. Raises `Refused` if an answer is not valid."""
        owners: dict[int, str] = {}
        for side, answer in zip(self.sides, answers, strict=True):
            validate(side, answer, self.name, partial=is_partial(self.strategy))
            owners.update(answer)
        return owners

    def beside(self, loads: Mapping[str, int], carried: Mapping[str, float]) -> "PlanQuestion":
        """Return the same question beside new loads of the other topics."""
        whole = {m: carried.get(m, 0.0) for m in self.problem.members}
        sides = [replace(side, loads=loads, carried={m: whole[m] for m in side.members}) for side in self.sides]
        return replace(self, problem=replace(self.problem, loads=loads, carried=whole), sides=tuple(sides))


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """The answer to a question. Since the question, the loads of other topics may have changed.

    `before`, `after`: member → number of partitions over all topics that are planned by number, before and after the
    plan; empty if there is no other such topic. `inputs`: a digest of the questions of all other topics.
    """

    question: PlanQuestion
    answer: Mapping[int, str]
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    inputs: str = ""


class Together(Protocol):
    """The joint plan of all topics."""

    def answer(self, question: PlanQuestion) -> SharedAnswer | None:
        """Return the answer; `None` if the joint plan expects another question of the topic. Raises `Refused`."""

    def moves(self, topic: str) -> bool:
        """Return whether the plan moves partitions of this topic."""
