"""The databases on which the contracts of sinks, state and dead letters hold."""

from pathlib import Path

import pytest

from tests.postgres_server import sink_url


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a database."""
    return sink_url(request, tmp_path)
