"""The language of the scenario files: each command acts on a `Site` and gives back what a reader should see.

Random names (generations) are shown in the order of their appearance, so that a file stays the same from run to run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from coordinator_tasks.core.codecs.member_codec import encode_directive
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, Directive, Draining, Ending, Record, Silence
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from tests.world.site import Site

TASKS = {"plan": transitions.plan, "start": transitions.start, "settle": transitions.settle}
WAITS = {"closed": transitions.await_closed, "started": transitions.await_started}
TOPIC = "orders"


class Story:
    """The words of the language: every method that is marked with `command`."""

    def __init__(self) -> None:
        self.commands: dict[str, Callable[..., list[str] | None]] = {}

    def command(self, method: Callable[..., list[str] | None]) -> Callable[..., list[str] | None]:
        self.commands[method.__name__] = method
        return method


STORY = Story()


@dataclass
class Stage:
    """One cluster with one topic, and the names that were given to its generations."""

    site: Site = field(default_factory=Site)
    generations: dict[str, str] = field(default_factory=dict)
    snapshot: dict[str, bytes] = field(default_factory=dict)

    def run(self, line: str) -> list[str]:
        name, *words = line.split()
        return STORY.commands[f"do_{name}"](self, *words) or []

    # The world -------------------------------------------------------------------------------------------------------

    @STORY.command
    def do_topic(self, partitions: str) -> None:
        self.site.add_topic(TOPIC, int(partitions))

    @STORY.command
    def do_launch(self, *consumers: str) -> list[str]:
        self.site.starts(*consumers)
        return [f"{c} registered, incarnation {self.site.processes[c].member.incarnation}" for c in consumers]

    @STORY.command
    def do_kill(self, consumer: str, how: str) -> None:
        self.site.dies(consumer, Ending(how))

    @STORY.command
    def do_mute(self, consumer: str) -> None:
        """Its host drops packets."""
        self.site.processes[consumer].silence = Silence.SILENT

    @STORY.command
    def do_unmute(self, consumer: str) -> None:
        self.site.processes[consumer].silence = None

    @STORY.command
    def do_plain(self, consumer: str) -> None:
        """It only knows `assignments`: it writes no release, and takes over nothing by hand-off."""
        self.site.processes[consumer].plain = True

    @STORY.command
    def do_pass(self, seconds: str) -> None:
        self.site.clock.advance(float(seconds))

    @STORY.command
    def do_isolate(self, consumer: str) -> None:
        directives.isolate(self.site.coordinator, consumer, by="ann", why="wrong results")

    @STORY.command
    def do_readmit(self, consumer: str) -> None:
        directives.readmit(self.site.coordinator, consumer, by="ann")

    @STORY.command
    def do_complete(self) -> list[str]:
        """Readmissions whose consumers confirm that they run nothing take effect."""
        done = directives.complete_readmissions(self.site.coordinator)
        return [f"readmitted: {', '.join(done) or 'nobody'}"]

    @STORY.command
    def do_drain(self, consumer: str) -> None:
        directives.drain(self.site.coordinator, consumer, by="ann", why="the host goes")

    @STORY.command
    def do_leave(self, consumer: str) -> None:
        """Its process was asked to end, and says so."""
        mine = self.site.processes[consumer].member.incarnation
        draining = Draining(consumer, "asked to end", self.site.clock.now(), mine)
        path = self.site.coordinator.paths.directive(consumer)
        self.site.zk.transact([Create(path, encode_directive(Directive(consumer, draining=draining)))])

    @STORY.command
    def do_save(self) -> None:
        """Take a snapshot of the topic's znodes."""
        paths = self._nodes()
        self.snapshot = {path: self.site.zk.get(path).data for path in paths}

    @STORY.command
    def do_restore(self) -> None:
        """ZooKeeper comes back from the snapshot."""
        for path in self._nodes():
            self.site.zk.transact([SetData(path, self.snapshot[path])])

    def _nodes(self) -> tuple[str, str]:
        paths: Paths = self.site.paths
        return paths.topic(TOPIC), paths.state(TOPIC)

    # Consumers and tasks ---------------------------------------------------------------------------------------------

    @STORY.command
    def do_act(self, *consumers: str) -> list[str]:
        """Each reads, then stops, starts and releases what its picture asks for; `everybody` twice over."""
        before = self._running()
        for consumer in consumers if consumers != ("everybody",) else sorted(self.site.processes) * 2:
            process = self.site.processes[consumer]
            if process.connected:
                process.read(TOPIC)
            process.act(TOPIC)
        after = self._running()
        return [
            f"{consumer} runs {_listed(now)}" for consumer, now in sorted(after.items()) if now != before.get(consumer)
        ]

    def _running(self) -> dict[str, list[int]]:
        return {c: sorted(p.running.get(TOPIC, ())) for c, p in self.site.processes.items()}

    @STORY.command
    def do_run(self, task: str) -> list[str]:
        actor = Actor("airflow", dag="rebalance", run="r1", task=task)
        return self._told(TASKS[task](self.site.coordinator, [TOPIC], actor)[0])

    @STORY.command
    def do_wait(self, what: str) -> list[str]:
        report = WAITS[what](self.site.coordinator, [TOPIC])
        return [f"{report.outcome.value}: {self._plain(report.topics.get(TOPIC, 'nothing to wait for'))}"]

    def _told(self, report: TopicReport) -> list[str]:
        change = f"{report.before} → {report.after}: " if report.outcome is TopicOutcome.WRITTEN else ""
        moves = [
            f"  partition {m.partition}: {m.giver or 'nobody'} → {m.taker or 'nobody'} ({m.kind})" for m in report.moves
        ]
        return [f"{report.outcome}: {change}{self._plain(report.reason)}", *moves]

    # What there is ---------------------------------------------------------------------------------------------------

    @STORY.command
    def do_show(self) -> list[str]:
        node, state = self.site.node(TOPIC), self.site.state(TOPIC)
        self.site.check(TOPIC)
        lines = [f"{state.state}, epoch {node.epoch}, generation {self._named(node.generation)}"]
        owned: dict[str, list[str]] = {}
        for partition, consumer in node.assignments.items():
            guard = " guarded" if partition in node.guarded and partition in state.epochs else ""
            owned.setdefault(consumer, []).append(f"{partition}@{node.since[partition]}{guard}")
        lines += [f"  {c}#{node.incarnations[c]} has {', '.join(ps)}" for c, ps in sorted(owned.items())]
        lines += [f"  {p}: {h.giver} hands over to {h.taker} @{h.epoch}" for p, h in node.handoff.items()]
        lines += [f"  to close: {c} {_listed(ps)}" for c, ps in state.to_close.items()]
        lines += [f"  to start: {c} {_listed(ps)}" for c, ps in state.to_start.items()]
        return lines

    @STORY.command
    def do_releases(self) -> list[str]:
        return [f"{p}: released by {r.by} @{r.epoch}" for p, r in self.site.releases(TOPIC).items()]

    @STORY.command
    def do_history(self) -> list[str]:
        return [self._record(record) for record in self.site.history(TOPIC)]

    def _record(self, record: Record) -> str:
        by = f"{record.actor.run}/{record.actor.task}"
        return f"{record.source} → {record.target} @{record.epoch} by {by}: {self._plain(record.cause)}"

    def _named(self, generation: str) -> str:
        return self.generations.setdefault(generation, f"g{len(self.generations) + 1}")

    def _plain(self, text: str) -> str:
        for generation, name in self.generations.items():
            text = text.replace(generation, name)
        return text


def _listed(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions)) or "nothing"
