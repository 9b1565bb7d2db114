"""One process on a host of its own is cut off from its neighbours for a while, in the case of two consumers and a coordinator.

A cut is shorter than a session, or longer than a session and `absent_after_s` together. Where a hand-off is under way, its
giver stands still from before the join until the cut is made, so that it cannot be over before that.
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

from coordinator_tasks.core.codecs.member_codec import decode_directive
from coordinator_tasks.core.model import Record, State, TopicNode
from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.service.nodes import history
from tests.faults.case import FIRST, SECOND, Case, Failed
from tests.faults.checker import check
from tests.faults.failpoints import GO, HELD, Hold
from tests.faults.netns import Host
from tests.faults.roles import COORDINATOR, Life
from tests.faults.site import Site

ZOOKEEPER, ONE_SERVER, KAFKA = "ZooKeeper", "its ZooKeeper server", "Kafka"
BOTH, ASKING, ALL = "ZooKeeper and Kafka", "the coordinator", "everybody"
SHORT, LONG, MINUTES = "shorter than a session", "longer than a session", "for 135 s"
"""The last: after 120 s of failing commits a partition is given up."""
SESSION_S, ABSENT_S = 8.0, 3.0
SHORT_S = 1.5
"""What was lost meanwhile is sent again within as long again; the last word before it was at most 2.7 s ago."""
LONGER = 1.5
"""A long cut lasts so many times a session and `absent_after_s`."""
MINUTES_S = 135.0
BOUND_S = 45.0
"""From the healing until everything flows: TCP sends again after up to as long as the cut has lasted."""
REGISTERING = f"{SECOND}/*/agent.Agent._register/Registry.register"
LOOK_S = 0.02
PAUSE_LIMIT_S = 10.0
BUFFERED_S = 3.0
"""So long after a cut from Kafka, what had been fetched may still be processed."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Who is cut off from whom, and for how long; `moving` = in the middle of a hand-off from the first consumer to the second."""

    who: str
    away: str
    moving: bool
    lasts: str

    def __str__(self) -> str:
        if self.who == COORDINATOR:
            who = f"the coordinator{', a hand-off under way,' if self.moving else ''}"
        else:
            who = {FIRST: "the giver", SECOND: "the taker"}[self.who] if self.moving else "an owner"
        return f"{who} without {self.away}, {self.lasts}"

    @property
    def isolates(self) -> bool:
        """Whether the platform has to take the victim for lost."""
        return self.away == ALL and self.lasts == LONG

    @property
    def ends_session(self) -> bool:
        """Whether the victim's session has to end."""
        return self.lasts == LONG and self.away in (ZOOKEEPER, BOTH, ALL)

    @property
    def hand_off_ends(self) -> bool | None:
        """Whether Stable has to come, or must not, while the cut lasts; `None` = either.

        Who has lost ZooKeeper only is told by the coordinator. Without Kafka nothing is committed, neither by a giver nor by a
        taker. Who cannot be asked confirms nothing. Who is lost is waited for no longer.
        """
        if not self.moving or self.lasts != LONG or (self.who, self.away) == (COORDINATOR, KAFKA):
            return None
        return self.who != COORDINATOR and self.away in (ZOOKEEPER, ALL)

    @property
    def taken_over(self) -> bool:
        """Whether the taker has to go on with what the giver has released, though no coordinator can confirm it."""
        return self.moving and self.lasts == LONG and (self.who == COORDINATOR or self.away == ASKING)

    @property
    def goes_on(self) -> bool:
        """Whether the victim has to process what it owns while the cut lasts."""
        return not self.moving and self.lasts == LONG and self.away in (ZOOKEEPER, ONE_SERVER, ASKING)


CUTS = [
    *(
        Cut(SECOND, away, False, long)
        for away in (ZOOKEEPER, ONE_SERVER, KAFKA, BOTH, ASKING, ALL)
        for long in (SHORT, LONG)
    ),
    Cut(SECOND, KAFKA, False, MINUTES),
    *(
        Cut(who, away, True, long)
        for who in (FIRST, SECOND)
        for away in (ZOOKEEPER, KAFKA, BOTH, ASKING, ALL)
        for long in (SHORT, LONG)
    ),
    *(
        Cut(COORDINATOR, away, moving, long)
        for away in (ZOOKEEPER, KAFKA)
        for moving in (False, True)
        for long in (SHORT, LONG)
    ),
]


