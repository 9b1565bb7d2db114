"""Run histories and print the outcome; a seed that breaks a rule is cut down and printed.

python -m tests.simulation --seeds 10000 --start 50000
python -m tests.simulation --seed 4711 --trace      # a seed, with all events
"""

import argparse
import random
import sys

from tests.simulation.history import generate, run_seed
from tests.simulation.pool import run_all
from tests.simulation.shrink import shrunk
from tests.simulation.totals import Totals


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Seeded histories of the system.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many histories")
    parser.add_argument("--start", type=int, default=random.randrange(10**9), help="the first seed; default: by chance")
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--trace", action="store_true", help="with --seed: print everything that happens")
    given = parser.parse_args()
    return _many(given.start, given.seeds) if given.seed is None else _one(given.seed, given.trace)


def _one(seed: int, trace: bool) -> int:
    outcome = run_seed(seed, traced=trace)
    print(*outcome.trace, sep="\n")
    print(f"seed {seed}: {outcome.broken or 'all held'}; digest {outcome.digest}")
    return 1 if outcome.broken else 0


def _many(start: int, count: int) -> int:
    ran = Totals()
    run_all(start, count, ran.merge)
    print(
        f"seeds {start} to {start + ran.histories - 1}: {len(ran.failed)} failed; {ran.rewinds} rewinds after two faults"
    )
    for seed, text in sorted(ran.failed.items())[:1]:
        print(f"\nseed {seed} broke a rule: {text}")
        print("the actions it needs, and what happens in them:")
        setup, actions = generate(seed)
        kept, outcome = shrunk(setup, actions, text.split(":")[0])
        print(setup, *kept, *outcome.trace, outcome.broken, sep="\n")
    return 1 if ran.failed else 0


if __name__ == "__main__":
    sys.exit(main())
