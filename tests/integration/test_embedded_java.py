"""A Java that is missing, too old or too new is refused in one line that says what, why and what to do next."""

import errno
import re
from pathlib import Path

import pytest

from coordinator_tasks import java
from coordinator_tasks.devstack.embedded import host
from coordinator_tasks.java import JavaUnavailable, find_java

pytestmark = pytest.mark.integration


def fake_java(folder: Path, version_line: str) -> Path:
    """A home with a ``java`` that only tells its version, as real ones do: to standard error."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "jvm")


def refusal() -> str:
    with pytest.raises(JavaUnavailable) as caught:
        find_java()
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("Java 17 to 24 is needed")
    assert "install Java 17" in message
    return message


@pytest.mark.usefixtures("nowhere")
def test_no_java_at_all() -> None:
    assert "neither JAVA_HOME nor PATH nor " in refusal()


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    ("version_line", "why"),
    [
        ('java version "1.8.0_292"', "has Java 8 .* too old"),
        ('openjdk version "25" 2025-09-16', "has Java 25 .* too new"),
        ("no Java runtime present", "does not run"),
    ],
    ids=["8", "25", "a stub"],
)
def test_an_unusable_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version_line: str, why: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", version_line)))
    message = refusal()
    assert "JAVA_HOME" in message
    assert re.search(why, message)


@pytest.mark.usefixtures("nowhere")
def test_a_home_that_a_java_cannot_spell_is_found_by_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = fake_java(tmp_path / "jürgen", f'    java.home = {tmp_path}/j??rgen\nopenjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java().home == home


def test_a_full_disk_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/cache/fetch-1")

    monkeypatch.setattr(host, "ensure_java", lambda: None)
    monkeypatch.setattr(host, "ensure_kafka_jars", full)
    assert host.main() == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "No space left on device: '/cache/fetch-1'" in said
    assert "COORDINATOR_CACHE" in said


def test_an_unpacking_that_was_interrupted_leaves_no_half_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*commands: list[str], cwd: str | None = None) -> bool:
        if commands[0][0] == "dpkg-deb":
            program = Path(commands[0][-1]) / "usr" / "bin" / "promtool"
            program.parent.mkdir(parents=True)
            program.write_text("a half")
            raise KeyboardInterrupt
        (Path(cwd or "") / "prometheus_1.deb").touch()
        return True

    monkeypatch.setenv("COORDINATOR_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(host, "can_install", lambda: True)
    monkeypatch.setattr(host, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.ensure_prometheus()
    assert host.prometheus_program("promtool") is None
