"""An isolated consumer stops everything and releases nothing."""

from coordinator_tasks.core.model import Token
from coordinator_tasks.core.protocol.holding import Reading
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage, give


def test_an_isolated_consumer_stops_everything_and_releases_nothing(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.ownership.grants.on_isolated(True)
    give(stage, 0, 1)
    stage.cover()
    assert stage.running == {}
    assert stage.ownership.releasing.outbox == {}
    assert stage.ownership.status().acted_epoch == 2
    assert stage.committed(0).offset == 30


def test_what_a_lost_isolation_has_ended_begins_again_when_the_node_is_there_and_says_so(stage: Stage) -> None:
    stage.own(0)
    stage.ownership.grants.on_isolated(True)
    stage.tick()
    stage.ownership.grants.on_isolation_lost()
    stage.wait(1)
    assert stage.running == {}
    assert stage.ownership.grants.on_node(stage.node) is Reading.SAME
    stage.wait(1)
    assert stage.running == {0: False}


def test_an_isolated_consumer_looks_before_its_last_commit_and_leaves_a_newer_owner_alone(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.commit(0, 50, Token(9, 6, GENERATION))
    stage.ownership.grants.on_isolated(True)
    stage.cover()
    assert stage.committed(0).offset == 50
