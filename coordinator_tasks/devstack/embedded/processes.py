"""A managed process: own session, log file, readiness, clean stop, faults for tests. It never outlives its owner.

Rules:
- A process leads its own session. So a Ctrl-C at the terminal reaches only the owner, which then stops the process.
- A process carries the owner's mark. Once the owner is gone for any reason, a guard ends all with the mark.
- :meth:`ManagedProcess.stop` and :meth:`ManagedProcess.kill` end the session, but not processes that have left it on
  purpose (Spark drivers detached by Airflow). The guard and :func:`reap_all` end these too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import psutil

from coordinator_tasks.devstack.embedded import reaper
from coordinator_tasks.devstack.embedded.errors import ProcessFailed

READY_TIMEOUT_S = 60.0
READY_POLL_S = 0.05
STOP_TIMEOUT_S = 15.0
KILL_TIMEOUT_S = 10.0
LOG_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A program to run. After SIGTERM the process may take ``stop_timeout_s``.

    ``env`` is added to this process's environment. Variables that begin with a text in ``not_inherited`` are left out.
    """

    name: str
    argv: tuple[str, ...]
    log_path: Path
    env: Mapping[str, str] = field(default_factory=dict)
    not_inherited: tuple[str, ...] = ()
    cwd: Path | None = None
    ready_timeout_s: float = READY_TIMEOUT_S
    stop_timeout_s: float = STOP_TIMEOUT_S


class Guard:
    """The guard of an owner process. There is one for each owner.

    It draws the mark, and runs the guard process (:mod:`coordinator_tasks.devstack.embedded.reaper`).
    """

    _current: Guard | None = None

    def __init__(self) -> None:
        self.owner_pid = os.getpid()
        self.mark = secrets.token_hex(12)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(reaper.__file__).resolve()), str(self.owner_pid), self.mark],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @classmethod
    def current(cls) -> Guard:
        """Return the guard of this process. A forked child gets a guard of its own."""
        if cls._current is None or cls._current.owner_pid != os.getpid():
            cls._current = cls()
        return cls._current

    def disarm(self) -> None:
        """Let this owner's processes outlive it. Later processes get a new guard."""
        self._process.communicate(reaper.DISARM, timeout=KILL_TIMEOUT_S)
        Guard._current = None


def marked_environment(extra: Mapping[str, str], not_inherited: tuple[str, ...] = ()) -> dict[str, str]:
    """Return this process's environment with ``extra`` and the owner's mark. For processes that must not outlive it."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(not_inherited)}
    environment = {**inherited, **extra}
    outer = extra.get(reaper.MARK_VARIABLE, os.environ.get(reaper.MARK_VARIABLE, ""))
    environment[reaper.MARK_VARIABLE] = f"{outer},{Guard.current().mark}".lstrip(",")
    # Otherwise setproctitle overwrites the environment that other processes see.
    environment["SPT_NOENV"] = "1"
    return environment


def run_to_end(
    command: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str],
    *,
    failure: str,
    advice: str,
    cwd: Path | None = None,
) -> None:
    """Run a command. If it fails, raise ProcessFailed with the sentence ``failure``, the reason and the ``advice``."""
    text: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace"}
    try:
        subprocess.run(command, check=True, timeout=timeout_s, env=environment, cwd=cwd, **text)
    except subprocess.TimeoutExpired as error:
        raise ProcessFailed(f"{failure} within {timeout_s:g} s: the machine is too busy; start again") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or error.stdout.strip()).splitlines()[-1:]
        raise ProcessFailed(f"{failure}: {' '.join(last)!r}; {advice}") from error


def reap_all(*, grace_s: float = reaper.GRACE_S) -> int:
    """End all processes that have this process's mark, in any session. Return how many there were."""
    return reaper.reap(Guard.current().mark, grace_s=grace_s)


