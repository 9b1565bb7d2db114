"""The demonstration in phases. Each phase is awaited, measured and reported in a line."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator_tasks.core.model import Actor, Ending, Fleet, Member, Record
from coordinator_tasks.devstack.demo import kept, sink
from coordinator_tasks.devstack.demo.checker import DemoVerdict, check
from coordinator_tasks.devstack.demo.display import Display
from coordinator_tasks.devstack.demo.evidence import Evidence, MembershipEvent
from coordinator_tasks.devstack.demo.producer import read_journal
from coordinator_tasks.devstack.demo.report import as_json, event_reports, write
from coordinator_tasks.devstack.demo.stack import PROJECT, DemoFailed, Folders, Stack
from coordinator_tasks.devstack.demo.watching import Watcher
from coordinator_tasks.java import QUICK_START_OPTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet, topics
from coordinator_tasks.wiring import open_coordinator

# The names of docs/howto, so that the commands there work on the running demonstration.
TOPIC, GROUP, APP = "orders", "orders-billing", "billing"
PARTITIONS = 12
SECOND, SECOND_PARTITIONS = "refunds", 3
"""A topic without records. Its partitions count in the balance of the group."""
PIPELINE = "spark_apps.pipelines.audit:build"
RATE = 1000.0
FIRST, THIRD = ("billing-1", "billing-2"), "billing-3"
DRAINED, KILLED = "billing-2", "billing-1"

# Several drivers run for a short time on a small machine.
SPARK_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": " ".join(QUICK_START_OPTIONS),
}
# Three drivers, Airflow and the servers share the machine. More batches per second would take two whole cores.
BATCH_INTERVAL_S = 0.5
# The demonstration fails after these limits. They are long, because a busy machine is no failure.
LAUNCH_LIMIT_S = 180.0
STABLE_LIMIT_S = 120.0
LEAVE_LIMIT_S = 90.0
CONSUME_LIMIT_S = 120.0
QUIET_S = 6.0
CAUGHT_UP_S = 3.0


@dataclass(slots=True)
class Progress:
    """The events so far, for the checks."""

    events: list[MembershipEvent] = field(default_factory=list)
    killed: set[tuple[str, int]] = field(default_factory=set)
    quiet: tuple[float, float] = (0.0, 0.0)
    counts: list[dict[str, int]] = field(default_factory=list)


class Demo:
    """A demonstration on running servers."""

    def __init__(self, stack: Stack, c: Coordinator, display: Display) -> None:
        self.stack, self.c, self.display = stack, c, display
        self.watch = Watcher(stack, c, TOPIC, PARTITIONS, display)
        self.progress = Progress()

    def run(self) -> DemoVerdict:
        self.prepare()
        self.begin()
        self.join()
        self.drain()
        self.kill()
        self.finish()
        return self.judge()

    def prepare(self) -> None:
        """Add topics and fleet, while Airflow starts."""
        self.display.doing("topics and fleet")
        for topic, partitions in ((TOPIC, PARTITIONS), (SECOND, SECOND_PARTITIONS)):
            self.stack.create_topic(topic, partitions)
            topics.add_topic(self.c, topic, GROUP, actor=Actor("command", "demo"))
        self.set_fleet(FIRST)
        both = f"{TOPIC} with {PARTITIONS} partitions, {SECOND} with {SECOND_PARTITIONS} and no records"
        self.display.done(f"{both}; wanted consumers: {', '.join(FIRST)}")
        self.display.doing("starting Airflow")
        self.watch.wait("the start of Airflow", LAUNCH_LIMIT_S, lambda: self.stack.airflow_is_up)
        self.display.done(f"Airflow serves at {sign_in(self.stack)}")

    def set_fleet(self, consumers: Sequence[str]) -> None:
        """Write the consumers that the fleet should have. The write wakes Airflow."""
        arguments = (
            *("--pipeline", f"{TOPIC}={PIPELINE}", "--pipeline", f"{SECOND}={PIPELINE}"),
            *("--set", f"auditFolder={self.stack.folders.audit}", "--batch-interval", str(BATCH_INTERVAL_S)),
        )
        application = str(PROJECT / "spark_apps" / "main.py")
        fleet.set_fleet(self.c, Fleet(APP, application, tuple(consumers), arguments, SPARK_CONF))

    def begin(self) -> None:
        """Wait until Airflow has launched the first consumers, and the topics went from Initial to Stable."""
        self.display.doing("launching two consumers")
        self.stack.start_producer(TOPIC, PARTITIONS, RATE)
        for consumer in FIRST:
            self.registered(consumer)
        self.display.done(f"{', '.join(FIRST)} registered, launched by Airflow; {RATE:.0f} records/s are produced")
        self.display.doing("Initial to Stable")
        record = self.stable(0.0, set(FIRST))
        self.display.done(f"Initial -> Starting -> Stable at epoch {record.epoch}; {self.shares()}")
        self.rest()

    def join(self) -> None:
        """Launch a third consumer, which gets its share of the partitions."""
        self.display.doing("launching a third consumer")
        self.set_fleet((*FIRST, THIRD))
        self.registered(THIRD)
        began_at = self.watch.registered_at(THIRD)
        self.display.done(f"{THIRD} registered, launched by Airflow")
        self.display.doing("join")
        self.happened("join", THIRD, began_at, self.stable(began_at, {*FIRST, THIRD}))
        self.rest()

    def drain(self) -> None:
        """Drain a consumer as a person would. It gives all partitions away, and leaves."""
        self.display.doing("drain")
        member = self.member(DRAINED)
        began_at = time.time()
        conf = {"consumer": DRAINED, "why": "shown in the demonstration", "dry_run": False}
        self.stack.airflow.client.trigger("drain", conf)
        self.happened("drain", DRAINED, began_at, self.stable(began_at, {*FIRST, THIRD} - {DRAINED}))
        self.display.doing("clean leave")
        self.watch.wait(f"the end of {DRAINED}", LEAVE_LIMIT_S, lambda: self.watch.gone(DRAINED))
        ending = self.watch.ending(DRAINED, member.incarnation)
        if ending is not Ending.LEFT or self.watch.run_folder(DRAINED).exit_code() != 0:
            raise DemoFailed(
                f"{DRAINED} did not leave cleanly: {ending}; its log is {self.watch.run_folder(DRAINED).log}"
            )
        self.display.done(f"{DRAINED} left cleanly, none of its processes is left")
        self.rest()

    def kill(self) -> None:
        """Kill -9 a whole consumer. Its partitions recover. Airflow is paused, so that it launches nothing then."""
        self.display.doing("kill")
        member = self.member(KILLED)
        self.stack.airflow.client.set_paused("consumers", True)
        self.progress.killed.add((KILLED, member.incarnation))
        began_at = self.watch.kill(KILLED)
        self.happened("kill", KILLED, began_at, self.stable(began_at, {THIRD}))

    def finish(self) -> None:
        """Stop the producer, and wait until everything is consumed."""
        self.display.doing("consuming the rest")
        self.watch.wait("catching up with the producer", CONSUME_LIMIT_S, self.caught_up)
        self.stack.stop_producer()
        produced, ended = read_journal(self.stack.folders.journal)
        if not ended:
            log = self.stack.folders.producer_log
            raise DemoFailed(f"the producer ended before every record was confirmed; its log is {log}")
        last = {one.partition: one.offset for one in produced}
        audit = self.stack.folders.audit
        self.watch.wait("the end of all partitions", CONSUME_LIMIT_S, lambda: sink.last_offsets(audit) == last)
        self.display.done(f"the producer has stopped, all {len(produced)} records are consumed")

    def judge(self) -> DemoVerdict:
        self.display.doing("checking")
        records = self.watch.records()
        evidence = Evidence(
            produced=read_journal(self.stack.folders.journal)[0],
            rows=sink.rows(self.stack.folders.audit),
            records=records,
            releases=self.watch.releases(),
            tasks=self.watch.tasks(records),
            killed=frozenset(self.progress.killed),
            loops=self.watch.loops(),
            partitions=PARTITIONS,
            events=self.progress.events,
            counts=self.progress.counts,
        )
        verdict = check(evidence)
        events = event_reports(evidence, verdict)
        self.display.done("checked the sink's rows against ZooKeeper's history and Airflow's tasks")
        write(self.stack.folders.report, as_json(evidence, verdict, events, self.display.phases_s))
        self.display.results(verdict, events)
        return verdict

    def member(self, consumer: str) -> Member:
        """Return the registration of a consumer; raises `DemoFailed` if there is none."""
        found = self.watch.member(consumer)
        if found is None:
            raise DemoFailed(f"{consumer} is not registered any more ({self.watch.standing()})")
        return found

    def registered(self, consumer: str) -> None:
        """Wait until the consumer registers. Raises `DemoFailed` at once if the consumer ends before."""
        folder = self.watch.run_folder(consumer)

        def there() -> Member | None:
            if folder.exit_code() is not None:
                raise DemoFailed(f"{consumer} ended before it had registered; its log is {folder.log}")
            return self.watch.member(consumer)

        self.watch.wait(f"the registration of {consumer}", LAUNCH_LIMIT_S, there)

    def stable(self, after: float, owners: set[str]) -> Record:
        """Wait until these owners have all partitions and both topics are Stable. Return the first topic's record."""
        names, both = ", ".join(sorted(owners)), (TOPIC, SECOND)
        look = self.watch
        record = look.wait(f"Stable with {names}", STABLE_LIMIT_S, lambda: look.stable_after(after, owners))
        counts = look.wait(f"Stable of both topics with {names}", STABLE_LIMIT_S, lambda: look.counts(both, owners))
        self.progress.counts.append(counts)
        look.loops()
        look.releases()
        return record

    def happened(self, kind: str, consumer: str, began_at: float, record: Record) -> None:
        self.progress.events.append(MembershipEvent(kind, consumer, began_at, record.at, *self.progress.quiet))
        self.display.done(
            f"{kind} of {consumer}: Stable again after {record.at - began_at:.1f} s, epoch {record.epoch}; {self.shares()}"
        )

    def shares(self) -> str:
        """Return, in words, the last numbers of partitions over both topics."""
        return "of both topics " + ", ".join(f"{name} has {count}" for name, count in self.progress.counts[-1].items())

    def rest(self) -> None:
        """Let the consumers catch up, and then work undisturbed. The next event is compared with this window."""
        self.display.doing("undisturbed")
        self.watch.wait("catching up with the producer", CONSUME_LIMIT_S, self.caught_up)
        self.progress.quiet = self.watch.quiet(QUIET_S)
        self.display.passed()

    def caught_up(self) -> bool:
        """Return whether in every partition, records are processed within `CAUGHT_UP_S`.

        Raises `DemoFailed` if the producer has ended.
        """
        if self.stack.producer is not None and not self.stack.producer.running:
            raise DemoFailed(f"the producer has ended by itself; its log is {self.stack.folders.producer_log}")
        newest = sink.newest(self.stack.folders.audit)
        return len(newest) == PARTITIONS and time.time() - min(newest.values()) < CAUGHT_UP_S


def sign_in(stack: Stack) -> str:
    """Return Airflow's address for a person, with user and password."""
    airflow = stack.airflow
    return f"{airflow.base_url} (user {airflow.username}, password {airflow.password})"


def demonstrate(folders: Folders, display: Display, *, ensemble: bool, keep: bool) -> DemoVerdict:
    """Start the servers, run the demonstration, and end the servers; with `keep`, leave them running."""
    display.doing("starting ZooKeeper and Kafka")
    stack = Stack(folders, ensemble=ensemble)
    keeps = False
    try:
        stack.wait_for_servers()
        display.done("three ZooKeeper servers and three brokers serve" if ensemble else "ZooKeeper and Kafka serve")
        with open_coordinator(stack.settings) as c:
            demo = Demo(stack, c, display)
            verdict = demo.run()
            if keep:
                stack.airflow.client.set_paused("consumers", False)
        if keep:
            kept.write_settings(folders.settings, stack.settings)
            stack.keep()
            keeps = True
            display.line()
            for line in kept.lines(folders.settings, sign_in(stack), TOPIC, APP, DRAINED):
                display.line(line)
        return verdict
    finally:
        if not keeps:
            stack.end()
