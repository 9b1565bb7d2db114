"""Three ZooKeeper servers whose leader or majority goes at a named moment of a rebalance, and sessions that end there.

One process of each case stands still right before or right after one operation, several cases at their moments at once. Then
the leader is killed, or two of three servers are for some seconds, and the processes go on at that instant, into an ensemble
that does not answer. Or the session of whoever stands there is ended on the server. Besides, pairs of deaths as elsewhere.
"""

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble
from tests.faults import deaths, plan
from tests.faults.notes import Notes, Part, Turn, Wanted, figure
from tests.faults.servers import Servers
from tests.faults.struck import BETWEEN, GIVER, HANDS, Moment, Struck, Went

ENSEMBLE, PAIRS = "ensemble", "ensemble-pairs"
LEADER, MAJORITY = "the leader is killed", "two of three are killed for 4 s"
SESSION, MISSED = "its session ends", "it is missed without a session"
AWAY_S = 4.0
TIMES = 3
AT_ONCE = 6
MEETING_S = 180.0
PAIRED, SEED = 60, 5
PLANS = {
    f"{ENSEMBLE}: {moment}: {fault}, {number}": (fault, moment)
    for fault, moments in ((LEADER, BETWEEN), (MAJORITY, BETWEEN), (SESSION, BETWEEN + HANDS), (MISSED, GIVER))
    for number in range(TIMES)
    for moment in moments
}


@contextmanager
def on_three(folder: Path) -> Iterator[tuple[Servers, EmbeddedEnsemble]]:
    """An ensemble and Kafka for a part of its own."""
    with EmbeddedEnsemble(folder / "zookeeper") as ensemble, EmbeddedKafka(folder / "kafka") as kafka:
        servers = Servers(ensemble.connect_string, kafka.bootstrap_servers, folder.name)
        try:
            yield servers, ensemble
        finally:
            servers.close()


class Together:
    """All cases of a batch stand at their moments when the servers go, and go on as soon as they have gone."""

    def __init__(self, ensemble: EmbeddedEnsemble, fault: str, cases: int) -> None:
        self._ensemble, self._fault = ensemble, fault
        self._meeting = threading.Barrier(cases + 1)
        self.back_at = 0.0

    def strike(self, case: Struck) -> None:
        self._meeting.wait(MEETING_S)
        self._meeting.wait(MEETING_S)
        case.go()

    def abort(self) -> None:
        """A case has failed, and the others need not wait for it."""
        self._meeting.abort()

    def act(self) -> None:
        """Take the servers away; a majority comes back after its time, the leader when all is over."""
        with suppress(threading.BrokenBarrierError):  # a case that has failed says why
            self._meeting.wait(MEETING_S)
            leader = self._ensemble.leader()
            gone = [leader, *(one for one in self._ensemble.servers if one is not leader)][: self._servers]
            for server in gone:
                server.kill()
            self._meeting.wait(MEETING_S)
            if self._fault == MAJORITY:
                time.sleep(AWAY_S)
                self._ensemble.start()
                self.back_at = time.time()

    @property
    def _servers(self) -> int:
        return 2 if self._fault == MAJORITY else 1


def _run(turn: Turn) -> None:
    due = turn.notes.due(PLANS)
    if not due or turn.over():
        return
    with on_three(turn.folder) as (servers, ensemble):
        for kind, fault in enumerate((LEADER, MAJORITY, SESSION, MISSED)):
            for number, batch in turn.batches([key for key in due if PLANS[key][0] == fault], AT_ONCE):
                folders = [turn.folder / f"fault{kind}-batch{number}-{n}" for n in range(len(batch))]
                cases = [_case(servers, folder, PLANS[key][1]) for folder, key in zip(folders, batch, strict=True)]
                for key, went in zip(batch, _together(ensemble, fault, cases), strict=True):
                    turn.notes.add(ENSEMBLE, key, **asdict(went))


def _case(servers: Servers, folder: Path, moment: Moment) -> Struck:
    return Struck(servers, folder.name, folder, moment=moment)


def _together(ensemble: EmbeddedEnsemble, fault: str, cases: Sequence[Struck]) -> list[Went]:
    with ThreadPoolExecutor(len(cases)) as pool:
        alone = {SESSION: Struck.go_without_session, MISSED: Struck.go_when_missed}.get(fault)
        if alone is not None:
            return list(pool.map(lambda case: case.go_through(alone), cases))
        together = Together(ensemble, fault, len(cases))

        def go_through(case: Struck) -> Went:
            went = case.go_through(together.strike)
            if went.problems:
                together.abort()
            return went

        def since_back(case: Struck, went: Went) -> Went:
            """Starting servers may take long on a busy machine: counted from when they served again."""
            return replace(went, stable_s=round(max(0.0, case.stable_at - together.back_at), 2))

        going = [pool.submit(go_through, case) for case in cases]
        try:
            together.act()
            found = [one.result() for one in going]
            return list(map(since_back, cases, found)) if fault == MAJORITY else found
        finally:
            ensemble.start()


def _summary(notes: Notes, _: Wanted) -> str:
    def told(fault: str) -> str:
        lines = [one for one in notes.of(ENSEMBLE) if fault in one["key"]]
        return (
            f"{fault}: {len(lines)} cases, Stable after at most {figure(lines, 'stable_s'):.1f} s, the longest pause of a "
            f"partition that stays {figure(lines, 'pause_s'):.2f} s"
        )

    repeated = sum(one.get("repeated", 0) for one in notes.of(ENSEMBLE))
    return f"{'; '.join(map(told, (LEADER, MAJORITY, SESSION, MISSED)))}; {repeated} records repeated, all by a death"


def _pair(turn: Turn) -> None:
    by_key = {f"{PAIRS}: {deaths.key(one)}": one for one in islice(plan.pairs(SEED), PAIRED)}
    due = turn.notes.due(by_key)
    if not due or turn.over():
        return
    with on_three(turn.folder) as (servers, _):
        for number, keys in turn.batches(due, 2 * AT_ONCE):
            for result in plan.run(servers, turn.folder / f"batch{number}", [by_key[one] for one in keys]):
                deaths.note(turn.notes, PAIRS, f"{PAIRS}: {deaths.key(result.kills)}", result)


def _paired(notes: Notes, _: Wanted) -> str:
    lines = notes.of(PAIRS)
    return (
        f"{len(lines)} of {PAIRED} cases, {sum(all(one['reached']) for one in lines)} came to both deaths, "
        f"{sum(one['repeated'] for one in lines)} records repeated, all by a death; the slowest "
        f"{figure(lines, 'took_s'):.1f} s"
    )


PARTS = [Part(ENSEMBLE, _run, _summary), Part(PAIRS, _pair, _paired)]