class ManagedProcess:
    """A process that can be started, stopped, paused and killed, and started again on the same ports and data.

    As a context manager it starts and stops the process. ``ready`` is called until it returns True. It must return
    quickly, and must not raise while the service does not serve. Not thread-safe.
    """

    def __init__(self, spec: ProcessSpec, ready: Callable[[], bool]) -> None:
        self.spec = spec
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = ""
        self._terminated = False
        self.started_s = 0.0
        """When the process last started, in seconds since 1970 by the wall clock."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Return the process id, which is also the id of its session. Raises before the first start."""
        if self._process is None:
            raise ProcessFailed(f"{self.spec.name} has not been started: call start() first")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return whether the process itself is alive, even if paused."""
        return self._process is not None and self._process.poll() is None

    def spawn(self) -> None:
        """Start the process and do not wait. If it runs, do nothing."""
        if self.running:
            return
        self.spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._mark = Guard.current().mark
        self.started_s = time.time()
        self._terminated = False
        with self.spec.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.spec.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.spec.cwd,
                env=marked_environment(self.spec.env, self.spec.not_inherited),
                start_new_session=True,
            )

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until ready, at most ``timeout_s`` (default: the specification's). Otherwise raise ProcessFailed."""
        timeout_s = self.spec.ready_timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + timeout_s
        while not self._ready():
            if not self.running:
                code = self._process.returncode if self._process is not None else None
                raise self._failure(f"ended with exit code {code} before it was ready")
            if time.monotonic() > deadline_s:
                raise self._failure(f"was not ready within {timeout_s:g} s")
            time.sleep(READY_POLL_S)

    def start(self, timeout_s: float | None = None) -> None:
        """Start the process and wait as in :meth:`wait_ready`. Kill the process if it does not become ready."""
        self.spawn()
        try:
            self.wait_ready(timeout_s)
        except BaseException:
            self.kill()
            raise

    def terminate(self) -> None:
        """Ask the process to end, and return at once. Call :meth:`stop` afterwards.

        SIGTERM is sent only once, because some servers take a second SIGTERM as "do not clean up".
        """
        if self.running and not self._terminated:
            self._terminated = True
            self._signal_session(signal.SIGCONT)
            os.kill(self.pid, signal.SIGTERM)

    def stop(self, timeout_s: float | None = None) -> None:
        """Send SIGTERM, wait at most ``timeout_s`` (default: the specification's), then SIGKILL the session's rest.

        Repeating does nothing.
        """
        if self._process is None:
            return
        self.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self.spec.stop_timeout_s if timeout_s is None else timeout_s)
        self.kill()

    def kill(self) -> None:
        """SIGKILL the whole session, as if its host had crashed. Repeating does nothing."""
        if self._process is None:
            return
        members = self._signal_session(signal.SIGKILL)
        self._process.wait(KILL_TIMEOUT_S)
        reaper.wait_gone(members, timeout_s=KILL_TIMEOUT_S)

    def release(self) -> None:
        """Give the process up. It continues, and this object can no longer stop or kill it."""
        self._process = None

    def pause(self) -> None:
        """Send SIGSTOP. The process keeps its sockets and does not answer."""
        self._signal_session(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_session(signal.SIGCONT)

    def _signal_session(self, signal_number: signal.Signals) -> list[psutil.Process]:
        members = list(reaper.session_members(self.pid, self._mark))
        reaper.send(members, signal_number)
        return members

    def _failure(self, what: str) -> ProcessFailed:
        return ProcessFailed(f"{self.spec.name} {what}: {self._last_log_line()!r}; its log is {self.spec.log_path}")

    def _last_log_line(self) -> str:
        if not self.spec.log_path.exists():
            return ""
        with self.spec.log_path.open("rb") as log:
            log.seek(max(0, self.spec.log_path.stat().st_size - LOG_TAIL_BYTES))
            lines = log.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


Server = TypeVar("Server", bound=ManagedProcess)


class ServerGroup(Generic[Server]):
    """The ``servers`` of a cluster. As a context manager it starts and stops them."""

    def __init__(self, servers: Iterable[Server]) -> None:
        self.servers = tuple(servers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the stopped servers together, because none serves alone. Wait until each serves."""
        Guard.current()  # made here, before several threads use it
        try:
            with ThreadPoolExecutor(len(self.servers)) as pool:
                list(pool.map(lambda server: server.spawn(), self.servers))
            for server in self.servers:
                server.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for server in self.servers:
            server.terminate()
        for server in self.servers:
            server.stop()
