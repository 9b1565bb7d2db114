"""Files and folders that belong to this process's user, for this user only."""

import grp
import os
import pwd
import stat
import struct
from pathlib import Path

from coordinator_tasks.core.errors import BadSettings

_ACCESS_LIST = "system.posix_acl_access"
_ENTRY, _USER, _GROUP, _MASK, _WRITE = "<HHI", 0x02, 0x08, 0x10, 0x02
"""Tag, rights and uid or gid of an entry, as `linux/posix_acl_xattr.h` has them behind a version of four bytes."""


def read_private(path: Path, what: str) -> str:
    """Return the text of a file with secrets.

    Raises `BadSettings` for another user's or an open file; `OSError`, `ValueError`.

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
    """Return the problem with the owner; empty for this process's user."""
    own = os.geteuid()
    return "" if found.st_uid == own else f"belongs to the user with uid {found.st_uid}, not to this one ({own})"


def open_to_others(folder: Path) -> str:
    """Return why another user could replace this folder or its content; empty if no other user can.

    Every folder on the way is checked, as written and behind symbolic links. A missing folder is made by this process.
    """
    given = folder.absolute()
    for one in dict.fromkeys(
        above for start in (given, Path(os.path.realpath(given))) for above in (start, *start.parents)
    ):
        try:
            found = one.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{one} cannot be looked at: {error.strerror}"
        if found.st_uid not in (0, os.geteuid()):
            return f"{one} {foreign(found)}"
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISLNK(found.st_mode) or mode & stat.S_ISVTX:
            continue  # a link has no mode; in a folder with the sticky bit nobody renames another user's files
        if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_of_one(found.st_gid)):
            return f"{one} may be written by others (mode {mode:04o}, no sticky bit)"
        if others := _writers(one):
            return f"{one} may be written by {others} (its access list, see getfacl; no sticky bit)"
    return ""


def _writers(folder: Path) -> str:
    """Return another user or group with write access in the folder's POSIX access list; empty if absent.

    The kernel bounds the list to 64 KiB, and gives none where the file system has no such lists.
    """
    try:
        raw = os.getxattr(folder, _ACCESS_LIST)
    except OSError:
        return ""
    entries = list(struct.iter_unpack(_ENTRY, raw[4 : 4 + (len(raw) - 4) // 8 * 8]))
    mask = next((rights for tag, rights, _ in entries if tag == _MASK), _WRITE)
    for tag, rights, number in entries:
        if not rights & mask & _WRITE:
            continue
        if tag == _USER and number not in (0, os.geteuid()):
            return f"the user with uid {number}"
        if tag == _GROUP and not _is_of_one(number):
            return f"the group with gid {number}"
    return ""


def _is_of_one(group: int) -> bool:
    """Return whether the group is root's, or only contains this process's user."""
    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return group == 0
    return group == 0 or (
        group == user.pw_gid and members.gr_name == user.pw_name and set(members.gr_mem) <= {user.pw_name}
    )


def stamp(path: str) -> tuple[int, ...]:
    """Return a value that changes with every write, replacement or change of rights; empty while the file is missing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - an empty path is no file, and `Path` would make it the folder
    except OSError:
        return ()
    # A file system may give two changes of a moment the same time.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode, found.st_uid, found.st_gid
