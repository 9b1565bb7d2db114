"""Named failpoints around every port, without any hook in production code.

A test process replaces what `wiring`, `spark_apps.agent.process.consumer_process` and `spark_apps.plain` build by wrapped ones, notes each
operation as a point, `role/phase/task/step/port.operation`, and kills itself right before or right after the one it is
told. `role` is without its number, `phase` is what the scenario does (left out for the coordinator's reads), `task` the
coordinator's, and `step` the production function that asked.
"""

import itertools
import os
import signal
import string
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Any

from coordinator_tasks import wiring
from spark_apps import plain
from spark_apps.agent.interface import status_server

PRODUCTION = ("/coordinator_tasks/", "/spark_apps/")
PHASE = "phase"
PHASES = ("initial", "join", "leave", "pause", "reset", "resume", "remove", "add", "grow")
HELD, GO, HOLD_LOOK_S = "held", "go", 0.003
WHOLE = ";"
"""Ends each line of a trace."""
WRITES = frozenset({"ZooKeeper.transact"})
TRANSACTIONS = "Transactions"
"""The port `GroupOffsets` where commits are transactions."""

# Every operation of every port. What is not IO, or ends a process that is over, is named with its reason below.
OPERATIONS: Mapping[str, frozenset[str]] = {
    "ZooKeeper": frozenset({"get", "find", "get_many", "children", "transact", "ensure", "sync", "close"}),
    "Discovery": frozenset({"members", "watch"}),
    "Registry": frozenset({"register", "deregister"}),
    "StatusClient": frozenset({"ask", "post_topic"}),
    "KafkaAdmin": frozenset({"describe", "committed", "bounds", "at_times", "group_members"}),
    "GroupOffsets": frozenset({"hold", "committed", "commit", "describe", "ends", "beginnings", "at_times"}),
}
NO_FAILPOINT: Mapping[str, str] = {
    "ZooKeeper.listen": "adds a listener in this process",
    "ZooKeeper.session_id": "reads a number of this process",
    "ZooKeeper.session_timeout_s": "reads a number of this process",
    "GroupOffsets.fences": "says how the client commits",
    "StatusClient.unreachable": "the watcher under Airflow asks it, and what follows is one write of a claim",
    "RecordSampler.mean_bytes": "nothing waits for it, and what it reads is written nowhere",
    "RecordAccess.partition_count": "asked at a query's start, which changes nothing",
    "RecordAccess.read": "a reader of single records, inside the sink's transaction",
    "RecordAccess.send": "at least once: a batch that is not committed sends its dead letters again",
    "Clock.now": "no neighbour",
    "Clock.monotonic": "no neighbour",
    "Clock.sleep": "no neighbour",
}
CLIENT = frozenset(
    {"consume", "incremental_assign", "incremental_unassign", "list_topics", "get_watermark_offsets", "close"}
)


