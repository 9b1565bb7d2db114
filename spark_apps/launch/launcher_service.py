"""Launches the fleets' missing consumers on this host, for an Airflow whose workers cannot.

    python -m spark_apps.launch.launcher_service --base FOLDER --master spark://host:7077
        [--app NAME ...] [--conf NAME=VALUE ...]

A process that Airflow starts in a container dies with the container; this service continues. The service reads the
fleets in ZooKeeper, and starts missing consumers through `spark_apps.launch.launcher`. The launcher's lock (on this
host) and the incarnation (everywhere) prevent a second process of a live id. A draining or isolated consumer is not
launched. The pause grows after each launch without a registration. Settings come from `coordinator_tasks.settings`.

On SIGTERM the service passes the stop on to the consumers on this host, and waits for their clean leave. With
`--leave-running` the consumers stay. For a health check, the service touches `FOLDER/launcher_service.alive` in every
round and at every launch.
"""

import argparse
import fcntl
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from coordinator_tasks import logs
from coordinator_tasks.core.errors import CoordinatorError, Malformed, Refused, Unavailable
from coordinator_tasks.core.text.name_values import name_values
from coordinator_tasks.fleet_values import PRIVATE_PREFIXES
from coordinator_tasks.run_folder import RunFolder, make_folder, write_private
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.service.nodes.fleet import Launch
from coordinator_tasks.settings import Settings, for_consumers, plain_settings, settings_from_environment
from coordinator_tasks.signals import stopped_by
from coordinator_tasks.wiring import open_coordinator
from spark_apps.option_values import seconds

LOOK_S = 2.0
LAUNCHER_LIMIT_S = 30.0
PAUSE_FIRST_S = 5.0
PAUSE_MAX_S = 300.0
STOP_POLL_S = 0.2
REFUSED_EXIT = 2
ALIVE = "launcher_service.alive"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Host:
    """Launch settings of this host. `apps`: launched fleets; empty = all. A fleet's `conf` overrides this `conf`."""

    base: Path
    master: str
    submit: str = "spark-submit"
    apps: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)
    stop_limit_s: float = 60.0


@dataclass(slots=True)
class Attempts:
    """When each consumer may be launched again. The pause doubles with each launch without a registration."""

    counts: dict[str, int] = field(default_factory=dict)
    next_at: dict[str, float] = field(default_factory=dict)
    said: frozenset[str] = frozenset()

    def allowed(self, consumer: str, now_s: float) -> bool:
        return now_s >= self.next_at.get(consumer, 0.0)

    def launched(self, consumer: str, now_s: float) -> float:
        """Note a launch. Return the seconds until the next launch is allowed."""
        count = self.counts.get(consumer, 0)
        pause_s = min(PAUSE_MAX_S, PAUSE_FIRST_S * (1 << min(count, 10)))
        self.counts[consumer], self.next_at[consumer] = count + 1, now_s + pause_s
        return pause_s

    def say(self, problems: Sequence[str]) -> None:
        """Log each new problem. A problem that lasts is not logged again."""
        for problem in problems:
            if problem not in self.said:
                log.warning("left out: %s", problem)
        self.said = frozenset(problems)

    def forget(self, present: Sequence[str]) -> None:
        """Reset the pauses of registered consumers."""
        for consumer in present:
            self.counts.pop(consumer, None)
            self.next_at.pop(consumer, None)


@dataclass(slots=True)
class Alive:
    """The file for a health check. A full disk fails the check, but ends no consumer at once."""

    path: Path
    said: str = ""

    def show(self) -> str:
        """Touch the file; return the problem, if any."""
        try:
            self.path.touch()
        except OSError as error:
            return f"{self.path} cannot be written: {error.strerror}"
        return ""

    def show_on(self) -> None:
        """Touch the file in a later round. A lasting problem is logged once."""
        problem = self.show()
        if problem and problem != self.said:
            log.warning("%s; correct the folder's rights or its disk, a health check fails meanwhile", problem)
        self.said = problem


