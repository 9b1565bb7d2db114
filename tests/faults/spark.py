"""Spark drivers killed and stopped in the middle of joins and leaves, judged by the checker of the plain cases.

Two applications stay and a third joins and leaves; one of those that give or take is killed as a host dies (the whole
process group; nobody says so, and the platform isolates it), as a driver that its launcher reaps, or sleeps for longer than
its session and wakes up as a zombie.
"""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError

from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.core.model import Ending
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.wiring import open_coordinator
from tests.audit_rows import read_audit
from tests.faults.checker import Run
from tests.faults.commit_log import CommitLog
from tests.faults.waking import AFTERWARDS_S, Sleep, judge
from tests.integration.agent_site import Site, Traffic, ask, wait_for
from tests.integration.real_site import QUICK, Managed
from tests.integration.test_agent_spark import SparkProcess

STAYING, MOVER = ("a", "b"), "d"
PARTITIONS = 6
PER_SECOND = 20.0
LIMIT_S = 300.0
"""Generous: at load 20 on 2 cores an application needs more than 150 s from its start to its registration."""
LOOK_S, QUICK_LOOK_S = 0.3, 0.02
ABSENT_AFTER_S = 3.0
ASK_S = 1.0


class Applications:
    """The site of one run: three Spark consumers under the plain loop, with records flowing."""

    def __init__(self, folder: Path, zookeeper: str, kafka: str) -> None:
        self.folder = folder
        self.site = Site(zookeeper, kafka, partitions=PARTITIONS)
        self.managed = Managed(self.site)
        self.commits = CommitLog(kafka)
        self.running: dict[str, SparkProcess] = {}
        self.killed: set[tuple[str, int]] = set()
        self.sleeps: list[Sleep] = []
        self._started: list[SparkProcess] = []

    def start(self, *consumers: str) -> None:
        """Start them, side by side, and wait until all have registered in a new life."""
        before = {one: self._life(one) for one in consumers}
        for one in consumers:
            self.running[one] = SparkProcess(self.site, one, self.folder)
            self._started.append(self.running[one])
        for one in consumers:
            self._await(lambda one=one: self._life(one) > before[one] or self._ended(one), f"{one} registers")

    def _ended(self, consumer: str) -> bool:
        return self.running[consumer].process.poll() is not None

    def planned(self, after_epoch: int) -> None:
        self._await(lambda: self.managed.node().epoch > after_epoch, "the plan is written", QUICK_LOOK_S)

    def stable(self, owners: Sequence[str]) -> None:
        self._await(lambda: self._is_stable(set(owners)), f"Stable with {owners}")

    def kill_host(self, consumer: str) -> None:
        self.killed.add((consumer, self._life(consumer)))
        self.running.pop(consumer).kill()

    def kill_driver(self, consumer: str) -> None:
        """Only the driver; whoever started it reaps the rest, and says so."""
        life, one = self._life(consumer), self.running.pop(consumer)
        self.killed.add((consumer, life))
        one.driver.send_signal(signal.SIGKILL)
        wait_for(lambda: one.process.poll() is not None, "spark-submit ends after its driver", LIMIT_S)
        one.close()
        with open_coordinator(self.site.settings) as c:
            fleet.record_end(c, consumer, life, Ending.REAPED)

    def sleep(self, consumer: str) -> None:
        """Stopped until everything of it is somebody else's, then woken up; ended some time after it has stopped by itself."""
        life, one = self._life(consumer), self.running.pop(consumer)
        address = decode_member("", self.site.zk.get(self.site.paths.member(consumer)).data).address
        os.killpg(one.process.pid, signal.SIGSTOP)
        slept_at, epoch = time.time(), self.managed.node().epoch
        self._await(lambda: self._is_stable(set(self.running)), f"Stable without {consumer}")
        woke_at = time.time()
        os.killpg(one.process.pid, signal.SIGCONT)
        wait_for(lambda: one.process.poll() is not None or self._runs_nothing(address), "the zombie stops", LIMIT_S)
        self.sleeps.append(Sleep(consumer, life, epoch, slept_at, woke_at, time.time()))
        time.sleep(AFTERWARDS_S)
        one.close()

    def _runs_nothing(self, address: str) -> bool:
        try:
            return not ask(address, ASK_S).topics[self.site.topic].running
        except URLError as error:  # the interface is the last thing that a consumer closes; Spark's JVM ends later
            return isinstance(error.reason, ConnectionRefusedError)
        except OSError:
            return False

    def _life(self, consumer: str) -> int:
        """The registered incarnation, 0 if there is none."""
        found = self.site.zk.find(self.site.paths.member(consumer))
        return decode_member("", found.data).incarnation if found is not None else 0

    def _is_stable(self, owners: set[str]) -> bool:
        if not self.managed._is_stable(owners):
            return False
        node = self.managed.node()
        if any(node.incarnations.get(o) != self._life(o) for o in owners):
            return False
        there = {(row.partition, row.consumer, row.incarnation) for row in self.rows()}
        return all((p, owner, node.incarnations[owner]) in there for p, owner in node.assignments.items())

    def rows(self) -> list[Row]:
        try:
            found = read_audit(self.folder / "rows")
        except sqlite3.OperationalError:  # a writer has made its file and not yet its table
            return []
        names = ("consumer", "incarnation", "epoch", "partition", "offset", "sequence", "produced_at", "processed_at")
        return [Row(*(one[name] for name in names)) for one in found]

    def _await(self, holds: Callable[[], bool], what: str, look_s: float = LOOK_S) -> None:
        deadline = time.monotonic() + LIMIT_S
        while True:
            if holds():
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {LIMIT_S:g} s: {what} ({self.managed.state()}); see {self.folder}")
            time.sleep(look_s)

    def problems(self) -> list[str]:
        """Return what is wrong with everything below the log's present end; what the sleepers did is judged apart."""
        ends = self.site.offsets.ends(self.site.topic, range(PARTITIONS))
        wanted = {(p, offset) for p, end in ends.items() for offset in range(end)}
        self._await(lambda: wanted <= {(r.partition, r.offset) for r in self.rows()}, "everything is processed")
        commits = self.commits.of(self.site.group, self.site.topic)
        rows = self.rows()
        self.managed.see_releases()
        run = Run(
            base=dict.fromkeys(range(PARTITIONS), 0),
            target=ends,
            rows=[row for row in rows if row.offset < ends[row.partition]],
            commits=[one for one in commits if one.entry.offset <= ends[one.partition]],
            records=self.managed.history(),
            releases=list(self.managed.ledger.releases.values()),
            killed=frozenset(self.killed),
        )
        return judge(run, self.sleeps).problems()

    def close(self) -> None:
        for one in self._started:
            one.close()
        self.commits.close()
        self.managed.close()


