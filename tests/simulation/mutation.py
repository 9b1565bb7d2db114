"""Break the rules of `tests.simulation.mutants` one by one, and check which suites notice.

    python -m tests.simulation.mutation            # all that are missing in build/mutants.json
    python -m tests.simulation.mutation --only 3 7

Works on the living functions of forked processes; the tree is never touched.
"""

import argparse
import json
import sys

from tests.simulation.forks import BROKEN, ENDLESS, ROOT, Change, Tests, each, keep, with_tests
from tests.simulation.mutants import MUTANTS, Mutant, mutated
from tests.simulation.suites import SUITES, UNIT

FILE = ROOT / "build" / "mutants.json"
WALL_S = 3600
"""Of one suite with one mutant, on a busy machine too."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.mutation", description="Which suite notices what."
    )
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the mutants")
    parser.add_argument("--suites", nargs="*", default=list(SUITES), choices=list(SUITES))
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin nothing further after so long")
    given = parser.parse_args()
    return with_tests(UNIT, lambda tests: _all(tests, given))


def _all(tests: Tests, given: argparse.Namespace) -> int:
    known: dict[str, dict[str, bool]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    chosen = [(n, m) for n, m in enumerate(MUTANTS) if given.only is None or n in given.only]
    jobs = [(number, suite) for number, mutant in chosen for suite in given.suites if suite not in _of(known, mutant)]

    def ask(job: tuple[int, str]) -> int:
        change = change_of(MUTANTS[job[0]])
        change.apply()
        return SUITES[job[1]](tests, change)

    def done(job: tuple[int, str], result: int) -> None:
        mutant = MUTANTS[job[0]]
        if result == BROKEN or (result == ENDLESS and job[1] != "unit"):  # a test has a time limit, other suites do not
            print(f"{job[0]:3} {job[1]:10} broken off: {mutant.rule}", flush=True)
            return
        known.setdefault(mutant.rule, {})[job[1]] = bool(result)
        keep(FILE, known)
        how = {0: "-", ENDLESS: "no end"}.get(result, "noticed")
        print(f"{job[0]:3} {job[1]:10} {how:8} {mutant.rule}", flush=True)

    each(jobs, ask, done, limit_s=given.limit_s, each_s=WALL_S)
    return _summary(known)


def _of(known: dict[str, dict[str, bool]], mutant: Mutant) -> dict[str, bool]:
    return known.get(mutant.rule, {})


def change_of(mutant: Mutant) -> Change:
    """Return the changed functions."""
    path, text = mutated(mutant)
    before, after = (compile(one, path, "exec") for one in (path.read_text(), text))
    return Change.of(mutant.function, before, after)


def _summary(known: dict[str, dict[str, bool]]) -> int:
    tried = [m for m in MUTANTS if len(_of(known, m)) == len(SUITES)]
    missed = [m.rule for m in tried if not any(known[m.rule].values())]
    print(f"\n    {' '.join(f'{suite:10}' for suite in SUITES)}")
    for number, mutant in enumerate(MUTANTS):
        marks = " ".join(f"{suite if _of(known, mutant).get(suite) else '-':10}" for suite in SUITES)
        print(f"{number:3} {marks} {mutant.rule}")
    by_suite = {suite: sum(known[m.rule].get(suite, False) for m in tried) for suite in SUITES}
    shown = ", ".join(f"{suite} {n}" for suite, n in by_suite.items())
    print(f"\n{len(tried)} of {len(MUTANTS)} mutants tried by all suites, {len(tried) - len(missed)} caught ({shown})")
    for rule in missed:
        print(f"not caught: {rule}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
