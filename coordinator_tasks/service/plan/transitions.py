"""The transitions, one function for each task, called by Airflow's tasks, the plain loop and the command line.

Every function reads the truth from ZooKeeper, decides with `core.machine`, and writes each topic in its own
transaction. A function may be killed anywhere, repeated, or run twice at once. An unreadable or waiting topic does not
stop the other topics. All functions raise `StoreUnavailable`. While the registry does not answer, they change no topic,
and report why.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import DiscoveryUnavailable, LookAgain, Malformed, Refused
from coordinator_tasks.core.machine import causes, machine, recovery
from coordinator_tasks.core.machine.confirm import blockers, failing, states, waiting
from coordinator_tasks.core.machine.decision import ALL_STEPS, Decision, Step, TopicOutcome
from coordinator_tasks.core.machine.failures import CommonFailure
from coordinator_tasks.core.machine.machine import decide
from coordinator_tasks.core.machine.presence import presence
from coordinator_tasks.core.machine.table import TableBroken
from coordinator_tasks.core.machine.together import TogetherPlan
from coordinator_tasks.core.machine.unread import unread
from coordinator_tasks.core.machine.world import Presence, TopicView
from coordinator_tasks.core.model import Actor, Cause, Explanation, Member, Move, State, StateOnReset
from coordinator_tasks.core.ports import Operation
from coordinator_tasks.core.protocol.znodes import children, compare_and_set
from coordinator_tasks.logs import about
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import observe, store
from coordinator_tasks.service.nodes.cluster import ClusterObservation
from coordinator_tasks.service.nodes.concerned import Links
from coordinator_tasks.service.nodes.observe import Observation, Scope
from coordinator_tasks.service.nodes.store import Stored, StoredTopics
from coordinator_tasks.service.nodes.topics import not_removed
from coordinator_tasks.service.plan import approvals

MAX_WRITES = 8  # maximum per topic and call: a loss, a plan and the following steps; the next call does the rest
MAX_RACES = 20  # lost races per topic and call
MAX_LOOKS = 3  # further observations if a topic changes during an observation
_PREVIEW = Actor("preview")
_FROZEN = "frozen: what has an owner stays where it is; once it is unfrozen, "


@dataclass(frozen=True, slots=True)
class TopicReport:
    """The part of a call's result that concerns one topic, for the log, XCom and the command line.

    - `explanation`: the explanation of the call's last plan, if any. `causes`: the causes of that plan.
    - `left_out`: consumers and offsets that do not count, each with its problem.
    - `approval`: the digest of a plan that waits for a person's approval.
    - `failing`: partitions that owners cannot process.
    - `unread`: partition → why it is not read; only for a preview.
    - `settled`: as in `Decision`.
    """

    topic: str
    before: State
    after: State
    outcome: TopicOutcome
    reason: str
    moves: tuple[Move, ...] = ()
    blockers: tuple[str, ...] = ()
    epoch: int = 0
    rebalance: str = ""
    explanation: Explanation | None = None
    left_out: tuple[str, ...] = ()
    approval: str = ""
    settled: bool = False
    failing: tuple[CommonFailure, ...] = ()
    unread: Mapping[int, str] = field(default_factory=dict)
    causes: tuple[Cause, ...] = ()

    @property
    def fields(self) -> dict[str, object]:
        """Return the fields of log lines: topic, epoch, and the rebalance under way, if any."""
        return _known(self.topic, self.epoch, self.rebalance)


@dataclass(frozen=True, slots=True)
class Need:
    """What a run would do now: write (`WRITTEN`) or wait (`WAITING`).

    `in_s`: seconds until a waiting time ends; 0 without such a time.
    """

    outcome: TopicOutcome
    in_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WaitReport:
    """The result of checking a wait. `topics`: topic → a sentence. `blockers`: topic → the consumers that delay it.

    `confirmed`: topics that can continue now. `pending`: topics that cannot. `STUCK`: all pending topics have waited
    for `stuck_after_s`. `fields`: topic → fields of the log lines.
    """

    outcome: TopicOutcome
    topics: dict[str, str] = field(default_factory=dict)
    blockers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    confirmed: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    fields: dict[str, dict[str, object]] = field(default_factory=dict)


def topics(c: Coordinator) -> tuple[str, ...]:
    """Return the topics that this cluster manages, sorted; empty without a cluster folder."""
    return tuple(children(c.zk, c.paths.configs))


def plan(c: Coordinator, names: Collection[str], actor: Actor) -> list[TopicReport]:
    """Plan: Initial → Starting, Stable → Closing or Starting, or anew in Closing and Starting. Waits for `settle_s`."""
    return _Run(c, names, actor, frozenset({Step.PLAN})).run()


def start(c: Coordinator, names: Collection[str], actor: Actor) -> list[TopicReport]:
    """Closing → Starting: assign the partitions after their possible owners have confirmed the close."""
    return _Run(c, names, actor, frozenset({Step.START})).run()


def settle(c: Coordinator, names: Collection[str], actor: Actor) -> list[TopicReport]:
    """Starting → Stable, once the consumers have confirmed their starts."""
    return _Run(c, names, actor, frozenset({Step.SETTLE})).run()


def step(c: Coordinator, names: Collection[str], actor: Actor) -> list[TopicReport]:
    """Do every step that is due, without waiting; for the plain loop."""
    return _Run(c, names, actor, ALL_STEPS, patient=False).run()


def preview(c: Coordinator, names: Collection[str], seen: ClusterObservation | None = None) -> list[TopicReport]:
    """Return the reports of `plan` now, or after an approval. Do not wait, and write nothing, no notes either.

    `seen`: an observation to use.
    """

    def show(stored: Stored, snapshot: Observation) -> TopicReport:
        report, world = _report(stored, _judged(c, stored, snapshot, ALL_STEPS)), snapshot.world
        return replace(report, failing=failing(stored.view, world), unread=unread(stored.view, world, c.policy))

    return _each(c, names, show, planning=True, note=False, seen=seen)


def explain(c: Coordinator, topic: str) -> Explanation:
    """Explain why each partition has its owner, and where the topic's strategy would place it now. Write nothing.

    Raises `NotManaged`, `Malformed`, the `Unavailable` kinds, and `Refused` for a removed topic or a site's strategy
    that fails.
    """
    found = store.load_topics(c.zk, c.paths, [topic])
    if topic in found.unread:
        raise found.unread[topic]
    config = not_removed(found.stored[topic].view.config)
    snapshot = observe.snapshot(c, found.nodes, note=False)
    views = {view.topic: view for view in observe.describe(c, found.views)}
    still = replace(c, policy=replace(c.policy, settle_s=0.0, settle_max_s=0.0))
    world = _together(still, snapshot, views, found, always=frozenset({topic}))[topic].world_of(topic)
    explained = machine.explain(_effective(c, views[topic]), world, c.policy)
    explained = replace(explained, waits=waiting(views[topic], world), states=states(views[topic], world))
    return replace(explained, summary=f"{_FROZEN}{explained.summary}") if config.frozen else explained


def seek(
    c: Coordinator,
    topic: str,
    offsets: Mapping[int, int],
    plan: Explanation,
    actor: Actor,
    *,
    done: Callable[[], bool],
    state: StateOnReset | None = None,
) -> TopicReport:
    """Let partitions continue at these offsets, in one transaction with the record.

    `done`: returns whether the history already has this change; then the outcome is `UNCHANGED`. If the outcome is not
    `WRITTEN`, the reason says why the change is impossible now. Raises `LookAgain` if the topic changes all the time.
    """

    def attempt() -> tuple[list[Operation], TopicReport]:
        operations: list[Operation] = []

        def act(stored: Stored, snapshot: Observation) -> TopicReport:
            if done():  # checked after reading the topic: if the record is written later, our write fails
                return _report(stored, Decision(TopicOutcome.UNCHANGED, "done already"))
            view = _effective(c, stored.view)
            decision = machine.seek(view, snapshot.world_of(topic), c.policy, actor, offsets, plan, state)
            if decision.outcome is TopicOutcome.WRITTEN:
                c.zk.ensure(c.paths.history(topic))
                operations.extend(store.writes(c.paths, stored, decision, snapshot.world, announce=True))
            return _report(stored, decision)

        (report,) = _each(c, [topic], act, planning=True, alone=True)
        return operations, report

    return compare_and_set(c.zk, c.paths.topic(topic), attempt)


def preview_seek(
    c: Coordinator, topic: str, offsets: Mapping[int, int], state: StateOnReset | None = None
) -> TopicReport:
    """Return the report that `seek` would make now. Write nothing, no notes either."""
    plan = Explanation("", "", "")

    def show(stored: Stored, snapshot: Observation) -> TopicReport:
        view = _effective(c, stored.view)
        decision = machine.seek(view, snapshot.world_of(topic), c.policy, _PREVIEW, offsets, plan, state)
        return _report(stored, decision)

    (report,) = _each(c, [topic], show, planning=True, note=False, alone=True)
    return report


def due(c: Coordinator, names: Collection[str] = (), seen: ClusterObservation | None = None) -> Mapping[str, Need]:
    """Return the topics among `names` (all if empty) that need a run: a write is due, or an event is awaited.

    An absent owner counts as an awaited event, because no watch reports its end or the end of the waiting time. `seen`:
    an observation to use.
    """
    found: dict[str, Need] = {}

    def show(stored: Stored, snapshot: Observation) -> TopicReport:
        decision = _decide(c, stored, snapshot, ALL_STEPS)
        report, node = _report(stored, decision), stored.view.node
        if report.outcome is TopicOutcome.WRITTEN:
            found[report.topic] = Need(TopicOutcome.WRITTEN)
        elif report.outcome is TopicOutcome.WAITING and (decision.blockers or decision.wake_in_s):
            found[report.topic] = Need(TopicOutcome.WAITING, decision.wake_in_s)
        elif node is not None and not decision.blockers:
            in_s = causes.absent_for(node, snapshot.world, c.policy, c.zk.session_timeout_s)
            if in_s is not None:
                found[report.topic] = Need(TopicOutcome.WAITING, in_s)
        return report

    _each(c, names or (topics(c) if seen is None else seen.topics.managed), show, planning=True, seen=seen)
    return found


def ready(c: Coordinator, names: Collection[str]) -> tuple[str, ...]:
    """Return the topics with a write that is due. The offsets committed in Kafka are not checked."""

    def show(stored: Stored, snapshot: Observation) -> TopicReport:
        _nudge(c, stored, snapshot)
        return _report(stored, _decide(c, stored, snapshot, ALL_STEPS))

    return tuple(one.topic for one in _each(c, names, show, planning=False) if one.outcome is TopicOutcome.WRITTEN)


def await_closed(c: Coordinator, names: Collection[str]) -> WaitReport:
    """Check once, without sleeping, whether the possible owners have confirmed the close."""
    return _await(c, names, State.CLOSING, frozenset({Step.START}))


def await_started(c: Coordinator, names: Collection[str]) -> WaitReport:
    """Check once, without sleeping, whether the new owners have confirmed the start."""
    return _await(c, names, State.STARTING, frozenset({Step.SETTLE}))


class _Run:
    """A call for several topics in rounds: observe once, decide and write each topic, repeat for unfinished topics."""

    def __init__(
        self, c: Coordinator, names: Collection[str], actor: Actor, steps: frozenset[Step], patient: bool = True
    ) -> None:
        self.c, self.actor, self.steps, self.patient = c, actor, steps, patient
        self.pending = dict.fromkeys(sorted(set(names)))
        self.reports: dict[str, TopicReport] = {}
        self.races = dict.fromkeys(self.pending, 0)
        self.writes = dict.fromkeys(self.pending, 0)
        self.deadline = c.clock.monotonic() + c.policy.settle_max_s + c.policy.settle_s

    def run(self) -> list[TopicReport]:
        while self.pending:
            # Only a topic that this round has decided can need another round.
            self.pending = dict.fromkeys(self.pending)
            if self.c.clock.monotonic() >= self.deadline:
                self.c = replace(self.c, policy=replace(self.c.policy, settle_s=0.0, settle_max_s=0.0))
            planning = Step.PLAN in self.steps
            reports = {r.topic: r for r in _each(self.c, list(self.pending), self._one, planning=planning, looks=0)}
            for name, report in reports.items():
                self._keep(name, report)
            wake_s = min((w or 0.0 for w in self.pending.values()), default=0.0)
            if wake_s > 0:
                self.c.clock.sleep(min(wake_s, max(0.0, self.deadline - self.c.clock.monotonic())))
        return [self.reports[name] for name in sorted(self.reports)]

    def _one(self, stored: Stored, snapshot: Observation) -> TopicReport:
        topic = stored.view.topic
        decision = _decide(self.c, stored, snapshot, self.steps, self.actor)
        self.pending[topic] = None
        if decision.outcome is TopicOutcome.WRITTEN:
            try:
                store.commit(self.c.zk, self.c.paths, stored, decision, snapshot.world)
            except LookAgain as error:
                self.races[topic] += 1
                self.pending[topic] = 0.0
                return replace(_report(stored, decision), outcome=TopicOutcome.OVERTAKEN, reason=str(error))
            self.writes[topic] += 1
            self.pending[topic] = 0.0
        elif decision.wake_in_s > 0 and self.patient and self.c.clock.monotonic() < self.deadline:
            self.pending[topic] = decision.wake_in_s
        else:
            _nudge(self.c, stored, snapshot)
        return _report(stored, decision)

    def _keep(self, name: str, report: TopicReport) -> None:
        """Merge the topic's report into the report of earlier rounds. Drop a finished topic."""
        before = self.reports.get(name)
        if before is not None and before.outcome is TopicOutcome.WRITTEN:
            if report.outcome is TopicOutcome.WRITTEN:
                explanation = report.explanation or before.explanation
                report = replace(
                    report, before=before.before, moves=before.moves + report.moves, explanation=explanation
                )
            elif report.outcome is TopicOutcome.HELD:
                report = before
            else:
                report = replace(before, after=report.after, blockers=report.blockers)
        self.reports[name] = report
        exhausted = self.races[name] >= MAX_RACES or self.writes[name] >= MAX_WRITES
        if self.pending.get(name) is None or exhausted or (not self.patient and self.writes[name]):
            self.pending.pop(name, None)


