"""What the long fault tests have found: one line of JSON per finished case, so that a further run goes on from there."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Notes:
    """The file of results. A case that it names is not tried again; each line has a `part`, a `key` and `problems`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)

    def lines(self) -> list[Line]:
        """All of them; of cases that were noted twice the last."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return list({one["key"]: one for one in map(json.loads, lines)}.values())

    def of(self, part: str) -> list[Line]:
        return [one for one in self.lines() if one["part"] == part]

    def due(self, keys: Iterable[str]) -> list[str]:
        """Those that are not there yet, in their order."""
        done = {one["key"] for one in self.lines()}
        return [key for key in keys if key not in done]

    def add(self, part: str, key: str, *, problems: Iterable[str] = (), **figures: Any) -> None:
        line = {"part": part, "key": key, "problems": list(problems), **figures}
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is asked for: how many pairs of deaths, and minutes without ZooKeeper."""

    pairs: int = 500
    outage_min: float = 3.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One run of a part: where it notes, its scratch folder, until when (monotonic seconds) it may begin a case."""

    notes: Notes
    folder: Path
    until: float
    wanted: Wanted = field(default_factory=Wanted)

    def over(self) -> bool:
        return time.monotonic() > self.until

    def batches(self, due: Sequence[str], size: int) -> Iterator[tuple[int, Sequence[str]]]:
        """Their numbers and so many at once, until the time is over."""
        for number, first in enumerate(range(0, len(due), size)):
            if self.over():
                return
            yield number, due[first : first + size]


@dataclass(frozen=True, slots=True)
class Part:
    """`run` does what is not done yet and is not over; `summary` says in Markdown what it all came to."""

    name: str
    run: Callable[[Turn], None]
    summary: Callable[[Notes, Wanted], str]


def figure(lines: Iterable[Line], name: str) -> float:
    """The largest of this figure, 0 where there is none; a case that failed may have none."""
    return max((float(one.get(name, 0.0)) for one in lines), default=0.0)
