"""A consumer that sleeps for longer than its session, loses everything meanwhile, and wakes up."""

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.faults.case import FIRST, SECOND, TICK_S, Case, Failed
from tests.faults.proxy import Proxy
from tests.faults.roles import COORDINATOR, Life
from tests.faults.servers import Servers
from tests.faults.waking import AFTERWARDS_S, Sleep, judge
from tests.integration.agent_site import ask

STOP_LIMIT_S = 20.0
REFUSED = "Kafka refuses its commit"
TAKEN = f"was taken by {FIRST}"


@dataclass(frozen=True, slots=True)
class Wake:
    """What a zombie did after it woke up. Times in seconds since then; `batches`: times at which rows passed its sink.

    `refused`: it has reported that Kafka refused its commit; `fenced`: that it has found another's entry there.
    """

    stopped_after_s: float
    batches: tuple[float, ...]
    rows: int
    late_commits: int
    problems: tuple[str, ...]
    refused: bool = False
    fenced: bool = False


class Zombie(Case):
    """`cut_off` and `reconnect` are called around the wake-up: what the zombie cannot reach then."""

    def wake(self) -> Wake:
        """The case with everything within reach."""
        return self.wake_up(nothing, nothing)

    def wake_up(self, cut_off: Callable[[], None], reconnect: Callable[[], None]) -> Wake:
        """Stable with two, one sleeps, the other takes over, the first wakes up."""
        self.base = self.servers.ends()
        try:
            return self._run(cut_off, reconnect)
        except Failed as error:
            return Wake(0.0, (), 0, 0, (str(error),))
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
        slept_at, epoch = time.time(), self.node().epoch
        self._await(lambda: self._settled({FIRST}), "the other has taken over")
        cut_off()
        woke_at = time.time()
        os.kill(pid, signal.SIGCONT)  # type: ignore[arg-type]
        stopped_at, reports = self._stops(address)
        reconnect()
        time.sleep(AFTERWARDS_S)
        self.target = self.servers.ends()
        self._await(self._consumed, "everything is processed")
        self.close()
        wake = self._judged(Sleep(SECOND, life, epoch, slept_at, woke_at, stopped_at))
        refused, fenced = (any(sentence in text for text in reports) for sentence in (REFUSED, TAKEN))
        return replace(wake, refused=refused, fenced=fenced)

    def _stops(self, address: str) -> tuple[float, tuple[str, ...]]:
        """When its interface says for the first time that it runs nothing, and what it reports then."""
        deadline = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < deadline:
            with suppress(OSError):
                status = ask(address).topics[self.topic]
                if not status.running:
                    return time.time(), status.reports
            time.sleep(TICK_S)
        raise Failed(f"the zombie has not stopped within {STOP_LIMIT_S:g} s; see {self.folder}")

    def _judged(self, sleep: Sleep) -> Wake:
        verdict = judge(self._evidence(), [sleep], fenced_by_broker=self.fence == TRANSACTIONAL_FENCE)
        (waking,) = verdict.wakings
        problems = verdict.problems()
        if len(waking.batches) > 1 and SECOND not in self.blind:
            problems.append(f"{len(waking.batches)} batches passed after it woke up, and one was under way at most")
        return Wake(waking.stopped_after_s, waking.batches, len(waking.rows), len(waking.commits), tuple(problems))


@dataclass
class Adrift(Zombie):
    """Only Kafka is left to it: ZooKeeper breaks its connections off, or, `silent`, lets them in and says nothing."""

    silent: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.through = Proxy(self.servers.zookeeper)

    def wake(self) -> Wake:
        cut_off = self.through.swallow if self.silent else self.through.refuse
        wake = self.wake_up(cut_off, self._back)
        if wake.fenced or wake.problems:
            return wake
        return replace(wake, problems=("it has not found the other's entry in Kafka: what has stopped it?",))

    def _back(self) -> None:
        time.sleep(AFTERWARDS_S)
        self.through.let_through()

    def _life(self, role: str) -> Life:
        life = super()._life(role)
        if role != SECOND:
            return life
        return replace(life, settings=replace(life.settings, zookeeper=f"{self.through.address}/{self.name}"))

    def close(self) -> None:
        super().close()
        self.through.__exit__()


def sleepers(servers: Servers, folder: Path, numbers: Iterable[int]) -> list[Zombie]:
    """Cases that are yet to run."""
    return [Zombie(servers, f"{folder.name}-{number}", folder / str(number)) for number in numbers]


def adrift(servers: Servers, folder: Path, numbers: Iterable[int]) -> list[Adrift]:
    """The same without ZooKeeper; every other one hears nothing from it."""
    return [
        Adrift(servers, f"{folder.name}-{number}", folder / str(number), silent=number % 2 > 0) for number in numbers
    ]


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
