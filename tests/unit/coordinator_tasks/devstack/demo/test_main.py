"""What the command says when it cannot begin, and when it is interrupted."""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator_tasks.devstack.demo import __main__ as command
from coordinator_tasks.devstack.demo.stack import Folders
from coordinator_tasks.devstack.embedded import detached

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


@pytest.mark.parametrize(
    ("rest", "said"),
    [({}, "everything was ended"), ({"airflow": "http://here"}, "end what still runs with: make demo-stop")],
    ids=["nothing runs", "something runs"],
)
def test_who_interrupts_learns_whether_something_still_runs(
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rest: dict[str, str],
    said: str,
) -> None:
    monkeypatch.setattr(command, "stop_kept", interrupted)
    monkeypatch.setattr(detached, "details", {folders.kept: rest}.__getitem__)
    assert command.main() == command.INTERRUPTED_EXIT
    assert capsys.readouterr().out == f"interrupted; {said}\n"


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
