"""What every process ran when it was last looked at: only who is another one since then is looked at again."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Token
from tests.simulation.consumer import Consumer
from tests.simulation.excuses import Excuse

Place = tuple[str, int]  # topic and partition
Runs = dict[Place, tuple[Token, Excuse | None]]


@dataclass
class Running:
    """By process: what it runs, under which token, and why it is excused for that, if it is."""

    _runs: dict[str, Runs] = field(default_factory=dict)
    _shapes: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def is_another(self, one: Consumer, news: int) -> bool:
        """Whether anything that is judged of the process has changed; `news`: how often it has read something new."""
        shape = _shape(one, news)
        if self._shapes.get(one.name) == shape:
            return False
        self._shapes[one.name] = shape
        return True

    def runs(self, one: Consumer, runs: Runs) -> None:
        """What the process runs now."""
        self._runs[one.name] = runs

    def ended(self, one: Consumer) -> None:
        """The process runs nothing any more."""
        self._runs.pop(one.name, None)

    def names(self) -> list[str]:
        """The processes of which anything is known."""
        return list(self._runs)

    def shared(self, names: Iterable[str]) -> str:
        """What one of these runs beside another process, neither of them excused, in a sentence; empty = nothing."""
        for name in names:
            for place, (token, excuse) in self._runs.get(name, {}).items():
                for other, runs in self._runs.items() if excuse is None else ():
                    if other != name and place in runs and runs[place][1] is None:
                        shown = f"{name} at epoch {token.epoch}, {other} at epoch {runs[place][0].epoch}"
                        return f"{place[0]}-{place[1]} runs at {shown}"
        return ""

    def counted(self, names: Iterable[str]) -> tuple[int, int]:
        """How much of what these processes run is not excused, and how much is."""
        excuses = [excuse for name in names for _, excuse in self._runs.get(name, {}).values()]
        excused = sum(excuse is not None for excuse in excuses)
        return len(excuses) - excused, excused

    def excused(self) -> tuple[Counter[Excuse], Counter[Excuse]]:
        """At how many partitions somebody is excused, by reason, and at how many of them a second one runs it as well."""
        alone: Counter[Excuse] = Counter()
        beside: Counter[Excuse] = Counter()
        places: dict[Place, list[Excuse | None]] = {}
        for runs in self._runs.values():
            for place, (_, excuse) in runs.items():
                places.setdefault(place, []).append(excuse)
        for excuses in places.values():
            found = {excuse for excuse in excuses if excuse is not None}
            alone.update(found)
            beside.update(found if len(excuses) > 1 else ())
        return alone, beside


def _shape(one: Consumer, news: int) -> tuple[object, ...]:
    """What the judgement of a process depends on, apart from what is stored."""
    found: list[object] = [news]
    for query in one.topics.queries.values() if one.topics is not None else ():
        ownership = query.ownership
        found += (
            id(ownership.holdings.accepted),
            ownership.grants.isolated,
        )  # the oracle keeps the last picture: no other one has its place
        for p, h in ownership.holdings.held.items():
            found += (p, h, h.phase, h.pending, h.commits.sent, h.fenced, h.closing)
    return tuple(found)
