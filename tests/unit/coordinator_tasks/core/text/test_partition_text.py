"""Partitions in sentences."""

from coordinator_tasks.core.text.partition_text import merged


def test_what_is_said_of_each_partition_is_said_once_of_all() -> None:
    stopped = [f"partition {p} stopped: its topic was recreated" for p in range(12)]
    others = ["the sink is away", "partition 3: it is behind", *(f"partition {p} was taken by b" for p in (7, 5))]
    assert merged([*stopped, *others]) == (
        "partitions 0-11 stopped: its topic was recreated",
        "the sink is away",
        "partition 3: it is behind",
        "partitions 5,7 were taken by b",
    )
