"""Nothing that we start outlives its owner, unless it was detached on purpose; then another process can end it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from coordinator_tasks.devstack.embedded import detached
from coordinator_tasks.devstack.embedded.errors import ProcessFailed
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec

pytestmark = pytest.mark.integration

GONE_TIMEOUT_S = 90.0

# Starts a real server, and a shell whose grandchild leaves its session; tells all ids and waits.
OWNER = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background of a shell
from pathlib import Path
from coordinator_tasks.devstack.embedded import detached
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper

folder, way = Path(sys.argv[1]), sys.argv[2]
escaped = folder / "escaped.pid"
shell = f"setsid sh -c 'echo $$ > {escaped}; exec sleep 600' & sleep 600 & wait"
spec = ProcessSpec("shell", ("sh", "-c", shell), folder / "shell.log")
with EmbeddedZooKeeper(folder / "zookeeper") as server, ManagedProcess(spec, escaped.exists) as process:
    while not escaped.read_text():
        time.sleep(0.01)
    print(server.pid, process.pid, escaped.read_text().strip(), flush=True)
    if way == "detach":
        detached.detach(folder / "state.json", [server, process], {"zookeeper": server.connect_string})
    print(server.pid, process.pid, escaped.read_text().strip(), flush=True)
    if way == "detach":
                sys.exit()  # leaves the blocks, which must not end what was detached
    time.sleep(600)
"""


def start_owner(folder: Path, way: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, folder, way], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    processes = [psutil.Process(int(pid)) for pid in owner.stdout.readline().split()]
    assert len(processes) == 3
    return owner, processes


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def assert_gone(processes: list[psutil.Process]) -> None:
    deadline_s = time.monotonic() + GONE_TIMEOUT_S
    while alive(processes):
        assert time.monotonic() < deadline_s, alive(processes)
        time.sleep(0.05)


@pytest.mark.parametrize(
    "ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["kill -9", "SIGTERM", "Ctrl-C"]
)
def test_no_process_outlives_its_owner(tmp_path: Path, ending: signal.Signals) -> None:
    owner, processes = start_owner(tmp_path, "wait")
    assert alive(processes) == processes
    owner.send_signal(ending)
    owner.wait(GONE_TIMEOUT_S)
    assert_gone(processes)


@pytest.fixture
def left_behind(tmp_path: Path) -> Iterator[tuple[Path, list[psutil.Process]]]:
    owner, processes = start_owner(tmp_path, "detach")
    owner.wait(GONE_TIMEOUT_S)
    yield tmp_path / "state.json", processes
    for process in alive(processes):
        process.kill()


def test_detached_processes_go_on_and_another_process_ends_them(
    left_behind: tuple[Path, list[psutil.Process]],
) -> None:
    state_file, processes = left_behind
    time.sleep(1)
    assert alive(processes) == processes
    assert "zookeeper" in detached.details(state_file)
    assert detached.stop(state_file) >= len(processes)
    assert_gone(processes)
    assert not state_file.exists()
    assert detached.stop(state_file) == 0


def test_a_recycled_process_id_is_never_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        entry = {"name": "ZooKeeper", "pid": stranger.pid, "started_s": psutil.Process(stranger.pid).create_time() - 60}
        state_file = tmp_path / "state.json"
        state_file.write_text(json.dumps({"format": 1, "mark": "none-has-it", "processes": [entry], "details": {}}))
        assert detached.stop(state_file) == 0
        assert stranger.poll() is None
        stranger.kill()


def shell(tmp_path: Path, script: str, *, stop_timeout_s: float = 5.0) -> ProcessSpec:
    return ProcessSpec("Example", ("sh", "-c", script), tmp_path / "example.log", stop_timeout_s=stop_timeout_s)


def test_a_process_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    process = ManagedProcess(shell(tmp_path, "echo no such luck; exit 3"), ready=lambda: False)
    with pytest.raises(ProcessFailed, match=r"Example ended with exit code 3 .*no such luck.*example\.log"):
        process.start()


def test_a_process_that_is_not_ready_in_time_is_not_left_behind(tmp_path: Path) -> None:
    process = ManagedProcess(shell(tmp_path, "sleep 600"), ready=lambda: False)
    with pytest.raises(ProcessFailed, match=r"not ready within 0\.3 s"):
        process.start(timeout_s=0.3)
    assert not process.running


def test_stopping_is_asked_once_forced_after_its_limit_and_takes_children_along(tmp_path: Path) -> None:
    started = tmp_path / "started"
    script = f"trap 'echo asked' TERM; sleep 600 & echo $! > {started}; while :; do wait; done"
    process = ManagedProcess(shell(tmp_path, script, stop_timeout_s=0.5), ready=started.exists)
    process.start()
    child = psutil.Process(int(started.read_text()))
    process.terminate()
    process.stop()
    process.stop()
    assert not process.running
    assert_gone([child])
    assert (tmp_path / "example.log").read_text() == "asked\n"


def test_reaping_ends_what_has_left_its_session(tmp_path: Path) -> None:
    escaped = tmp_path / "escaped.pid"
    script = f"setsid sh -c 'echo $$ > {escaped}; exec sleep 600' & wait"
    code = (
        "import sys; from pathlib import Path; from coordinator_tasks.devstack.embedded.processes import *\n"
        f"s = ProcessSpec('x', ('sh', '-c', {script!r}), Path({str(tmp_path / 'x.log')!r}))\n"
        f"p = ManagedProcess(s, Path({str(escaped)!r}).exists); p.start(); p.stop(); print(reap_all())"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout == "1\n"
    assert not psutil.pid_exists(int(escaped.read_text())) or not alive([psutil.Process(int(escaped.read_text()))])
