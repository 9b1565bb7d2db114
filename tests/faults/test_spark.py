"""Spark drivers killed and stopped in the middle of joins and leaves, judged by the checker of the plain cases."""

from pathlib import Path

import pytest

from tests.faults.spark import DEEDS, ROLES, applications, join_and_leave

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(3000)]


@pytest.mark.parametrize("deed", DEEDS)
def test_a_giver_or_taker_that_is_killed_or_asleep_loses_nothing(tmp_path: Path, deed: str) -> None:
    with applications(tmp_path) as apps:
        for role in ROLES:
            join_and_leave(apps, deed, role)
            assert apps.problems() == [], role
