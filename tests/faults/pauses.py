"""Consumers that stand still for less than a session of 4 s, as in a long collection of garbage: nothing moves.

ZooKeeper counts a session from the last word it got, up to about 1 s before the pause began. What is longer than the rest may
cost the session: then the partitions move, and nothing is lost either.
"""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from tests.faults import plan
from tests.faults.case import FIRST, SECOND, Case, Failed
from tests.faults.checker import check
from tests.faults.deaths import own_servers
from tests.faults.notes import Notes, Part, Turn, Wanted, figure
from tests.faults.roles import COORDINATOR
from tests.faults.servers import Servers

PAUSES = "pauses"
SESSION_S = 4.0
KEPT_S = (1.0, 2.0, 2.5)
"""What leaves the session alive whenever the last word was."""
UNSURE_S = (3.0, 3.5)
"""What may cost it."""
LOST_S = 12.0
"""What does: without it, nothing would have been shown. What a consumer without its session does is the sleepers' part."""
ALL_S = (*KEPT_S, *UNSURE_S, LOST_S)
TIMES = 10
AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Pause:
    """What became of a case. `lasted_s`: how long the consumer stood; `records`: what it processed from then on, if it kept
    what it has."""

    problems: tuple[str, ...]
    lasted_s: float = 0.0
    moved: bool = False
    records: int = 0


@dataclass
class Standing(Case):
    """Stable with two, and one of them stands still for `stands_s`."""

    stands_s: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings = replace(self.settings, session_timeout_s=SESSION_S)

    def stand(self) -> Pause:
        """The case, and its verdict."""
        self.base = self.servers.ends()
        try:
            return self._run()
        except Failed as error:
            return Pause((str(error),))
        finally:
            self.close()

    def _run(self) -> Pause:
        self.servers.begin_group(self.group, self.base)
        self._phase("initial")
        for role in (COORDINATOR, FIRST, SECOND):
            self._start(role)
        self._await(lambda: self._settled({FIRST, SECOND}), "Stable with both")
        before, pid = self.node(), self.actors[SECOND].process.pid  # type: ignore[union-attr]
        began = time.time()
        os.kill(pid, signal.SIGSTOP)  # type: ignore[arg-type]
        try:
            time.sleep(self.stands_s)
        finally:
            os.kill(pid, signal.SIGCONT)  # type: ignore[arg-type]
        woke = time.time()
        enough = woke + SESSION_S + AFTER_S  # a session that had ended would have been noticed by then
        self._await(lambda: time.time() > enough and self._settled({FIRST, SECOND}), "Stable with both again")
        self.target = self.servers.ends()
        self._await(self._consumed, "everything is processed")
        evidence, after = self._evidence(), self.node()
        moved = (after.assignments, after.since) != (before.assignments, before.since)
        problems = [] if moved else check(evidence).problems()
        if moved and self.stands_s in KEPT_S:
            problems.append(f"a pause of {woke - began:.2f} s moved partitions: {before} became {after}")
        if not moved and self.stands_s == LOST_S:
            problems.append("a pause beyond the session moved nothing: the shorter ones show nothing")
        records = sum(row.consumer == SECOND and row.processed_at >= woke for row in evidence.rows)
        return Pause(tuple(problems), round(woke - began, 2), moved, records)


def _stand(servers: Servers, folder: Path, case: tuple[str, float]) -> tuple[str, Pause]:
    key, seconds = case
    name = key.replace(" ", "-").replace(",", "")
    return key, Standing(servers, f"{folder.name}-{name}", folder / name, stands_s=seconds).stand()


def _run(turn: Turn) -> None:
    cases = {f"{seconds:g} s, {n}": seconds for seconds in ALL_S for n in range(TIMES)}
    due = turn.notes.due(cases)
    if not due or turn.over():
        return
    with own_servers(turn.folder) as servers:
        for _, keys in turn.batches(due, plan.AT_ONCE):
            batch = [(key, cases[key]) for key in keys]
            with ThreadPoolExecutor(plan.AT_ONCE) as pool:
                for key, pause in pool.map(partial(_stand, servers, turn.folder), batch):
                    turn.notes.add(PAUSES, key, **asdict(pause))


def _summary(notes: Notes, _: Wanted) -> str:
    def told(seconds: float) -> str:
        lines = [one for one in notes.of(PAUSES) if one["key"].startswith(f"{seconds:g} s,")]
        return f"{seconds:g} s: {sum(one['moved'] for one in lines)} of {len(lines)} cost the session"

    lines = notes.of(PAUSES)
    return (
        f"sessions of {SESSION_S:g} s; {'; '.join(map(told, ALL_S))}; the longest stood "
        f"{figure(lines, 'lasted_s'):.2f} s"
    )


PART = Part(PAUSES, _run, _summary)
