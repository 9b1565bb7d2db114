"""A consumer that sleeps for longer than its session, loses everything meanwhile, and wakes up."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coordinator_tasks.core.member_codec import decode_member
from coordinator_tasks.core.model import Unreachable
from coordinator_tasks.demo.evidence import Row
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.faults.case import FIRST, SECOND, TICK_S, Case
from tests.faults.checker import TOLERANCE_S, check
from tests.faults.commit_log import LoggedCommit, by_partition
from tests.faults.roles import COORDINATOR
from tests.faults.servers import Servers
from tests.integration.agent_site import ask

PROMISED_S = 1.0
"""Within which a zombie finds out by itself, or within the batch that was under way, whichever is longer."""
SLACK_S = 2.0
"""For a busy machine, and for the question that tells that it has stopped; what was measured is told."""
STOP_LIMIT_S = 20.0
REFUSED = "Kafka refuses its commit"


@dataclass(frozen=True, slots=True)
class Wake:
    """What a zombie did after it woke up. Times in seconds since then; `batches`: times at which rows passed its sink.

    `refused`: it has reported that Kafka refused its commit.
    """

    stopped_after_s: float
    batches: tuple[float, ...]
    rows: int
    late_commits: int
    problems: tuple[str, ...]
    refused: bool = False


class Zombie(Case):
    """`cut_off` and `reconnect` are called around the wake-up: what the zombie cannot reach then."""

    def wake_up(self, cut_off: Callable[[], None], reconnect: Callable[[], None]) -> Wake:
        """Stable with two, one sleeps, the other takes over, the first wakes up."""
        self.base = self.servers.ends()
        try:
            return self._run(cut_off, reconnect)
        finally:
            self.close()

    def _run(self, cut_off: Callable[[], None], reconnect: Callable[[], None]) -> Wake:
        self.servers.begin_group(self.group, self.base)
        self._phase("initial")
        self._start(COORDINATOR)
        self._start(FIRST)
        self._start(SECOND)
        self._await(lambda: self._settled({FIRST, SECOND}), "Stable with both")
        life, pid = self._live(SECOND), self.actors[SECOND].process.pid  # type: ignore[union-attr]
        address = decode_member("", self.zk.get(self.paths.member(SECOND)).data).address
        os.kill(pid, signal.SIGSTOP)  # type: ignore[arg-type]
        self._await(lambda: self._settled({FIRST}), "the other has taken over")
        cut_off()
        woke_at = time.time()
        os.kill(pid, signal.SIGCONT)  # type: ignore[arg-type]
        stopped_at, refused = self._stops(address)
        reconnect()
        self.target = self.servers.ends()
        self._await(self._consumed, "everything is processed")
        self.close()
        return replace(self._judged(life, woke_at, stopped_at), refused=refused)

    def _stops(self, address: str) -> tuple[float, bool]:
        """When its interface says for the first time that it runs nothing, and whether it was refused until then."""
        deadline = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < deadline:
            status = ask(address)
            if not isinstance(status, Unreachable) and not status.topics[self.topic].running:
                return time.time(), any(REFUSED in text for text in status.topics[self.topic].reports)
            time.sleep(TICK_S)
        raise AssertionError(f"the zombie has not stopped within {STOP_LIMIT_S:g} s; see {self.folder}")

    def _judged(self, life: int, woke_at: float, stopped_at: float) -> Wake:
        """What it did under its old epochs is set apart, and bounded; everything else has to be as ever.

        Stopped: in time, and no row passes after its interface has said so. Commits: the fence in the metadata does not keep
        Kafka from taking the one request that was on its way when it fell asleep, which the new owner writes over. So there
        is at most one such commit of a partition, none that says anything of what it processed after it woke up, and the
        effective position, which the checker follows through all commits, never goes back. A fence in the broker lets none through.
        """
        evidence = self._evidence()
        own = [r for r in evidence.rows if (r.consumer, r.incarnation) == (SECOND, life)]
        old = {r.epoch for r in own if r.processed_at < woke_at}
        late = [r for r in own if r.epoch in old and r.processed_at >= woke_at]
        late_commits = [
            c
            for c in evidence.commits
            if c.entry.owner == SECOND
            and c.entry.token is not None
            and c.entry.token.incarnation == life
            and c.entry.token.epoch in old
            and c.at >= woke_at - TOLERANCE_S
        ]
        rest = replace(
            evidence,
            rows=[r for r in evidence.rows if r not in late],
            killed=frozenset({(SECOND, life)}),
        )
        batches = tuple(sorted({round(r.processed_at - woke_at, 3) for r in late}))
        before = [r for r in own if r.processed_at < woke_at]
        problems = check(rest).problems()
        problems += late_stop(stopped_at - woke_at, batches)
        problems += taken(late_commits, before, fenced_by_broker=self.fence == TRANSACTIONAL_FENCE)
        return Wake(stopped_at - woke_at, batches, len(late), len(late_commits), tuple(problems))


def late_stop(stopped_after_s: float, batches: Sequence[float]) -> list[str]:
    """What is wrong with when it stopped; `batches` are the times at which its batches passed, in seconds since it woke up."""
    under_way_s = batches[0] if batches else 0.0
    limit_s = max(PROMISED_S, under_way_s) + SLACK_S
    found = []
    if stopped_after_s > limit_s:
        found.append(f"the zombie stopped after {stopped_after_s:.1f} s, and had {limit_s:.1f} s")
    if batches and batches[-1] > stopped_after_s + TOLERANCE_S:
        found.append(
            f"a batch passed {batches[-1] - stopped_after_s:.3f} s after the zombie had said that it runs nothing"
        )
    return found


def taken(late: Sequence[LoggedCommit], before: Sequence[Row], *, fenced_by_broker: bool) -> list[str]:
    """What is wrong with the commits under an old epoch; `before` are the zombie's rows of the time before it slept."""
    found = []
    for partition, commits in by_partition(list(late)).items():
        passed = max((r.offset + 1 for r in before if r.partition == partition), default=0)
        said = [one.entry.offset for one in commits]
        if fenced_by_broker or len(said) > 1 or said[0] > passed:
            found.append(
                f"partition {partition}: Kafka took {said} under an old epoch; before it slept {passed} had passed"
            )
    return found


def sleepers(servers: Servers, folder: Path, count: int) -> list[Zombie]:
    """Cases that are yet to run."""
    return [Zombie(servers, f"{folder.name}-{number}", folder / str(number)) for number in range(count)]


class Blind(Zombie):
    """The first transaction of a broker that has just started takes its time."""

    bound_s = 120.0


def blind(servers: Servers, folder: Path, fence: str, count: int) -> list[Blind]:
    """The same with a zombie that never looks at the committed entries: only this fence stands between it and Kafka."""
    name = f"{folder.name}-{fence}"
    return [
        Blind(servers, f"{name}-{number}", folder / fence / str(number), fence=fence, blind=(SECOND,))
        for number in range(count)
    ]


def nothing() -> None:
    """Everything can be reached."""
