"""A taker begins where the giver has released."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Release, Token
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


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda r: replace(r, epoch=r.epoch - 1), id="of an older entry"),
        pytest.param(lambda r: replace(r, epoch=r.epoch + 1), id="of a newer entry"),
        pytest.param(lambda r: replace(r, by="z"), id="by another than the giver"),
        pytest.param(lambda r: replace(r, generation="g0"), id="of another generation"),
    ],
)
def test_a_release_that_is_not_the_entrys_own_starts_nothing(stage: Stage, spoil: Callable[[Release], Release]) -> None:
    stage.node = replace(stage.node, epoch=4)
    take(stage, 1)
    stage.ownership.grants.on_releases({1: spoil(release_of(stage, 1, 55, Token(1, 6, GENERATION)))})
    stage.tick()
    assert stage.running == {}
    assert 1 in stage.ownership.grants.awaited()
