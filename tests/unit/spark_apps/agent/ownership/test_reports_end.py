"""A report about a partition ends when the partition is another consumer's, or is gone."""

from collections.abc import Callable

import pytest

from coordinator_tasks.core.model import Token
from spark_apps.agent.ownership.work import Failed
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, Stage


def recreated(stage: Stage) -> None:
    stage.kafka.create_topic("t", 4)
    stage.wait(1.0)


def taken(stage: Stage) -> None:
    stage.commit(0, 40, Token(90, 6, GENERATION))
    stage.wait(1.0)


def refused(stage: Stage) -> None:
    stage.ownership.requests.cannot_read({0: "no rights"})


def kafka_is_down(stage: Stage) -> None:
    stage.clock.advance(1.0)
    assert stage.ownership.requests.work() is not None
    stage.ownership.requests.answer(Failed("no broker answers"))


@pytest.mark.parametrize("end", [{"assignments": {0: "b"}}, {"assignments": {}}, {"removed": True}], ids=str)
@pytest.mark.parametrize("trouble", [recreated, taken, refused, kafka_is_down])
def test_what_is_not_ours_any_more_is_not_reported(
    trouble: Callable[[Stage], None], end: dict[str, object], stage: Stage
) -> None:
    stage.own(0)
    trouble(stage)
    assert stage.ownership.reports.all()
    stage.read(**{"assignments": {}, "since": {0: stage.node.epoch + 1} if end.get("assignments") else {}, **end})
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.ownership.reports.all() == ()