def _each(
    c: Coordinator,
    names: Collection[str],
    act: Callable[[Stored, Observation], TopicReport],
    *,
    planning: bool,
    note: bool = True,
    looks: int = MAX_LOOKS,
    alone: bool = False,
    seen: ClusterObservation | None = None,
) -> list[TopicReport]:
    """Load every topic, observe the world once, and act on each topic. A topic's problem is only in its own report.

    `looks`: how often to observe again if a plan changes a topic meanwhile; 0 if guards protect the writes anyhow.
    `alone`: no plan is written or shown, so only the topics in `names` are read. `seen`: an observation to use first.
    """
    again: list[str] = []
    # The nodes name the owners. Linked topics are read later, when it is known which consumers want them.
    found = seen.topics if seen is not None else store.load_topics(c.zk, c.paths, names, others=False)
    reports = [
        TopicReport(name, State.INITIAL, State.INITIAL, TopicOutcome.HELD, str(error))
        for name, error in found.unread.items()
        if name in names
    ]
    mine = [stored for name, stored in found.stored.items() if name in names]
    if seen is not None:
        snapshot, views = seen.snapshot, seen.views
    else:
        try:
            snapshot = observe.snapshot(c, found.nodes, note=note, scope=_scope(names, found, alone))
        except DiscoveryUnavailable as error:
            return sorted(reports + [_held(stored, error) for stored in mine], key=lambda r: r.topic)
        if not alone:
            linked = found.managed if snapshot.topics is None else snapshot.topics
            found = store.with_topics(c.zk, c.paths, found, linked)
        views = {view.topic: view for view in observe.describe(c, found.views)}
        asked = [
            view
            for view in views.values()
            if (planning and view.topic in names) or view.node is None or view.state is None
        ]
        snapshot = replace(snapshot, committed=observe.committed(c, asked))
    seen_by = dict.fromkeys(views, snapshot) if alone else _together(c, snapshot, views, found)
    for stored in mine:
        view, snapshot = views[stored.view.topic], seen_by[stored.view.topic]
        try:
            now = replace(stored, view=view)
            if looks and _overtaken(c, now, snapshot):
                again.append(view.topic)
                continue
            with about(**_fields(c, view)):
                reports.append(act(now, snapshot))
        except (Refused, Malformed, TableBroken, LookAgain) as error:
            reports.append(_held(stored, error))
    if again:
        reports += _each(c, again, act, planning=planning, note=note, looks=looks - 1, alone=alone)
    return sorted(reports, key=lambda r: r.topic)