DEEDS: Mapping[str, Callable[[Applications, str], None]] = {
    "host killed": Applications.kill_host,
    "driver killed": Applications.kill_driver,
    "asleep": Applications.sleep,
}
ROLES = ("giver", "taker")


def join_and_leave(apps: Applications, deed: str, role: str) -> None:
    """A join and a leave of the third, with one deed to whoever gives or takes in each."""
    stays, act = STAYING[0], DEEDS[deed]
    epoch = apps.managed.node().epoch
    apps.start(MOVER)
    apps.planned(epoch)
    victim = stays if role == "giver" else MOVER
    act(apps, victim)
    apps.start(victim)
    apps.stable([*STAYING, MOVER])
    leaving = apps.running[MOVER]
    epoch = apps.managed.node().epoch
    leaving.driver.send_signal(signal.SIGTERM)
    apps.planned(epoch)
    if role == "giver":
        act(apps, MOVER)
    else:
        del apps.running[MOVER]
        act(apps, stays)
        apps.start(stays)
    apps.stable(STAYING)
    leaving.close()


@contextmanager
def applications(folder: Path) -> Iterator[Applications]:
    policy = replace(QUICK, absent_after_s=ABSENT_AFTER_S, flap_registrations=1_000_000)
    with ExitStack() as ending:
        zookeeper = ending.enter_context(EmbeddedZooKeeper(folder / "zookeeper"))
        kafka = ending.enter_context(EmbeddedKafka(folder / "kafka"))
        apps = Applications(folder, zookeeper.connect_string, kafka.bootstrap_servers)
        ending.callback(apps.close)
        ending.enter_context(apps.managed.looping(policy=policy))
        traffic = Traffic(apps.site, PER_SECOND, lambda number: json.dumps({"sequence": number}))
        ending.callback(traffic.close)
        apps.start(*STAYING)
        apps.stable(STAYING)
        yield apps
