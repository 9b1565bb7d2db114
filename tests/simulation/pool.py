"""Histories on all cores: chunks of seeds, run in separate processes."""

import gc
import multiprocessing
from collections.abc import Callable

from tests.simulation.history import run_seed
from tests.simulation.totals import Totals

CHUNK = 50
LIFE = 12
"""Chunks per process: it collects no garbage, some 20 MB per chunk, and ends instead."""


def run_chunk(seeds: tuple[int, int]) -> Totals:
    """Run the seeds from first to last, both included."""
    first, last = seeds
    totals = Totals()
    for seed in range(first, last + 1):
        totals.add(run_seed(seed))
    return totals


def run_all(first: int, count: int, done: Callable[[Totals], None]) -> None:
    """Hand every chunk's totals to `done` as they come; a failed seed ends the run."""
    chunks = [(at, min(at + CHUNK, first + count) - 1) for at in range(first, first + count, CHUNK)]
    # Not forked: a child without this process's threads would collect objects opened by other tests.
    with multiprocessing.get_context("spawn").Pool(initializer=gc.disable, maxtasksperchild=LIFE) as pool:
        for totals in pool.imap(run_chunk, chunks):
            done(totals)
            if totals.failed:
                return