def _overtaken(c: Coordinator, stored: Stored, snapshot: Observation) -> bool:
    """Return whether a plan was written after the topic was read.

    Answers and commits after such a plan look as if ZooKeeper had been lost.
    """
    contradicted = recovery.needed(stored.view, snapshot.world_of(stored.view.topic)) is not None
    return contradicted and store.load(c.zk, c.paths, stored.view.topic).versions != stored.versions


def _scope(names: Collection[str], found: StoredTopics, alone: bool) -> Scope | None:
    """Return what to observe for these topics; `None` means everything."""
    if set(found.managed) <= set(names):
        return None
    states = [stored.view.state for stored in found.stored.values()]
    planned = frozenset(consumer for state in states if state is not None for consumer in state.targets)
    return Scope(names, found.managed, alone, planned)


def _together(
    c: Coordinator,
    snapshot: Observation,
    views: Mapping[str, TopicView],
    found: StoredTopics,
    always: frozenset[str] = frozenset(),
) -> Mapping[str, Observation]:
    """Return each topic's snapshot: the topic's consumers, and the joint plan of all linked topics, made on demand."""
    effective = {topic: _effective(c, view) for topic, view in views.items()}
    elsewhere = snapshot.of_unread(found.unread)
    together: dict[str, Observation] = {}
    groups = list(Links(found.managed, found.nodes, snapshot.world.members).groups(views))
    for group in groups:
        linked = [effective[topic] for topic in sorted(group.topics & views.keys())]
        planned = {consumer for view in linked if view.state is not None for consumer in view.state.targets}
        mine = (
            snapshot if len(groups) == 1 else snapshot.among(group.consumers | planned | snapshot.world.unclear.keys())
        )
        loads = {consumer: count for consumer, count in elsewhere.items() if consumer in group.consumers}
        plan = TogetherPlan(linked, mine.world_of, c.policy, mine.world.members, loads, always)
        together |= dict.fromkeys([view.topic for view in linked], replace(mine, together=plan))
    return together


