"""The contenders of the hand-off benchmark: each a topic, a group, and consumers that come, go and are killed."""

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]

from benchmarks.circumstances import PROJECT
from benchmarks.handoff_clients import (
    COMMIT_MS,
    ClientOrder,
    CoordinatorOrder,
    OurOrder,
    consume,
    coordinate,
    subscribe,
)
from benchmarks.stalls import Span
from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.devstack.embedded.jars import kafka_class_path
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.java import find_java
from coordinator_tasks.run_folder import RunFolder, write_private
from coordinator_tasks.settings import TRANSACTIONAL_FENCE, plain_settings, settings_of
from spark_apps.launch.launcher import LaunchRequest, report_end
from spark_apps.plain import DEFAULTS, POLL_S

SPANS = np.dtype([("at", "<f8"), ("partition", "<i4"), ("first", "<i8"), ("end", "<i8")])
FRESH_S, FRESH_RECORDS = 1.0, 3
"""Who keeps up has processed something of each partition within so long, or within the time of so many records."""
JAVA_CLASS, BYTES = "HandoffConsumer", "org.apache.kafka.common.serialization.ByteArrayDeserializer"
READY_S, LEAVE_S, ANSWER_S = 240.0, 60.0, 30.0
ASK_S = 0.5
"""Limit of a request.

Consumers on this host answer within milliseconds, and a hanging consumer delays every look by this.
"""
POLICY = {"flap_registrations": 1_000_000, "absent_after_s": 5.0}
"""A consumer restarted by every round would be held back as flapping. Kafka's sessions here are short, so is this wait."""

OURS, FENCED, OF_THREE, SPARK = "ours", "ours-fenced", "ours-ensemble", "spark"
FENCED_ABSENT_S = 1.0
"""Where the broker refuses the dead, nothing has to be waited for but an answer."""
SESSION_S = 4.0
CLASSIC = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 3_000}
QUICK = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
"""The shortest session that a broker allows by default, and a heartbeat well below a second."""
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
CLIENTS: Mapping[str, Mapping[str, str | int | bool]] = {
    "eager": {**CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**CLASSIC, **COOPERATIVE},
    "cooperative-quick": {**QUICK, **COOPERATIVE},
    "cooperative-static": {**QUICK, **COOPERATIVE},
    "kip848-5s": {"group.protocol": "consumer"},
    "kip848-1s": {"group.protocol": "consumer"},
}
STATIC = frozenset({"cooperative-static"})
"""Lanes whose members have a `group.instance.id`: a restart within the session is no change of membership."""
ASSIGNOR = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
JAVA_CLIENTS: Mapping[str, Mapping[str, str | int | bool]] = {
    "java-cooperative": {**QUICK, "partition.assignment.strategy": ASSIGNOR},
    "java-kip848": {"group.protocol": "consumer"},
}
GROUPS = {
    "kip848-5s": {"consumer.heartbeat.interval.ms": "5000", "consumer.session.timeout.ms": "10000"},
    "kip848-1s": {"consumer.heartbeat.interval.ms": "1000", "consumer.session.timeout.ms": "4000"},
    "java-kip848": {"consumer.heartbeat.interval.ms": "1000", "consumer.session.timeout.ms": "4000"},
}
"""The broker's settings for KIP-848, told to its members."""
SESSIONS_S = {
    **dict.fromkeys(("eager", "cooperative", "kip848-5s"), 10.0),
    **dict.fromkeys(("cooperative-quick", "cooperative-static", "java-cooperative"), 6.0),
    **dict.fromkeys(("kip848-1s", "java-kip848", OURS, FENCED, OF_THREE, SPARK), SESSION_S),
}
BROKER = {"group.consumer.min.heartbeat.interval.ms": "1000", "group.consumer.min.session.timeout.ms": "4000"}
"""Settings that the broker needs for these sessions."""
JAVA = tuple(JAVA_CLIENTS)
EVERY = (*CLIENTS, OURS, *JAVA, SPARK)
OPTIONAL = (FENCED, OF_THREE)
"""Only on request: transactional commits, and an ensemble of three ZooKeeper servers."""
OF_KAFKA = frozenset((*CLIENTS, *JAVA_CLIENTS))
"""Contenders without reports of deaths."""


@dataclass
class Life:
    """A process of a consumer: its `key` differs from the previous process of the same id."""

    consumer: str
    key: str
    journal: Path
    process: BaseProcess | ManagedProcess
    read: int = 0

    @property
    def ended(self) -> bool:
        if isinstance(self.process, ManagedProcess):
            return not self.process.running
        return self.process.exitcode is not None


