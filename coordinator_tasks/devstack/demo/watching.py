"""The demonstration's read-only view of ZooKeeper and Airflow."""

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

from coordinator_tasks.core.codecs import codec, member_codec
from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.model import Ending, IdClaim, Member, Record, State, TopicNode
from coordinator_tasks.core.protocol.znodes import find_many
from coordinator_tasks.devstack.demo import sink
from coordinator_tasks.devstack.demo.display import DemoSnapshot, Display
from coordinator_tasks.devstack.demo.evidence import SeenRelease, TaskRun
from coordinator_tasks.devstack.demo.stack import DemoFailed, Stack
from coordinator_tasks.devstack.embedded import reaper
from coordinator_tasks.devstack.embedded.processes import Guard
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history

POLL_S = 0.1
MAX_RECORDS = 1000
TASKS_END_S = 30.0
T = TypeVar("T")


class Watcher:
    """Reads a topic. Collects all releases, because a later release overwrites an earlier release."""

    def __init__(self, stack: Stack, c: Coordinator, topic: str, partitions: int, display: Display) -> None:
        self.stack, self.c, self.display = stack, c, display
        self.topic, self.partitions = topic, partitions
        self._releases: dict[tuple[int, int], SeenRelease] = {}
        self._loops: set[str] = set()

    def wait(self, what: str, limit_s: float, look: Callable[[], T | None]) -> T:
        """Return what `look` finds, and show the state meanwhile. Raises `DemoFailed` after `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        while True:
            self.show()
            if found := look():
                return found
            if time.monotonic() > deadline_s:
                raise DemoFailed(f"{what} did not happen within {limit_s:g} s ({self.standing()})")
            time.sleep(POLL_S)

    def quiet(self, seconds: float) -> tuple[float, float]:
        """Do nothing for some seconds. Return begin and end, in seconds since 1970."""
        began = time.time()
        self.wait("time", seconds + 60.0, lambda: time.time() - began >= seconds)
        return began, time.time()

    def show(self) -> None:
        node, state = self.node(), self.state()
        snapshot = DemoSnapshot(
            state=str(state),
            epoch=node.epoch if node is not None else 0,
            owned=_owned(node) | {name: _owned(node).get(name, ()) for name in self.c.discovery.members()},
            moving={p: (h.giver, h.taker) for p, h in node.handoff.items()} if node is not None else {},
            processed=sink.processed(self.stack.folders.audit),
        )
        self.display.show(snapshot)
        if node is not None and node.handoff:
            self.collect_releases(node.handoff)

    def node(self) -> TopicNode | None:
        """Return the topic's node; `None` before the first plan."""
        path = self.c.paths.topic(self.topic)
        found = self.c.zk.find(path)
        return codec.decode_node(path, found.data) if found is not None and found.data else None

    def state(self) -> State:
        path = self.c.paths.state(self.topic)
        found = self.c.zk.find(path)
        return codec.decode_state(path, found.data).state if found is not None else State.INITIAL

    def standing(self) -> str:
        """Return the present state in a few words, for the text of a failure."""
        owned = ", ".join(f"{name} {len(partitions)}" for name, partitions in sorted(_owned(self.node()).items()))
        return f"{self.topic} is {self.state()}; owned: {owned or 'nothing'}; logs: {self.stack.folders.run}"

    def member(self, consumer: str) -> Member | None:
        return self.c.discovery.members().get(consumer)

    def registered_at(self, consumer: str) -> float:
        """Return when the consumer registered, by ZooKeeper's clock; 0 if it is not registered."""
        found = self.c.zk.find(self.c.paths.member(consumer))
        return found.stat.created_at if found is not None else 0.0

    def ending(self, consumer: str, incarnation: int) -> Ending | None:
        """Return how this incarnation ended; `None` if no end is known."""
        path = self.c.paths.id(consumer)
        found = self.c.zk.find(path)
        claim = member_codec.decode_claim(path, found.data, consumer, 0) if found is not None else IdClaim(consumer, 0)
        return claim.ended.get(incarnation)

    def records(self) -> list[Record]:
        """Return the history so far, oldest first."""
        return list(history.records(self.c, self.topic, MAX_RECORDS))[::-1]

    def stable_after(self, at: float, owners: set[str]) -> Record | None:
        """Return the record of Stable after this time, if now exactly these consumers own all partitions."""
        node = self.node()
        if node is None or self.state() is not State.STABLE or node.handoff or set(_owned(node)) != owners:
            return None
        if len(node.assignments) != self.partitions:
            return None
        last = self.records()[-1:]
        return last[0] if last and last[0].target is State.STABLE and last[0].at > at else None

    def counts(self, topics: Iterable[str], planned: set[str]) -> dict[str, int] | None:
        """Return consumer → its partitions of these topics; `None` until all are Stable after a plan for `planned`."""
        found = dict.fromkeys(sorted(planned), 0)
        for topic in topics:
            paths = self.c.paths.topic(topic), self.c.paths.state(topic)
            node, state = (self.c.zk.find(path) for path in paths)
            if node is None or not node.data or state is None:
                return None
            stored = codec.decode_state(paths[1], state.data)
            if stored.state is not State.STABLE or stored.targets.keys() != planned:
                return None
            for consumer, partitions in _owned(codec.decode_node(paths[0], node.data)).items():
                found[consumer] = found.get(consumer, 0) + len(partitions)
        return found

    def collect_releases(self, partitions: Iterable[int]) -> None:
        """Keep the present release of each of these partitions, with ZooKeeper's time of the write."""
        paths = {p: self.c.paths.partition(self.topic, p) for p in partitions}
        for partition, node in find_many(self.c.zk, paths).items():
            if release := codec.decode_release(paths[partition], node.data):
                seen = SeenRelease(partition, release, node.stat.modified_at)
                self._releases[partition, release.epoch] = seen

    def releases(self) -> list[SeenRelease]:
        self.collect_releases(range(self.partitions))
        return list(self._releases.values())

    def loops(self) -> tuple[str, ...]:
        """Return command lines of coordinator processes outside Airflow that this call or an earlier call has seen."""
        for process in reaper.marked(Guard.current().mark):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                words = process.cmdline()
                if "coordinator_tasks" in words and "run" in words:
                    self._loops.add(" ".join(words))
        return tuple(sorted(self._loops))

    def tasks(self, records: Iterable[Record]) -> list[TaskRun]:
        """Return every try of the tasks that the records name, from Airflow's API, once all tries have ended."""
        actors = sorted({(r.actor.dag, r.actor.run, r.actor.task) for r in records if r.actor.kind == "airflow"})
        client = self.stack.airflow.client
        found: list[TaskRun] = []
        deadline_s = time.monotonic() + TASKS_END_S
        for dag, run, task in actors:
            while True:
                path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/tries"
                tries = client.request("GET", path)["task_instances"]
                if all(one["state"] != "running" for one in tries) or time.monotonic() > deadline_s:
                    break
                time.sleep(POLL_S)
            found.extend(TaskRun(dag, run, task, one["try_number"], str(one["state"])) for one in tries)
        return found

    def kill(self, consumer: str) -> float:
        """Kill -9 all processes of the consumer except its launcher. Return the time, in seconds since 1970."""
        launcher = int(self.run_folder(consumer).lock.read_text())
        victims = psutil.Process(launcher).children(recursive=True)
        at = time.time()
        for process in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return at

    def gone(self, consumer: str) -> bool:
        return self.run_folder(consumer).exit_code() is not None

    def run_folder(self, consumer: str) -> RunFolder:
        return RunFolder.of(self.stack.folders.consumers, self.c.paths.cluster, consumer)


def _owned(node: TopicNode | None) -> dict[str, tuple[int, ...]]:
    return by_consumer((consumer, p) for p, consumer in node.assignments.items()) if node is not None else {}
