"""The options with which both sources read topics of the same content, and what has to come of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

COUNTS = (40, 30, 10)
"""How many records are in each partition."""
FIRST_MS, STEP_MS = 1_700_000_000_000, 1_000
"""Record n of every partition has the time `FIRST_MS + n * STEP_MS`."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is given by partition stands here without the topic's name.

    `first`: the offset at which each partition begins; `tasks`: how many tasks read it all, 0 = as a source likes.
    """

    options: Mapping[str, object]
    first: tuple[int, int, int]
    tasks: int = 0

    def given(self, topic: str) -> dict[str, str]:
        return {
            name: json.dumps({topic: value}) if isinstance(value, dict) else str(value)
            for name, value in self.options.items()
        }


def time_ms(number: int) -> int:
    return FIRST_MS + number * STEP_MS


CASES = {
    "offsets": Case({"startingOffsets": {"0": 8, "1": -2, "2": -1}, "minPartitions": 8}, (8, 0, 10), 8),
    "times": Case(
        {
            "startingOffsetsByTimestamp": {"0": time_ms(10), "1": time_ms(12) + 1, "2": 1},
            "startingOffsets": "latest",
            "maxRecordsPerPartition": 11,
        },
        (10, 13, 0),
        6,
    ),
    "one-time": Case(
        {
            "startingTimestamp": time_ms(20),
            "startingOffsetsByTimestamp": {"0": 1, "1": 1, "2": 1},
            "startingOffsetsByTimestampStrategy": "latest",
        },
        (20, 20, 10),
    ),
}


def topic_of(prefix: str, case: str) -> str:
    """Each case has a topic of its own, which two queries of ours could not share."""
    return f"options-{prefix}{case}"
