"""Names of this machine's processes, so that a consumer can tell that the former process of its id is over.

A name is the process's namespace and its id there. It is over when no process has this id: a process that is stopped or is
a zombie has it still, and a stranger that was given the id again is taken for it. So `is_gone` may say no too often, and
never yes too often, as long as the two were asked under one kernel (`bootId`) whose processes are not copied or restored
from a checkpoint. Where the kernel does not tell the namespace for sure, a process has no name.
"""

import os
import re
from pathlib import Path

_STATUS = Path("/proc/self/status")
_NAMESPACE = Path("/proc/self/ns/pid")
_NAME = re.compile(r"(pid:\[[0-9]{1,20}\])/([1-9][0-9]{0,9})")


def this_process() -> str:
    """The name of this process, such as `pid:[4026531836]/4711`; empty = it cannot be told."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        namespace = _NAMESPACE.readlink()
    except OSError:
        return ""
    own = os.getpid()
    # One id for each namespace from that of /proc down to ours: several, and /proc is another namespace's.
    ids = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    name = f"{namespace}/{own}"
    return name if ids == [str(own)] and _NAME.fullmatch(name) else ""


def is_gone(name: str) -> bool:
    """Whether it is certain that this process, which had its name on this boot, is over."""
    asked, own = _NAME.fullmatch(name), _NAME.fullmatch(this_process())
    if asked is None or own is None or asked.group(1) != own.group(1):
        return False
    try:
        os.kill(int(asked.group(2)), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it is there, and another user's
        return False
    return False
