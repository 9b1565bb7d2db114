"""A case in which one process stands still at a named moment of a rebalance until something has happened to ZooKeeper."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from coordinator_tasks.core.codecs.codec import decode_state
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.model import Record, State
from tests.ended_session import end_session
from tests.faults.case import FIRST, SECOND, Case, Failed
from tests.faults.checker import check
from tests.faults.failpoints import GO, HELD, Hold, When
from tests.faults.outage import longest_pause_s
from tests.faults.roles import COORDINATOR, Life

SESSION_S, ABSENT_S = 4.0, 2.0
PAUSE_LIMIT_S = 10.0
INITIAL, JOIN, LEAVE, CRASH = "initial", "join", "leave", "crash"
PATH = {
    INITIAL: (State.INITIAL, State.STARTING, State.STABLE),
    JOIN: (State.STABLE, State.CLOSING, State.STARTING, State.STABLE),
    LEAVE: (State.STABLE, State.CLOSING, State.STARTING, State.STABLE),
    CRASH: (State.STABLE, State.STARTING, State.STABLE),
}
"""What each rebalance goes through, and nothing else."""


@dataclass(frozen=True, slots=True)
class Moment:
    """`who` stands at this operation of a rebalance, the first that writes `says`; the topic is in one of these states then."""

    name: str
    rebalance: str
    who: str
    operation: str
    when: When
    states: frozenset[State]
    says: bytes = b""

    def __str__(self) -> str:
        return f"{self.rebalance}, {self.name}"

    @property
    def hold(self) -> Hold:
        """The point's name has the phase of the scenario, and a crash is one of its last."""
        phase = LEAVE if self.rebalance == CRASH else self.rebalance
        return Hold(f"{self.who}/{phase}/{self.operation}", self.when, self.says)


def _between(rebalance: str) -> Iterator[Moment]:
    """Where the coordinator stands between two transitions, whichever of its tasks writes them."""
    steps = list(pairwise(PATH[rebalance]))
    for (before, now), (_, then) in pairwise(steps):
        for name, when, (source, target) in (
            (f"right after {now} is written", When.AFTER, (before, now)),
            (f"right before {then} is written", When.BEFORE, (now, then)),
        ):
            record = f'"from":"{source}","to":"{target}"'.encode()
            yield Moment(
                name, rebalance, COORDINATOR, "*/store.commit/ZooKeeper.transact", when, frozenset({now}), record
            )


BETWEEN = [moment for rebalance in PATH for moment in _between(rebalance)]
RELEASE, COMMIT = "view.View._write/ZooKeeper.transact", "work.perform/GroupOffsets.commit"
MOVING = frozenset({State.CLOSING, State.STARTING})
CLOSING = frozenset({State.CLOSING})
GIVER = [
    Moment("the giver before its release", JOIN, FIRST, RELEASE, When.BEFORE, CLOSING),
    Moment("the giver after its release", JOIN, FIRST, RELEASE, When.AFTER, MOVING),
]
HANDS = [
    *GIVER,
    Moment("the giver before its release", LEAVE, FIRST, RELEASE, When.BEFORE, CLOSING),
    Moment("the giver after its release", LEAVE, FIRST, RELEASE, When.AFTER, MOVING),
    Moment("the first owner before its first commit", INITIAL, FIRST, COMMIT, When.BEFORE, MOVING),
    Moment("the taker before its first commit", JOIN, SECOND, COMMIT, When.BEFORE, MOVING),
    Moment("the taker after its first commit", JOIN, SECOND, COMMIT, When.AFTER, MOVING),
]


@dataclass(frozen=True, slots=True)
class Went:
    """What became of a case. `stable_s`: from the fault until Stable again; `pause_s`: the longest of a partition that nobody took away."""

    problems: tuple[str, ...]
    stable_s: float = 0.0
    pause_s: float = 0.0
    moves: int = 0
    repeated: int = 0


