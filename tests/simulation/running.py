"""Each process's partitions at the last look: only changed processes are looked at again."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Token
from tests.simulation.consumer import Consumer
from tests.simulation.excuses import Excuse

Place = tuple[str, int]  # topic and partition
Runs = dict[Place, tuple[Token, Excuse | None]]


@dataclass
class Running:
    """By process: running partitions with tokens, and the excuse, if any."""

    _runs: dict[str, Runs] = field(default_factory=dict)
    _shapes: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def is_another(self, one: Consumer, news: int) -> bool:
        """Return whether any judged fact of the process has changed; `news`: number of its new reads."""
        shape = _shape(one, news)
        if self._shapes.get(one.name) == shape:
            return False
        self._shapes[one.name] = shape
        return True

    def runs(self, one: Consumer, runs: Runs) -> None:
        """Store the process's running partitions."""
        self._runs[one.name] = runs

    def ended(self, one: Consumer) -> None:
        """The process runs nothing any more."""
        self._runs.pop(one.name, None)

    def names(self) -> list[str]:
        """Return the known processes."""
        return list(self._runs)

    def shared(self, names: Iterable[str]) -> str:
        """Return a sentence about a partition run by two unexcused processes; empty = none."""
        for name in names:
            for place, (token, excuse) in self._runs.get(name, {}).items():
                for other, runs in self._runs.items() if excuse is None else ():
                    if other != name and place in runs and runs[place][1] is None:
                        shown = f"{name} at epoch {token.epoch}, {other} at epoch {runs[place][0].epoch}"
                        return f"{place[0]}-{place[1]} runs at {shown}"
        return ""

    def unexcused(self, names: Iterable[str]) -> int:
        """Return the number of unexcused running partitions of these processes."""
        return sum(excuse is None for name in names for _, excuse in self._runs.get(name, {}).values())


def _shape(one: Consumer, news: int) -> tuple[object, ...]:
    """Return the inputs of a process's judgement, except stored data."""
    found: list[object] = [news]
    for query in one.topics.queries.values() if one.topics is not None else ():
        ownership = query.ownership
        # The oracle keeps the last picture: no other picture has its id.
        found += (id(ownership.holdings.accepted), ownership.grants.isolated)
        for p, h in ownership.holdings.held.items():
            found += (p, h, h.phase, h.pending, h.commits.sent, h.fenced, h.closing)
    return tuple(found)
