"""A consumer's reported problems. Each matter has one sentence, the latest, until the matter is cleared."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from coordinator_tasks.core.text.partition_text import named

MAX_REPORTS = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """A reported problem for the log. The problem lasts while any report has one of its `matters`."""

    text: str
    matters: frozenset[Hashable]


class _Report(NamedTuple):
    """A sentence, or the text after the number of a `partition`. `several`: the text after several numbers."""

    partition: int | None
    text: str
    several: str

    @property
    def sentence(self) -> str:
        return self.text if self.partition is None else f"partition {self.partition}{self.text}"


class Reports:
    """The reports, up to a maximum: a new matter removes the oldest."""

    def __init__(self) -> None:
        self._found: dict[Hashable, _Report] = {}

    def add(self, matter: Hashable, text: str, *, partition: int | None = None, several: str = "") -> bool:
        """Store the sentence of a matter; return True if the sentence is new.

        With a `partition`, `text` follows the partition's number; `several` follows the numbers of several partitions.
        """
        report = _Report(partition, text, several or text)
        if self._found.get(matter) == report:
            return False
        self._found.pop(matter, None)
        self._found[matter] = report
        while len(self._found) > MAX_REPORTS:
            del self._found[next(iter(self._found))]
        return True

    def clear(self, matter: Hashable) -> None:
        self._found.pop(matter, None)

    def all(self) -> tuple[str, ...]:
        return tuple(one.sentence for one in self._found.values())

    def problems(self) -> tuple[Problem, ...]:
        return tuple(Problem(one.sentence, frozenset({matter})) for matter, one in self._found.items())

    def merged(self) -> tuple[str, ...]:
        """Return the sentences. Equal sentences about single partitions are joined, at the place of the first."""
        found: dict[_Report, set[int]] = {}
        for one in self._found.values():
            which = found.setdefault(one._replace(partition=None), set())
            which.update(() if one.partition is None else (one.partition,))
        return tuple(
            f"{named(which)}{one.several if len(which) > 1 else one.text}" if which else one.text
            for one, which in found.items()
        )
