"""The folder for files that are fetched or prepared once. Several processes share it under a lock."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator_tasks.devstack.embedded.errors import CacheUnavailable

FOLDER_VARIABLE = "COORDINATOR_CACHE"
LOCK_TIMEOUT_S = 330.0
"""Longer than the longest work under a lock, the fetch of Kafka's jars."""
LOCK_POLL_S = 0.2


def cache_folder() -> Path:
    """Return COORDINATOR_CACHE, or else this project's folder in the user's cache folder."""
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kafka-partition-coordinator"


@contextmanager
def exclusive(name: str) -> Iterator[Path]:
    """Hold the lock ``name`` in the block, and yield the cache folder. If the holder dies, the lock is free again."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / f"{name}.lock").open("w")
    except OSError as error:
        raise CacheUnavailable(
            f"the cache folder {folder} cannot be written ({error.strerror}): set {FOLDER_VARIABLE} to one that can"
        ) from error
    with lock:
        _acquire(lock.fileno(), name)
        yield folder


def _acquire(descriptor: int, name: str) -> None:
    deadline_s = time.monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise CacheUnavailable(
                    f"another process has been preparing {name} for {LOCK_TIMEOUT_S:g} s: end it and start again"
                ) from None
            time.sleep(LOCK_POLL_S)
        else:
            return