def _fields(c: Coordinator, view: TopicView) -> dict[str, object]:
    """Return the log fields of the topic during its step."""
    epoch = view.node.epoch if view.node is not None else 0
    rebalance = view.state.rebalance if view.state is not None else ""
    return {"cluster": c.paths.cluster, **_known(view.topic, epoch, rebalance)}


def _known(topic: str, epoch: int, rebalance: str) -> dict[str, object]:
    return {"topic": topic, **({"epoch": epoch} if epoch else {}), **({"rebalance": rebalance} if rebalance else {})}


def _effective(c: Coordinator, view: TopicView) -> TopicView:
    """Return the view with the effective strategy and parameters: the topic's own, or else the cluster's."""
    return replace(view, config=c.policy.strategies.effective(view.config))


def _decide(
    c: Coordinator, stored: Stored, snapshot: Observation, steps: frozenset[Step], actor: Actor = _PREVIEW
) -> Decision:
    """Return the decision. A plan that waits for a person's approval is held back. Other steps proceed."""
    found = _judged(c, stored, snapshot, steps, actor)
    if not found.approval:
        return found
    world = snapshot.world_of(stored.view.topic)
    beside = decide(_effective(c, stored.view), world, c.policy, actor, steps, plans=False)
    waits = Decision(TopicOutcome.WAITING, found.reason, approval=found.approval, left_out=found.left_out)
    return beside if beside.outcome is TopicOutcome.WRITTEN else waits


