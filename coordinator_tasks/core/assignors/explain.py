"""Sentences with the reason for the place of every partition.

This module explains facts that a strategy does not know: a pin, a partition under way, an excluded owner. The
strategy's `Explainer` explains the rest. Without an `Explainer`, the number of partitions per member does.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from coordinator_tasks.core.assignors import balanced
from coordinator_tasks.core.assignors.problem import Problem
from coordinator_tasks.core.model import Explanation, Reason, Split


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A return to earlier owners.

    `owners`: partition → earlier owner, by a roll back or a planned restart. `text`: the requester and the reason.
    """

    owners: Mapping[int, str]
    text: str


@dataclass(frozen=True, slots=True)
class SolvedProblem:
    """A strategy's problem and answer, with facts that the strategy does not know.

    - `holders`: partition → present holder, even if not a member. `pins`: partition → consumer chosen by a person.
    - `explainer`: the strategy's explainer of this answer, if any.
    - `backs`: returns to an earlier owner; the first that has the partition counts.
    - `split`: permitted owners during an upgrade. `kept`: partitions that stay only because of the split.
    - `barred`: registered consumer → why it gets nothing.
    - `before`, `after`: member → its partitions of all jointly planned topics.
    - `others`: a digest of the other topics' problems; empty without other topics.
    """

    strategy: str
    problem: Problem
    answer: Mapping[int, str]
    holders: Mapping[int, str] = field(default_factory=dict)
    pins: Mapping[int, str] = field(default_factory=dict)
    explainer: Callable[[Problem, Mapping[int, str]], "Explainer"] | None = None
    backs: tuple[RolledBack, ...] = ()
    split: Split | None = None
    kept: frozenset[int] = frozenset()
    barred: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    after: Mapping[str, int] = field(default_factory=dict)
    others: str = ""


class Explainer(Protocol):
    """A strategy's sentences about one answer."""

    def summary(self) -> str:
        """Return the effect of the whole answer."""

    def given(self, partition: int, taker: str) -> str:
        """Return why this member gets a partition that has no owner, or whose owner is excluded."""

    def moved(self, partition: int, giver: str, taker: str) -> str:
        """Return why the partition moves from the giver to the taker, although the giver could keep it."""

    def stays(self, partition: int, owner: str) -> str:
        """Return why the partition stays."""

    def left(self, partition: int) -> str:
        """Return why the partition has no owner."""


def explained(asked: SolvedProblem, only: Collection[int] | None = None) -> Explanation:
    """Return the explanation of all partitions, or only of the partitions in `only`. Equal reasons are merged."""
    explainer = CountExplainer(asked) if asked.explainer is None else asked.explainer(asked.problem, asked.answer)
    moves: dict[str, list[int]] = {}
    stays: dict[str, list[int]] = {}
    for partition in sorted(asked.problem.partitions if only is None else only):
        holder, owner = asked.holders.get(partition, ""), asked.answer.get(partition, "")
        group = stays if holder == owner or not owner else moves
        group.setdefault(_sentence(asked, explainer, partition, holder, owner), []).append(partition)
    return Explanation(asked.strategy, digest(asked), explainer.summary(), _reasons(moves), _reasons(stays))


def digest(asked: SolvedProblem) -> str:
    """Return sixteen hexadecimal digits over the strategy's whole input. With equal digits the answer is the same."""
    problem = asked.problem
    members = [
        [one.consumer, one.capacity, one.rack, sorted(one.attributes.items())]
        for one in sorted(problem.members.values(), key=lambda one: one.consumer)
    ]
    mappings = (problem.owned, problem.fixed, problem.loads, problem.parameters, problem.weights, problem.carried)
    parts = [
        asked.strategy,
        problem.topic,
        sorted(problem.partitions),
        members,
        *(sorted(mapping.items()) for mapping in mappings),
        sorted((partition, list(racks)) for partition, racks in problem.zones.items()),
    ]
    if asked.split is not None:  # without a split, the digest equals the digest of earlier releases
        parts.append([sorted(asked.split.consumers), sorted(asked.split.partitions)])
    if asked.others:
        parts.append(asked.others)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def shortened(explanation: Explanation, limit_bytes: int) -> Explanation:
    """Return the explanation for the history: as many reasons of moves as fit, reasons of many partitions first."""
    kept: list[Reason] = []
    for reason in sorted(explanation.moves, key=lambda one: (-len(one.partitions), one.partitions)):
        limit_bytes -= len(reason.text.encode()) + 8 * len(reason.partitions) + 40
        if limit_bytes < 0:
            break
        kept.append(reason)
    kept.sort(key=lambda one: one.partitions)
    return Explanation(explanation.strategy, explanation.inputs, explanation.summary, tuple(kept))