@dataclass
class Apart(Case):
    """Two consumers and a coordinator, one of which is cut off for a while."""

    site: Site = None  # type: ignore[assignment]
    cut: Cut = CUTS[0]
    session_s: float = SESSION_S
    absent_s: float = ABSENT_S
    hosts: dict[str, Host] = field(default_factory=dict)
    over: bool = False
    """Whether a hand-off that was under way ended while the victim was cut off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        policy = replace(self.settings.policy, absent_after_s=self.absent_s)
        self.settings = replace(self.settings, session_timeout_s=self.session_s, status_token="asked", policy=policy)
        self.lasts_s = {SHORT: SHORT_S, LONG: LONGER * (self.session_s + self.absent_s), MINUTES: MINUTES_S}[
            self.cut.lasts
        ]

    def sit_out(self) -> list[str]:
        """Return what is wrong with the case."""
        self.base = self.servers.ends()
        try:
            self.hosts = {role: self.site.network.add() for role in (COORDINATOR, FIRST, SECOND)}
            return self._run()
        except Failed as error:
            return [str(error)]
        finally:
            self.close()
            for host in self.hosts.values():
                self.site.network.remove(host)

    def _life(self, role: str) -> Life:
        # Everything that a start takes is behind it when the giver has to stand still for it.
        hold = Hold(REGISTERING) if role == SECOND and self.cut.moving else None
        return replace(super()._life(role), host=self.hosts[role], hold=hold)

    def _run(self) -> list[str]:
        self._begin()
        before, known = self.node(), self._known()
        victim = self.cut.who
        life = self._live(victim) if victim != COORDINATOR else 0
        with self.site.network.cut(self.hosts[victim], self._neighbours()):
            cut_at = time.time()
            if self.cut.moving:
                self._signal(signal.SIGCONT)
            self._await(
                lambda: time.time() > cut_at + self.lasts_s and self._shown(cut_at), "what the cut has to bring about"
            )
            problems, self.over = self._meanwhile(), self.cut.moving and self._stable()
        back_at = time.time()
        if self.cut.isolates:
            self.killed.add((victim, life))  # what it had not committed is processed again
        self._await(lambda: self._flowed(back_at), "everything flows")
        if time.time() - back_at > BOUND_S:
            problems.append(f"not everything flowed again within {BOUND_S:g} s")
        self._await(lambda: self._settled({FIRST, SECOND}), "Stable afterwards")
        self.target = self.servers.ends()
        self._await(self._consumed, "everything is processed")
        return problems + self._judged(before, known, cut_at, back_at)

    def _begin(self) -> None:
        self.servers.begin_group(self.group, self.base)
        self._phase("initial")
        self._start(COORDINATOR)
        self._start(FIRST)
        if not self.cut.moving:
            self._start(SECOND)
            self._await(lambda: self._settled({FIRST, SECOND}), "Stable with both")
            return
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")
        self._start(SECOND)
        self._await((self.folder / HELD).exists, "the second consumer is about to register")
        self._signal(signal.SIGSTOP)
        (self.folder / GO).touch()
        self._planned()

    def _planned(self) -> None:
        """Without a look at anything else: the giver has to go on before its session is over."""
        deadline = time.monotonic() + self.session_s
        while '"Closing"' not in self._standing():
            if time.monotonic() > deadline:
                raise Failed(
                    f"the join was not planned within {self.session_s:g} s: {self._standing()}; see {self.folder}"
                )
            time.sleep(LOOK_S)

    def _neighbours(self) -> list[str]:
        zookeepers, kafka = list(self.site.zookeepers), [self.site.kafka]
        host = self.hosts[self.cut.who]
        others = [one.address for role, one in self.hosts.items() if role == COORDINATOR]
        return {
            ZOOKEEPER: zookeepers,
            ONE_SERVER: [self.site.server_of(host)] if self.cut.away == ONE_SERVER else [],
            KAFKA: kafka,
            BOTH: zookeepers + kafka,
            ASKING: others,
            ALL: zookeepers + kafka + others,
        }[self.cut.away]

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended: whoever waits for it says so
            os.kill(self.actors[FIRST].process.pid, number)  # type: ignore[union-attr, arg-type]

    def _known(self) -> int:
        return len(history.records(self.coordinator, self.topic, 500))

    def _flowed(self, since: float) -> bool:
        return {row.partition for row in self.rows.all() if row.processed_at >= since} == set(self.base)

    def _stable(self) -> bool:
        return '"Stable"' in self._standing()

    def _shown(self, cut_at: float) -> bool:
        """Whether everything has come that the cut has to bring about."""
        cut, since = self.cut, cut_at + BUFFERED_S
        if cut.ends_session and cut.who != COORDINATOR and self.zk.find(self.paths.member(cut.who)) is not None:
            return False
        if (cut.isolates and not self._isolated(cut.who)) or (cut.hand_off_ends and not self._stable()):
            return False
        going = {row.consumer for row in self.rows.all() if row.processed_at > since}
        wanted = {SECOND} if cut.taken_over else {cut.who} - {COORDINATOR} if cut.goes_on else set()
        return wanted <= going

    def _meanwhile(self) -> list[str]:
        """What must not have happened by the end of the cut."""
        cut = self.cut
        lost = [role for role in (FIRST, SECOND) if self._isolated(role) and not (cut.isolates and role == cut.who)]
        found = [f"{role} is isolated" for role in lost]
        if cut.who != COORDINATOR and not cut.ends_session and self.zk.find(self.paths.member(cut.who)) is None:
            found.append("its session has ended")
        if cut.hand_off_ends is False and self._stable():
            found.append("the hand-off is said to be over, which nobody could know")
        return found

    def _isolated(self, consumer: str) -> bool:
        node = self.zk.find(self.paths.directive(consumer))
        return node is not None and decode_directive("", node.data, consumer, 0).isolation is not None

    def _judged(self, before: TopicNode, known: int, cut_at: float, back_at: float) -> list[str]:
        evidence = self._evidence()
        problems = check(evidence).problems()
        if not self.cut.isolates and self.cut.lasts != MINUTES:
            problems += self._disturbed(before, self.node(), evidence.records, known)
        during = [row for row in evidence.rows if cut_at <= row.processed_at < back_at]
        late = [row for row in during if row.processed_at > cut_at + BUFFERED_S and row.consumer == self.cut.who]
        if late and self.cut.away in (KAFKA, BOTH, ALL):
            problems.append(f"{len(late)} records came from a broker that was cut off")
        staying = [p for p, owner in before.assignments.items() if owner != self.cut.who and not self.cut.moving]
        pause_s = longest_pause_s(during, staying, cut_at, back_at)
        if pause_s > PAUSE_LIMIT_S:
            problems.append(f"a partition whose owner was not cut off paused for {pause_s:.1f} s")
        return problems

    def _disturbed(self, before: TopicNode, after: TopicNode, records: Sequence[Record], known: int) -> list[str]:
        """Nobody was lost: what was Stable has not moved, and a join is one move."""
        if (after.generation, after.incarnations.get(FIRST)) != (before.generation, before.incarnations.get(FIRST)):
            return [f"another generation or other lives: {before} became {after}"]
        if not self.cut.moving:
            return needless(before, after, records[known:])
        if sum(len(one.moves) for one in records) != self.servers.partitions + 1:
            return [f"more than one move for a join: {[one.moves for one in records]}"]
        return []


def needless(before: TopicNode, after: TopicNode, new: Sequence[Record]) -> list[str]:
    """What was decided of a topic that was Stable and had no reason to move: anything but a note of who is a target."""
    found = []
    if (after.assignments, after.since, after.epoch) != (before.assignments, before.since, before.epoch):
        found.append(f"decided: {before} became {after}")
    if any(one.moves or (one.source, one.target) != (State.STABLE, State.STABLE) for one in new):
        found.append(f"more than a note: {new}")
    return found


def longest_pause_s(rows: Sequence[Row], partitions: Sequence[int], begin: float, end: float) -> float:
    """The longest time between two rows of one partition, the borders included."""
    found = 0.0
    for partition in partitions:
        times = [begin, *sorted(row.processed_at for row in rows if row.partition == partition), end]
        found = max(found, *(later - earlier for earlier, later in pairwise(times)))
    return found
