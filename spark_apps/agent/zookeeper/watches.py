"""One-shot watches: a node with a fired watch is read at once, every other node at each poll.

A callback only notes the path and wakes the agent's thread; it never reads and never blocks.
"""

import queue
from collections.abc import Callable

from coordinator_tasks.core.ports import Watcher


class Watches:
    """The armed paths, and the paths to read again."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._fired: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        self._armed: set[str] = set()
        self._dirty: set[str] = set()
        self._life = 0

    def renew(self) -> None:
        """Begin a new session: watches of the old session no longer count."""
        self._life += 1
        self._armed.clear()
        self._dirty.clear()

    def arm(self, path: str) -> Watcher | None:
        """Return the watcher for a read of `path`, or `None` if armed already."""
        if path in self._armed:
            return None
        self._armed.add(path)
        life = self._life
        return lambda: self.fire(path, life)

    def fire(self, path: str, life: int | None = None) -> None:
        """Schedule a read of `path`, unless `life` is an earlier session; callable from any thread."""
        self._fired.put((self._life if life is None else life, path))
        self._wake()

    def disarm(self, path: str) -> None:
        """The read that should arm the watch has failed."""
        self._armed.discard(path)

    def is_armed(self, path: str) -> bool:
        return path in self._armed

    def take(self, path: str) -> bool:
        """Return whether `path` has fired since the last take."""
        while not self._fired.empty():
            life, fired = self._fired.get()
            if life == self._life:
                self._armed.discard(fired)
                self._dirty.add(fired)
        fresh = path in self._dirty
        self._dirty.discard(path)
        return fresh
