"""The phases of a partition: the page draws the table, and every phase is reached and left."""

import pytest

from coordinator_tasks.core.model import Token
from coordinator_tasks.core.protocol.holding import Grant, Via
from spark_apps.agent.ownership.owned_partition import OwnedPartition
from spark_apps.agent.ownership.phases import Phase, PhaseEvent


def test_what_the_table_does_not_have_is_a_defect_and_changes_nothing() -> None:
    held = OwnedPartition(Grant(0, Token(1, 5), Via.ASSIGNED), "id-1", 0)
    with pytest.raises(KeyError):
        held.advance(PhaseEvent.COMMITTED)
    assert held.phase is Phase.FETCHING