@dataclass
class Lane(ABC):
    """A contender, with a topic of its own."""

    name: str
    kafka: str
    topic: str
    partitions: int
    folder: Path
    per_second: float
    lives: dict[str, Life] = field(default_factory=dict)  # by the consumer's id: processes that should live
    all: list[Life] = field(default_factory=list)
    restarting: dict[str, Life] = field(default_factory=dict)
    frozen: list[Life] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.owner = np.full(self.partitions, -1)
        self.at = np.zeros(self.partitions)
        self.position = np.zeros(self.partitions, np.int64)
        if self.name in GROUPS:
            _configure(self.kafka, self.topic, GROUPS[self.name])

    # Events ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def spawn(self, consumer: str) -> BaseProcess | ManagedProcess:
        """Start this consumer's prepared next process."""

    @abstractmethod
    def prepare(self, consumer: str) -> None:
        """Prepare a start, as far as its cost would not disturb others on separate hosts."""

    def wait_prepared(self) -> None:
        """Wait until prepared."""
        return

    def next_journal(self, consumer: str) -> Path:
        """Of this consumer's next process."""
        return self.folder / f"{consumer}#{sum(one.consumer == consumer for one in self.all)}.spans"

    def close(self) -> None:
        for one in self.all:
            if isinstance(one.process, ManagedProcess):
                one.process.stop()
            elif not one.ended:
                one.process.kill()
                one.process.join(10)

    def join(self, consumer: str) -> None:
        journal = self.next_journal(consumer)
        journal.touch()
        life = Life(consumer, journal.stem, journal, self.spawn(consumer))
        self.lives[consumer] = life
        self.all.append(life)

    def leave(self, consumer: str) -> Life:
        life = self.lives.pop(consumer)
        life.process.terminate()
        return life

    def restart(self, consumer: str) -> None:
        """Leave, and come back after the end, by `follow`."""
        self.restarting[consumer] = self.leave(consumer)

    def crash(self, consumer: str) -> None:
        """Kill -9, with a deployment's usual detection."""
        self.die(consumer)

    def die(self, consumer: str) -> None:
        """Kill -9, without a report."""
        life = self.lives.pop(consumer)
        if isinstance(life.process, ManagedProcess):
            life.process.kill()
        else:
            os.kill(life.process.pid or 0, signal.SIGKILL)
            life.process.join(10)

    def vanish(self, consumer: str) -> None:
        """Lose its host: no answers, and no refusals. SIGSTOP has this effect; `bury` ends it."""
        life = self.lives.pop(consumer)
        if isinstance(life.process, ManagedProcess):
            life.process.pause()
        else:
            os.kill(life.process.pid or 0, signal.SIGSTOP)
        self.frozen.append(life)

    def bury(self) -> None:
        """Kill the vanished processes."""
        for life in self.frozen:
            life.process.kill()

    # Views -----------------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Read the newly processed spans, and restart ended consumers."""
        for consumer, life in list(self.restarting.items()):
            if life.ended:
                del self.restarting[consumer]
                self.join(consumer)
        for number, life in enumerate(self.all):
            spans = _spans(life.journal, life.read)
            life.read += spans.nbytes
            newer = spans[spans["at"] >= self.at[spans["partition"]]]
            self.owner[newer["partition"]] = number
            self.at[newer["partition"]] = newer["at"]
            np.maximum.at(self.position, spans["partition"], spans["end"])

    def is_settled(self) -> bool:
        """Return whether the live consumers share everything evenly, and keep up."""
        live = [number for number, one in enumerate(self.all) if one in self.lives.values()]
        counts = [int(np.sum(self.owner == number)) for number in live]
        even = sum(counts) == self.partitions and max(counts) - min(counts) <= 1
        fresh_s = max(FRESH_S, FRESH_RECORDS / self.per_second)
        return even and not self.restarting and bool(np.min(self.at) > time.monotonic() - fresh_s)

    def problem(self) -> str:
        """Return a sentence about consumers that should live and do not."""
        dead = [one.key for one in self.lives.values() if one.ended]
        return f"{self.name}: {', '.join(dead)} has ended; see {self.folder}" if dead else ""

    def keys(self) -> list[str]:
        return [one.key for one in self.lives.values()]

    def spans(self) -> dict[int, list[Span]]:
        """Return everything processed, by partition."""
        found: dict[int, list[Span]] = {partition: [] for partition in range(self.partitions)}
        for life in self.all:
            for at, partition, first, end in _spans(life.journal, 0).tolist():
                found[partition].append(Span(at, life.key, first, end))
        return found


