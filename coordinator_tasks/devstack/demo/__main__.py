"""`python -m coordinator_tasks.devstack.demo [--ensemble] [--keep] [--stop]`: the program of `make demo`."""

import argparse
import signal
import sys
from types import FrameType

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.devstack.demo.display import Display
from coordinator_tasks.devstack.demo.flow import demonstrate
from coordinator_tasks.devstack.demo.stack import DemoFailed, Folders, default_folders, occupy, stop_kept
from coordinator_tasks.devstack.embedded import detached

INTERRUPTED_EXIT = 130


def main() -> int:
    """Run the demonstration. Return exit code 0 if every check holds, else 1."""
    parser = argparse.ArgumentParser(prog="python -m coordinator_tasks.devstack.demo", description=__doc__)
    parser.add_argument("--ensemble", action="store_true", help="with three ZooKeeper servers and three brokers")
    parser.add_argument("--keep", action="store_true", help="leave everything running")
    parser.add_argument("--stop", action="store_true", help="end what --keep has left running")
    given = parser.parse_args()
    folders = default_folders()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP, and it must stay ignored
            signal.signal(number, _interrupt)
    display = Display()
    try:
        if given.stop:
            stop_kept(folders, display.line)
            return 0
        return _demonstrate(folders, display, ensemble=given.ensemble, keep=given.keep)
    except KeyboardInterrupt:
        runs = bool(detached.details(folders.kept))
        display.line(f"interrupted; {'end what still runs with: make demo-stop' if runs else 'everything was ended'}")
        return INTERRUPTED_EXIT
    except CoordinatorError as error:
        failed = error
    except OSError as error:
        failed = DemoFailed(
            f"{error}; see that this machine has memory left, and that {folders.base} is a folder of yours with space on its "
            "disk, and start again"
        )
    print(f"FAILED: {failed.told}", file=sys.stderr)
    print(f"logs: {folders.run}", file=sys.stderr)
    return 1


def _demonstrate(folders: Folders, display: Display, *, ensemble: bool, keep: bool) -> int:
    occupy(folders)
    with display:
        verdict = demonstrate(folders, display, ensemble=ensemble, keep=keep)
    display.line()
    if verdict.ok:
        display.line(f"All {len(verdict.checks)} checks hold. Report: {folders.report}")
        return 0
    wrong = ", ".join(check.name for check in verdict.checks if not check.ok)
    display.line(f"FAILED: {wrong}. Report: {folders.report}; logs: {folders.run}")
    return 1


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
