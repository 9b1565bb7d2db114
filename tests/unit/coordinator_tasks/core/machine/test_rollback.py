"""Until when a roll back places partitions."""

from coordinator_tasks.core.machine.rollback import placed
from coordinator_tasks.core.model import Rollback, TopicConfig


def test_a_roll_back_places_partitions_until_it_ends() -> None:
    timed = TopicConfig(
        "orders",
        "id-1",
        "kafka:9092",
        "g",
        rollback=Rollback("7-x", {1: "a", 2: "gone"}, {"a": 4}, "kim", "", 5.0, 60.0),
    )
    assert placed(timed, {"a": 4}, 64.0) == {1: "a"}
    assert placed(timed, {"a": 4}, 65.0) == {}
