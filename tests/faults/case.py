"""One case: Initial to Stable, a join, a clean leave, with records flowing; whoever is killed is started again."""

import copy
import os
import pprint
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import ClassVar

from coordinator_tasks.adapters.clock import SystemClock
from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery
from coordinator_tasks.core.codecs.codec import decode_node
from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.core.errors import NotManaged
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Ending, TopicNode
from coordinator_tasks.core.names import Paths
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet, history
from coordinator_tasks.settings import TOKEN_FENCE
from coordinator_tasks.wiring import Settings
from tests.faults.checker import Run, check
from tests.faults.failpoints import Kill, enter, traced
from tests.faults.releases import Releases
from tests.faults.roles import AGENT_TIMING, COORDINATOR, Life, Rows, consume, coordinate
from tests.faults.servers import Servers
from tests.stable import stable_node

FIRST, SECOND = "a", "b"
BOUND_S = 300.0
"""For each phase, kills included: generous, since a busy machine is no failure. A case takes about 3 s."""
TICK_S = 0.06
POLICY = Policy(settle_s=0.05, settle_max_s=0.5, absent_after_s=1.0, flap_registrations=1000)
SESSION_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case."""

    kills: tuple[Kill, ...]
    reached: tuple[bool, ...]
    problems: tuple[str, ...]
    repeated: int
    points: tuple[str, ...] = ()


class Failed(Exception):
    """The case did not settle, or a process ended that had no reason to."""


@dataclass
class Actor:
    """One role with its present process."""

    life: Life
    process: BaseProcess | None = None
    ended: bool = False


@dataclass
class Case:
    """Runs in a thread of its own; everything it needs is under its own ZooKeeper folder, group and directory.

    `blind`: who never looks at the committed entries once it has begun, so that its own fence is out of work. `brief`: the
    phase in which the last death was is the last one.
    """

    stay_s: ClassVar[float] = 6 * AGENT_TIMING.poll_s
    """How long a phase goes on for a death of its own that has not come."""
    servers: Servers
    name: str
    folder: Path
    kills: tuple[Kill, ...] = ()
    fence: str = TOKEN_FENCE
    blind: tuple[str, ...] = ()
    brief: bool = False
    actors: dict[str, Actor] = field(default_factory=dict)
    killed: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.paths, self.topic, self.group = Paths("c"), self.servers.topic, f"g-{self.name}"
        self.zk = copy.copy(self.servers.zk)
        self.zk.prefix = f"/{self.name}"
        self.settings = Settings(
            "c",
            f"{self.servers.zookeeper}/{self.name}",
            self.servers.client_settings,
            session_timeout_s=SESSION_TIMEOUT_S,
            answer_timeout_s=5.0,
            ask_timeout_s=1.0,
            fence=self.fence,
            policy=POLICY,
        )
        self.coordinator = Coordinator(
            paths=self.paths,
            zk=self.zk,
            discovery=ZooKeeperDiscovery(self.zk, self.paths),
            statuses=None,  # type: ignore[arg-type]  # nobody is asked from here
            kafka=self.servers.admin,
            clock=SystemClock(),
            policy=POLICY,
        )
        self.rows = Rows(self.folder)
        self.releases = Releases(self.zk, self.paths, self.topic, self.servers.partitions)

    # The scenario ----------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Everything, and the verdict. What it wrote is deleted when all is well."""
        problems: list[str] = []
        repeated = 0
        self.base = self.servers.ends()
        try:
            self._scenario()
            self.close()
            evidence = self._evidence()
            findings = check(evidence)
            problems, repeated = findings.problems(), len(findings.explained)
            if problems:
                (self.folder / "evidence").write_text(pprint.pformat(evidence, width=160))
        except Failed as error:
            problems = [str(error)]
        finally:
            self.close()
        reached = self._reached()
        points = tuple(traced(self.folder)) if not self.kills else ()
        if not problems:
            shutil.rmtree(self.folder)
        return Result(self.kills, reached, tuple(problems), repeated, points)

    def _reached(self) -> tuple[bool, ...]:
        """Of each death, whether it has come."""
        return tuple((self.folder / f"killed-{number}").exists() for number in range(len(self.kills)))

    def _scenario(self) -> None:
        self.servers.begin_group(self.group, self.base)
        for phase in self._phases():
            phase()
            self._stay()
            if self._over():
                break
        self.target = self.servers.ends()
        self._await(self._consumed, "everything is processed")

    def _stay(self) -> None:
        """Go on with a phase until its deaths have come: what a process does again and again need not fall into a short one."""
        due = [number for number, kill in enumerate(self.kills) if kill.point.split("/")[1] == self.phase]
        until = time.monotonic() + self.stay_s
        if not all(self._reached()[number] for number in due):
            stood = self._awaited
            self._await(
                lambda: all(self._reached()[number] for number in due) or time.monotonic() > until, "a phase goes on"
            )
            self._await(*stood)

    def _over(self) -> bool:
        return self.brief and all(self._reached())

    def _phases(self) -> Sequence[Callable[[], None]]:
        return (self._initial, self._join, self._leave)

    def _initial(self) -> None:
        self._phase("initial")
        self._start(COORDINATOR)
        self._start(FIRST)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")

    def _join(self) -> None:
        self._phase("join")
        self._start(SECOND)
        self._await(lambda: self._settled({FIRST, SECOND}), "Stable after the join")

    def _leave(self) -> None:
        self._phase("leave")
        self._await(self._left, "the first consumer leaves, and Stable")

    def _phase(self, name: str) -> None:
        enter(self.folder, name)
        self.phase = name

    def _start(self, role: str) -> None:
        if role not in self.actors:
            self.actors[role] = Actor(self._life(role))
        actor = self.actors[role]
        (self.folder / role).mkdir(exist_ok=True)
        self._note(role).unlink(missing_ok=True)
        before, actor.process = (
            actor.process,
            self.servers.forks.Process(target=self._does(role), args=(actor.life,), daemon=True),
        )
        with self.servers.processes:
            if before is not None:
                before.close()
            actor.process.start()

    def _life(self, role: str) -> Life:
        return Life(role, self.settings, self.topic, self.group, self.folder, self.kills, role in self.blind)

    def _does(self, role: str) -> Callable[[Life], None]:
        return coordinate if role == COORDINATOR else consume

    def _may_end(self, role: str) -> bool:
        return role == FIRST and self.phase == "leave"

    def _note(self, role: str) -> Path:
        return self.folder / role / "incarnation"

    # What is awaited -------------------------------------------------------------------------------------------------

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        self._awaited = (holds, what)
        deadline = time.monotonic() + BOUND_S
        while True:
            revived = self._revive()
            self.releases.see()
            if not revived and holds():
                return
            if time.monotonic() > deadline:
                self._write_stacks()
                raise Failed(f"not within {BOUND_S:g} s: {what} ({self._standing()}); see {self.folder}")
            time.sleep(TICK_S)

    def _revive(self) -> bool:
        """Start again who was killed; whether somebody was."""
        found = False
        for role, actor in self.actors.items():
            with self.servers.processes:
                code = actor.process.exitcode if actor.process is not None else None
            if code is None or actor.ended:
                continue
            if code == -signal.SIGKILL:
                self._bury(role)
                self._start(role)
                found = True
            elif code == 0 and self._may_end(role):
                actor.ended = True
            else:
                raise Failed(f"{role} has ended with {code}; see {self.folder}")
        return found

    def _bury(self, role: str) -> None:
        """Note which life is over; where the kill says so, its launcher reaps it."""
        if role == COORDINATOR or not self._note(role).exists():
            return
        incarnation = int(self._note(role).read_text())
        self.killed.add((role, incarnation))
        if any(kill.when == "before" for kill in self.kills):
            with suppress(NotManaged):
                fleet.record_end(self.coordinator, role, incarnation, Ending.REAPED)

    def node(self) -> TopicNode:
        return decode_node("", self.zk.get(self.paths.topic(self.topic)).data)

    def _settled(self, owners: set[str]) -> bool:
        """Stable, everything owned by exactly these, each in its present life, and records reach their sinks."""
        node = self._owned(owners)
        if node is None:
            return False
        rows = {(row.partition, row.consumer, row.incarnation) for row in self.rows.all()}
        return all((p, owner, node.incarnations[owner]) in rows for p, owner in node.assignments.items())

    def _owned(self, owners: set[str]) -> TopicNode | None:
        """The topic's node, if it is Stable with everything owned by exactly these, each in its present life."""
        node = stable_node(self.zk.find, self.paths, self.topic)
        if node is None or set(node.assignments.values()) != owners or len(node.assignments) != self.servers.partitions:
            return None
        lives = {owner: self._live(owner) for owner in owners}
        return node if lives.items() <= node.incarnations.items() else None

    def _live(self, consumer: str) -> int:
        """The incarnation that is registered, if it is the present process's; -1 otherwise."""
        found = self.zk.find(self.paths.member(consumer))
        note = self._note(consumer)
        if found is None or not note.exists():
            return -1
        member = decode_member("", found.data)
        return member.incarnation if note.read_text().strip() == str(member.incarnation) else -1

    def _left(self) -> bool:
        actor = self.actors[FIRST]
        if actor.ended:
            return self._settled({SECOND})
        if actor.process is not None and self._live(FIRST) > 0:
            asked = self.folder / f"asked-{actor.process.pid}"
            if not asked.exists():
                asked.touch()
                actor.process.terminate()
        return False

    def _consumed(self) -> bool:
        there: dict[int, set[int]] = {p: set() for p in self.base}
        for row in self.rows.all():
            there[row.partition].add(row.offset)
        return all(there[p].issuperset(range(first, self.target[p])) for p, first in self.base.items())

    # Evidence --------------------------------------------------------------------------------------------------------

    def _evidence(self) -> Run:
        return Run(
            base=self.base,
            target=self.target,
            commits=self.servers.commits.of(self.group, self.topic),  # before the rows: who still runs goes on
            rows=self.rows.all(),
            records=history.records(self.coordinator, self.topic, 500)[::-1],
            releases=self.releases.all(),
            killed=frozenset(self.killed),
        )

    def _standing(self) -> str:
        state = self.zk.find(self.paths.state(self.topic))
        return state.data.decode() if state is not None else "Initial"

    def _write_stacks(self) -> None:
        """Let every process write into the folder where its main thread stands."""
        for actor in self.actors.values():
            if actor.process is not None and actor.process.pid is not None and not actor.ended:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(actor.process.pid, signal.SIGUSR1)
        time.sleep(TICK_S * 5)

    def close(self) -> None:
        """End every process."""
        with self.servers.processes:
            for actor in self.actors.values():
                if actor.process is not None:
                    actor.process.kill()
            for actor in self.actors.values():
                if actor.process is not None:
                    actor.process.join(10)
                    actor.process.close()
                    actor.process = None
