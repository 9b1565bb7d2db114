"""Files and folders that only this process's user may read or change."""

import grp
import os
import pwd
import stat
import struct
from pathlib import Path

from coordinator_tasks.core.errors import BadSettings

_ACCESS_LIST = "system.posix_acl_access"
_ENTRY, _USER, _GROUP, _MASK, _WRITE = "<HHI", 0x02, 0x08, 0x10, 0x02
"""The layout of an entry (tag, rights, and uid or gid), after a version of four bytes, as in `linux/posix_acl_xattr.h`.
"""


def read_private(path: Path, what: str) -> str:
    """Return the text of a file with secrets. `what` names the file in errors, such as `the settings file`.

    Raises `BadSettings` if the file belongs to another user or other users may read it; `OSError`; `ValueError`.
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
    """Return the problem if another user is the owner; empty if this process's user is."""
    own = os.geteuid()
    return "" if found.st_uid == own else f"belongs to the user with uid {found.st_uid}, not to this one ({own})"


def open_to_others(folder: Path) -> str:
    """Return why another user could replace this folder or its content; empty if no other user can.

    Every parent folder is checked, on the path as written and after symbolic links. This process creates missing ones.
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
            continue  # a link has no mode; in a folder with the sticky bit only its owner can rename it
        if mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_of_one(found.st_gid)):
            return f"{one} may be written by others (mode {mode:04o}, no sticky bit)"
        if others := _writers(one):
            return f"{one} may be written by {others} (its access list, see getfacl; no sticky bit)"
    return ""


def _writers(folder: Path) -> str:
    """Return another user or group with write access by the folder's POSIX access list; empty if there is none.

    The kernel limits the list to 64 KiB. If the file system has no such lists, there is none.
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
    """Return whether the group is root's, or has no member but this process's user."""
    try:
        user, members = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return group == 0
    return group == 0 or (
        group == user.pw_gid and members.gr_name == user.pw_name and set(members.gr_mem) <= {user.pw_name}
    )


def stamp(path: str) -> tuple[int, ...]:
    """Return a value that changes with every write, replacement or change of rights; empty if the file is missing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - an empty path is no file, and `Path` would make it the folder
    except OSError:
        return ()
    # Two changes at nearly the same moment may get the same time from the file system.
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode, found.st_uid, found.st_gid
