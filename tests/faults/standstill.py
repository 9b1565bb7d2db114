"""Servers, or a whole machine, that stand still for a while: no phase of a case counts that time, and questions are repeated."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from coordinator_tasks.core.errors import CoordinatorError, KafkaUnavailable

V = TypeVar("V")
INSIST_S = 120.0
EVERY_S = 1.0
USUAL_S = 1.0
"""What one round of questions may take beside the wait before it."""


class Standstill:
    """Asks each server again and again, in a thread; what a round takes beyond the usual adds up."""

    def __init__(self, *asks: Callable[[], object], every_s: float = EVERY_S, usual_s: float = USUAL_S) -> None:
        self._every_s, self._round_s = every_s, every_s + usual_s
        self._total_s, self._since_s = 0.0, time.monotonic()
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, args=(asks,), name="standstill", daemon=True)
        self._thread.start()

    def total_s(self) -> float:
        """Seconds so far, those of a round under way included."""
        with self._lock:
            return self._total_s + self._late_s()

    def _late_s(self) -> float:
        return max(0.0, time.monotonic() - self._since_s - self._round_s)

    def _run(self, asks: Sequence[Callable[[], object]]) -> None:
        while not self._stop.wait(self._every_s):
            for ask in asks:
                with suppress(
                    CoordinatorError
                ):  # what was refused has an answer; what came too late has taken its time
                    ask()
            with self._lock:
                self._total_s += self._late_s()
                self._since_s = time.monotonic()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


class Patience:
    """A limit of `bound_s` seconds that does not count those in which somebody `stood` (their sum so far).

    `most_s`: seconds in all, for servers that never answer again.
    """

    def __init__(self, bound_s: float, most_s: float, stood: Callable[[], float]) -> None:
        self._bound_s, self._most_s, self._stood = bound_s, most_s, stood
        self._began_s, self._before_s = time.monotonic(), stood()

    @property
    def stood_s(self) -> float:
        """Seconds of standing still since the beginning."""
        return self._stood() - self._before_s

    @property
    def over(self) -> bool:
        passed_s = time.monotonic() - self._began_s
        return passed_s > self._most_s or passed_s - self.stood_s > self._bound_s


def insist(ask: Callable[[], V]) -> V:
    """Kafka's answer, as soon as there is one.

    Partitions that have just been made have no leaders, and the broker makes its own topics.
    """
    deadline = time.monotonic() + INSIST_S
    while True:
        try:
            return ask()
        except KafkaUnavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
