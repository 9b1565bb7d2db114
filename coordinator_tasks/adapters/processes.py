"""Names of this machine's processes. By the name of a former process, a consumer can tell whether it has ended.

A name is the process's PID namespace and its process id there. The process has ended when no process has this id. A
stopped process or a zombie still has the id, and a new process with the id counts as the old process. So `is_gone` may
be wrongly False. `is_gone` is never wrongly True, if both names are of the same kernel (`bootId`) and no process is
copied or restored from a checkpoint. If its namespace is uncertain, a process has no name.
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
    # The line has one id for each namespace, from the namespace of /proc down to ours. If it has several ids, /proc is
    # of another namespace.
    ids = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    name = f"{namespace}/{own}"
    return name if ids == [str(own)] and _NAME.fullmatch(name) else ""


def is_gone(name: str) -> bool:
    """Return whether the process of this name has certainly ended. The name was given on this boot."""
    asked, own = _NAME.fullmatch(name), _NAME.fullmatch(this_process())
    if asked is None or own is None or asked.group(1) != own.group(1):
        return False
    try:
        os.kill(int(asked.group(2)), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # the process is alive, and belongs to another user
        return False
    return False
