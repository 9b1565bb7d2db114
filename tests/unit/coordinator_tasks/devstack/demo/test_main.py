"""What the command says when it cannot begin, and when it is interrupted."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator_tasks.devstack.demo import __main__ as command
from coordinator_tasks.devstack.demo.stack import Folders

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folders]:
    """Of a demonstration that changes no signal for the tests after it."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    found = Folders(tmp_path / "demo")
    monkeypatch.setattr(command, "default_folders", lambda: found)
    monkeypatch.setattr(sys, "argv", ["demo", "--stop"])
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def a_folder_of_another(folders: Folders) -> None:
    elsewhere = folders.base.parent / "elsewhere"
    (elsewhere / "audit").mkdir(parents=True)
    folders.base.mkdir()
    folders.run.symlink_to(elsewhere)


def a_file_in_its_place(folders: Folders) -> None:
    folders.base.write_text("mine")


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (a_folder_of_another, "/demo/run cannot be deleted: wait if"),
        (a_file_in_its_place, "File exists: '"),
    ],
    ids=["a run folder that cannot be deleted", "a file where the folder should be"],
)
def test_folders_that_cannot_be_used_are_named(
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    there: Callable[[Folders], None],
    said: str,
) -> None:
    there(folders)
    monkeypatch.setattr(sys, "argv", ["demo"])
    monkeypatch.setattr(command, "demonstrate", interrupted)
    assert command.main() == 1
    told = capsys.readouterr().err
    assert told.startswith("FAILED: KPC-075: ")
    assert said in told
