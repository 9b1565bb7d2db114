"""Time and turns: every thread of every process is a greenlet that stops before each operation on the network.

Nothing here uses chance or real time. The history decides the next thread, and the fate of the pending operation.
"""

from collections.abc import Callable

from greenlet import GreenletExit, getcurrent, greenlet


class Host:
    """A process: its fibers die with the process and stand still during a pause. `skew_s`: error of the wall clock."""

    def __init__(self, kernel: "Kernel", name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.alive = True
        self.paused = False
        self.skew_s = 0.0
        self.clock = HostClock(self)

    @property
    def running(self) -> bool:
        return self.alive and not self.paused


class HostClock:
    """`ports.Clock` of a host: common monotonic seconds, a separate wall clock."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def now(self) -> float:
        return self._host.kernel.now + self._host.skew_s

    def monotonic(self) -> float:
        return self._host.kernel.now

    def sleep(self, seconds: float) -> None:
        self._host.kernel.sleep(seconds)


class Fiber:
    """A thread of a host. `at` is the next operation, `fault` that operation's fate."""

    def __init__(self, host: Host, name: str, run: Callable[[], None]) -> None:
        self.host = host
        self.name = name
        self.run = run
        self.at = ""
        self.fault = ""
        self.wake_at = 0.0
        self.dead = False
        self.strand: _Strand | None = None


class _Strand(greenlet):
    """Runs fibers in succession: making a greenlet costs as much as twenty operations."""

    fiber: Fiber

    def run(self) -> None:
        while True:
            try:
                self.fiber.run()
            except GreenletExit:
                return
            finally:
                self.fiber.dead = True
            self.parent.switch()


class Kernel:
    """The clock and the switch between fibers."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self._idle: list[_Strand] = []

    def io(self, kind: str) -> str:
        """Stop before an operation; return its fault, or an empty text. No stop outside of fibers."""
        strand = getcurrent()
        if not isinstance(strand, _Strand):
            return ""
        fiber = strand.fiber
        if not fiber.host.alive:
            raise GreenletExit
        fiber.at = kind
        strand.parent.switch()
        fault, fiber.fault, fiber.at = fiber.fault, "", ""
        return fault

    def who(self) -> str:
        """Return the host of the running fiber; empty outside of fibers."""
        strand = getcurrent()
        return strand.fiber.host.name if isinstance(strand, _Strand) else ""

    def sleep(self, seconds: float) -> None:
        strand = getcurrent()
        if isinstance(strand, _Strand):
            strand.fiber.wake_at = self.now + seconds
            self.io("sleep")
        else:
            self.now += seconds

    def resume(self, fiber: Fiber) -> None:
        """Let the fiber run up to the next operation, or the end."""
        strand = fiber.strand
        if strand is None:
            strand = fiber.strand = self._idle.pop() if self._idle else _Strand()
            strand.fiber = fiber
        strand.switch()
        if fiber.dead and not strand.dead:
            self._idle.append(strand)

    def kill(self, fiber: Fiber) -> None:
        """End the fiber at its present place."""
        if fiber.strand is not None and not fiber.dead:
            fiber.strand.throw(GreenletExit)
        fiber.dead = True

    def close(self) -> None:
        """Release the fibers' objects: a waiting greenlet and its frames are never garbage."""
        for strand in self._idle:
            strand.throw(GreenletExit)
        self._idle.clear()
