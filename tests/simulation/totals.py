"""Outcomes of many histories, added up: in memory, over processes, and in a file over runs."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinator_tasks.core.model import State
from tests.simulation.excuses import Excuse
from tests.simulation.faults import Fault, Lasting, Wait
from tests.simulation.history import Outcome

COUNTED = ("checks", "exempt", "excused", "beside")


@dataclass
class Totals:
    """`checks` could fail, `exempt` were excused.

    `ranges`: pairs of first and last run seeds; `failed`: seeds that broke a rule.
    """

    histories: int = 0
    steps: int = 0
    rounds: int = 0
    most_rounds: int = 0
    operations: int = 0
    transitions: int = 0
    rewinds: int = 0
    doubled: int = 0
    effects: Counter[tuple[Fault, State]] = field(default_factory=Counter)
    waits: Counter[tuple[Wait, State]] = field(default_factory=Counter)
    lasting: Counter[tuple[Lasting, State]] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    exempt: Counter[str] = field(default_factory=Counter)
    excused: Counter[Excuse] = field(default_factory=Counter)
    beside: Counter[Excuse] = field(default_factory=Counter)
    failed: dict[int, str] = field(default_factory=dict)
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.histories += 1
        self.steps += outcome.steps
        self.rounds += outcome.rounds
        self.most_rounds = max(self.most_rounds, outcome.rounds)
        self.operations += outcome.operations
        self.transitions += outcome.transitions
        self.rewinds += outcome.rewinds
        self.doubled += outcome.doubled
        self.effects += outcome.effects
        self.waits += outcome.waits
        self.lasting += outcome.lasting
        self.checks += outcome.checks
        self.exempt += outcome.exempt
        self.excused += outcome.excused
        self.beside += outcome.beside
        if outcome.broken:
            self.failed[outcome.seed] = outcome.broken

    def merge(self, other: "Totals") -> None:
        for name in ("histories", "steps", "rounds", "operations", "transitions", "rewinds", "doubled"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.most_rounds = max(self.most_rounds, other.most_rounds)
        self.effects += other.effects
        self.waits += other.waits
        self.lasting += other.lasting
        self.checks += other.checks
        self.exempt += other.exempt
        self.excused += other.excused
        self.beside += other.beside
        self.failed |= other.failed
        self.ranges = joined([*self.ranges, *other.ranges])

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
    if not path.exists():
        return Totals()
    data: dict[str, Any] = json.loads(path.read_text())
    effects = {(Fault(kind), State(state)): n for kind, state, n in data.pop("effects")}
    waits = {(Wait(kind), State(state)): n for kind, state, n in data.pop("waits")}
    lasting = {(Lasting(kind), State(state)): n for kind, state, n in data.pop("lasting", [])}
    failed = {int(seed): text for seed, text in data.pop("failed").items()}
    ranges = [(first, last) for first, last in data.pop("ranges")]
    counted = {name: Counter(data.pop(name, {})) for name in COUNTED}
    of_states: dict[str, Any] = {"effects": Counter(effects), "waits": Counter(waits), "lasting": Counter(lasting)}
    return Totals(**data, **counted, **of_states, failed=failed, ranges=ranges)


def save(path: Path, totals: Totals) -> None:
    data = {
        **{name: getattr(totals, name) for name in ("histories", "steps", "rounds", "most_rounds", "operations")},
        **{name: getattr(totals, name) for name in ("transitions", "rewinds", "doubled")},
        "effects": [[kind.value, state.value, n] for (kind, state), n in sorted(totals.effects.items())],
        "waits": [[kind.value, state.value, n] for (kind, state), n in sorted(totals.waits.items())],
        "lasting": [[kind.value, state.value, n] for (kind, state), n in sorted(totals.lasting.items())],
        **{name: dict(sorted(getattr(totals, name).items())) for name in COUNTED},
        "failed": {str(seed): text for seed, text in sorted(totals.failed.items())},
        "ranges": totals.ranges,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, indent=1))
    partial.replace(path)
