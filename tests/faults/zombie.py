"""A consumer that sleeps for longer than its session, loses everything meanwhile, and wakes up."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.settings import TRANSACTIONAL_FENCE
from tests.faults.case import FIRST, SECOND, TICK_S, Case, Failed
from tests.faults.roles import COORDINATOR
from tests.faults.waking import AFTERWARDS_S, Sleep, judge
from tests.integration.agent_site import ask

STOP_LIMIT_S = 20.0


class Zombie(Case):
    """Stable with two; one of them sleeps, the other takes over, and the first wakes up."""

    def wake(
        self, cut_off: Callable[[], None] = lambda: None, reconnect: Callable[[], None] = lambda: None
    ) -> list[str]:
        """What is wrong; `cut_off` and `reconnect` are called around the wake-up: what the zombie cannot reach then."""
        self.base = self.servers.ends()
        try:
            return self._run(cut_off, reconnect)
        except Failed as error:
            return [str(error)]
        finally:
            self.close()

    def _run(self, cut_off: Callable[[], None], reconnect: Callable[[], None]) -> list[str]:
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
        stopped_at, self.reports = self._stops(address)
        reconnect()
        time.sleep(AFTERWARDS_S)
        self.target = self.servers.ends()
        self._await(self._consumed, "everything is processed")
        self.close()
        return self._judged(Sleep(SECOND, life, epoch, slept_at, woke_at, stopped_at))

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

    def _judged(self, sleep: Sleep) -> list[str]:
        verdict = judge(self._evidence(), [sleep], fenced_by_broker=self.fence == TRANSACTIONAL_FENCE)
        (waking,) = verdict.wakings
        problems = verdict.problems()
        if len(waking.batches) > 1 and SECOND not in self.blind:
            problems.append(f"{len(waking.batches)} batches passed after it woke up, and one was under way at most")
        return problems
