"""Starts a consumer that outlives the caller.

    python -m spark_apps.launch.launcher --consumer ID --cluster NAME -- COMMAND...

The caller gets one line of JSON (`pid`, `log`, `folder`, `started`) when the launcher runs in a session of its own,
independent of the caller. The launcher starts COMMAND, passes SIGTERM on to the consumer, and waits until all processes
of the consumer have ended. If only some processes die, the launcher ends the rest, because a consumer without all its
processes is worse than none. Then the launcher writes `ended[incarnation] = reaped` into ZooKeeper, with the reason
(secrets of the settings hidden), so that others get the partitions of a killed consumer at once. While ZooKeeper is
down, the launcher retries for `--report-limit` seconds. If the installation was upgraded meanwhile, a new Python
process writes the end (`--report`), because modules of two releases do not work together. If a consumer was asked to
stop or announces its leave, and still runs after `--stop-limit` seconds, the launcher kills all its processes.

If the consumer still runs, a second launch changes nothing (`started` is false). See `run_folder` for the files.
"""

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil

from coordinator_tasks.core.errors import CoordinatorError, Malformed, Refused
from coordinator_tasks.java import find_java
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.tables import visible_line
from spark_apps.launch import process_tree
from spark_apps.launch.local_master import LOCAL_IP, LOOPBACK, submits_locally
from spark_apps.option_values import seconds
from spark_apps.tracebacks import last_error

POLL_S = 0.1
DRIVER_GRACE_S = 5.0
REPORT_PAUSE_MAX_S = 5.0
LOG_LINES, LOG_BYTES = 1_000, 64 * 1024
"""How many lines and bytes at the end of the log are searched for the last error."""
REFUSED_EXIT = 2
LOGGER = "spark_apps.launch.launcher"
PROGRAM = (sys.executable, "-m", LOGGER)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """A consumer to launch.

    `stop_limit_s`: limit from a stop, or from the consumer's announced leave, to the end of all its processes.
    `report_limit_s`: how long the launcher tries to write the end into ZooKeeper.
    """

    cluster: str
    consumer: str
    folder: RunFolder
    command: tuple[str, ...]
    stop_limit_s: float = 60.0
    report_limit_s: float = 3600.0


@dataclass(slots=True)
class ConsumerState:
    """State of a running consumer. Times are `time.monotonic()`; `driver`: the consumer's Python process."""

    root_pid: int
    driver: psutil.Process | None = None
    codes: dict[int, int] = field(default_factory=dict)
    stop_asked_s: float = 0.0
    passed_on: bool = False
    leaving_s: float = 0.0
    forced: str = ""
    driver_gone_s: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Launch and return 0; or print the problem in one line and return 2."""
    try:
        request, only_report = _parse(sys.argv[1:] if arguments is None else arguments)
        if only_report:
            _know(request)
            return 0 if report_end(request) else 1
        if "spark" in Path(request.command[0]).name:
            # Without JAVA_HOME, Spark's scripts would end with a trace of the JVM or the shell.
            os.environ["JAVA_HOME"] = str(find_java().home)
            if submits_locally(request.command):
                os.environ.setdefault(LOCAL_IP, LOOPBACK)
        answer = launch(request)
    except Refused as error:
        print(f"launcher: {visible_line(str(error))}", file=sys.stderr)
        return REFUSED_EXIT
    print(json.dumps(answer), flush=True)
    return 0


def launch(request: LaunchRequest) -> dict[str, object]:
    """Start the launcher as a daemon and return its answer; raises `Refused` if the command cannot start."""
    request.folder.make()
    reader, writer = os.pipe()
    if (first := os.fork()) == 0:
        os.close(reader)
        _stand_alone(request, writer)
    os.close(writer)
    os.waitpid(first, 0)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    if not said:
        raise Refused(f"the launcher of {request.consumer} ended without an answer; see {request.folder.log}")
    answer: dict[str, object] = json.loads(said)
    if "refused" in answer:
        raise Refused(str(answer["refused"]))
    return answer


def _stand_alone(request: LaunchRequest, writer: int) -> None:
    """Run in the forked child: start a session, fork again so that no terminal can be opened, and do the work."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    code = 1
    try:
        code = _run(request, writer)
    except Exception:  # noqa: BLE001 - an edge: the log says why nobody looks after the consumer any more
        traceback.print_exc()
    finally:
        os._exit(code)