def _judged(
    c: Coordinator, stored: Stored, snapshot: Observation, steps: frozenset[Step], actor: Actor = _PREVIEW
) -> Decision:
    view, world = _effective(c, stored.view), snapshot.world_of(stored.view.topic)
    return approvals.held_for_approval(c, view, world, decide(view, world, c.policy, actor, steps))


def _await(c: Coordinator, names: Collection[str], state: State, steps: frozenset[Step]) -> WaitReport:
    sentences: dict[str, str] = {}
    waiting: dict[str, tuple[str, ...]] = {}
    found: dict[str, TopicOutcome] = {}
    fields: dict[str, dict[str, object]] = {}

    def check(stored: Stored, snapshot: Observation) -> TopicReport:
        view = stored.view
        if view.state is None or view.state.state is not state:
            return _report(stored, Decision(TopicOutcome.UNCHANGED, "nothing to wait for"))
        report = _report(stored, _decide(c, stored, snapshot, steps))
        sentences[view.topic], waiting[view.topic] = report.reason, report.blockers
        fields[view.topic] = _fields(c, view)
        if report.outcome is TopicOutcome.WRITTEN:
            found[view.topic] = TopicOutcome.WRITTEN
        elif _decide(c, stored, snapshot, frozenset({Step.PLAN})).outcome is TopicOutcome.WRITTEN:
            found[view.topic] = TopicOutcome.OVERTAKEN
        else:
            stuck = snapshot.world.now - view.state.since_at >= c.policy.stuck_after_s
            found[view.topic] = TopicOutcome.STUCK if stuck else TopicOutcome.WAITING
        _nudge(c, stored, snapshot)
        return report

    for report in _each(c, names, check, planning=False, alone=True):
        if report.outcome is TopicOutcome.HELD and report.topic not in sentences:
            sentences[report.topic] = report.reason
            if report.before is state:
                found[report.topic] = TopicOutcome.WAITING
    pending = tuple(sorted(topic for topic, kind in found.items() if kind is not TopicOutcome.WRITTEN))
    confirmed = tuple(topic for topic, kind in found.items() if kind is TopicOutcome.WRITTEN)
    order = (TopicOutcome.OVERTAKEN, TopicOutcome.WAITING, TopicOutcome.STUCK, TopicOutcome.WRITTEN)
    overall = next((kind for kind in order if kind in found.values()), TopicOutcome.UNCHANGED)
    kept = {topic: waiting[topic] for topic in pending if waiting.get(topic)}
    return WaitReport(overall, sentences, kept, confirmed, pending, fields)


