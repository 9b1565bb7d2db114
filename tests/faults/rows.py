"""The rows that the consumers of a case have put into their sinks."""

import json
from pathlib import Path

from coordinator_tasks.devstack.demo.evidence import Row


class Rows:
    """Follows the files of a case's folder; of each only what is new is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._found: list[Row] = []

    def all(self) -> list[Row]:
        """All so far; each writer's in their order."""
        for file in sorted(self._folder.glob("rows-*")):
            data = file.read_bytes()[self._read.get(file, 0) :]
            whole = data[: data.rfind(b"\n") + 1]
            self._read[file] = self._read.get(file, 0) + len(whole)
            for who, life, epoch, p, offset, number, at in map(json.loads, whole.splitlines()):
                self._found.append(Row(who, life, epoch, p, offset, number, 0.0, at))
        return list(self._found)
