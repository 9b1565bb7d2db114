"""Consumers that are asked to leave by SIGTERM while nobody dies: after a join, many times, and at any moment of a start."""

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.wiring import open_coordinator
from tests.faults import plan
from tests.faults.case import FIRST, Case, Failed
from tests.faults.deaths import BATCH, own_servers
from tests.faults.notes import Line, Notes, Part, Turn, Wanted, figure
from tests.faults.roles import AGENT_TIMING, COORDINATOR
from tests.faults.servers import Servers

LEAVES, EARLY = "leaves", "early-leaves"
LEAVING = 300
STARTER = "d"
STARTS, EACH = 12, 25
LONGEST_S = 0.5
"""After its start; by then a consumer is registered, and most have been given their partitions."""
LOOK_S = 0.01
SPARE_S = 10.0
SEED = 3


def _leave(turn: Turn) -> None:
    due = turn.notes.due(f"leave {number}" for number in range(LEAVING))
    if not due or turn.over():
        return
    with own_servers(turn.folder) as servers:
        for number, batch in turn.batches(due, BATCH):
            results = plan.run(servers, turn.folder / f"batch{number}", [()] * len(batch))
            for name, result in zip(batch, results, strict=True):
                line = {"repeated": result.repeated, "took_s": round(result.took_s, 2)}
                turn.notes.add(LEAVES, name, problems=result.problems, **line)


def _left(notes: Notes, _: Wanted) -> str:
    lines = notes.of(LEAVES)
    repeated = sum(one["repeated"] for one in lines)
    return f"{len(lines)} of {LEAVING} cases, {repeated} records repeated; the slowest {figure(lines, 'took_s'):.1f} s"


class Starts(Case):
    """One consumer stays; another is started and asked to leave, again and again."""

    def begin(self) -> None:
        self.base = self.servers.ends()
        self.servers.begin_group(self.group, self.base)
        self._phase("initial")
        with open_coordinator(self.settings) as c:
            topics.add_topic(c, self.topic, self.group, actor=Actor("command", "faults"))
        self._start(COORDINATOR)
        self._start(FIRST)
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")

    def ask(self, after_s: float) -> tuple[bool, int, float]:
        """Whether it was registered when it was asked, its exit code, and how long it took to end."""
        self._start(STARTER)
        actor = self.actors[STARTER]
        actor.ended = False
        process = actor.process
        if process is None:
            raise Failed("there is no process")
        self._watch(lambda: False, after_s)
        registered, began = self._live(STARTER) > 0, time.monotonic()
        process.terminate()
        self._watch(
            lambda: process.exitcode is not None, AGENT_TIMING.close_timeout_s + AGENT_TIMING.finish_s + SPARE_S
        )
        took_s, code = time.monotonic() - began, process.exitcode
        if code not in (0, -signal.SIGTERM):  # the latter: it did not listen yet, and had nothing
            raise Failed(f"asked {after_s:.3f} s after its start, it has ended with {code}; {self._stacks()}")
        actor.ended = True
        self._await(lambda: self._settled({FIRST}), "Stable with the first consumer")
        return registered, code, took_s

    def _watch(self, over: Callable[[], bool], limit_s: float) -> None:
        """See every release, each of which the next one overwrites, until it is over."""
        until = time.monotonic() + limit_s
        while not over() and (left_s := until - time.monotonic()) > 0:
            self.releases.see()
            time.sleep(min(LOOK_S, left_s))


@contextmanager
def _site(servers: Servers, name: str, folder: Path) -> Iterator[Starts]:
    one = Starts(servers, name, folder)
    try:
        one.begin()
        yield one
    finally:
        one.close()


def _asked(one: Starts, chance: random.Random) -> Line:
    asked = [one.ask(LONGEST_S * chance.random() ** 2) for _ in range(EACH)]
    return {
        "problems": one.judged(),
        "asked": EACH,
        "deaf": sum(code != 0 for _, code, _ in asked),
        "registered": sum(registered for registered, _, _ in asked),
        "took_s": round(max(took_s for _, _, took_s in asked), 2),
    }


def _ask_early(turn: Turn) -> None:
    due = turn.notes.due(f"starts {number}" for number in range(STARTS))
    if not due or turn.over():
        return
    with own_servers(turn.folder) as servers:
        for key in due:
            if turn.over():
                return
            name = key.replace(" ", "-")
            try:
                with _site(servers, name, turn.folder / name) as one:
                    turn.notes.add(EARLY, key, **_asked(one, random.Random(f"{SEED} {key}")))
            except Failed as error:
                turn.notes.add(EARLY, key, problems=[str(error)])


def _ended(notes: Notes, _: Wanted) -> str:
    lines = notes.of(EARLY)
    total = {name: sum(one.get(name, 0) for one in lines) for name in ("asked", "registered", "deaf")}
    return (
        f"{total['asked']} of {STARTS * EACH} starts, asked to leave within {LONGEST_S:g} s: {total['deaf']} did not listen "
        f"yet, {total['registered']} were registered; the slowest ended after {figure(lines, 'took_s'):.1f} s"
    )


PARTS = [Part(LEAVES, _leave, _left), Part(EARLY, _ask_early, _ended)]
