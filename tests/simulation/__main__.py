"""Run histories and print the outcome; a seed that breaks a rule is cut down and printed.

python -m tests.simulation --seeds 10000            # continues after the file's seeds
python -m tests.simulation --seed 4711 --trace      # a seed, with all events
"""

import argparse
import sys
import time
from pathlib import Path

from tests.simulation.history import generate, run_seed
from tests.simulation.pool import run_all
from tests.simulation.shrink import shrunk
from tests.simulation.totals import Totals, load, save

FILE = Path("build/simulation.pickle")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Seeded histories of the system.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories")
    parser.add_argument("--start", type=int, help="the first seed; without it, the one behind those of the file")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything that happens")
    given = parser.parse_args()
    if given.seed is not None:
        return _one(given.seed, given.trace)
    known = load(FILE)
    start = given.start if given.start is not None else max((last + 1 for _, last in known.ranges), default=0)
    return _many(start, given.seeds, known)


def _one(seed: int, trace: bool) -> int:
    outcome = run_seed(seed, traced=trace)
    print(*outcome.trace, sep="\n")
    print(f"seed {seed}: {outcome.broken or 'all held'}; digest {outcome.digest}")
    return 1 if outcome.broken else 0


def _many(start: int, count: int, known: Totals) -> int:
    clash = [r for r in known.ranges if r[0] < start + count and start <= r[1]]
    if clash:
        print(f"seeds {clash[0][0]} to {clash[0][1]} are in {FILE} already: choose another START", file=sys.stderr)
        return 2
    ran, began = Totals(), time.monotonic()

    def done(totals: Totals) -> None:
        ran.merge(totals)
        if not totals.failed:
            known.merge(totals)
            save(FILE, known)

    run_all(start, count, done)
    _print(ran, time.monotonic() - began)
    if known.histories > ran.histories:
        print(f"\nIn all, with earlier runs ({FILE}): {known.histories:,} histories, {known.steps:,} steps")
    for seed, text in sorted(ran.failed.items())[:1]:
        print(f"\nseed {seed} broke a rule: {text}")
        print("the actions it needs, and what happens in them:")
        setup, actions = generate(seed)
        kept, outcome = shrunk(setup, actions, text.split(":")[0])
        print(setup, *kept, *outcome.trace, outcome.broken, sep="\n")
    return 1 if ran.failed else 0


def _print(ran: Totals, took_s: float) -> None:
    print(*ran.rows(), sep="\n")
    print(f"\n{'checks':28} {'could fail':>13} {'excused':>11}")
    for rule, n in sorted(ran.checks.items()):
        print(f"  {rule:26} {n:>13,} {ran.exempt[rule]:>11,}")
    print(f"  {'in all':26} {ran.checks.total():>13,} {ran.exempt.total():>11,}")
    mean = ran.rounds / max(1, ran.histories)
    for name, text in (
        ("histories", f"{ran.histories:,} ({', '.join(f'{a} to {b}' for a, b in ran.ranges)})"),
        ("steps", f"{ran.steps:,}, with {ran.operations:,} operations on the network"),
        ("transitions", f"{ran.transitions:,}"),
        ("rounds until settled", f"{mean:.1f} on average, {ran.most_rounds} at most"),
        ("rewinds after two faults", f"{ran.rewinds:,}; offsets read again by faults: {ran.doubled:,}"),
        ("rarest fault in a state", f"{ran.rarest:,}"),
        ("seeds per second", f"{ran.histories / max(0.001, took_s):.1f} in {took_s:.0f} s"),
        ("failed", f"{len(ran.failed)}"),
    ):
        print(f"{name:28} {text}")


if __name__ == "__main__":
    sys.exit(main())
