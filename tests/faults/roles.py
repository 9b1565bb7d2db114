"""The processes of a case. Each is forked from a server that has imported everything and made no client yet."""

import ctypes
import faulthandler
import gc
import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerContext
from pathlib import Path

import httpx

from coordinator_tasks.core.errors import LookAgain, Unavailable
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, State
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.ports import HOST
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import WaitReport
from coordinator_tasks.wiring import Settings, open_coordinator
from spark_apps.agent.process.agent import AgentTiming
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.agent.settings import Timing
from spark_apps.plain import PlainConsumer, Record
from tests.faults.failpoints import Failpoints, Hold, Kill, wrap_production
from tests.faults.netns import Host

COORDINATOR = "coordinator"
LOOK_S = 0.05
QUIET_S = 0.5
CHORES_S = 5.0
WAIT_LOOKS = 200
NEVER_S = 1e6
PR_SET_PDEATHSIG = 1
TIMING = Timing(
    look_s=0.15,
    fresh_s=1.0,
    cool_down_s=0.5,
    commit_timeout_s=1.0,
    guard_s=1.25,
    commit_s=0.2,
    measure_s=0.5,
    retry_max_s=0.5,
)
AGENT_TIMING = AgentTiming(poll_s=0.5, close_timeout_s=15.0, finish_s=5.0)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Life:
    """One start of a process: its role, the folder of its case, and the place of its death.

    `blind`: a consumer that never looks at the committed entries once it has begun. `host`: where it runs, None = beside
    the servers. `hold`: where it stands still. `adds`: a coordinator that adds the topic itself. `wish`: what a person asks
    for.
    """

    role: str
    settings: Settings
    topic: str
    group: str
    folder: Path
    kills: tuple[Kill, ...] = ()
    blind: bool = False
    host: Host | None = None
    hold: Hold | None = None
    adds: bool = True
    wish: str = ""
    chores_s: float = CHORES_S
    timing: Timing = field(default_factory=lambda: TIMING)
    agent_timing: AgentTiming = field(default_factory=lambda: AGENT_TIMING)


def fork_server() -> ForkServerContext:
    """Where the processes come from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "tests.faults.deliveries", "tests.faults.persons"])
    return context


# Every coordinator would make this context anew at its start: 70 ms, and no connection here uses TLS.
NO_TLS = httpx.create_ssl_context(trust_env=False)
httpx.AsyncClient(verify=NO_TLS)  # imports what httpx imports late
gc.freeze()  # what is imported is never collected: its pages stay shared with the processes forked from here


def die_with_parent() -> None:
    """No process of a case is left behind by its end."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent(life: Life) -> None:
    """Nobody outlives the test; what is worth telling goes to the case's folder."""
    die_with_parent()
    if life.host is not None:
        life.host.enter()
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(filename=life.folder / f"log-{life.role}", level=logging.WARNING, format=form, force=True)
    httpx.create_ssl_context = lambda **_: NO_TLS  # type: ignore[assignment]
    faulthandler.register(signal.SIGUSR1, (life.folder / f"stack-{life.role}").open("w"), all_threads=False)


def begin(life: Life) -> Failpoints:
    """What every process of a case does first."""
    end_with_parent(life)
    points = Failpoints(life.role, life.folder, life.kills, life.hold)
    wrap_production(points)
    return points


def consume(life: Life) -> None:
    """A plain consumer; SIGTERM asks it to leave."""
    points = begin(life)
    settings = ConsumerSettings(
        life.settings,
        life.role,
        host=life.host.address if life.host is not None else HOST,
        run_folder=str(life.folder / life.role),
        timing=replace(life.timing, look_s=NEVER_S, fresh_s=NEVER_S) if life.blind else life.timing,
        agent_timing=life.agent_timing,
    )
    os._exit(PlainConsumer(settings, RowSink(points, life)).run())