def _spans(journal: Path, from_byte: int) -> "np.ndarray[tuple[int], np.dtype[np.void]]":
    """The whole records behind this place; a write may be under way."""
    with journal.open("rb") as file:
        file.seek(from_byte)
        data = file.read()
    return np.frombuffer(data[: len(data) - len(data) % SPANS.itemsize], SPANS)


@dataclass
class ForkedLane(Lane):
    """Consumers that are forked, connect, and begin once told."""

    forks: ForkServerContext = field(kw_only=True)
    waiting: dict[str, tuple[BaseProcess, Event]] = field(default_factory=dict, kw_only=True)
    told: list[Event] = field(default_factory=list, kw_only=True)
    """Kept, because an event without a reference disappears before a slow process opens the event."""

    @abstractmethod
    def order(self, consumer: str) -> tuple[Callable[..., None], ClientOrder | OurOrder]:
        """Return the function of its next process, and the first argument; the second is the event that lets it begin."""

    def prepare(self, consumer: str) -> None:
        begin = self.forks.Event()
        target, order = self.order(consumer)
        process = self.forks.Process(target=target, args=(order, begin), daemon=True)
        process.start()
        self.waiting[consumer] = process, begin

    def spawn(self, consumer: str) -> BaseProcess | ManagedProcess:
        process, begin = self.waiting.pop(consumer)
        begin.set()
        self.told.append(begin)
        return process

    def close(self) -> None:
        for process, _ in self.waiting.values():
            process.kill()
        super().close()


@dataclass
class ClientLane(ForkedLane):
    """Plain clients of a protocol of Kafka."""

    def order(self, consumer: str) -> tuple[Callable[..., None], ClientOrder]:
        settings = {"bootstrap.servers": self.kafka, "group.id": self.topic, **CLIENTS[self.name]}
        if self.name in STATIC:
            settings["group.instance.id"] = consumer
        return subscribe, ClientOrder(self.topic, settings, self.next_journal(consumer))


@dataclass
class PreparedLane(Lane):
    """Consumers in separate JVMs: each starts before the measurement, and consumes once a file tells it.

    A starting JVM takes both cores of a small machine for seconds: on a cluster others would not notice.
    """

    prepared: dict[str, ManagedProcess] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def command(self, consumer: str, folder: Path) -> tuple[str, ...]:
        """Return a command that makes the file `ready` in the folder, and waits there for the file `go`."""

    def prepare(self, consumer: str) -> None:
        folder = self.next_journal(consumer).with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        spec = ProcessSpec(
            folder.name, self.command(consumer, folder), folder / "log", cwd=PROJECT, stop_timeout_s=LEAVE_S
        )
        self.prepared[consumer] = ManagedProcess(spec, ready=(folder / "ready").exists)
        self.prepared[consumer].spawn()

    def wait_prepared(self) -> None:
        for process in self.prepared.values():
            process.wait_ready(READY_S)

    def spawn(self, consumer: str) -> ManagedProcess:
        process = self.prepared.pop(consumer)
        (process.spec.log_path.parent / "go").touch()
        return process

    def close(self) -> None:
        for process in self.prepared.values():
            process.kill()
        super().close()


@dataclass
class JavaLane(PreparedLane):
    """Kafka's own Java consumers. Needs a JDK: the class is compiled at the first use."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._class_path = f"{_compiled()}{os.pathsep}{kafka_class_path()}"

    def command(self, consumer: str, folder: Path) -> tuple[str, ...]:
        settings = {
            "bootstrap.servers": self.kafka,
            "group.id": self.topic,
            "key.deserializer": BYTES,
            "value.deserializer": BYTES,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_MS,
            "fetch.max.wait.ms": DEFAULTS["fetch.wait.max.ms"],
            **JAVA_CLIENTS[self.name],
        }
        file = folder / "consumer.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        program = (str(find_java().executable), "-XX:+UseSerialGC", "-Xmx128m", "-cp", self._class_path, JAVA_CLASS)
        journal = self.next_journal(consumer)
        return (*program, str(file), self.topic, str(journal), str(folder / "ready"), str(folder / "go"))


@functools.cache
def _compiled() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="handoff-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compiler = find_java().home / "bin" / "javac"
    source = Path(__file__).with_name(f"{JAVA_CLASS}.java")
    if not compiler.exists():
        sys.exit(f"{compiler} is not there: install a JDK, or leave the Java clients out with --only")
    subprocess.run([str(compiler), "-cp", kafka_class_path(), "-d", str(folder), str(source)], check=True)
    return folder


def coordinator_settings(*, fenced: bool) -> dict[str, Any]:
    """Return the settings that differ from the defaults: fields of `Settings`, as in the extra of Airflow's connection."""
    own = {"session_timeout_s": SESSION_S, "ask_timeout_s": ASK_S, "policy": POLICY}
    if fenced:
        own |= {"fence": TRANSACTIONAL_FENCE, "policy": {**POLICY, "absent_after_s": FENCED_ABSENT_S}}
    return own


