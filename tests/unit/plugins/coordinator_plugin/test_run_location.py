"""Where a driver may run on without its task."""

from pathlib import Path

import pytest
from coordinator_plugin import run_location


@pytest.mark.parametrize(
    ("first", "allowed", "refused"),
    [
        ("/sbin/init", "", False),
        ("/lib/systemd/systemd --system", "", False),
        ("/usr/bin/dumb-init -- /entrypoint airflow scheduler", "", True),
        ("/usr/bin/dumb-init -- /entrypoint celery worker", "", True),
        ("/usr/bin/tini -- /start", "", True),
        ("/pause", "", True),
        ("/usr/bin/dumb-init -- /entrypoint airflow celery worker", "yes", False),
    ],
)
def test_a_container_that_ends_with_airflow_is_no_place_to_let_go(
    tmp_path: Path, first: str, allowed: str, refused: bool
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "cmdline").write_bytes(first.replace(" ", "\0").encode())
    problem = run_location.let_go_problem({"COORDINATOR_LET_GO": allowed} if allowed else {}, tmp_path)
    assert ("would die with it" in problem) is refused
