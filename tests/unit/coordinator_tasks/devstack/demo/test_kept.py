"""What the terminal says after `make demo KEEP=1`: a file that the command line reads, and commands that exist."""

import re
import shlex
import stat
from pathlib import Path

import pytest
from typer.main import get_command

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.cli import app
from coordinator_tasks.devstack.demo import flow, kept
from coordinator_tasks.devstack.demo.stack import PROJECT
from coordinator_tasks.settings import Settings, settings_from_environment

SETTINGS = Settings(
    "demo",
    "127.0.0.1:2181",
    {"bootstrap.servers": "127.0.0.1:9092", "log_level": "0"},
    status_token="a-token",
    answer_timeout_s=30.0,
    allowed=AllowedLaunches(conf="spark.driver.extraJavaOptions"),
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


def test_three_commands_are_shown_and_each_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[5])
    typed = [shlex.split(line) for line in said(tmp_path) if "-m coordinator_tasks" in line]
    assert len(typed) == 3
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for python, _, _, name, *arguments in typed:
        assert python == ".venv/bin/python"
        commands[name].make_context(name, arguments)


def test_the_browser_and_the_end_are_named(tmp_path: Path) -> None:
    text = "\n".join(said(tmp_path))
    assert "http://127.0.0.1:8080 (user admin, password x)" in text
    assert "make demo-stop" in text


def test_the_commands_of_the_how_tos_name_what_the_demonstration_leaves_running() -> None:
    ours = {flow.TOPIC, flow.APP, flow.GROUP, *flow.FIRST, flow.THIRD}
    pages = "".join(page.read_text() for page in sorted((PROJECT / "docs" / "howto").glob("*.md")))
    typed = [line for line in pages.splitlines() if "-m coordinator_tasks " in line and not line.startswith("|")]
    named = {
        word.partition(":")[0] for line in typed for word in re.findall(r"(?<=[ =])(?:billing|orders)[\w:-]*", line)
    }
    assert {flow.TOPIC, flow.APP, "billing-2"} <= named
    assert named <= ours