@dataclass
class Struck(Case):
    """The scenario up to the end of the rebalance with the moment; `strike` is called at it, and tells who goes on."""

    bound_s: ClassVar[float] = 60.0
    moment: Moment = BETWEEN[0]
    stable_at: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        policy = replace(self.settings.policy, absent_after_s=ABSENT_S)
        self.settings = replace(self.settings, session_timeout_s=SESSION_S, policy=policy)

    def go_through(self, strike: Callable[["Struck"], None]) -> Went:
        """The case, and its verdict."""
        self.base = self.servers.ends()
        try:
            return self._run(strike)
        except (Failed, threading.BrokenBarrierError) as error:
            return Went((str(error) or "another case has failed",))
        finally:
            self.close()

    def _life(self, role: str) -> Life:
        life = super()._life(role)
        return replace(life, hold=self.moment.hold) if role == self.moment.who else life

    def _run(self, strike: Callable[["Struck"], None]) -> Went:
        self.servers.begin_group(self.group, self.base)
        rebalances = [INITIAL] + [JOIN] * (self.moment.rebalance != INITIAL)
        for one in rebalances:
            self._begin(one)
            if one != self.moment.rebalance:
                self._await(self._done(one), f"Stable after the {one}")
        if self.moment.rebalance not in rebalances:
            rebalances.append(self.moment.rebalance)
            self._begin(self.moment.rebalance)
        self._await((self.folder / HELD).exists, f"{self.moment.who} stands where it should")
        standing = self._standing()
        strike(self)
        struck_at = time.time()
        self._await(self._done(self.moment.rebalance), "Stable afterwards")
        self.stable_at = time.time()
        self.target = self.servers.ends()
        self._await(self._consumed, "everything is processed")
        found = self._judged(rebalances, (struck_at, self.stable_at))
        if not any(f'"{state}"' in standing for state in self.moment.states):
            return replace(found, problems=(*found.problems, f"not the moment that was meant: {standing}"))
        return found

    def go(self) -> None:
        """Whoever stands still goes on."""
        (self.folder / GO).touch()

    def end_session(self) -> None:
        """End the session of whoever stands still, from elsewhere."""
        number, password = (self.folder / f"session-{self.moment.who}").read_text().split()
        if not end_session(self.servers.zookeeper, (int(number), bytes.fromhex(password))):
            raise Failed("its session had ended before")
        if self.moment.who != COORDINATOR and self._find(self.paths.member(self.moment.who)) is not None:
            raise Failed("it is registered without a session")

    def go_without_session(self) -> None:
        """It goes on at once."""
        self.end_session()
        self.go()

    def go_when_missed(self) -> None:
        """It goes on when the coordinator has written that it is no target any more; its agent must be what stands still."""
        self.end_session()
        self._await(lambda: self.moment.who not in self._targets(), "it is missed")
        self.go()

    def _targets(self) -> Mapping[str, int]:
        return decode_state("", self.zk.get(self.paths.state(self.topic)).data).targets

    def _begin(self, rebalance: str) -> None:
        self._phase(LEAVE if rebalance == CRASH else rebalance)
        if rebalance == INITIAL:
            self._start(COORDINATOR)
            self._start(FIRST)
        elif rebalance == JOIN:
            self._start(SECOND)
        elif rebalance == LEAVE:
            self._ask_to_leave(self.actors[FIRST])
        else:
            actor = self.actors[FIRST]
            self.killed.add((FIRST, self._live(FIRST)))
            actor.ended = True
            os.kill(actor.process.pid, signal.SIGKILL)  # type: ignore[union-attr, arg-type]

    def _done(self, rebalance: str) -> Callable[[], bool]:
        owners = {INITIAL: {FIRST}, JOIN: {FIRST, SECOND}}.get(rebalance, {SECOND})
        return lambda: (rebalance != LEAVE or self.actors[FIRST].ended) and self._settled(owners)

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        """As ever, though ZooKeeper may say nothing for a while."""
        deadline = time.monotonic() + self.bound_s
        while True:
            try:
                return super()._await(holds, what)
            except StoreUnavailable as error:
                if time.monotonic() > deadline:
                    raise Failed(f"not within {self.bound_s:g} s: {what} ({error})") from error

    def _judged(self, rebalances: Sequence[str], times: tuple[float, float]) -> Went:
        evidence = self._evidence()
        findings = check(evidence)
        expected = [state for rebalance in rebalances for state in PATH[rebalance][1:]]
        problems = findings.problems() + other_path(evidence.records, expected)
        moves = sum(len(one.moves) for one in evidence.records)
        fewest = self.servers.partitions + {INITIAL: 0, JOIN: 1}.get(rebalances[-1], 2)
        if moves != fewest:
            problems.append(f"{moves} moves, and {fewest} are the fewest")
        if rebalances[-1] in (INITIAL, JOIN) and self.zk.children(self.paths.directives):
            problems.append(f"directives for {self.zk.children(self.paths.directives)}")
        staying = [p for p, owner in self.node().assignments.items() if rebalances[-1] == JOIN and owner == FIRST]
        since = [row for row in evidence.rows if times[0] <= row.processed_at <= times[1]]
        pause_s = longest_pause_s(since, staying, *times)
        if pause_s > PAUSE_LIMIT_S:
            problems.append(f"a partition that stays paused for {pause_s:.1f} s")
        repeated = len(findings.explained)
        return Went(tuple(problems), round(times[1] - times[0], 2), round(pause_s, 2), moves, repeated)


def other_path(records: Sequence[Record], expected: Sequence[State]) -> list[str]:
    """What is wrong with the transitions; a note that moves nothing is none."""
    steps = [one for one in records if one.source is not one.target or one.moves]
    found = [one.target for one in steps]
    return [] if found == list(expected) else [f"went through {[str(state) for state in found]}"]
