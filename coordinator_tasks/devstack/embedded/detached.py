"""Detach processes from their owner, so that another process can end them later.

A file names the detached processes: the owner's mark, and for each process its id and start time. So a later process
with the same id is not ended by mistake. The file also has details such as addresses, but no secrets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import psutil

from coordinator_tasks.devstack.embedded import reaper
from coordinator_tasks.devstack.embedded.errors import EmbeddedError
from coordinator_tasks.devstack.embedded.processes import Guard, ManagedProcess

FORMAT = 1
START_TIME_TOLERANCE_S = 1.0
STOP_GRACE_S = 20.0


class _Process(TypedDict):
    name: str
    pid: int
    started_s: float


class _State(TypedDict):
    format: int
    mark: str
    processes: list[_Process]
    details: dict[str, str]


def detach(state_file: Path, processes: Sequence[ManagedProcess], details: Mapping[str, str]) -> None:
    """Write the file, and let all started processes outlive this process. ``processes``: in the order of their start.

    The objects of the processes give them up, so the end of a ``with`` block does not end them.
    """
    guard = Guard.current()
    entries: list[_Process] = [
        {"name": process.spec.name, "pid": process.pid, "started_s": psutil.Process(process.pid).create_time()}
        for process in processes
        if process.running
    ]
    state: _State = {"format": FORMAT, "mark": guard.mark, "processes": entries, "details": dict(details)}
    state_file.parent.mkdir(parents=True, exist_ok=True)
    scratch = state_file.with_suffix(f".{os.getpid()}")
    scratch.touch(mode=0o600)
    scratch.write_text(json.dumps(state, indent=2))
    scratch.replace(state_file)
    guard.disarm()
    for process in processes:
        process.release()


def details(state_file: Path) -> dict[str, str]:
    """Return the details given to :func:`detach`, if any of the processes still runs; otherwise empty."""
    if not state_file.exists():
        return {}
    state = _read(state_file)
    return state["details"] if reaper.marked(state["mark"]) else {}


def stop(state_file: Path) -> int:
    """End the processes, the last started first, and remove the file. Return how many there were."""
    if not state_file.exists():
        return 0
    state = _read(state_file)
    ended = 0
    for entry in reversed(state["processes"]):
        process = _same_process(entry["pid"], entry["started_s"])
        if process is not None:
            reaper.end([process], grace_s=STOP_GRACE_S)
            ended += 1
    ended += reaper.reap(state["mark"])
    state_file.unlink()
    return ended


def _read(state_file: Path) -> _State:
    try:
        state: _State = json.loads(state_file.read_text())
    except ValueError as error:
        raise EmbeddedError(
            f"{state_file} is damaged, so its processes cannot be ended from here: end them by hand and delete the file"
        ) from error
    if state.get("format") != FORMAT:
        raise EmbeddedError(
            f"{state_file} has format {state.get('format')}, not {FORMAT}: use the version that wrote it"
        )
    return state


def _same_process(pid: int, started_s: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started_s) < START_TIME_TOLERANCE_S
    except psutil.NoSuchProcess:
        return None
    return process if same else None
