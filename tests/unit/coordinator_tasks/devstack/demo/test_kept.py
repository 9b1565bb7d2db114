"""The last lines of `make demo KEEP=1`: a readable settings file, and existing commands."""

import shlex
import stat
from pathlib import Path

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.devstack.demo import flow, kept
from coordinator_tasks.settings import Settings, settings_from_environment

SETTINGS = Settings(
    "demo",
    "127.0.0.1:2181",
    {"bootstrap.servers": "127.0.0.1:9092", "log_level": "0"},
    status_token="a-token",
    answer_timeout_s=30.0,
    allowed=AllowedLaunches(conf="spark.driver.extraJavaOptions", folders="/srv/rows"),
)


def said(path: Path) -> tuple[str, ...]:
    return kept.lines(path, "http://127.0.0.1:8080 (user admin, password x)", flow.TOPIC, flow.APP, flow.DRAINED)


def test_the_command_line_reads_the_settings_that_the_terminal_names(tmp_path: Path) -> None:
    path = tmp_path / "my settings.json"
    kept.write_settings(path, SETTINGS)
    (_, typed) = next(shlex.split(line.split("  ")[-1]) for line in said(path) if "export " in line)
    name, _, value = typed.partition("=")
    assert settings_from_environment({name: value}) == SETTINGS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
