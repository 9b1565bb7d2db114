"""Every reachable state of the production rules, within bounds: `decide` against consumers on `core.holding`.

One action at a time: a read of any node version not older than the picture, a stop, the end of the last batch, a start,
a release, a look of the coordinator with all answers or with one missing, a crash, a restart, an isolation of a
surviving consumer (a zombie), a confirmed readmission. In every state: no two consumers run a partition unless one was
isolated, stored data is valid, and epochs grow. In every quiet state, with all answers: Stable. `sweep` makes the
search fast.

    python -m tests.simulation.search
"""

import argparse
import gc
import sys
from pathlib import Path

from tests.simulation.states import Bounds, Found
from tests.simulation.sweep import Search

CAP = 250_000  # of the small bounds: irrelevant to the present rules, but broken rules may never end
SMALL = (
    Bounds(3, 1, 99, 1, 1, most=CAP),
    Bounds(2, 2, 3, 1, 1, most=CAP),
    Bounds(3, 1, 99, 1, 0, drains=1, most=CAP),
    Bounds(2, 2, 4, 1, 0, drains=1, most=CAP),
    Bounds(3, 1, 4, 0, 0, drains=3, most=CAP),
)
FULL = (
    Bounds(3, 1, 99, 2, 1),  # 489,826 states
    Bounds(3, 2, 4, 2, 1),  # 4,072,024
    Bounds(3, 3, 4, 2, 1),  # 15,157,192
    Bounds(3, 1, 99, 2, 1, late=True),  # 1,388,884
    Bounds(3, 1, 99, 2, 1, drains=1),  # 41,017,561
    Bounds(3, 1, 99, 0, 0, drains=3),  # 902,952
    Bounds(2, 2, 99, 1, 1, drains=1, late=True),  # 12,166,685
    Bounds(3, 2, 99, 2, 1),  # 11,986,055
)
PIECE_S = 300.0  # seconds between two reports and saves of the findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.search", description="All states within bounds.")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="for each of the bounds")
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where searches that are not complete go on")
    given = parser.parse_args()
    for number, bounds in enumerate(FULL):
        try:
            _search(bounds, given.limit_s, given.folder / f"search-{number}.pickle")
        except Found as found:
            print(f"{bounds}: {found}")
            return 1
    return 0


def _search(bounds: Bounds, limit_s: float, path: Path) -> None:
    search = Search.begun(bounds, path)
    print(bounds, flush=True)
    gc.disable()  # millions of numbers that are no garbage; real garbage is collected after each piece
    while limit_s > 0:
        piece_s = min(limit_s, PIECE_S)
        search.run(piece_s)
        limit_s -= piece_s
        gc.collect()
        search.save(path)
        print(f"    {search}", flush=True)
        if search.complete:
            break


if __name__ == "__main__":
    sys.exit(main())
