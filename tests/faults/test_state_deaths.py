"""Owners of a stateful partition that die or stand still at any point of a batch: the totals agree with the log."""

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from coordinator_tasks.core.model import Token
from spark_apps.delivery import SinkUnavailable
from tests.postgres_server import sink_url
from tests.stateful_bench import Bench, arrow, keys

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
FORK = multiprocessing.get_context("fork")
"""An owner begins in milliseconds: Spark's modules are loaded."""
HANDOFFS, DEATHS, ZOMBIES = 200, 90, 10
LOG = [f"k{(7 * offset) % 11}" for offset in range(6_000)]
BATCH = 20
LIMIT_S, LOCKED_S = 30.0, 3.0


def own(bench: Bench, epoch: int, batches: int, parent: Connection) -> None:
    """Claim the partition, and write batches from the sink's position on, until the sink refuses one."""
    token = Token(epoch, 1, "g1")
    while True:
        with suppress(SinkUnavailable):  # a zombie holds the lock
            position = bench.claim("a", token)[0].offset or 0
            break
    parent.send(position)
    for _ in range(batches):
        size = random.Random(position).randint(1, BATCH)
        bench.offsets[0] = position
        if bench.write("a", token, [(0, {"key": key}) for key in LOG[position : position + size]]):
            break
        position += size
    parent.send(None)


def wake(zombies: list[multiprocessing.Process]) -> None:
    """Let former owners go on: a batch is refused or its connection has ended, or it was complete before the next claim."""
    while zombies:
        zombie = zombies.pop()
        os.kill(zombie.pid or 0, signal.SIGCONT)
        zombie.join(LIMIT_S)
        assert zombie.exitcode is not None


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(sink_url(request, tmp_path))
    made.claim("a", Token(1, 1, "g1"))
    made.close()  # a process must not inherit an open connection
    arrow([], made.rows)  # loads pandas once
    yield made
    made.close()


def test_totals_agree_with_the_log_after_two_hundred_hand_offs_and_a_hundred_deaths(bench: Bench) -> None:
    draw = random.Random(7)
    ends = ["hand-off"] * HANDOFFS + ["death"] * DEATHS + ["zombie"] * ZOMBIES
    draw.shuffle(ends)
    zombies: list[multiprocessing.Process] = []
    for epoch, end in enumerate(ends, start=2):
        ours, theirs = FORK.Pipe()
        owner = FORK.Process(target=own, args=(bench, epoch, 2 if end == "hand-off" else 1_000, theirs))
        owner.start()
        theirs.close()
        if not ours.poll(LOCKED_S):
            wake(zombies)  # one stands still inside its transaction
        assert ours.poll(LIMIT_S), "the owner has claimed"
        assert ours.recv() <= len(LOG)
        if end == "hand-off":
            assert ours.poll(LIMIT_S), "the owner has written its batches"
            owner.join(LIMIT_S)
            assert owner.exitcode == 0
            continue
        time.sleep(draw.uniform(0.0, 0.03))  # no condition to wait for: any point of a batch
        os.kill(owner.pid or 0, signal.SIGKILL if end == "death" else signal.SIGSTOP)
        if end == "death":
            owner.join(LIMIT_S)
        else:
            zombies.append(owner)
    (last,) = [entry.offset or 0 for entry in bench.claim("a", Token(1_000, 1, "g1")).values()]
    wake(zombies)
    assert [entry.offset for entry in bench.claim("a", Token(1_001, 1, "g1")).values()] == [last]
    bench.offsets[0] = last
    bench.write("a", Token(1_001, 1, "g1"), keys(0, "z"))
    counts = Counter[str]()
    for key, count in bench.totals():
        counts[key] = max(counts[key], int(count))
    assert counts == Counter([*LOG[:last], "z"])
    assert last > HANDOFFS