def _sentence(asked: SolvedProblem, explainer: Explainer, partition: int, holder: str, owner: str) -> str:
    problem = asked.problem
    if not owner:
        return explainer.left(partition)
    if asked.pins.get(partition) == owner:
        return f"{owner} has it because a person pinned it there"
    for back in asked.backs:
        if back.owners.get(partition) == owner:
            return f"{owner} {'keeps it' if holder == owner else 'had it then'}: {back.text}"
    if asked.split is not None and partition in asked.kept:
        return f"{owner} keeps it, as the upgrade of {asked.split.app} asks in this step"
    if partition in problem.fixed:
        return f"{owner} has it and it is not touched: it is on its way, or nobody can take it from {owner} now"
    if holder == owner:
        return explainer.stays(partition, owner)
    return _of_move(asked, explainer, partition, holder, owner)


def _of_move(asked: SolvedProblem, explainer: Explainer, partition: int, holder: str, owner: str) -> str:
    problem, split = asked.problem, asked.split
    if split is not None and holder and (holder in split.consumers) != (owner in split.consumers):
        return f"{holder} gives it to {owner}, as the upgrade of {split.app} asks in this step"
    if not holder:
        return f"nobody had it: {explainer.given(partition, owner)}"
    if holder not in problem.members:
        why = f", since {asked.barred[holder]}" if holder in asked.barred else ""
        return f"{holder} cannot keep it{why}: {explainer.given(partition, owner)}"
    return explainer.moved(partition, holder, owner)


def _reasons(found: Mapping[str, list[int]]) -> tuple[Reason, ...]:
    return tuple(Reason(text, tuple(partitions)) for text, partitions in found.items())


class CountExplainer:
    """Explains an answer by numbers of partitions. For `balanced`, and for strategies that explain nothing."""

    def __init__(self, asked: SolvedProblem) -> None:
        self.problem, self.strategy = asked.problem, asked.strategy
        self.before = Counter(dict(asked.before)) if asked.after else Counter(asked.holders.values())
        self.after = Counter(dict(asked.after)) if asked.after else Counter(asked.answer.values())
        self.what = " of all topics" if asked.after else ""
        self.moves = sum(1 for p, m in asked.holders.items() if asked.answer.get(p) != m)
        self._rule = self._said_rule()
        self._stays: dict[str, str] = {}

    def summary(self) -> str:
        counts = [self.after[m] for m in self.problem.members]
        even = f"{_span(min(counts), max(counts))}{self.what} each" if counts else "no live consumer"
        return f"{self.strategy}: {self.moves} of {len(self.problem.partitions)} partitions leave an owner; then {even}"

    def given(self, partition: int, taker: str) -> str:  # noqa: ARG002 - it counts how many, not which
        return f"{taker} had {self.before[taker]}{self.what} and gets {self.after[taker]}{self._rule}"

    def moved(self, partition: int, giver: str, taker: str) -> str:  # noqa: ARG002
        return (
            f"{giver} had {self.before[giver]}{self.what} and keeps {self.after[giver]}, {taker} had {self.before[taker]} and gets "
            f"{self.after[taker]}{self._rule}"
        )

    def stays(self, partition: int, owner: str) -> str:  # noqa: ARG002
        if owner not in self._stays:
            counts = f"{owner} had {self.before[owner]}{self.what} and has {self.after[owner]}"
            self._stays[owner] = f"{counts}, so this one stays{self._rule}"
        return self._stays[owner]

    def left(self, partition: int) -> str:  # noqa: ARG002
        return f"{self.strategy} gives it to nobody" if self.problem.members else "no live consumer may have it"

    def _said_rule(self) -> str:
        if self.strategy not in balanced.NAMES:
            return f", by the rule of {self.strategy}"
        counts = [self.after[m] for m in self.problem.members]
        even = bool(counts) and max(counts) - min(counts) <= 1
        return f"; the even share is {_span(min(counts), max(counts))}" if even else ""


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"
