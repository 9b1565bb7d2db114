"""Which deaths are tried: every listed point on both sides, and pairs of them drawn from a seed.

Two lists: the points of the join and the leave, and by scenario those that the others have besides.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.faults.case import Case, Result
from tests.faults.failpoints import Kill, When, step_of
from tests.faults.scenarios import SCENARIOS, Restless
from tests.faults.servers import Servers

LIST = Path(__file__).with_name("points.txt")
FURTHER = Path(__file__).with_name("further_points.txt")
SOMETIMES = "?"
"""Marks a point of the list that a run need not meet: what only a busy machine or a lost race brings about."""
AT_ONCE = 4
ATTEMPTS = 10
WHOLE_OF = 4
"""Of so many brief cases one goes on to the end of the scenario, with what a death may have left behind."""


def listed() -> dict[str, bool]:
    """Point → whether every run meets it."""
    return dict(map(_read, _lines(LIST)))


def further() -> dict[type[Case], dict[str, bool]]:
    """Scenario → the points that it has besides → whether every run meets them."""
    named = {f"[{kind.__name__}]": kind for kind in SCENARIOS}
    found: dict[type[Case], dict[str, bool]] = {}
    for line in _lines(FURTHER):
        if line in named:
            points = found.setdefault(named[line], {})
        else:
            points |= [_read(line)]
    return found


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]


def _read(line: str) -> tuple[str, bool]:
    return line.removeprefix(SOMETIMES), not line.startswith(SOMETIMES)


def unlisted(results: Iterable[Result]) -> list[str]:
    """The points that were met and whose step stands in neither list, sorted."""
    points = itertools.chain(listed(), *further().values())
    steps = set(map(step_of, points))
    return sorted({point for one in results for point in one.points if step_of(point) not in steps})


def singles() -> list[tuple[Kill, ...]]:
    """Every point of both lists that every run meets, before and after; long cases and short ones mixed."""
    return _both_sides([point for points in (listed(), *further().values()) for point, met in points.items() if met])


def one_per_operation() -> list[tuple[Kill, ...]]:
    """Each operation of each process of the join and the leave, in one of its phases and from one of its callers."""
    return _both_sides(list({operation_of(point): point for point, always in listed().items() if always}.values()))


def operation_of(point: str) -> tuple[str, str]:
    """(process, operation) of a point."""
    return point.split("/", maxsplit=1)[0], point.rsplit("/", 1)[1]


def _both_sides(points: Sequence[str]) -> list[tuple[Kill, ...]]:
    found: list[tuple[Kill, ...]] = [(Kill(point, when),) for point in points for when in When]
    random.Random(1).shuffle(found)
    return found


def rare() -> list[tuple[Kill, ...]]:
    """The other points of the lists."""
    points = [one for points in (listed(), *further().values()) for one, always in points.items() if not always]
    return [(Kill(point, when),) for point in points for when in When]


def pairs(seed: int) -> Iterator[tuple[Kill, ...]]:
    """Two deaths in one run, of one process or of two; without end."""
    chance = random.Random(seed)
    points = [point for point, always in listed().items() if always]
    while True:
        first, second = chance.sample(points, 2)
        yield tuple(Kill(point, chance.choice(list(When))) for point in (first, second))


def run(
    servers: Servers,
    folder: Path,
    plans: Sequence[tuple[Kill, ...]],
    *,
    brief: bool = False,
    usual: type[Case] = Case,
) -> Iterator[Result]:
    """One case for each plan, several at once; results as they come. `brief`: most of them end with the phase of the death.

    `usual`: the scenario of the points that every join and leave meets.
    """
    kinds: dict[str, type[Case]] = {point: Restless for point, always in listed().items() if not always}
    kinds |= {point: kind for kind, points in further().items() for point in points}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        cases = [
            kinds.get(plan[0].point if plan else "", usual)(
                servers, f"{folder.name}-{n}", folder / str(n), plan, brief=brief and n % WHOLE_OF > 0
            )
            for n, plan in enumerate(plans)
        ]
        for done in as_completed([pool.submit(case.run) for case in cases]):
            yield done.result()


def run_reaching(servers: Servers, folder: Path, plans: Sequence[tuple[Kill, ...]]) -> Iterator[Result]:
    """As `run`, brief; a case that does not come to all of its deaths is tried again.

    Every other time by consumers that look all the time: else the same speed of a machine could miss the same point each time.
    """
    due = list(plans)
    for attempt in range(ATTEMPTS):
        missed = []
        usual = Restless if attempt % 2 else Case
        for result in run(servers, folder / f"{folder.name}-try{attempt}", due, brief=True, usual=usual):
            if all(result.reached) or result.problems or attempt == ATTEMPTS - 1:
                yield result
            else:
                missed.append(result.kills)
        due = missed
