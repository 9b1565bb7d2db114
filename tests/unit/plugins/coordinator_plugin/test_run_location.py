"""Where a driver may run on without its task."""

from pathlib import Path

import pytest
from coordinator_plugin import run_location

from coordinator_tasks.core.errors import Refused


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
def test_in_a_container_of_airflow_nothing_is_let_go(tmp_path: Path, first: str, allowed: str, refused: bool) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "cmdline").write_bytes(first.replace(" ", "\0").encode())
    problem = run_location.let_go_problem({"COORDINATOR_LET_GO": allowed} if allowed else {}, tmp_path)
    assert ("would die with it" in problem) is refused


@pytest.mark.parametrize(("given", "elsewhere"), [(None, False), ("", False), ("no", False), ("yes", True)])
def test_launches_are_elsewhere_where_the_site_says_yes(given: str | None, elsewhere: bool) -> None:
    environ = {} if given is None else {"COORDINATOR_LAUNCHER_SERVICE": given}
    assert run_location.launched_elsewhere(environ) is elsewhere


def test_what_is_neither_yes_nor_no_is_refused_and_not_taken_for_no() -> None:
    with pytest.raises(Refused, match=r"COORDINATOR_LAUNCHER_SERVICE .* is 'true'; set it to yes or no"):
        run_location.launched_elsewhere({"COORDINATOR_LAUNCHER_SERVICE": "true"})
    with pytest.raises(Refused, match=r"COORDINATOR_LET_GO .* is 'True'; set it to yes or no"):
        run_location.let_go_problem({"COORDINATOR_LET_GO": "True"})
