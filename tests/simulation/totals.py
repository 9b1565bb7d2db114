"""Outcomes of histories, added up: in memory, over processes, and in a file over runs."""

import pickle
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

from coordinator_tasks.core.model import State
from tests.simulation.faults import Fault, Lasting, Wait


@dataclass
class Counts:
    """Numbers of one or many histories. `checks` could fail, `exempt` were excused."""

    steps: int = 0
    rounds: int = 0
    operations: int = 0
    transitions: int = 0
    rewinds: int = 0
    doubled: int = 0
    effects: Counter[tuple[Fault, State]] = field(default_factory=Counter)
    waits: Counter[tuple[Wait, State]] = field(default_factory=Counter)
    lasting: Counter[tuple[Lasting, State]] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    exempt: Counter[str] = field(default_factory=Counter)

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
    """`ranges`: pairs of first and last run seeds; `failed`: seeds that broke a rule."""

    histories: int = 0
    most_rounds: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        failed = {outcome.seed: outcome.broken} if outcome.broken else {}
        self._more(outcome, 1, outcome.rounds, failed)

    def merge(self, other: "Totals") -> None:
        self._more(other, other.histories, other.most_rounds, other.failed)
        self.ranges = joined([*self.ranges, *other.ranges])

    def _more(self, counts: Counts, histories: int, most_rounds: int, failed: dict[int, str]) -> None:
        self.count(counts)
        self.histories += histories
        self.most_rounds = max(self.most_rounds, most_rounds)
        self.failed.update(failed)

    @property
    def rarest(self) -> int:
        """How often the rarest pair of fault and state was met."""
        return min(self.effects[fault, state] for fault in Fault for state in State)

    def rows(self) -> list[str]:
        """Return faults, waits by a site's policy, and lasting faults, by kind and state, as lines of a table."""
        width = max(len(kind) for kind in (*Fault, *Wait, *Lasting))
        head = f"{'fault':{width}} " + " ".join(f"{state:>9}" for state in State)
        counted: list[tuple[str, list[int]]] = [(fault, [self.effects[fault, s] for s in State]) for fault in Fault]
        counted += [(wait, [self.waits[wait, s] for s in State]) for wait in Wait]
        counted += [(lasting, [self.lasting[lasting, s] for s in State]) for lasting in Lasting]
        return [head, *(f"{kind:{width}} " + " ".join(f"{n:>9,}" for n in numbers) for kind, numbers in counted)]


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges without gaps or overlaps between them."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def load(path: Path) -> Totals:
    """Return the totals of earlier runs; empty without any."""
    found = pickle.loads(path.read_bytes()) if path.exists() else Totals()
    assert isinstance(found, Totals)
    return found


def save(path: Path, totals: Totals) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(pickle.dumps(totals))
    partial.replace(path)
