"""One-shot watches: a node whose watch has fired is read at once, every other node at each poll.

A callback only notes the path and wakes the agent's thread; it never reads and never blocks.
"""

import queue
from collections.abc import Callable

from coordinator_tasks.core.ports import Watcher


class Watches:
    """Which paths are armed, and which are to be read again."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._fired: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._armed: set[str] = set()
        self._dirty: set[str] = set()
        self._life = 0

    def renew(self) -> None:
        """A new session: no watch of the old one counts."""
        self._life += 1
        self._armed.clear()
        self._dirty.clear()

    def arm(self, path: str) -> Watcher | None:
        """The watcher to read `path` with, or `None` if one is armed already."""
        if path in self._armed:
            return None
        self._armed.add(path)
        life = self._life
        return lambda: self.fire(path, life)

    def fire(self, path: str, life: int | None = None) -> None:
        """From any thread: `path` is to be read at once, unless that is for a session before the present one."""
        self._fired.put((self._life if life is None else life, path))
        self._wake()

    def disarm(self, path: str) -> None:
        """The read that was to arm it has failed."""
        self._armed.discard(path)

    def is_armed(self, path: str) -> bool:
        return path in self._armed

    def take(self, path: str) -> bool:
        """Whether `path` has fired since it was last taken."""
        while not self._fired.empty():
            life, fired = self._fired.get()
            if life == self._life:
                self._armed.discard(fired)
                self._dirty.add(fired)
        fresh = path in self._dirty
        self._dirty.discard(path)
        return fresh
