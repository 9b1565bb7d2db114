"""Cut a history that breaks a rule down to the necessary actions: remove parts while the same rule still breaks."""

from collections.abc import Sequence

from tests.simulation.actions import Action
from tests.simulation.history import run
from tests.simulation.totals import Outcome
from tests.simulation.world import Setup

MAX_RUNS = 400


def shrunk(setup: Setup, actions: Sequence[Action], rule: str) -> tuple[list[Action], Outcome]:
    """Return the smallest list found within `MAX_RUNS` runs, and the outcome with the trace."""
    kept = list(actions)
    runs = 0
    size = max(1, len(kept) // 2)
    while size and runs < MAX_RUNS:
        begin = 0
        while begin < len(kept) and runs < MAX_RUNS:
            tried = kept[:begin] + kept[begin + size :]
            runs += 1
            if run(setup, tried).rule == rule:
                kept = tried
            else:
                begin += size
        size //= 2
    return kept, run(setup, kept, traced=True)
