"""A clock that stands still until moved."""


class FakeClock:
    """`ports.Clock`; sleeping moves it, and nothing ever waits."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(0.0, seconds)

    advance = sleep
