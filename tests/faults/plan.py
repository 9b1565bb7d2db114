"""Which deaths are tried: every listed point on both sides, and pairs of them drawn from a seed."""

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.faults.case import Case, Result
from tests.faults.failpoints import Kill, When
from tests.faults.servers import Servers

LIST = Path(__file__).with_name("points.txt")
SOMETIMES = "?"
"""Marks a point of the list that a run need not meet: what only a busy machine or a lost race brings about."""
AT_ONCE = 6
ATTEMPTS = 10
WHOLE_OF = 4
"""Of so many brief cases one goes on to the end of the scenario, with what a death may have left behind."""


def listed() -> dict[str, bool]:
    """Point → whether every run meets it."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {line.removeprefix(SOMETIMES): not line.startswith(SOMETIMES) for line in lines}


def singles() -> list[tuple[Kill, ...]]:
    """Every point that every run meets, before and after; in an order that mixes the long cases with the short ones."""
    found: list[tuple[Kill, ...]] = [(Kill(point, w),) for point, always in listed().items() if always for w in When]
    random.Random(1).shuffle(found)
    return found


def rare() -> list[tuple[Kill, ...]]:
    """The other points of the list."""
    return [(Kill(point, when),) for point, always in listed().items() if not always for when in When]


def pairs(seed: int) -> Iterator[tuple[Kill, ...]]:
    """Two deaths in one run, of one process or of two; without end."""
    chance = random.Random(seed)
    points = [point for point, always in listed().items() if always]
    while True:
        first, second = chance.sample(points, 2)
        yield tuple(Kill(point, chance.choice(list(When))) for point in (first, second))


def run(
    servers: Servers, folder: Path, plans: Sequence[tuple[Kill, ...]], at_once: int = AT_ONCE, *, brief: bool = False
) -> Iterator[Result]:
    """One case for each plan, several at once; results as they come. `brief`: most of them end with the phase of the death."""
    with ThreadPoolExecutor(at_once) as pool:
        cases = [
            Case(servers, f"{folder.name}-{n}", folder / str(n), plan, brief=brief and n % WHOLE_OF > 0)
            for n, plan in enumerate(plans)
        ]
        for done in as_completed([pool.submit(case.run) for case in cases]):
            yield done.result()


def run_reaching(
    servers: Servers,
    folder: Path,
    plans: Sequence[tuple[Kill, ...]],
    attempts: int = ATTEMPTS,
    *,
    brief: bool = True,
    over: Callable[[], bool] = lambda: False,
) -> Iterator[Result]:
    """As `run`; a case that does not come to all of its deaths is tried again, unless the time is `over`."""
    due = list(plans)
    for attempt in range(attempts):
        if attempt and over():
            return
        missed = []
        for result in run(servers, folder / f"{folder.name}-try{attempt}", due, brief=brief):
            if all(result.reached) or result.problems or attempt == attempts - 1:
                yield result
            else:
                missed.append(result.kills)
        due = missed
