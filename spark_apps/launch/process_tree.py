"""All processes below this process: lists, signals, ends and reaps them.

The caller becomes a subreaper (Linux, prctl(2)), so orphans become its children and are still found.
"""

import ctypes
import os
import signal
import time
from contextlib import suppress

import psutil

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Adopt orphans below this process; raises `OSError`."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot become a subreaper")


def living() -> list[psutil.Process]:
    """Return all live processes below this process."""
    try:
        found = psutil.Process().children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in found if _alive(process)]


def is_living(process: psutil.Process) -> bool:
    """Return whether this process lives. A new process with the same pid does not count. Reads only this process."""
    return process.is_running() and _alive(process)


def python_with(argument: str) -> psutil.Process | None:
    """Return the first Python process below this process that has `argument` among its arguments."""
    for process in living():
        try:
            program, *arguments = process.cmdline() or [""]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if "python" in program.rpartition("/")[2] and argument in arguments:
            return process
    return None


def send(number: signal.Signals, pid: int | None = None) -> None:
    """Send a signal to the process `pid`, if it is below this process; by default, to every process below."""
    for process in living():
        if pid in (None, process.pid):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                process.send_signal(number)


def reap(codes: dict[int, int]) -> bool:
    """Reap ended children, and store their exit codes by pid in `codes`. Return False if no child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        codes[pid] = os.waitstatus_to_exitcode(status)


def end_all(codes: dict[int, int], *, grace_s: float, poll_s: float = 0.05) -> None:
    """Send SIGTERM to all processes, wait at most `grace_s`, then send SIGKILL until all have ended."""
    send(signal.SIGTERM)
    deadline_s = time.monotonic() + grace_s
    while reap(codes):
        if time.monotonic() > deadline_s:
            send(signal.SIGKILL)
        time.sleep(poll_s)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
