"""The certain end of a process of this host: never reported of a living process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_tasks.adapters import processes
from coordinator_tasks.adapters.processes import is_gone, this_process

ROOT = Path(__file__).parents[4]
NAMESPACE = str(Path("/proc/self/ns/pid").readlink())
SAYS = "from coordinator_tasks.adapters.processes import *; import sys; {}"
NAMES_ITSELF = SAYS.format("print(this_process(), flush=True); sys.stdin.read()")


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Another process and its name."""
    command = [sys.executable, "-c", NAMES_ITSELF]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, process.stdout.readline().strip()
        process.kill()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def reaches(pid: int, wanted: str) -> bool:
    deadline_s = time.monotonic() + 10.0
    while state(pid) != wanted and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return state(pid) == wanted


def test_this_process_has_a_name_and_is_not_gone() -> None:
    assert this_process() == f"{NAMESPACE}/{os.getpid()}"
    assert not is_gone(this_process())


def test_a_process_is_gone_once_it_is_killed_and_collected(other: tuple[subprocess.Popen[str], str]) -> None:
    process, name = other
    assert not is_gone(name)
    process.send_signal(signal.SIGSTOP)
    assert reaches(process.pid, "T")
    assert not is_gone(name), "it is stopped, and may go on"
    process.kill()
    assert reaches(process.pid, "Z")
    assert not is_gone(name), "nobody has collected it"
    process.wait()
    assert is_gone(name)


def test_another_user_s_process_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not is_gone(f"{NAMESPACE}/2000000000")


def test_a_process_of_another_namespace_is_never_gone() -> None:
    assert not is_gone("pid:[1]/2000000000"), "a container with the same boot id"


@pytest.mark.parametrize(
    "status",
    ["", "NSpid:\n", "NSpid:\t1\n", f"NSpid:\t7\t{os.getpid()}\n", f"NSpid:\t{os.getpid()}\t{os.getpid()}\n"],
    ids=["empty", "no number", "another", "one level down", "two levels of one number"],
)
def test_nothing_is_known_of_another_namespace(status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{NAMESPACE}/2000000000"
    assert is_gone(name)
    (tmp_path / "status").write_text(status)
    monkeypatch.setattr(processes, "_STATUS", tmp_path / "status")
    assert (this_process(), is_gone(name)) == ("", False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes namespaces here")
@pytest.mark.parametrize("proc", ["--mount-proc", "--mount"], ids=["with its own /proc", "with its parent's /proc"])
def test_a_container_knows_nothing_of_its_host_s_processes(proc: str) -> None:
    asked = SAYS.format("print(is_gone(sys.argv[1]), this_process() == sys.argv[1])")
    command = ["unshare", "--pid", "--fork", proc, sys.executable, "-c", asked, this_process()]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout == "False False\n"