def create_topic(kafka: str, topic: str, partitions: int) -> None:
    """Create the topic and wait until every partition has a leader that takes records."""
    settings = {"bootstrap.servers": kafka, "log_level": "0"}
    ConfluentKafkaAdmin(settings, ANSWER_S).create_topic(topic, partitions)
    offsets, deadline = ConfluentGroupOffsets(settings, topic, ANSWER_S), time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        with suppress(KafkaUnavailable):
            if len(offsets.ends(topic, range(partitions))) == partitions:
                return
        time.sleep(POLL_S)
    sys.exit(f"topic {topic} has partitions without a leader after {ANSWER_S:g} s")


def _configure(kafka: str, group: str, settings: Mapping[str, str]) -> None:
    entries = [ConfigEntry(name, it, incremental_operation=AlterConfigOpType.SET) for name, it in settings.items()]
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": "0"})
    wanted = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for answer in admin.incremental_alter_configs([wanted]).values():
        answer.result(30)


@dataclass
class OurLane(ForkedLane):
    """Our protocol, and plain consumers. `looping`: the plain loop runs in a process of its own; else somebody else decides."""

    zookeeper: str = field(kw_only=True)
    looping: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        client = {"bootstrap.servers": self.kafka, "log_level": "0"}
        named = {"cluster": self.topic, "zookeeper": self.zookeeper, "kafka": client, "answer_timeout_s": ANSWER_S}
        self.site = settings_of({**named, **coordinator_settings(fenced=self.name == FENCED)})
        order = CoordinatorOrder(self.site, self.topic, self.topic, self.looping)
        self._coordinator = self.forks.Process(target=coordinate, args=(order,), daemon=True)
        self._coordinator.start()
        self._reports: list[threading.Thread] = []

    def run_folder(self, consumer: str) -> RunFolder:
        return RunFolder.of(self.folder, self.topic, consumer)

    def order(self, consumer: str) -> tuple[Callable[..., None], OurOrder]:
        return consume, OurOrder(self.site, consumer, self.run_folder(consumer).path, self.next_journal(consumer))

    def spawn(self, consumer: str) -> BaseProcess | ManagedProcess:
        self.run_folder(consumer).begin()
        return super().spawn(consumer)

    def crash(self, consumer: str) -> None:
        """Kill -9; its launcher survives, and reports the end."""
        self.die(consumer)
        folder = self.run_folder(consumer)
        write_private(folder.settings, plain_settings(self.site))
        report = threading.Thread(
            target=report_end, args=(LaunchRequest(self.topic, consumer, folder, ()),), daemon=True
        )
        report.start()
        self._reports.append(report)

    def close(self) -> None:
        for report in self._reports:
            report.join(10)
        super().close()
        self._coordinator.terminate()
        self._coordinator.join(10)


@dataclass
class SparkLane(PreparedLane, OurLane):
    """Spark consumers: an application each."""

    batch_interval_s: float = field(kw_only=True)

    def command(self, consumer: str, folder: Path) -> tuple[str, ...]:
        options = {
            "consumer": consumer,
            "cluster": self.topic,
            "topic": self.topic,
            "zookeeper": self.zookeeper,
            "kafka": self.kafka,
            "session-timeout": SESSION_S,
            "run-folder": self.run_folder(consumer).path,
            "batch-interval": self.batch_interval_s,
            "journal": self.next_journal(consumer),
            "ready": folder / "ready",
            "go": folder / "go",
        }
        given = (f"--{name}={value}" for name, value in options.items())
        return sys.executable, "-m", "benchmarks.handoff_spark", *given

    def spawn(self, consumer: str) -> ManagedProcess:
        self.run_folder(consumer).begin()
        return super().spawn(consumer)
