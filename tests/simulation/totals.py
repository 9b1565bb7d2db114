"""Outcomes of histories, added up over processes."""

from collections import Counter
from dataclasses import dataclass, field, fields

from coordinator_tasks.core.model import State
from tests.simulation.faults import Fault, Lasting, Wait


@dataclass
class Counts:
    """Numbers of one or many histories; `checks` are those that could fail."""

    rewinds: int = 0
    effects: Counter[tuple[Fault, State]] = field(default_factory=Counter)
    waits: Counter[tuple[Wait, State]] = field(default_factory=Counter)
    lasting: Counter[tuple[Lasting, State]] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)

    def count(self, other: "Counts") -> None:
        for one in fields(Counts):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass
class Outcome(Counts):
    """The outcome of a history. `broken` is the broken rule, with the sentence; empty = none."""

    seed: int = -1
    digest: str = ""
    rule: str = ""
    broken: str = ""
    trace: list[str] = field(default_factory=list)


@dataclass
class Totals(Counts):
    """`failed`: seeds that broke a rule."""

    histories: int = 0
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        if outcome.broken:
            self.failed[outcome.seed] = outcome.broken
        self.count(outcome)
        self.histories += 1

    def merge(self, other: "Totals") -> None:
        self.count(other)
        self.histories += other.histories
        self.failed.update(other.failed)
