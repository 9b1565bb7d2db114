"""The folder of a consumer on its host, with facts that launcher, consumer and waiting tasks share.

`[BASE]/[CLUSTER]/[CONSUMER]/` contains
- `launcher.lock`: locked by the launcher while it lives, so that a host never starts an id twice;
- `settings.json` and `kafka.json` (mode 0600): connection settings, the second for the executors' Kafka reader;
- `openlineage.json` (mode 0600): the site's transport of OpenLineage, if Airflow has one;
- `driver.log`, and from the start before `driver.previous.log`;
- `incarnation`: the drawn number. The consumer writes it, or the launcher if the consumer failed before drawing;
- `leaving.json`: written by a consumer that leaves: its process will end soon. With the reason if it had to leave;
- `ended.json`: exit code, reason and time. The launcher writes it when all processes of the consumer have ended.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import SECRET_WORDS, check_cluster, check_consumer
from coordinator_tasks.private_files import foreign, open_to_others

HIDDEN = "[hidden]"
_URL_PASSWORD = re.compile(r"(?<=://)[^/\s@]*:[^/\s@]*(?=@)")
SECRET_CHARS = 4
"""A shorter value is no secret: hiding it would cut pieces out of ordinary words."""
_SECRET_NAME = re.compile(rf"({'|'.join(map(re.escape, SECRET_WORDS))})(?!.*(file|location|url|method|extensions))")


def make_folder(path: Path) -> None:
    """Make a folder for our own files if missing; raises `Refused`."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Refused(
            f"the folder {path} cannot be made: {error.strerror}; choose another base folder, or correct its rights"
        ) from error


class RunFolder:
    """The paths of the files. `path`: the consumer's own folder. `kafka`, `settings` and `openlineage` hold secrets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = path / "launcher.lock"
        self.settings = path / "settings.json"
        self.kafka = path / "kafka.json"
        self.openlineage = path / "openlineage.json"
        self.log = path / "driver.log"
        self.incarnation = path / "incarnation"
        self.leaving = path / "leaving.json"
        self.ended = path / "ended.json"

    @classmethod
    def of(cls, base: Path, cluster: str, consumer: str) -> "RunFolder":
        """Return the folder of a consumer below `base`; raises `InvalidName`."""
        return cls(base / check_cluster(cluster) / check_consumer(consumer))

    def problem(self) -> str:
        """Return why another user could change the folder's content; empty if no user can, or the folder is missing."""
        if said := open_to_others(self.path.parent):
            return f"the run folder {self.path} could be replaced by others: {said}; choose another base folder, or correct this one"
        try:
            found, link = self.path.stat(), self.path.lstat()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"the run folder {self.path} cannot be looked at: {error.strerror}; choose another base folder, or correct it"
        if said := foreign(found) or foreign(link):
            return f"the run folder {self.path} {said}; choose another base folder, or chown this one"
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o022:
            return f"the run folder {self.path} may be changed by others (mode {mode:03o}); run chmod 700 {self.path}"
        return ""

    def make(self) -> None:
        """Make the folder if missing. Raises `Refused` if this fails, or if another user could change its content."""
        make_folder(self.path)
        if problem := self.problem():
            raise Refused(problem)

    def begin(self) -> None:
        """Make the folder, set the last log aside, and delete all other files of the last start; raises `Refused`."""
        self.make()
        if self.log.exists():
            self.log.replace(self.path / "driver.previous.log")
        for file in (self.incarnation, self.leaving, self.ended):
            file.unlink(missing_ok=True)

    def log_format(self) -> str:
        """Return the log format in the consumer's settings; empty if not set."""
        return _text(_read(self.settings), "log_format")

    def secrets(self) -> list[str]:
        """Return the secret values in the consumer's settings, the longest first; empty without readable settings."""
        found = {*_secrets(_read(self.settings)), *_secrets(_read(self.kafka))}
        return sorted(found, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """Return the text without secret values of the consumer's settings, and without log-ins in addresses."""
        for secret in self.secrets():
            text = text.replace(secret, HIDDEN)
        return _URL_PASSWORD.sub(HIDDEN, text)

    def write_drawn(self, incarnation: int) -> None:
        """Note the drawn incarnation. Make the folder if missing. Raises `OSError`."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.incarnation.write_text(f"{incarnation}\n")

    def drawn(self) -> int:
        """Return the incarnation drawn since the last start; 0 if none was drawn."""
        try:
            return int(self.incarnation.read_text())
        except (OSError, ValueError):
            return 0

    def exit_code(self, since_at: float = 0.0) -> int | None:
        """Return the consumer's exit code, if it ended after the last start and `since_at`; `None` while it runs."""
        ended = _read(self.ended)
        code, at = ended.get("code"), ended.get("at", 0.0)
        return code if isinstance(code, int) and isinstance(at, int | float) and at >= since_at else None

    def reason(self) -> str:
        """Return why the consumer ended, by the launcher's note; empty after a clean leave, and while it runs."""
        return _text(_read(self.ended), "reason")

    def leaves(self) -> str | None:
        """Return why the consumer leaves (empty if it was asked to); `None` if it does not leave."""
        return _text(_read(self.leaving), "reason") if self.leaving.exists() else None

    def write_ended(self, code: int, reason: str, at: float) -> None:
        """Note that all processes of the consumer have ended; `at`: seconds since 1970."""
        write_private(self.ended, {"code": code, "reason": reason, "at": at})

    def write_leaving(self, reason: str, at: float) -> None:
        """Note that the consumer's process will end soon; raises `OSError`."""
        write_private(self.leaving, {"reason": reason, "at": at})

    def log_tail(self, lines: int = 20, limit_bytes: int = 8000) -> str:
        """Return the end of the driver's log; empty if this process cannot read the log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - limit_bytes))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])


def write_private(path: Path, data: object) -> None:
    """Write JSON in one step, into a file that only its owner may read."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(data, file)
    scratch.replace(path)


def _secrets(data: dict[str, Any]) -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _secrets(value)
        elif isinstance(value, str) and len(value) >= SECRET_CHARS and _SECRET_NAME.search(name.lower()):
            yield value


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
