"""An engine of several processes that need each other."""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec

READY_S = 180.0


class Engine:
    """Each process starts when the one before it is ready, and ends before it. `folder` holds their logs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._processes: list[ManagedProcess] = []

    def __enter__(self) -> Self:
        try:
            for process in self._processes:
                process.start(READY_S)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Also what has not started."""
        for process in reversed(self._processes):
            process.stop()

    def add(self, name: str, *argv: str, ready: Callable[[], bool]) -> None:
        """The next process; `ready` as in `ManagedProcess`."""
        spec = ProcessSpec(name=name, argv=argv, log_path=self.folder / f"{name}.log", cwd=self.folder)
        self._processes.append(ManagedProcess(spec, ready=ready))
