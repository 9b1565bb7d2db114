"""A taker begins where the giver has released."""

from dataclasses import replace

from coordinator_tasks.core.model import Token
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage, release_of, take


def test_the_taker_starts_at_the_released_offset_under_the_epoch_of_the_entry(stage: Stage) -> None:
    stage.commit(1, 40, Token(0, 6, GENERATION))
    take(stage, 1)
    stage.wait(1)
    assert stage.running == {}
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(1, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 55
    assert stage.committed(1).token == Token(1, 5, GENERATION)


def test_the_taker_prefers_a_committed_position_with_a_token_as_new_as_the_release(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=4)
    stage.commit(1, 60, Token(3, 6, GENERATION))
    take(stage, 1)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(3, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 60
