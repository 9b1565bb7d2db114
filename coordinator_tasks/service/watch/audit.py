"""The audit of ownership in a running cluster: two observations for `core.machine.audit`. Writes nothing."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from coordinator_tasks import __version__
from coordinator_tasks.core.errors import CoordinatorError, KafkaUnavailable, NoAccess
from coordinator_tasks.core.machine import audit as rules
from coordinator_tasks.core.machine.audit import Committer, Finding, FindingKind, Trace
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import Committed
from coordinator_tasks.core.text.partition_text import counted
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import observe, store
from coordinator_tasks.service.nodes.cluster import ClusterObservation
from coordinator_tasks.service.nodes.fleet import CODE, fleets
from coordinator_tasks.service.nodes.observe import Offsets
from coordinator_tasks.service.nodes.store import StoredTopics
from coordinator_tasks.service.watch.group_commits import SILENT_S
from coordinator_tasks.service.watch.silent_kafka import silenced

BETWEEN_S = 2.5
"""Seconds between two observations: longer than a hand-off takes, or an owner's commit over a foreign commit."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The result. `problems`: unreadable parts. `between_s`: seconds between the observations; 0 if one was enough."""

    findings: tuple[Finding, ...] = ()
    committers: tuple[Committer, ...] = ()
    problems: tuple[str, ...] = ()
    between_s: float = 0.0

    @property
    def alarms(self) -> tuple[Finding, ...]:
        """Return the findings that a person should look at soon."""
        return tuple(one for one in self.findings if one.alarm)

    @property
    def counts(self) -> dict[str, int]:
        """Return the name of every kind → number of findings."""
        found = Counter(one.code for one in self.findings)
        return {kind.word: found[kind] for kind in FindingKind}


@dataclass(slots=True)
class AuditLook:
    """The traces of one observation, for `compared`."""

    traces: dict[str, set[Trace]] = field(default_factory=dict)
    committed: dict[str, Mapping[int, Committed]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def doubtful(self) -> list[str]:
        """Return the topics that need a second observation."""
        return [topic for topic, found in self.traces.items() if rules.suspicious(found)]


def audit(
    c: Coordinator,
    names: Collection[str] = (),
    *,
    between_s: float = BETWEEN_S,
    always: bool = True,
    seen: ClusterObservation | None = None,
) -> Audit:
    """Audit these topics (all if empty), twice, `between_s` apart. With `always` False, observe twice only if needed.

    `seen`: an observation of all topics to use as the first. An unreadable topic, group or consumer does not stop the
    audit of the others. Raises `StoreUnavailable` and `DiscoveryUnavailable`.
    """
    first = look(c, names) if seen is None else _look_at(c, seen)
    again = list(first.traces) if always else first.doubtful
    if not again:
        return compared(first)
    c.clock.sleep(between_s)
    return compared(first, look(c, again), between_s)


def compared(first: AuditLook, second: AuditLook | None = None, between_s: float = 0.0) -> Audit:
    """Combine two observations taken `between_s` apart. Without the second, keep only the certain findings."""
    found = list(first.findings)
    who: list[Committer] = []
    for topic, traces in sorted(first.traces.items()):
        found += rules.findings(topic, traces, second.traces.get(topic, ()) if second is not None else traces)
        if second is not None and topic in second.committed:
            who += rules.committers(topic, first.committed.get(topic, {}), second.committed[topic])
    found.sort(key=lambda one: one.code)
    problems = dict.fromkeys((*first.problems, *(second.problems if second is not None else ())))
    return Audit(tuple(found), tuple(who), tuple(problems), between_s)


def look(c: Coordinator, names: Collection[str] = ()) -> AuditLook:
    """Observe these topics once (all if empty). Removed topics are left out. Raises as `audit`."""
    stored = store.load_topics(c.zk, c.paths, names, others=not names)
    found, views = _begun(stored), _audited(stored.views)
    world = observe.snapshot(c, stored.nodes, note=False).world
    silent = list[KafkaUnavailable]()
    views = observe.describe(c, views, silent)
    c = silenced(c, silent[0]) if silent else c
    return _traced(c, found, views, world, _offsets(c, views, found))


def _look_at(c: Coordinator, seen: ClusterObservation) -> AuditLook:
    found, views = _begun(seen.topics), _audited(seen.views.values())
    offsets = _readable({view.topic: seen.snapshot.committed[view.topic] for view in views}, found)
    c = silenced(c, seen.silent) if seen.silent is not None else c
    return _traced(c, found, views, seen.stored_world, offsets)


def _begun(stored: StoredTopics) -> AuditLook:
    return AuditLook(problems=[f"{name} is not audited: {error.told}" for name, error in stored.unread.items()])


def _audited(views: Iterable[TopicView]) -> list[TopicView]:
    """Return the topics that should have owners."""
    return [view for view in views if not view.config.removed]


def _traced(
    c: Coordinator,
    found: AuditLook,
    views: Collection[TopicView],
    world: World,
    offsets: Mapping[str, Mapping[int, Committed]],
) -> AuditLook:
    try:
        found.findings = rules.old_code(world.members, fleets(c), __version__, CODE)
    except NoAccess as error:
        found.problems.append(f"old code is not looked for: {error.told}")
    found.problems += [f"{consumer}: {problem}" for consumer, problem in sorted(world.unclear.items())]
    subscribers = _subscribers(c, views, found)
    for view in views:
        known = offsets.get(view.topic)
        who = subscribers.get(view.config.group_id, ())
        found.traces[view.topic] = rules.traces(view, replace(world, committed=known), c.policy, c.paths.cluster, who)
        if known is not None:
            found.committed[view.topic] = known
    return found


def _offsets(c: Coordinator, views: Collection[TopicView], told: AuditLook) -> dict[str, Mapping[int, Committed]]:
    """Return topic → committed offsets. If Kafka does not answer, the topic is audited without offsets."""
    try:
        answers = observe.committed(c, views)
    except CoordinatorError as error:
        told.problems.append(f"the committed offsets are not audited: {error.told}")
        return {}
    return _readable(answers, told)


def _readable(answers: Mapping[str, Offsets], told: AuditLook) -> dict[str, Mapping[int, Committed]]:
    """Return the known offsets. All other answers become problems."""
    found: dict[str, Mapping[int, Committed]] = {}
    for topic, answer in answers.items():
        if isinstance(answer, Mapping):
            found[topic] = answer
        else:
            why = answer.told if answer is not None else "Kafka does not answer"
            told.problems.append(f"the committed offsets of {topic} are not audited: {why}")
    return found


def _subscribers(c: Coordinator, views: Collection[TopicView], told: AuditLook) -> dict[str, tuple[str, ...]]:
    """Return group → its members in Kafka. While a group has members, Kafka refuses all our commits."""
    found: dict[str, tuple[str, ...]] = {}
    waited_s, groups = 0.0, sorted({view.config.group_id for view in views})
    for number, group in enumerate(groups):
        if waited_s > SILENT_S:
            rest = counted(len(groups) - number, "further group")
            told.problems.append(f"the members of {rest} are not audited: Kafka does not answer")
            break
        began_s = c.clock.monotonic()
        try:
            found[group] = c.kafka.group_members(group)
        except CoordinatorError as error:
            waited_s += c.clock.monotonic() - began_s
            told.problems.append(f"the members of group {group} are not audited: {error.told}")
    return found
