"""How long `weighted` takes for 100,000 partitions on 1,000 consumers, and how far from the lower bound its answer is.

    .venv/bin/python -m benchmarks.weighted [--json FILE]

Thread CPU time of `assign`, the building of the answer included; the median of nine runs after one that is not counted, and
the fastest. Weights are log-normal (the heaviest weighs some hundred times the lightest), tolerance 1 %, no hysteresis.
The lower bound of the fullest consumer is the mean, or the heaviest partition if that is more.
"""

import gc
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from benchmarks.circumstances import noted, told
from benchmarks.result import grid, options, report, verdict
from coordinator_tasks.core.assignors import Problem
from coordinator_tasks.core.assignors.weighted.strategy import Weighted
from coordinator_tasks.core.model import Member

RUNS = 9
PARTITIONS, CONSUMERS = 100_000, 1_000
TARGET_MS = 50.0
TARGET_BOUND = 1.01
SHARP = {"tolerance": "0.01", "hysteresis": "0", "min.gain": "0", "floor": "0.9"}


def members(first: int, end: int) -> dict[str, Member]:
    return {m: Member(m, 1, "", "") for m in (f"consumer-{i:04d}" for i in range(first, end))}


def kept(answer: Mapping[int, str], who: Mapping[str, Member]) -> dict[int, str]:
    return {p: m for p, m in answer.items() if m in who}


def cases(count: int, consumers: int, rng: random.Random) -> Iterator[tuple[str, Problem]]:
    weights = {p: rng.lognormvariate(6, 1) for p in range(count)}
    fresh = Problem("orders", tuple(range(count)), members(0, consumers), parameters=SHARP, weights=weights)
    yield "fresh", fresh
    owned = Weighted().assign(fresh)
    stable = replace(fresh, owned=owned)
    yield "repair: nothing to do", stable
    yield "repair: one joins", replace(stable, members=members(0, consumers + 1))
    for name, gone in (("one leaves", 1), ("a tenth leaves", consumers // 10)):
        who = members(gone, consumers)
        yield f"repair: {name}", replace(stable, members=who, owned=kept(owned, who))
    yield (
        "repair: weights change by up to 30 %",
        replace(stable, weights={p: w * rng.uniform(0.7, 1.3) for p, w in weights.items()}),
    )


def timed(problem: Problem) -> tuple[Mapping[int, str], list[float]]:
    answer, took = Weighted().assign(problem), []
    for _ in range(RUNS):
        began = time.thread_time()
        answer = Weighted().assign(problem)
        took.append(1_000 * (time.thread_time() - began))
    return answer, took


def bound(problem: Problem, answer: Mapping[int, str]) -> float:
    """Return the fullest load against the lower bound; 1 = optimal. Each partition weighs 1 beside its weight."""
    load = dict.fromkeys(problem.members, 0.0)
    for partition, member in answer.items():
        load[member] += problem.weights[partition] + 1
    return max(load.values()) / max(sum(load.values()) / len(load), max(problem.weights.values()) + 1)


def measure(count: int, consumers: int) -> Iterator[dict[str, Any]]:
    gc.collect()
    gc.freeze()  # objects of this benchmark's libraries do not count for the strategy
    for name, problem in cases(count, consumers, random.Random(1)):
        answer, took = timed(problem)
        again = Weighted().assign(replace(problem, owned=answer))
        yield {
            "case": name,
            "median_ms": round(statistics.median(took), 3),
            "fastest_ms": round(min(took), 3),
            "fullest": bound(problem, answer),
            "moves": sum(1 for p, m in problem.owned.items() if answer[p] != m),
            "second_moves": sum(1 for p in answer if again[p] != answer[p]),
        }
    gc.unfreeze()


def markdown(result: Mapping[str, Any]) -> str:
    """A row for each case; only a repair has targets."""
    rows = []
    for one in result["cases"]:
        targets = [
            (one["median_ms"] < TARGET_MS, f"< {TARGET_MS:g} ms"),
            (one["fullest"] <= TARGET_BOUND, f"fullest ≤ {TARGET_BOUND:g}"),
        ]
        figures = (f"{one['median_ms']:.1f}", f"{one['fastest_ms']:.1f}", f"{one['fullest']:.4f}")
        counts = (f"{one['moves']:,}", f"{one['second_moves']:,}")
        rows.append([one["case"], *figures, *counts, verdict(*([] if one["case"] == "fresh" else targets))])
    titles = ("case", "median ms", "fastest ms", "fullest / lower bound", "moves", "second run moves", "target")
    how = f"{result['partitions']:,} partitions on {result['consumers']:,} consumers"
    return f"{told(result, how)}\n\n{grid(titles, rows, ('target',))}"


def main() -> None:
    parser = options(__doc__)
    given = parser.parse_args()
    with noted(partitions=PARTITIONS, consumers=CONSUMERS) as result:
        result["cases"] = list(measure(PARTITIONS, CONSUMERS))
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