def _run(request: LaunchRequest, writer: int) -> int:
    def tell(**said: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # the caller has ended, but the consumer runs
            os.write(writer, json.dumps(said).encode())
        os.close(writer)

    try:
        begun = _begin(request.folder)
    except OSError as error:
        tell(
            refused=f"the run folder {request.folder.path} cannot be used: {error}; free space on its disk, or correct its files and rights"
        )
        return REFUSED_EXIT
    if not begun:
        tell(started=False, pid=_lock_owner(request), log=str(request.folder.log), folder=str(request.folder.path))
        return 0
    _know(request)
    process_tree.become_subreaper()
    state = ConsumerState(0)
    _on_stop(state)
    try:
        child = subprocess.Popen(request.command, stdin=subprocess.DEVNULL, cwd="/")
    except OSError as error:
        tell(
            refused=f"{request.command[0]} cannot be started ({error.strerror}); check that it is installed and on PATH"
        )
        return REFUSED_EXIT
    state.root_pid = child.pid
    tell(started=True, pid=os.getpid(), log=str(request.folder.log), folder=str(request.folder.path))
    # An installation may be under way. The report then fails, and a new Python process reports.
    with contextlib.suppress(ImportError):
        _import_report()
    code = supervise(request, state)
    reason = reason_of(code, request.folder, state.forced)
    try:
        request.folder.write_ended(code, reason, time.time())
    except OSError as error:  # a full disk: the end is still reported
        _say(f"{request.folder.ended} cannot be written: {error.strerror}")
    _say(f"all processes of {request.consumer} have ended, {reason or f'exit code {code}'}")
    if state.stop_asked_s and not request.folder.drawn():
        return 0  # stopped during its start: no failure, and nobody waits for partitions
    try:
        return 0 if report_end(request) else 1
    except (ImportError, AttributeError, TypeError) as error:
        _say(f"the modules of the start cannot report the end ({error}): a new Python does")
        return _report_apart(request)


def _report_apart(request: LaunchRequest) -> int:
    """Report the end in a new Python process with the installed modules. Only this process gets a stop.

    Only for an upgraded installation: for the tenth of a second that the process takes, the partitions have no owner.
    """
    base = str(request.folder.path.parent.parent)
    command = [
        *(*PROGRAM, "--cluster", request.cluster, "--consumer", request.consumer, "--base", base),
        *("--report-limit", f"{request.report_limit_s:g}", "--report"),
    ]
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as error:
        _say(f"the end cannot be reported: {error}")
        return 1
    if code != 0:
        _say(f"the end is not reported (exit code {code}): others wait until {request.consumer} counts as gone")
    return code


def _begin(folder: RunFolder) -> bool:
    """Lock the folder for this process's life, and log there. False if another launcher has it. Raises `OSError`."""
    lock = os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    folder.begin()
    _redirect(folder.log)
    return True


def supervise(request: LaunchRequest, state: ConsumerState) -> int:
    """Wait until all processes of the consumer have ended. Return the command's exit code (negative = the signal)."""
    while process_tree.reap(state.codes):
        reason = _why_end(request, state, time.monotonic())
        if reason:
            _say(reason)
            process_tree.end_all(state.codes, grace_s=DRIVER_GRACE_S)
            break
        time.sleep(POLL_S)
    return state.codes.get(state.root_pid, 1)


def _why_end(request: LaunchRequest, state: ConsumerState, now_s: float) -> str:
    """Return why the remaining processes must end; empty to let them run. Passes a stop on to the consumer."""
    driver = state.driver = state.driver or process_tree.python_with(str(request.folder.path))
    if state.stop_asked_s:
        if not state.passed_on:
            state.passed_on = True
            target = driver.pid if driver else state.root_pid
            _say(f"asked to stop: passing it on to process {target}")
            process_tree.send(signal.SIGTERM, target)
        elif now_s - state.stop_asked_s > request.stop_limit_s:
            process_tree.send(signal.SIGKILL)
            state.forced = f"still there {request.stop_limit_s:g} s after it was asked to stop"
            return f"{state.forced}: ending all its processes"
    if request.folder.leaving.exists():
        state.leaving_s = state.leaving_s or now_s
        if now_s - state.leaving_s > request.stop_limit_s:
            state.forced = f"still there {request.stop_limit_s:g} s after it announced its leave"
            return f"{state.forced}: ending all its processes"
    if state.root_pid in state.codes:
        return "the main process has ended: ending the other processes of the consumer"
    if driver and not process_tree.is_living(driver):
        # Spark's JVM usually ends by itself after its driver; kill only a JVM that survives.
        state.driver_gone_s = state.driver_gone_s or now_s
        if now_s - state.driver_gone_s > DRIVER_GRACE_S:
            return "the consumer's own process has ended, and others still run: ending them"
    return ""


def reason_of(code: int, folder: RunFolder, forced: str = "") -> str:
    """Return how a consumer ended, with its announced reason or the last error in its log; empty after a clean leave.

    After SIGKILL the last error is left out, because the error may be old.
    """
    if code == 0:
        return ""
    number = -code if code < 0 else code - 128  # a shell or spark-submit adds 128 to the signal's number
    named = {one.value: one.name for one in signal.Signals}.get(number, "")
    how = (
        f"killed by {named or f'signal {number}'}" if code < 0 else f"exit code {code}{f' ({named})' if named else ''}"
    )
    killed = number == signal.SIGKILL  # the log has no line about the kill
    said = folder.leaves() or ("" if killed else last_error(folder.log_tail(LOG_LINES, LOG_BYTES)))
    return ": ".join(part for part in (how, folder.hide(said), forced) if part)


def report_end(request: LaunchRequest, report: Callable[[LaunchRequest, int], None] | None = None) -> bool:
    """Write the end of the incarnation into ZooKeeper, with retries until the limit. Return False if this failed.

    A consumer that failed before drawing an incarnation (0) gets an incarnation for the report; otherwise the reason
    would be only in this log. Such a report is tried once, because no partition waits for it and the next launch does.
    """
    incarnation = request.folder.drawn()
    if not incarnation and not request.folder.reason():
        _say("it ended before it drew an incarnation: nothing to report")
        return True
    deadline_s, pause_s = time.monotonic() + (request.report_limit_s if incarnation else 0.0), 0.2
    while True:
        try:
            (report or _write_end)(request, request.folder.drawn())
        except (Refused, Malformed) as error:
            _say(f"the end of {_life(incarnation)} cannot be reported: {error}")
            return False
        except CoordinatorError as error:
            if time.monotonic() > deadline_s:
                _say(f"gave up reporting the end of {_life(incarnation)}: {error}")
                return False
            time.sleep(pause_s)
            pause_s = min(REPORT_PAUSE_MAX_S, pause_s * 1.5)
        else:
            _say(f"reported the end of {_life(incarnation)}")
            return True


def _life(incarnation: int) -> str:
    return f"incarnation {incarnation}" if incarnation else "a start without an incarnation"


def _import_report() -> None:
    """Import the report's modules while the consumer starts. An import after its death would delay the next owner."""
    import coordinator_tasks.service.nodes.fleet  # noqa: PLC0415
    import coordinator_tasks.wiring  # noqa: F401, PLC0415


def _write_end(request: LaunchRequest, incarnation: int) -> None:
    # Not at the top: the caller of a launch would wait for these modules.
    from coordinator_tasks.core.model import Ending  # noqa: PLC0415
    from coordinator_tasks.service.nodes import fleet  # noqa: PLC0415
    from coordinator_tasks.settings import read_settings_file, settings_of  # noqa: PLC0415
    from coordinator_tasks.wiring import open_consumer_session, open_coordinator  # noqa: PLC0415

    settings = settings_of(read_settings_file(request.folder.settings))
    if not incarnation:
        with open_consumer_session(settings) as session:
            incarnation = session.claim_incarnation(request.consumer)
        request.folder.write_drawn(incarnation)  # the next try reports this incarnation
    with open_coordinator(settings) as coordinator:
        fleet.record_end(coordinator, request.consumer, incarnation, Ending.REAPED, request.folder.reason())
    with open_consumer_session(settings) as session:
        session.registry.deregister(request.consumer, incarnation)


def _on_stop(state: ConsumerState) -> None:
    def asked(_number: int, _frame: FrameType | None) -> None:
        state.stop_asked_s = state.stop_asked_s or time.monotonic()

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGINT, asked)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _redirect(log: Path) -> None:
    """Redirect the standard streams of this process, and of the consumer, to the log."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    os.close(nothing)


def _lock_owner(request: LaunchRequest) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(request.folder.lock.read_text())
    return 0


_fields: dict[str, str] = {}
"""Fields of each JSON line; empty for plain text."""


def _know(request: LaunchRequest) -> None:
    """Set the log format from the consumer's settings.

    Does not use `coordinator_tasks.logs`, so that the launcher stays small.
    """
    if request.folder.log_format() == "json":
        _fields.update(cluster=request.cluster, consumer=request.consumer)


def _say(text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = f"{stamp} launcher {visible_line(text)}"
    if _fields:
        line = json.dumps({"event": text, **_fields, "level": "info", "logger": LOGGER, "timestamp": stamp})
    with contextlib.suppress(OSError):  # a full disk: the log line is lost, but the consumer is still supervised
        print(line, file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str]) -> tuple[LaunchRequest, bool]:
    """Return the request, and whether only the end has to be reported."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_apps.launch.launcher", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--consumer", required=True)
    parser.add_argument("--base", type=Path, required=True, help="folder of all run folders on this host")
    parser.add_argument(
        "--stop-limit",
        type=seconds,
        default=60.0,
        help="seconds from a stop, or its announced leave, to the end of all its processes",
    )
    parser.add_argument(
        "--report-limit", type=seconds, default=3600.0, help="seconds to try to write the end into ZooKeeper"
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="launch nothing, only report that the consumer of this run folder has ended",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --: the command that runs the consumer")
    given = parser.parse_args(list(arguments))
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    if not command and not given.report:
        raise Refused("no command is given; write it after --, for example: -- spark-submit app.py")
    folder = RunFolder.of(given.base.absolute(), given.cluster, given.consumer)
    request = LaunchRequest(given.cluster, given.consumer, folder, tuple(command), given.stop_limit, given.report_limit)
    return request, given.report


if __name__ == "__main__":
    sys.exit(main())
