"""What a topic asks its strategy, and the answer that it gets together with all other topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from coordinator_tasks.core.assignors import Assignor, Problem, is_partial, validate


@dataclass(frozen=True, slots=True)
class Question:
    """`sides`: the problem itself, or those of the sides of an upgrade. `kept`: partitions that stay for the upgrade alone."""

    name: str
    strategy: Assignor
    problem: Problem
    sides: tuple[Problem, ...]
    kept: frozenset[int] = frozenset()

    def answered(self) -> dict[int, str]:
        """The strategy's valid answer, given this topic alone. Raises `Refused`."""
        return self.checked([self.strategy.assign(side) for side in self.sides])

    def checked(self, answers: list[Mapping[int, str]]) -> dict[int, str]:
        """These answers to the sides as one. Raises `Refused` if they are not valid."""
        found: dict[int, str] = {}
        for side, answer in zip(self.sides, answers, strict=True):
            validate(side, answer, self.name, partial=is_partial(self.strategy))
            found.update(answer)
        return found

    def beside(self, loads: Mapping[str, int], carried: Mapping[str, float]) -> "Question":
        """The same question, with other loads of other topics."""
        whole = {m: carried.get(m, 0.0) for m in self.problem.members}
        sides = [replace(one, loads=loads, carried={m: whole[m] for m in one.members}) for one in self.sides]
        return replace(self, problem=replace(self.problem, loads=loads, carried=whole), sides=tuple(sides))


@dataclass(frozen=True, slots=True)
class Shared:
    """The answer to a question, which may differ in the loads of other topics from the one that was asked.

    `before`, `after`: member → its partitions of all topics that are shared by number; empty = there is no other such topic.
    `inputs`: a digest of the questions of all other topics.
    """

    question: Question
    answer: Mapping[int, str]
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    inputs: str = ""


class Together(Protocol):
    """The plan of all topics as one."""

    def answer(self, question: Question) -> Shared | None:
        """The answer; `None` = this is not the question that the topic was expected to ask. Raises `Refused`."""

    def moves(self, topic: str) -> bool:
        """Whether the plan moves partitions of this topic."""
