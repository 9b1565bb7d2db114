"""The time of a taker's request for the topic's id."""

from dataclasses import replace

from coordinator_tasks.core.model import Handoff, Release, Token
from spark_apps.agent.ownership.work import OffsetFetch, perform
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage, release_of


def asks_id(stage: Stage) -> list[tuple[tuple[int, ...], bool]]:
    """Perform the due requests: the partitions of each look, and whether the look asks for the topic's id."""
    found = []
    while (work := stage.ownership.requests.work()) is not None:
        if isinstance(work, OffsetFetch):
            found.append((work.partitions, work.asks_id))
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return found


def await_release(stage: Stage, topic_id: str = "id-1") -> None:
    """Partition 0 moves to us after the release of `b`."""
    entry = Handoff("b", "a", stage.node.epoch + 1)
    stage.node = replace(stage.node, epoch=entry.epoch, handoff={0: entry}, topic_id=topic_id)
    stage.ownership.grants.on_node(stage.node)


def released(stage: Stage) -> dict[int, Release]:
    return {0: release_of(stage, 0, 40, Token(1, 6, GENERATION))}


def test_a_taker_asks_for_the_topics_id_while_it_waits_and_not_again(stage: Stage) -> None:
    await_release(stage)
    assert stage.ownership.requests.next_at() <= stage.clock.monotonic()
    assert asks_id(stage) == [((), True)]
    assert asks_id(stage) == []
    stage.ownership.grants.on_releases(released(stage))
    assert asks_id(stage)[0] == ((0,), False)


def test_whoever_starts_without_a_release_asks_for_the_id(stage: Stage) -> None:
    await_release(stage)
    assert asks_id(stage) == [((), True)]
    epoch = stage.node.epoch + 1
    stage.node = replace(stage.node, epoch=epoch, handoff={}, assignments={0: "a"}, since={0: epoch})
    stage.ownership.grants.on_node(stage.node)
    assert asks_id(stage)[0] == ((0,), True)
