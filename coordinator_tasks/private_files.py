"""Files and folders that belong to this process's user, and that only this user may use."""

import os
import stat
from pathlib import Path

from coordinator_tasks.core.errors import BadSettings


def read_private(path: Path, what: str) -> str:
    """The text of a file with secrets. Raises `BadSettings` if it is another user's or open to others; `OSError`, `ValueError`.

    `what` names the file in the error, such as `the settings file`.
    """
    with path.open(encoding="utf-8") as file:
        found = os.fstat(file.fileno())
        if problem := foreign(found):
            raise BadSettings(
                f"{what} {path} {problem}; its owner could change it: chown it to the user that runs this"
            )
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o077:
            raise BadSettings(
                f"{what} {path} may be read by others (mode {mode:04o}) and can hold secrets; run chmod 600 {path}"
            )
        return file.read()


def foreign(found: os.stat_result) -> str:
    """What is wrong with the owner; empty if it is this process's user."""
    own = os.geteuid()
    return "" if found.st_uid == own else f"belongs to the user with uid {found.st_uid}, not to this one ({own})"


def stamp(path: str) -> tuple[int, ...]:
    """What changes whenever the file is written or replaced, or who may read it; empty while it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - an empty path is no file, and `Path` would make it the folder
    except OSError:
        return ()
    # A file system may give two changes of a moment the same time.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode, found.st_uid, found.st_gid
