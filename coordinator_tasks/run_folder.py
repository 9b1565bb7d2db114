"""The folder of one consumer on its host: what its launcher, the consumer itself and who waits for it tell each other.

`[BASE]/[CLUSTER]/[CONSUMER]/` holds
- `launcher.lock`: locked by the launcher as long as it lives, so that one id is never started twice on a host;
- `settings.json` and `kafka.json` (mode 0600): connection settings, the second for the Kafka reader of the executors;
- `driver.log`, and `driver.previous.log` of the start before;
- `incarnation`: written by the consumer as soon as it has drawn its number;
- `leaving.json`: written by the consumer when it had to leave, with the reason, or has left: its process is to end soon;
- `ended.json`: exit code, reason and time, written by the launcher when all processes of the consumer have ended.
"""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import check_cluster, check_consumer
from coordinator_tasks.private_files import foreign


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The names of the files; `path` is the consumer's own folder."""

    path: Path

    @classmethod
    def of(cls, base: Path, cluster: str, consumer: str) -> "RunFolder":
        """The folder of a consumer below `base`; raises `InvalidName`."""
        return cls(base / check_cluster(cluster) / check_consumer(consumer))

    @property
    def lock(self) -> Path:
        """Held by the living launcher."""
        return self.path / "launcher.lock"

    @property
    def settings(self) -> Path:
        """The coordinator's settings, with secrets."""
        return self.path / "settings.json"

    @property
    def kafka(self) -> Path:
        """Kafka's settings, with secrets."""
        return self.path / "kafka.json"

    @property
    def log(self) -> Path:
        """What the driver and the launcher say."""
        return self.path / "driver.log"

    @property
    def incarnation(self) -> Path:
        """The number that the consumer has drawn."""
        return self.path / "incarnation"

    @property
    def leaving(self) -> Path:
        """That its process is to end, and why."""
        return self.path / "leaving.json"

    @property
    def ended(self) -> Path:
        """How it ended."""
        return self.path / "ended.json"

    def problem(self) -> str:
        """Why another user could change what is in the folder; empty if nobody can, or if it is not there yet."""
        for folder in (self.path.parent, self.path):
            try:
                found, link = folder.stat(), folder.lstat()
            except FileNotFoundError:
                return ""
            if said := foreign(found) or foreign(link):
                return f"the run folder {folder} {said}; choose another base folder, or chown this one"
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o022:
            return f"the run folder {self.path} may be changed by others (mode {mode:03o}); run chmod 700 {self.path}"
        return ""

    def make(self) -> None:
        """Make the folder where it is missing; raises `Refused` if another user could change what is in it."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if problem := self.problem():
            raise Refused(problem)

    def begin(self) -> None:
        """Make the folder, keep the last log aside and forget what the last start left; raises `Refused`."""
        self.make()
        if self.log.exists():
            self.log.replace(self.path / "driver.previous.log")
        self.incarnation.unlink(missing_ok=True)
        self.leaving.unlink(missing_ok=True)
        self.ended.unlink(missing_ok=True)

    def drawn(self) -> int:
        """The incarnation that the consumer has drawn since the last start; 0 = none yet."""
        try:
            return int(self.incarnation.read_text())
        except (OSError, ValueError):
            return 0

    def exit_code(self) -> int | None:
        """How the consumer ended since the last start; `None` while it runs."""
        code = _read(self.ended).get("code")
        return code if isinstance(code, int) else None

    def reason(self) -> str:
        """Why the consumer ended, as its launcher found; empty after a clean leave, and while it runs."""
        return _text(_read(self.ended), "reason")

    def leaves(self) -> str | None:
        """Why the consumer has said that its process is to end (empty = as it was asked to); `None` if it has not."""
        return _text(_read(self.leaving), "reason") if self.leaving.exists() else None

    def write_ended(self, code: int, reason: str, at: float) -> None:
        """Say that all processes of the consumer have ended; `at`: seconds since 1970."""
        write_private(self.ended, {"code": code, "reason": reason, "at": at})

    def write_leaving(self, reason: str, at: float) -> None:
        """Say that the consumer's process is to end; raises `OSError`."""
        write_private(self.leaving, {"reason": reason, "at": at})

    def log_tail(self, lines: int = 20, limit_bytes: int = 8000) -> str:
        """The end of the driver's log; empty if there is none to be read here."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - limit_bytes))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def write_private(path: Path, data: object) -> None:
    """Write JSON that only its owner may read, so that nobody ever sees half of it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(data, file)
    scratch.replace(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
