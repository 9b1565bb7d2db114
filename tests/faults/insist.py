"""Questions to Kafka that are repeated until there is an answer."""

import time
from collections.abc import Callable
from typing import TypeVar

from coordinator_tasks.core.errors import KafkaUnavailable

V = TypeVar("V")
INSIST_S = 120.0


def insist(ask: Callable[[], V]) -> V:
    """Return Kafka's answer, as soon as there is one.

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
