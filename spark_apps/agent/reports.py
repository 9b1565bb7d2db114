"""A consumer's reported problems: the latest sentence for each matter, until cleared."""

from collections.abc import Hashable

MAX_REPORTS = 100


class Reports:
    """Bounded: the oldest matter gives way."""

    def __init__(self) -> None:
        self._texts: dict[Hashable, str] = {}

    def add(self, matter: Hashable, text: str) -> bool:
        """Store the sentence; return True if new."""
        if self._texts.get(matter) == text:
            return False
        self._texts.pop(matter, None)
        self._texts[matter] = text
        while len(self._texts) > MAX_REPORTS:
            del self._texts[next(iter(self._texts))]
        return True

    def clear(self, matter: Hashable) -> None:
        """The matter is over."""
        self._texts.pop(matter, None)

    def all(self) -> tuple[str, ...]:
        return tuple(self._texts.values())
