"""Clean moves in numbers: consumers join and leave again and again while many records flow, and nobody dies.

A block is a site of its own: several topics, up to four plain consumers in processes, the plain loop. It is judged as a
whole at its end, from spans, so that the memory in use does not grow with the records. Blocks add up over runs.
"""

import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from confluent_kafka import Producer

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.core.codecs.codec import decode_node, decode_state
from coordinator_tasks.core.codecs.member_codec import decode_member
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Actor, MoveKind, StartRule, State
from coordinator_tasks.core.model import Record as HistoryRecord
from coordinator_tasks.core.names import Paths
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import history, topics
from coordinator_tasks.service.run import loop
from coordinator_tasks.wiring import Settings, open_coordinator
from spark_apps.agent.process.consumer_process import ConsumerSettings, leave_on_signals
from spark_apps.plain import PlainConsumer, Record
from tests.faults.commit_log import CommitLog
from tests.faults.notes import Line, Notes, Part, Turn, Wanted
from tests.faults.releases import Releases
from tests.faults.roles import AGENT_TIMING, TIMING, Life, end_with_parent, fork_server
from tests.faults.spans import KINDS, CleanRun, Faults, Span, check_spans

CLEAN = "clean"
TOPICS, PARTITIONS = 3, 10
IDS = ("a", "b", "d", "e")
FEWEST = 2
BLOCK_S = 150.0
BURST_S = 0.25
PER_SECOND = 18_000
MOST_BEHIND = 400_000
LIMIT_S = 60.0
TICK_S = 0.03
POLICY = Policy(settle_s=0.05, settle_max_s=0.5, absent_after_s=60.0, flap_registrations=1_000_000)


class SpanSink:
    """One line for each run of consecutive offsets; what does not hold its own offset is counted."""

    def __init__(self, life: Life) -> None:
        self._note, self._role = life.folder / life.role / "incarnation", life.role
        self._folder = life.folder
        self._incarnation = 0

    def __call__(self, topic: str, records: Sequence[Record]) -> None:
        self._incarnation = self._incarnation or int(self._note.read_text())
        now = time.time()
        spans: list[list[int]] = []  # partition, epoch, first, end, foreign
        for one, message in records:
            offset = message.offset() or 0
            foreign = int(message.value() or b"-1") != offset
            last = spans[-1] if spans else None
            if last is not None and last[:2] == [one.partition, one.token_epoch] and last[3] == offset:
                last[3] += 1
                last[4] += foreign
            else:
                spans.append([one.partition, one.token_epoch, offset, offset + 1, int(foreign)])
        lines = "".join(json.dumps([self._role, self._incarnation, *one, now]) + "\n" for one in spans)
        with (self._folder / f"spans-{topic}-{self._role}").open("a") as file:
            file.write(lines)


def consume(life: Life) -> None:
    """A plain consumer of all topics; SIGTERM asks it to leave."""
    end_with_parent(life)
    run_folder = str(life.folder / life.role)
    settings = ConsumerSettings(
        life.settings, life.role, run_folder=run_folder, timing=TIMING, agent_timing=AGENT_TIMING
    )
    consumer = PlainConsumer(settings, SpanSink(life))
    with leave_on_signals(consumer.leave):
        code = consumer.run()
    os._exit(code)


def coordinate(life: Life) -> None:
    """The plain loop."""
    end_with_parent(life)
    with open_coordinator(life.settings) as c:
        for number in range(TOPICS):
            name, group = f"{life.topic}-{number}", f"{life.group}-{number}"
            topics.add_topic(c, name, group, start=StartRule.EARLIEST, actor=Actor("loop", "clean"))
        loop.run(c, threading.Event(), "clean")