def _nudge(c: Coordinator, stored: Stored, snapshot: Observation) -> None:
    """Send the topic node to detached consumers that must act on it. Without ZooKeeper they cannot read it."""
    node, world = stored.view.node, snapshot.world
    if node is None:
        return
    for consumer in blockers(stored.view, world):
        incarnation = node.incarnations.get(consumer, 0)
        claim = world.claims.get(consumer)
        if claim is not None and presence(consumer, incarnation, world, c.policy) is Presence.DETACHED:
            member = Member(consumer, incarnation, claim.address, claim.boot_id)
            c.statuses.post_topic(member, stored.view.topic, codec.encode_node(node, 0 if stored.view.packed else None))


def _report(stored: Stored, decision: Decision) -> TopicReport:
    before = stored.view.state
    after = decision.state or before
    node = decision.node or stored.view.node
    return TopicReport(
        topic=stored.view.topic,
        before=before.state if before is not None else State.INITIAL,
        after=after.state if after is not None else State.INITIAL,
        outcome=decision.outcome,
        reason=decision.reason,
        moves=decision.record.moves if decision.record is not None else (),
        blockers=tuple(decision.blockers or ()),
        epoch=node.epoch if node is not None else 0,
        rebalance=after.rebalance if after is not None else "",
        explanation=decision.explanation,
        left_out=decision.left_out,
        approval=decision.approval,
        settled=decision.settled,
        causes=decision.record.causes if decision.record is not None else (),
    )


def _held(stored: Stored, error: Exception) -> TopicReport:
    return _report(stored, Decision(TopicOutcome.HELD, str(error)))
