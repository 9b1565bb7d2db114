"""One-shot watches. A node whose watch has fired is read at once; all other nodes are read at each poll.

A callback only notes the path and wakes the agent's thread; it never reads and never blocks.
"""

import queue
from collections.abc import Callable

from coordinator_tasks.core.ports import Watcher


class Watches:
    """The paths with an armed watch, and the paths to read again."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._fired: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._armed: set[str] = set()
        self._dirty: set[str] = set()
        self._life = 0

    def renew(self) -> None:
        """Begin a new session. Watches of the old session no longer count."""
        self._life += 1
        self._armed.clear()
        self._dirty.clear()

    def arm(self, path: str) -> Watcher | None:
        """Return the watcher for a read of `path`; `None` if a watch is armed already."""
        if path in self._armed:
            return None
        self._armed.add(path)
        life = self._life
        return lambda: self.fire(path, life)

    def fire(self, path: str, life: int | None = None) -> None:
        """Schedule a read of `path`, unless `life` belongs to an earlier session. Callable from any thread."""
        self._fired.put((self._life if life is None else life, path))
        self._wake()

    def disarm(self, path: str) -> None:
        """Note that the read that should arm the watch has failed."""
        self._armed.discard(path)

    def is_armed(self, path: str) -> bool:
        return path in self._armed

    def take(self, path: str) -> bool:
        """Return whether the watch of `path` has fired since the last call."""
        while not self._fired.empty():
            life, fired = self._fired.get()
            if life == self._life:
                self._armed.discard(fired)
                self._dirty.add(fired)
        fresh = path in self._dirty
        self._dirty.discard(path)
        return fresh
