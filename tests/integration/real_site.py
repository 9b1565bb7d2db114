"""A site that a coordinator runs: plain consumers, the plain loop, and rows that the demonstration's checks can judge."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.plain_loop import looping
from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.errors import Unavailable
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import ConsumerStatus, State, TopicNode
from coordinator_tasks.core.model import Record as HistoryRecord
from coordinator_tasks.devstack.demo.checker import disordered, lost_records, repeated, unowned_rows
from coordinator_tasks.devstack.demo.evidence import Produced, Row, SeenRelease
from coordinator_tasks.devstack.demo.ownership import holdings
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history, topics
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.wiring import Settings, open_coordinator
from spark_apps.agent.process.agent import AgentTiming
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.plain import Output, PlainConsumer, Record, Sink
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import Site, wait_for
from tests.stable import stable_node

LIMIT_S = 120.0
QUICK = Policy(settle_s=0.2, settle_max_s=1.0)
Wrap = Callable[[Coordinator], Coordinator]


def same(c: Coordinator) -> Coordinator:
    """Nothing is wrapped."""
    return c


@dataclass
class Ledger:
    """What went through the sinks, in the order of each consumer, and the releases as they were seen."""

    rows: list[Row] = field(default_factory=list)
    releases: dict[tuple[int, int], SeenRelease] = field(default_factory=dict)

    def sink(self, consumer: "Consumer") -> Sink:
        def take(_topic: str, records: Sequence[Record]) -> None:
            now = consumer.clock()
            self.rows += [
                Row(consumer.name, consumer.incarnation, r.token_epoch, r.partition, m.offset() or 0, number, 0.0, now)
                for r, m in records
                for number in [int(m.value() or b"-1")]
            ]

        return take

    def offsets(self, partition: int) -> list[int]:
        """In the order in which they were processed."""
        return [row.offset for row in list(self.rows) if row.partition == partition]

    def last(self, partition: int) -> str:
        """The consumer of the latest row."""
        return next((row.consumer for row in reversed(list(self.rows)) if row.partition == partition), "")

    def owners(self, partition: int) -> set[tuple[str, int, int]]:
        """Consumer, incarnation and epoch of everybody who processed something of it."""
        return {(r.consumer, r.incarnation, r.epoch) for r in list(self.rows) if r.partition == partition}

    def grown(self, partitions: Sequence[int], what: str, by: int = 30) -> None:
        """Wait until each of these partitions has so many more rows."""
        before = self._counts()

        def grown() -> bool:
            now = self._counts()
            return all(now[p] >= before[p] + by for p in partitions)

        wait_for(grown, what, LIMIT_S)

    def _counts(self) -> Counter[int]:
        return Counter(row.partition for row in list(self.rows))


class Consumer:
    """A plain consumer in a thread. Its rows in a ledger name its incarnation."""

    def __init__(
        self, site: Site, name: str, output: Ledger | Output, settings: Settings | None = None, **about: Any
    ) -> None:
        self.name = name
        self.code: int | None = None
        timing = AgentTiming(close_timeout_s=10.0, poll_s=1.0)
        wanted = ConsumerSettings(settings or site.settings, name, agent_timing=timing, **about)
        self.consumer = PlainConsumer(wanted, output if isinstance(output, Output) else output.sink(self))
        self.thread = threading.Thread(target=self._run, name=f"consumer-{name}", daemon=True)
        self.thread.start()
        wait_for(lambda: site.zk.find(site.paths.id(name)) and self._registered(), f"{name} registers", LIMIT_S)

    def _registered(self) -> bool:
        process = self.consumer.process
        return process is not None and process.agent is not None and self.status.health == "ok"

    def _run(self) -> None:
        self.code = self.consumer.run()

    def clock(self) -> float:
        assert self.consumer.process is not None
        return self.consumer.process.clock.now()

    @property
    def incarnation(self) -> int:
        assert self.consumer.process is not None
        return self.consumer.process.identity.incarnation

    @property
    def status(self) -> ConsumerStatus:
        """What its interface says."""
        assert self.consumer.process is not None
        assert self.consumer.process.agent is not None
        return self.consumer.process.agent.status()

    @property
    def reports(self) -> tuple[str, ...]:
        """What its interface says is wrong."""
        status = self.status
        return (*status.reports, *(text for topic in status.topics.values() for text in topic.reports))

    def close(self) -> int | None:
        """Leave at once, without hand-offs; the exit code."""
        self.consumer.leave(0.0)
        self.thread.join(30)
        return self.code


class Managed:
    """One topic of a site under a coordinator; its consumers end with it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.ledger = Ledger()
        self.consumers: dict[str, Consumer] = {}
        self.add_topic()

    def add_topic(self) -> None:
        with open_coordinator(self.site.settings) as c:
            topics.add_topic(c, self.site.topic, self.site.group, actor=PERSON)

    def join(self, name: str, settings: Settings | None = None) -> Consumer:
        self.consumers[name] = Consumer(self.site, name, self.ledger, settings)
        return self.consumers[name]

    @contextmanager
    def looping(self, wrap: Wrap = same, policy: Policy = QUICK, settings: Settings | None = None) -> Iterator[None]:
        """The plain loop in a thread, over sessions of its own."""
        quick = replace(settings or self.site.settings, policy=policy, answer_timeout_s=4.0)
        with open_coordinator(quick) as c, looping(wrap(c), "test", self._seen):
            yield

    def _seen(self, _: TopicReport) -> None:
        with suppress(Unavailable):
            self.see_releases()

    def see_releases(self) -> None:
        """Take down the releases: each partition's node keeps the last one only."""
        for partition in range(self.site.partitions):
            node = self.site.zk.find(self.site.paths.partition(self.site.topic, partition))
            release = self.site.release(partition) if node is not None and node.data else None
            if node is not None and release is not None:
                self.ledger.releases[partition, release.epoch] = SeenRelease(partition, release, node.stat.modified_at)

    def node(self) -> TopicNode:
        path = self.site.paths.topic(self.site.topic)
        return decode_node(path, self.site.zk.get(path).data)

    def state(self) -> State:
        path = self.site.paths.state(self.site.topic)
        node = self.site.zk.find(path)
        return decode_state(path, node.data).state if node is not None else State.INITIAL

    def stable(self, owners: Collection[str], timeout_s: float = LIMIT_S) -> dict[int, str]:
        """Wait until exactly these consumers (a text: one letter each) own something and the topic is Stable; who owns what."""
        wait_for(lambda: self._is_stable(owners), f"Stable with {owners}", timeout_s)
        return dict(self.node().assignments)

    def _is_stable(self, owners: Collection[str]) -> bool:
        node = stable_node(self.site.zk.find, self.site.paths, self.site.topic)
        if node is None or len(node.assignments) != self.site.partitions:
            return False
        return set(node.assignments.values()) == set(owners)

    def history(self) -> tuple[HistoryRecord, ...]:
        """Oldest first."""
        with open_coordinator(self.site.settings) as c:
            return history.records(c, self.site.topic, 500)[::-1]

    def consumed(self, sent: int) -> None:
        """Wait until so many records of every partition are in the sink."""
        everything = {(partition, offset) for partition in range(self.site.partitions) for offset in range(sent)}

        def seen() -> set[tuple[int, int]]:
            return {(row.partition, row.offset) for row in list(self.ledger.rows)}

        # Too few rows are only counted: the consumers are threads of this process, and a look through all takes their time.
        done = lambda: len(self.ledger.rows) >= len(everything) and seen() == everything  # noqa: E731
        try:
            wait_for(done, "everything is consumed", LIMIT_S)
        except AssertionError as error:
            missing = sorted(everything - seen())
            error.add_note(
                f"{len(missing)} of {len(everything)} (partition, offset) are missing: {missing[:5]} to {missing[-5:]}"
            )
            raise

    def judge(self, sent: int, killed: frozenset[tuple[str, int]] = frozenset()) -> None:
        """Nothing lost, nothing twice, nothing by anybody but its owner: by the history and the releases alone.

        `killed`: consumers and incarnations whose last batch may be there twice.
        """
        self.see_releases()
        rows = sorted(self.ledger.rows, key=lambda row: (row.partition, row.processed_at))
        produced = [Produced(p, n, n, 0.0) for p in range(self.site.partitions) for n in range(sent)]
        held = holdings(self.history(), list(self.ledger.releases.values()))
        assert lost_records(produced, rows) == []
        assert unowned_rows(rows, held) == []
        clean, _, unbounded = repeated(rows, held, killed)
        assert (clean, unbounded) == ([], [])
        assert disordered(rows, held) == []

    def close(self) -> None:
        for consumer in self.consumers.values():
            consumer.close()
        self.site.close()


def ran(managed: Managed, *arguments: str) -> str:
    """Return the standard output of a command as a separate process."""
    environment = {**os.environ, **managed.site.environment}
    command = [sys.executable, "-m", "coordinator_tasks", *arguments]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