def look(
    c: Coordinator,
    host: Host,
    settings: Settings,
    attempts: Attempts,
    now_s: float,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[str, ...]:
    """Launch each missing consumer once, until `stopped`. Return the ids of launched consumers.

    Raises the `Unavailable` kinds; then nothing was launched.
    """
    problems: list[str] = []
    missing = fleet.missing(c, problems)
    attempts.say(problems)
    attempts.forget(tuple(c.discovery.members()))
    started = []
    for one in missing:
        if stopped():
            break
        if (host.apps and one.app not in host.apps) or not attempts.allowed(one.consumer, now_s):
            continue
        folder = RunFolder.of(host.base, c.paths.cluster, one.consumer)
        if running(folder):
            continue  # already launched, but not registered yet
        pause_s = attempts.launched(one.consumer, now_s)
        if reason := folder.reason():
            log.warning("the last start of %s has ended: %s", one.consumer, reason)
        try:
            launch(one, folder, host, settings)
        except (Refused, OSError, ValueError) as error:  # a NUL in a fleet's text raises ValueError
            log.error("%s cannot be launched: %s; tried again in %g s", one.consumer, error, pause_s)  # noqa: TRY400
            continue
        log.info("launched %s of %s; its log is %s", one.consumer, one.app, folder.log)
        started.append(one.consumer)
    return tuple(started)


def launch(one: Launch, folder: RunFolder, host: Host, settings: Settings) -> None:
    """Start a consumer through the launcher; raises `Refused`."""
    folder.make()
    (host.base / ALIVE).touch()  # a round with many launches may take longer than the health check's limit
    plain = for_consumers(plain_settings(settings))
    write_private(folder.settings, plain)
    write_private(folder.kafka, plain["kafka"])
    try:
        done = subprocess.run(
            command(one, folder, host, settings.cluster),
            env=environment(one, folder, settings.cluster),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LAUNCHER_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:  # without the error's text, which has the whole command
        raise Refused(
            f"the launcher took longer than {LAUNCHER_LIMIT_S:g} s, and was ended: look at this host's load"
        ) from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise Refused(said[-1] if said else "the launcher gave no answer")
    json.loads(done.stdout)


def command(one: Launch, folder: RunFolder, host: Host, cluster: str) -> list[str]:
    """Return the launcher's command line, with spark-submit's command line inside. It holds no secrets."""
    conf = {**host.conf, **one.conf}
    return [
        *(sys.executable, "-m", "spark_apps.launch.launcher", "--cluster", cluster, "--consumer", one.consumer),
        *("--base", str(host.base), "--stop-limit", f"{host.stop_limit_s:g}", "--"),
        *(host.submit, "--master", host.master, "--name", f"{cluster}.{one.consumer}"),
        *(part for name, value in sorted(conf.items()) for part in ("--conf", f"{name}={value}")),
        one.application,
        *("--consumer", one.consumer, "--cluster", cluster, "--run-folder", str(folder.path)),
        *one.arguments,
    ]


def environment(
    one: Launch, folder: RunFolder, cluster: str, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return this process's environment without secrets, and with the paths of the secret files."""
    kept = {name: value for name, value in environ.items() if not name.startswith(PRIVATE_PREFIXES)}
    return {
        **kept,
        **one.environment,
        "COORDINATOR_CONSUMER": one.consumer,
        "COORDINATOR_CLUSTER": cluster,
        "COORDINATOR_SETTINGS": str(folder.settings),
        "ASSIGNED_KAFKA_SETTINGS_FILE": str(folder.kafka),
    }


def running(folder: RunFolder) -> bool:
    """Return whether a live launcher holds the folder's lock. A lock file that others may write does not count."""
    if folder.problem():
        return False
    try:
        handle = os.open(folder.lock, os.O_RDWR)
    except OSError:  # no run folder, or another user's lock: a launch reports the error
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a disk without locks: a launch reports the error
        return False
    finally:
        os.close(handle)
    return False


def stop_all(host: Host, cluster: str) -> list[str]:
    """Pass a stop on to every consumer on this host, and wait for their ends. Return the consumers still running."""
    folders: dict[str, RunFolder] = {}
    with suppress(OSError):  # no launches: the folder is missing, or another user's
        folders = {path.name: RunFolder(path) for path in sorted((host.base / cluster).iterdir())}
    left = {consumer: folder for consumer, folder in folders.items() if running(folder)}
    for folder in left.values():
        with suppress(OSError, ValueError):
            os.kill(int(folder.lock.read_text()), signal.SIGTERM)
    deadline_s = time.monotonic() + host.stop_limit_s + LAUNCHER_LIMIT_S
    while left and time.monotonic() < deadline_s:
        time.sleep(STOP_POLL_S)
        left = {consumer: folder for consumer, folder in left.items() if running(folder)}
    return sorted(left)


def pause(stop: threading.Event) -> None:
    """Wait for the next round or a stop. Reap ended launchers, whose parent is a container's first process."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    stop.wait(LOOK_S)


def serve(host: Host, settings: Settings, stop: threading.Event) -> None:
    """Launch missing consumers at intervals until `stop`.

    Launch nothing while ZooKeeper or the registry does not answer, or a needed node is unreadable; log such a problem
    once. Raises a refusal of the first session, and `Refused` if the base folder cannot be written. Later problems only
    delay launches, because in a container all consumers would end with the service.
    """
    make_folder(host.base)
    alive = Alive(host.base / ALIVE)
    if problem := alive.show():
        raise Refused(f"{problem}; choose another base folder, or correct its rights")
    attempts, held, begun = Attempts(), "", False
    while not stop.is_set():
        try:
            with open_coordinator(settings) as c:
                begun = True
                while not stop.is_set():
                    look(c, host, settings, attempts, time.monotonic(), stop.is_set)
                    alive.show_on()
                    held = ""
                    pause(stop)
        except CoordinatorError as error:
            if not begun and not isinstance(error, Unavailable | Malformed):
                raise
            if str(error) != held:
                held = str(error)
                log.warning("launching nothing: %s", held)
            alive.show_on()
            pause(stop)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Return 0; 1 if a launcher still runs, 2 with one line for wrong settings."""
    parser = argparse.ArgumentParser(prog="python -m spark_apps.launch.launcher_service")
    parser.add_argument("--base", type=Path, required=True, help="folder of all run folders on this host")
    parser.add_argument("--master", required=True, help="the Spark master")
    parser.add_argument("--submit", default="spark-submit", help="the program that submits")
    parser.add_argument(
        "--app", action="append", default=[], help="launch only consumers of this fleet; repeatable, default: all"
    )
    parser.add_argument("--conf", action="append", default=[], help="name=value of Spark; repeatable")
    parser.add_argument("--stop-limit", type=seconds, default=60.0, help="seconds for a clean leave")
    parser.add_argument("--leave-running", action="store_true", help="do not stop the consumers at the end")
    given = parser.parse_args(arguments)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        conf = name_values(given.conf, "--conf", "--conf spark.cores.max=2")
        host = Host(given.base.absolute(), given.master, given.submit, tuple(given.app), conf, given.stop_limit)
        settings = settings_from_environment()
        logs.set_up(settings.log_format)
        logs.know(cluster=settings.cluster)
        with stopped_by(signal.SIGTERM, signal.SIGINT) as stop:
            serve(host, settings, stop)
            left = [] if given.leave_running else stop_all(host, settings.cluster)
    except CoordinatorError as error:
        logs.say_error(error.told, "launcher_service")
        return REFUSED_EXIT
    for consumer in left:
        log.error("%s", why_left(RunFolder.of(host.base, settings.cluster, consumer)))
    return 1 if left else 0


def why_left(folder: RunFolder) -> str:
    """Return what is still to be done for a consumer when the service ends."""
    name = folder.path.name
    if folder.exit_code() is None:
        return f"{name} has not ended; its launcher still waits for it, see {folder.log}"
    return f"{name} has ended, and ZooKeeper has not been told; its launcher still tries, see {folder.log}"


if __name__ == "__main__":
    sys.exit(main())
