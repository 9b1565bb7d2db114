"""Find and end every process that has a mark in its environment. As a script, this file guards an owner process.

Each owner draws a mark and gives it to all processes that it starts
(:mod:`coordinator_tasks.devstack.embedded.processes`). Children inherit the mark in any session or process group. So a
single scan finds the whole tree, even if the owner is gone. The guard is a small process that waits for its owner's
death and then ends all processes with the mark. This works also after kill -9, when no signal handler or exit hook of
the owner runs.

The file imports nothing of this project, so that it starts in a tenth of a second, from any working directory.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterable, Iterator

import psutil

MARK_VARIABLE = "COORDINATOR_EMBEDDED_MARK"
DISARM = b"d"
OWNER_POLL_S = 0.5
GRACE_S = 5.0
KILL_WAIT_S = 5.0
GONE_POLL_S = 0.02
# A child between fork and exec shows the mark only after its exec. So scan again before "none" is certain.
RESCAN_S = 0.3
RESCANS_MAX = 20


def marked(mark: str) -> list[psutil.Process]:
    """Return the live processes that have inherited ``mark``, and their descendants, without this process."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if not _carries(process, mark):
            continue
        found[process.pid] = process
        found.update((child.pid, child) for child in _descendants(process))
    found.pop(os.getpid(), None)
    return [process for process in found.values() if _alive(process)]


def session_members(session_id: int, mark: str) -> Iterator[psutil.Process]:
    """Yield live processes of a session with ``mark``. Without the mark, the session's id may be recycled by a
    stranger.
    """
    for process in psutil.process_iter():
        try:
            member = os.getsid(process.pid) == session_id
        except (ProcessLookupError, PermissionError):
            continue
        if member and _alive(process) and _carries(process, mark):
            yield process


def send(processes: Iterable[psutil.Process], signal_number: signal.Signals) -> None:
    """Send a signal to each process that still exists. psutil detects a recycled id."""
    for process in processes:
        try:
            process.send_signal(signal_number)
        except psutil.NoSuchProcess:
            continue


def end(processes: list[psutil.Process], *, grace_s: float = GRACE_S) -> None:
    """Send SIGTERM, wait at most ``grace_s``, then send SIGKILL to the rest."""
    send(processes, signal.SIGCONT)
    send(processes, signal.SIGTERM)
    rest = wait_gone(processes, timeout_s=grace_s)
    send(rest, signal.SIGKILL)
    wait_gone(rest, timeout_s=KILL_WAIT_S)


def wait_gone(processes: Iterable[psutil.Process], *, timeout_s: float) -> list[psutil.Process]:
    """Wait until no process is alive. Return the processes alive after ``timeout_s``. A zombie counts as gone."""
    deadline_s = time.monotonic() + timeout_s
    while rest := [process for process in processes if _alive(process)]:
        if time.monotonic() > deadline_s:
            break
        time.sleep(GONE_POLL_S)
    return rest


def reap(mark: str, *, grace_s: float = GRACE_S) -> int:
    """End every process with ``mark``. Return how many there were."""
    ended = 0
    for _ in range(RESCANS_MAX):
        processes = marked(mark)
        if not processes:
            time.sleep(RESCAN_S)
            processes = marked(mark)
        if not processes:
            break
        end(processes, grace_s=grace_s)
        ended += len(processes)
    return ended


def guard(owner_pid: int, mark: str) -> None:
    """Wait until the owner is gone or closes standard input, then end all marked processes. On ``DISARM``, return."""
    while os.getppid() == owner_pid:
        readable, _, _ = select.select([0], [], [], OWNER_POLL_S)
        if not readable:
            continue
        if os.read(0, 1) == DISARM:
            return
        break
    reap(mark)


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return mark in process.environ().get(MARK_VARIABLE, "")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    guard(int(sys.argv[1]), sys.argv[2])
