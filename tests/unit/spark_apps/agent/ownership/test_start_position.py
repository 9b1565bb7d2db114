"""Where a partition begins that has no committed offset."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import StartRule
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.records.options import LATEST, Starting
from tests.unit.spark_apps.agent.ownership.stage import Stage


@pytest.mark.parametrize(
    ("rule", "initial", "offset"),
    [
        pytest.param(StartRule.EARLIEST, 4, 0, id="earliest starts at the beginning"),
        pytest.param(StartRule.LATEST, 4, 100, id="latest starts at the end"),
        pytest.param(StartRule.LATEST, 1, 0, id="a partition that appeared later starts at its beginning anyhow"),
    ],
)
def test_without_a_commit_the_start_rule_decides(stage: Stage, rule: StartRule, initial: int, offset: int) -> None:
    stage.node = replace(stage.node, start=rule, initial_partitions=initial)
    stage.own(2)
    assert stage.committed(2).offset == offset


@pytest.mark.parametrize(
    ("starting", "offset"),
    [
        pytest.param(Starting(every=LATEST), 110, id="latest"),
        pytest.param(Starting(offsets={2: 7}), 7, id="an offset"),
        pytest.param(Starting(offsets={0: 7}), 0, id="an offset of another partition"),
        pytest.param(Starting(every_ms=5000), 100, id="one time for all"),
        pytest.param(Starting(timestamps_ms={2: 5000}), 100, id="a time"),
        pytest.param(Starting(timestamps_ms={0: 5000}), 0, id="a time of another partition"),
        pytest.param(Starting(every_ms=5001, else_latest=True), 110, id="no record so late, the end then"),
    ],
)
def test_the_options_of_the_source_go_before_the_start_rule(stage: Stage, starting: Starting, offset: int) -> None:
    stage.kafka.append("t", 2, 10, at_ms=5000)
    stage.ownership.open(FirstOffsets(starting))
    stage.own(2)
    assert stage.committed(2).offset == offset


def test_the_options_of_the_source_are_for_the_partitions_that_were_there_at_first(stage: Stage) -> None:
    stage.kafka.append("t", 2, 10, at_ms=5000)
    stage.node = replace(stage.node, initial_partitions=2)
    stage.ownership.open(FirstOffsets(Starting(every_ms=5000)))
    stage.own(1, 2)
    assert stage.committed(2).offset == 0, "a partition that appeared later starts at its beginning anyhow"
    assert stage.reported("partition 1: no record")


def test_a_time_after_the_last_record_is_an_error_that_names_the_partition_and_starts_nothing(stage: Stage) -> None:
    stage.ownership.open(FirstOffsets(Starting(every_ms=1_700_000_000_000)))
    stage.own(2)
    stage.wait(1)
    assert stage.running == {}
    assert stage.ownership.grants.idle, "it is given up under this grant"
    assert stage.reported("partition 2: no record at or after 2023-11-14T22:13:20+00:00")


def test_a_time_that_no_calendar_has_keeps_no_other_partition_from_its_start(stage: Stage) -> None:
    """Microseconds where milliseconds are asked for."""
    micros = 1_700_000_000_000_000
    stage.ownership.open(FirstOffsets(Starting(timestamps_ms={0: micros})))
    stage.own(0, 2)
    stage.wait(1)
    assert stage.running.keys() == {2}
    assert stage.reported(f"partition 0: no record at or after {micros} ms since 1970")
