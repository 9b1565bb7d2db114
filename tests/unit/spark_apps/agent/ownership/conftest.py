"""The stage of the tests of ownership."""

import pytest

from tests.unit.spark_apps.agent.ownership.stage import Stage


@pytest.fixture
def stage() -> Stage:
    """Consumer `a`, which owns nothing yet."""
    return Stage()