class RowSink:
    """Appends one line per record, in one write for a batch: what is there has passed, whoever dies next."""

    def __init__(self, points: Failpoints, life: Life) -> None:
        self._points = points
        self._note = life.folder / life.role / "incarnation"
        self._role = life.role
        self._file = os.open(life.folder / f"rows-{life.role}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._incarnation = 0

    def __call__(self, _topic: str, records: Sequence[Record]) -> None:
        self._incarnation = self._incarnation or int(self._note.read_text())
        now = time.time()
        rows = [
            (
                self._role,
                self._incarnation,
                one.token_epoch,
                one.partition,
                m.offset() or 0,
                int(m.value() or b"-1"),
                now,
            )
            for one, m in records
        ]
        with self._points.around("Sink.write", "sink"):
            os.write(self._file, "".join(json.dumps(row) + "\n" for row in rows).encode())


class Rows:
    """Follows the files of a case's folder; of each only what is new is read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._found: list[Row] = []

    def all(self) -> list[Row]:
        """All so far; each writer's in their order."""
        for file in sorted(self._folder.glob("rows-*")):
            data = file.read_bytes()[self._read.get(file, 0) :]
            whole = data[: data.rfind(b"\n") + 1]
            self._read[file] = self._read.get(file, 0) + len(whole)
            for who, life, epoch, p, offset, number, at in map(json.loads, whole.splitlines()):
                self._found.append(Row(who, life, epoch, p, offset, number, 0.0, at))
        return list(self._found)


def coordinate(life: Life) -> None:
    """The coordinator's steps one after the other, each as the orchestrator's task of that name runs it."""
    points = begin(life)
    with open_coordinator(life.settings) as c:
        Tasks(c, points, life).run()


class Tasks:
    """Goes on where the last life ended: ZooKeeper has all the state."""

    def __init__(self, c: Coordinator, points: Failpoints, life: Life) -> None:
        self.c, self.points, self.life = c, points, life
        self.names = [life.topic]
        self.actor = Actor("loop", "faults")
        self.wake = threading.Event()
        self.chores_at = 0.0

    def run(self) -> None:
        managed = not self.life.adds
        while True:
            self.wake.clear()
            try:
                if not managed:
                    self._task("add_topic")
                    topics.add_topic(self.c, self.life.topic, self.life.group, actor=self.actor)
                    managed = True
                self._round()
            except Unavailable as error:
                log.warning("holding: %s", error)
                time.sleep(LOOK_S)

    def _round(self) -> None:
        self._task("watch")
        self.c.discovery.watch(self.wake.set)
        if time.monotonic() >= self.chores_at:
            self._chores()
        self._task("plan")
        (report,) = transitions.plan(self.c, self.names, self.actor)
        if report.after is State.CLOSING and self._awaited("await_closed", transitions.await_closed):
            self._task("start")
            transitions.start(self.c, self.names, self.actor)
        if self._awaited("await_started", transitions.await_started):
            self._task("settle")
            (report,) = transitions.settle(self.c, self.names, self.actor)
        if report.after is State.STABLE or report.outcome is TopicOutcome.UNCHANGED:
            self.wake.wait(QUIET_S)
        else:
            self.wake.wait(LOOK_S)

    def _awaited(self, name: str, look: Callable[[Coordinator, Collection[str]], WaitReport]) -> bool:
        """Look until it is confirmed; False = there is nothing to wait for, or a new plan is due."""
        self._task(name)
        for _ in range(WAIT_LOOKS):
            found = look(self.c, self.names)
            if found.confirmed:
                return True
            if found.outcome is not TopicOutcome.WAITING or not found.pending:
                return False
            time.sleep(LOOK_S)
        return False

    def _chores(self) -> None:
        self._task("chores")
        topics.refresh_partitions(self.c, self.names)
        with suppress(LookAgain):  # a folder is missing, since ZooKeeper was emptied: the next chores look again
            directives.complete_readmissions(self.c)
        self.chores_at = time.monotonic() + self.life.chores_s

    def _task(self, name: str) -> None:
        self.points.task = name