def enter(folder: Path, phase: str) -> None:
    """Tell the processes of a case which phase it is in; they ask all the time."""
    file = os.open(folder / PHASE, os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(file, bytes([PHASES.index(phase)]))  # one byte, never cut
    os.close(file)


class When(StrEnum):
    """On which side of an operation a process dies."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Kill:
    """Die at the `nth` call of a point, counted in one life of the process."""

    point: str
    when: When
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.when} call {self.nth} of {self.point}"


@dataclass(frozen=True, slots=True)
class Hold:
    """Stand still before the first call of a point of this pattern."""

    pattern: str


@dataclass
class Failpoints:
    """What one process notes, and where it dies. `folder` is the case's: phase, trace, and which kills have happened.

    `hold`: where one of its threads stands still, once, from the file `held` on until there is one of the name `go`.
    """

    role: str
    folder: Path
    kills: tuple[Kill, ...] = ()
    hold: Hold | None = None
    task: str = ""
    _calls: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._phase = os.open(self.folder / PHASE, os.O_RDONLY)
        self._trace = os.open(self.folder / f"trace-{self.role}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    @contextmanager
    def around(self, operation: str, step: str = "") -> Iterator[None]:
        """The operation, with a possible halt before, and a possible death on either side."""
        point = self._point(operation, step or _caller())
        with self._lock:
            self._calls[point] += 1
            number = self._calls[point]
            os.write(self._trace, f"\n{point}{WHOLE}".encode())
        self._stand(point)
        self._die(point, number, When.BEFORE)
        try:
            yield
        finally:
            self._die(point, number, When.AFTER)

    def wrap(self, port: str, inner: object, operations: frozenset[str]) -> "Wrapped":
        """The same thing with a failpoint around each of these operations."""
        return Wrapped(self, port, inner, operations)

    @property
    def phase(self) -> str:
        """What the scenario does now."""
        return PHASES[os.pread(self._phase, 1, 0)[0]]

    def _point(self, operation: str, step: str) -> str:
        phase = self.phase
        parts = [self.role.rstrip(string.digits), phase, self.task, step, operation]
        if self.task and operation not in WRITES:
            parts.remove(phase)  # the coordinator reads the same in each of its steps, whatever the step is for
        return "/".join(part for part in parts if part)

    def _stand(self, point: str) -> None:
        if self.hold is None or not fnmatchcase(point, self.hold.pattern):
            return
        with suppress(FileExistsError):  # it has stood there already
            os.close(os.open(self.folder / HELD, os.O_CREAT | os.O_EXCL))
            while not (self.folder / GO).exists():
                time.sleep(HOLD_LOOK_S)

    def _die(self, point: str, number: int, when: When) -> None:
        for index, kill in enumerate(self.kills):
            if (kill.point, kill.when, kill.nth) != (point, when, number):
                continue
            try:
                os.close(os.open(self.folder / f"killed-{index}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue  # this death has been died already, in an earlier life
            os.kill(os.getpid(), signal.SIGKILL)


class Wrapped:
    """A port with failpoints: everything else of it is passed through."""

    def __init__(self, points: Failpoints, port: str, inner: object, operations: frozenset[str]) -> None:
        self._points, self._port, self._inner, self._operations = points, port, inner, operations

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._operations:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            with self._points.around(f"{self._port}.{name}"):
                return found(*arguments, **named)

        return call


def _caller() -> str:
    """Module and function of the innermost production frame that asked."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.endswith(("/core/protocol/znodes.py", "/service/nodes/action_log.py")):
            frame = frame.f_back  # a write belongs to the function that made it
            continue
        if "/adapters/" not in path and any(part in path for part in PRODUCTION):
            return _named(path, frame.f_code.co_qualname)
        # A port may be asked by an adapter: the registry by way of ZooKeeper.
        if "/adapters/discovery" in path:
            return _named(path, frame.f_code.co_qualname)
        frame = frame.f_back
    return ""


def _named(path: str, function: str) -> str:
    return f"{Path(path).stem}.{function.partition('.<locals>')[0]}"


def wrap_production(points: Failpoints) -> None:
    """Replace, in this process, what the wiring and the plain consumer build. There is no way back: fork first."""
    offsets = OPERATIONS["GroupOffsets"]
    for port, name, operations in (
        ("ZooKeeper", "open_zookeeper", OPERATIONS["ZooKeeper"]),
        ("Discovery", "ZooKeeperDiscovery", OPERATIONS["Discovery"]),
        ("Registry", "ZooKeeperRegistry", OPERATIONS["Registry"]),
        ("StatusClient", "HttpStatusClient", OPERATIONS["StatusClient"]),
        ("KafkaAdmin", "ConfluentKafkaAdmin", OPERATIONS["KafkaAdmin"]),
        ("GroupOffsets", "ConfluentGroupOffsets", offsets - {"hold"}),  # which asks nothing there
        (TRANSACTIONS, "TransactionalGroupOffsets", offsets),
    ):
        setattr(wiring, name, _wrapping(points, port, getattr(wiring, name), operations))
    wiring.claim_incarnation = _around(points, "Registry.claim_incarnation", wiring.claim_incarnation)  # type: ignore[attr-defined]
    plain.Consumer = _wrapping(points, "Client", plain.Consumer, CLIENT)  # type: ignore[attr-defined]
    handler = status_server._Handler
    for verb in ("do_GET", "do_POST"):
        setattr(handler, verb, _around(points, f"Interface.{verb}", getattr(handler, verb), "status_server"))


def _wrapping(points: Failpoints, port: str, make: Callable[..., Any], operations: frozenset[str]) -> Any:
    def made(*arguments: Any, **named: Any) -> Wrapped:
        return points.wrap(port, make(*arguments, **named), operations)

    return made


def _around(points: Failpoints, operation: str, act: Callable[..., Any], step: str = "") -> Any:
    def acted(*arguments: Any, **named: Any) -> Any:
        with points.around(operation, step):
            return act(*arguments, **named)

    return acted


def step_of(point: str) -> str:
    """Role, step and operation alone: in which phase and task a step comes is chance on a busy machine."""
    role, *_, step, operation = point.split("/")
    return f"{role}/{step}/{operation}"


def traced(folder: Path) -> list[str]:
    """The points that all processes of a case have met, by process in their order. A kill may have cut off a line."""
    lines = itertools.chain.from_iterable(p.read_text().splitlines() for p in sorted(folder.glob("trace-*")))
    return [line.removesuffix(WHOLE) for line in lines if line.endswith(WHOLE)]
