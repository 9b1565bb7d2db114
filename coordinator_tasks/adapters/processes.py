"""Names of this machine's processes. By such a name a consumer knows that the former process of its id has ended.

A name is the process's PID namespace and the process id there. A process has ended when no process has this id. A
stopped process or a zombie still has the id, and a new process with the same id counts as the old process. So `is_gone`
may be wrongly False, but never wrongly True, if both names are of the same kernel (`bootId`) and processes are not
copied or restored from a checkpoint. Without a certain namespace, a process has no name.
"""

import os
import re
from pathlib import Path

_STATUS = Path("/proc/self/status")
_NAMESPACE = Path("/proc/self/ns/pid")
_NAME = re.compile(r"(pid:\[[0-9]{1,20}\])/([1-9][0-9]{0,9})")


def this_process() -> str:
    """Return the name of this process, such as `pid:[4026531836]/4711`; empty if unknown."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        namespace = _NAMESPACE.readlink()
    except OSError:
        return ""
    own = os.getpid()
    # One id per namespace, from the namespace of /proc down to ours. Several ids mean that /proc is another
    # namespace's.
    ids = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    name = f"{namespace}/{own}"
    return name if ids == [str(own)] and _NAME.fullmatch(name) else ""


def is_gone(name: str) -> bool:
    """Return whether this process, named on this boot, has certainly ended."""
    asked, own = _NAME.fullmatch(name), _NAME.fullmatch(this_process())
    if asked is None or own is None or asked.group(1) != own.group(1):
        return False
    try:
        os.kill(int(asked.group(2)), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # alive, and another user's
        return False
    return False