class Flow:
    """Bursts of records to every partition, each holding its own offset; never too far ahead of the consumers."""

    def __init__(self, kafka: str, names: Sequence[str], processed: Callable[[], int]) -> None:
        self.sent = 0
        self._each, self._names, self._processed = (
            max(1, int(PER_SECOND * BURST_S / TOPICS / PARTITIONS)),
            names,
            processed,
        )
        quiet = {"bootstrap.servers": kafka, "log_level": "1"}
        self._producer = Producer({**quiet, "enable.idempotence": True, "linger.ms": 20, "compression.type": "lz4"})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self._thread.start()

    @property
    def total(self) -> int:
        """Records of all partitions."""
        return self.sent * TOPICS * PARTITIONS

    def _run(self) -> None:
        while not self._stop.wait(BURST_S):
            if self.total - self._processed() > MOST_BEHIND:
                continue
            values = [str(number).encode() for number in range(self.sent, self.sent + self._each)]
            for name in self._names:
                for partition in range(PARTITIONS):
                    for value in values:
                        self._produce(name, partition, value)
            self.sent += self._each
            self._producer.poll(0)

    def _produce(self, name: str, partition: int, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(name, value, partition=partition)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush()


@dataclass
class Tail:
    """The spans of one topic's files, read as they grow."""

    folder: Path
    topic: str

    def __post_init__(self) -> None:
        self.spans: list[Span] = []
        self.processed = 0
        self._read: dict[Path, int] = {}

    def see(self) -> None:
        for path in self.folder.glob(f"spans-{self.topic}-*"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                who, life, partition, epoch, first, end, foreign, at = json.loads(line)
                self.spans.append(Span(who, life, epoch, partition, first, end, at, foreign))
                self.processed += end - first


class Block:
    """One site from its first plan to its verdict."""

    def __init__(self, zookeeper: str, kafka: str, folder: Path, number: int) -> None:
        self.folder, self.kafka, self.number = folder, kafka, number
        folder.mkdir(parents=True)
        client = {"bootstrap.servers": kafka, "log_level": "1", "fetch.wait.max.ms": "50"}
        self.settings = Settings("c", zookeeper, client, session_timeout_s=10.0, policy=POLICY)
        self.paths, self.names = Paths("c"), [f"clean-{one}" for one in range(TOPICS)]
        admin = ConfluentKafkaAdmin(client)
        for name in self.names:
            admin.create_topic(name, PARTITIONS)
        self.zk = KazooZooKeeper(zookeeper)
        self.forks, self.processes = fork_server(), dict[str, BaseProcess]()
        self.releases = {name: Releases(self.zk, self.paths, name, PARTITIONS) for name in self.names}
        self.tails = {name: Tail(folder, name) for name in self.names}
        self.commits = CommitLog(kafka)
        self.changes = 0

    def run(self, seconds: float) -> Line:
        """Change the membership until the time is over; the figures."""
        began = time.monotonic()
        flow = None
        try:
            self._fork("coordinator", coordinate)
            for consumer in IDS[:FEWEST]:
                self._fork(consumer, consume)
            self._stable()
            flow = Flow(self.kafka, self.names, lambda: sum(one.processed for one in self.tails.values()))
            self._change_until(began + seconds)
            flow.close()
            self._await(lambda: self._processed() >= flow.total, "everything is processed")
            return self._judged(flow.sent, time.monotonic() - began)
        finally:
            if flow is not None:
                flow.close()
            for process in self.processes.values():
                process.kill()
                process.join(10)
            self.commits.close()
            self.zk.close()

    def _change_until(self, until: float) -> None:
        chance = random.Random(self.number)
        while time.monotonic() < until:
            live = [one for one in IDS if one in self.processes]
            away = [one for one in IDS if one not in self.processes]
            if away and (len(live) <= FEWEST or chance.random() < 0.5):
                self._fork(chance.choice(away), consume)
            else:
                self._leave(chance.choice(live))
            self._stable()
            self.changes += 1

    def _fork(self, role: str, target: Callable[[Life], None]) -> None:
        (self.folder / role).mkdir(exist_ok=True)
        (self.folder / role / "incarnation").unlink(missing_ok=True)
        life = Life(role, self.settings, "clean", "clean", self.folder)
        self.processes[role] = self.forks.Process(target=target, args=(life,), daemon=True)
        self.processes[role].start()

    def _leave(self, consumer: str) -> None:
        process = self.processes.pop(consumer)
        os.kill(process.pid or 0, signal.SIGTERM)
        self._await(lambda: process.exitcode is not None, f"{consumer} leaves")
        if process.exitcode != 0:
            raise AssertionError(f"{consumer} has left with {process.exitcode}; see {self.folder}")

    def _processed(self) -> int:
        return sum(one.processed for one in self.tails.values())

    def _await(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while True:
            for name in self.names:
                self.releases[name].see()
                self.tails[name].see()
            if holds():
                return
            dead = [role for role, one in self.processes.items() if one.exitcode is not None]
            if dead or time.monotonic() > deadline:
                raise AssertionError(f"not within {LIMIT_S:g} s: {what}; ended: {dead}; see {self.folder}")
            time.sleep(TICK_S)

    def _stable(self) -> None:
        owners = {one for one in IDS if one in self.processes}
        self._await(lambda: all(self._is_stable(name, owners) for name in self.names), f"Stable with {sorted(owners)}")

    def _is_stable(self, topic: str, owners: set[str]) -> bool:
        state, node = self.zk.find(self.paths.state(topic)), self.zk.find(self.paths.topic(topic))
        if state is None or node is None or decode_state("", state.data).state is not State.STABLE:
            return False
        found = decode_node("", node.data)
        members = {owner: self.zk.find(self.paths.member(owner)) for owner in owners}
        lives = {owner: decode_member("", m.data).incarnation for owner, m in members.items() if m is not None}
        same = all(found.incarnations.get(owner) == lives.get(owner) for owner in owners)
        return same and set(found.assignments.values()) == owners and len(found.assignments) == PARTITIONS

    def _judged(self, sent: int, took_s: float) -> Line:
        with open_coordinator(self.settings) as c:
            told = {name: history.records(c, name, 10_000)[::-1] for name in self.names}
        found = {name: self._check(name, sent, told[name]) for name in self.names}
        records = [record for name in self.names for record in told[name]]
        moves = [move for record in records for move in record.moves]
        sentences = [f"{name}: {text}" for name, one in found.items() for text in one.sentences]
        return {
            "problems": sentences[:20],
            **{kind: sum(one.counts[kind] for one in found.values()) for kind in KINDS},
            "changes": self.changes,
            "rebalances": sum(r.target is State.STABLE and r.source is not State.STABLE for r in records),
            "moves": len(moves),
            "hand_offs": sum(move.kind is MoveKind.HANDOFF for move in moves),
            "records": self._processed(),
            "commits": sum(len(self.commits.of(f"clean-{n}", name)) for n, name in enumerate(self.names)),
            "took_s": round(took_s, 1),
            "load": round(os.getloadavg()[0], 1),
        }

    def _check(self, name: str, sent: int, records: Sequence[HistoryRecord]) -> Faults:
        base, target = dict.fromkeys(range(PARTITIONS), 0), dict.fromkeys(range(PARTITIONS), sent)
        commits = self.commits.of(f"clean-{self.names.index(name)}", name)
        releases = self.releases[name].all()
        return check_spans(CleanRun(base, target, self.tails[name].spans, commits, records, releases))


def _left(turn: Turn) -> bool:
    lines = turn.notes.of(CLEAN)
    done = {name: sum(one[name] for one in lines) for name in ("rebalances", "records")}
    return bool(done["rebalances"] < turn.wanted.rebalances or done["records"] < turn.wanted.records)


def _run(turn: Turn) -> None:
    while _left(turn) and not turn.over():
        number = len(turn.notes.of(CLEAN))
        folder = turn.folder / f"block{number}"
        with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper, EmbeddedKafka(folder / "kafka") as kafka:
            seconds = max(20.0, min(BLOCK_S, turn.until - time.monotonic()))
            line = Block(zookeeper.connect_string, kafka.bootstrap_servers, folder / "site", number).run(seconds)
        turn.notes.add(CLEAN, f"block {number}", **line)
        if not line["problems"]:
            shutil.rmtree(folder)


def _summary(notes: Notes, _: Wanted) -> str:
    lines = notes.of(CLEAN)
    total = {
        name: sum(one[name] for one in lines) for name in ("changes", "rebalances", "moves", "hand_offs", "records")
    }
    wrong = ", ".join(f"{kind} {sum(one[kind] for one in lines)}" for kind in KINDS)
    return (
        f"{len(lines)} blocks, {total['changes']} joins and clean leaves, {total['rebalances']:,} rebalances of a topic, "
        f"{total['moves']:,} moves ({total['hand_offs']:,} by hand-off), {total['records']:,} records, "
        f"{sum(one['commits'] for one in lines):,} commits, {sum(one['took_s'] for one in lines):.0f} s: {wrong}"
    )


PART = Part(CLEAN, _run, _summary)
