"""The production rules as steps of the exhaustive search: next steps of consumers, faults, persons and the coordinator.

Nodes, topic states and releases are numbers in tables here, so that states are small and are compared by number.
"""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TypeVar

from coordinator_tasks.core.codecs.codec import encode_node
from coordinator_tasks.core.machine import invariants, recovery
from coordinator_tasks.core.machine.confirm import not_running, why_not_closed, why_not_started
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.machine.machine import decide
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import (
    Actor,
    Answer,
    ConsumerStatus,
    Directive,
    Draining,
    Ending,
    IdClaim,
    Isolation,
    Member,
    Release,
    RunningPartition,
    Silence,
    Token,
    TopicConfig,
    TopicDescription,
    TopicNode,
    TopicState,
    TopicStatus,
    Unreachable,
)
from coordinator_tasks.core.protocol.holding import (
    Reading,
    accepts,
    changes,
    grants,
    may_hold,
    owes_release,
    releases_entry,
)
from tests.simulation.states import NAMES, Bounds, Found, Process, Shared, Written
from tests.world.node_steps import of_step

ACTOR = Actor("loop", "search")
POLICY = Policy(settle_s=0.0)
NOW = 1_000.0
GENERATION = "f00dfeedf00dfeed"
SILENT = Unreachable(Silence.SILENT, "no answer")
V = TypeVar("V")
Told = Process | Unreachable | None
Move = tuple[Process, int]  # how the consumer then stands, and the releases


class Rules:
    """`nodes`, `states` and `releases` by number.

    `releases` of a site are sorted by `offset`, which names the partition.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.nodes: list[TopicNode] = []
        self.states: list[TopicState] = []
        self.releases: list[tuple[Release, ...]] = []
        self._ids: dict[Hashable, int] = {}
        self._valid: set[tuple[int, ...]] = set()
        self._config = TopicConfig("t", "id-1", "h:1", "g", initial_partitions=bounds.partitions)
        self._description = TopicDescription("t", "id-1", bounds.partitions)
        self._partitions = tuple(range(bounds.partitions))

    def first(self) -> tuple[Shared, tuple[Process, ...]]:
        """Nothing was planned yet, and every consumer is there."""
        n = self.bounds.consumers
        shared = Shared((), -1, self.releases_id(()), (1,) * n, ((),) * n, (False,) * n, (False,) * n, 0, 0, 0, ())
        return shared, (started(1),) * n

    def epoch(self, shared: Shared) -> int:
        """Return the epoch of the stored node; 0 = no node."""
        return self.nodes[shared.versions[-1]].epoch if shared.versions else 0

    # Consumers --------------------------------------------------------------------------------------------------------

    def moves(self, n: int, process: Process, shared: Shared) -> Iterator[Move]:
        """Yield a consumer's possible moves; only versions, releases and the consumer's isolation matter."""
        picture = self.nodes[process.picture] if process.picture >= 0 else None
        same = shared.releases
        if process.sees_isolation != shared.isolated[n]:
            yield process._replace(sees_isolation=shared.isolated[n]), same
        for version in shared.versions:
            if accepts(picture, self.nodes[version]) is Reading.ACT:
                yield process._replace(picture=version), same
        name, isolated, runs = NAMES[n], process.sees_isolation, process.runs
        releases = {r.offset: r for r in self.releases[same]}
        running = {p: Token(epoch, process.incarnation) for p, epoch, _ in runs}
        closing = {p for p, _, closes in runs if closes}
        owed = owes_release(picture, name, process.incarnation, isolated)
        granted = grants(picture, name, process.incarnation, releases, isolated)
        todo = changes(granted, running, closing, owed, dict(process.released))
        for partition in todo.stop:
            yield process._replace(runs=tuple((p, e, c or p == partition) for p, e, c in runs)), same
        for partition in sorted(closing):
            yield process._replace(runs=tuple(one for one in runs if one[0] != partition)), same
        for grant in todo.start:
            begun = (grant.partition, grant.token.epoch, False)
            yield process._replace(runs=tuple(sorted((*runs, begun)))), same
        for partition in todo.release:
            epoch = owed[partition].epoch
            released = tuple(sorted({**dict(process.released), partition: epoch}.items()))
            yield process._replace(released=released), self._with_release(n, process, same, partition, epoch)

    def _with_release(self, n: int, process: Process, releases: int, partition: int, epoch: int) -> int:
        """Return the releases with this release, unless a newer one exists."""
        others = {r.offset: r for r in self.releases[releases]}
        old = others.pop(partition, None)
        if old is not None and old.epoch >= epoch:
            return releases
        mine = Release(epoch, NAMES[n], process.incarnation, partition, GENERATION, Token(0, 0))
        return self.releases_id(tuple(sorted((*others.values(), mine), key=lambda r: r.offset)))

    # Faults and people ------------------------------------------------------------------------------------------------

    def crashed(self, n: int, shared: Shared) -> Iterator[Shared]:
        """Yield the end of the process, known to its launcher."""
        if shared.crashes < self.bounds.crashes and not _guarded(n, shared):
            ended = put(shared.ended, n, (*shared.ended[n], shared.drawn[n]))
            yield shared._replace(ended=ended, crashes=shared.crashes + 1)

    @staticmethod
    def restarted(n: int, shared: Shared) -> Iterator[tuple[Shared, Process]]:
        """Yield a new start of an ended process."""
        drawn = shared.drawn[n] + 1
        if not _guarded(n, shared):
            yield shared._replace(drawn=put(shared.drawn, n, drawn)), started(drawn)

    def directed(self, n: int, shared: Shared) -> Iterator[Shared]:
        """Yield a person's isolation or drain, or the end of either."""
        if _guarded(n, shared):
            return
        if not shared.isolated[n] and shared.zombies < self.bounds.zombies:
            yield shared._replace(isolated=put(shared.isolated, n, True), zombies=shared.zombies + 1)
        if shared.draining[n]:
            yield shared._replace(draining=put(shared.draining, n, False))
        elif shared.drains < self.bounds.drains:
            yield shared._replace(draining=put(shared.draining, n, True), drains=shared.drains + 1)

    def confirms_nothing(self, n: int, process: Process, shared: Shared) -> bool:
        """Return whether an isolated consumer confirms running nothing: the readmission takes effect."""
        acted = self.nodes[process.picture].epoch if process.picture >= 0 else 0
        return not _guarded(n, shared) and process.sees_isolation and not process.runs and acted >= self.epoch(shared)

    # The coordinator --------------------------------------------------------------------------------------------------

    def stored(self, shared: Shared) -> Hashable:
        """Return the decision's whole input from the shared part: equal inputs have the same decision.

        The releases count if they match an entry of the stored node (`holding.releases_entry`; a plan's additions are
        newer than any). Every incarnation has ended except the last drawn of a live consumer, and `Ending` is the same
        for all; so the number of dead incarnations does not count.
        """
        if not shared.versions or shared.state < 0:
            return shared
        node = self.nodes[shared.versions[-1]]
        entries = ((node.handoff.get(r.offset), r) for r in self.releases[shared.releases])
        released = tuple(r.offset for e, r in entries if e is not None and releases_entry(r, e, node.generation))
        drawn = tuple(drawn if shared.alive(n) else 0 for n, drawn in enumerate(shared.drawn))
        return shared.versions[-1], shared.state, released, drawn, shared.isolated, shared.draining

    def heard(self, shared: Shared, n: int, told: Told) -> Hashable:
        """Return the decision's whole input from a consumer's answer to this node and state.

        Equal inputs have the same decision.

        `decide` reads answers in three ways. `recovery.needed` compares each answer with the node separately: a reason
        for all answers exists exactly if a reason for a single answer does; then, and before the first node, the whole
        answer counts. `confirm` returns missing confirmations of closes, if any; else of starts, for all at once; else,
        if Stable, of assigned partitions. `presence` asks about unregistered consumers, and `targets` about consumers
        that have never answered: here neither kind exists.
        """
        if not shared.versions or shared.state < 0 or told is None:
            return told
        name, node, state = NAMES[n], self.nodes[shared.versions[-1]], self.states[shared.state]
        world = World(NOW, answers={name: self._answer(n, told)})
        if recovery.needed(TopicView(self._config, node, state, self._partitions), world) is not None:
            return told
        if state.to_close:
            closing = [(p, state.epochs.get(p, node.epoch)) for p in state.to_close.get(name, ())]
            return tuple(not why_not_closed(name, p, "t", node, epoch, world) for p, epoch in closing)
        if state.to_start:
            starting = [(p, state.epochs.get(p, node.epoch)) for p in state.to_start.get(name, ())]
            return not any(why_not_started(name, p, "t", node, epoch, world) for p, epoch in starting)
        return not_running(name, "t", node, world)

    def writes(self, shared: Shared, told: tuple[Told, ...]) -> tuple[Written, ...]:
        """Return the coordinator's write with these answers, if any."""
        node = self.nodes[shared.versions[-1]] if shared.versions else None
        state = self.states[shared.state] if shared.state >= 0 else None
        releases = {r.offset: r for r in self.releases[shared.releases]}
        view = TopicView(self._config, node, state, self._partitions, releases, self._description)
        decision = decide(view, self._world(shared, told), POLICY, ACTOR)
        if decision.outcome is not TopicOutcome.WRITTEN or decision.state is None:
            return ()
        written = decision.node or node
        if written is None:
            raise Found(f"a state is written without a node: {decision}")
        relies = tuple(n for n in range(self.bounds.consumers) if NAMES[n] in decision.relies_on)
        number = -1 if decision.node is None else self.node_id(decision.node)
        found = Written(self.state_id(decision.state), number, relies)
        step = (*shared.versions[-1:], found.state, number)
        if step not in self._valid:
            if invariants.of_topic(written, decision.state):
                raise Found(f"what is written is not valid: {decision}")
            if decision.node is not None and node is not None and of_step(node, decision.node):
                raise Found(f"epochs fall: {decision}")
            self._valid.add(step)
        return (found,)

    def wrote(self, shared: Shared, written: Written) -> Shared:
        """The transaction is performed."""
        versions = shared.versions if written.node < 0 else (*shared.versions, written.node)[-1 - self.bounds.stale :]
        return shared._replace(versions=versions, state=written.state, looked=())

    def _answer(self, n: int, told: Process | Unreachable) -> Answer:
        if isinstance(told, Unreachable):
            return told
        topics = {}
        if told.picture >= 0:
            node = self.nodes[told.picture]
            held = may_hold(node, NAMES[n], told.incarnation, told.sees_isolation)
            runs = {
                p: RunningPartition(0, Token(epoch, told.incarnation, node.generation), True, closes)
                for p, epoch, closes in told.runs
            }
            topics["t"] = TopicStatus(node.generation, node.epoch, held, runs)
        return ConsumerStatus(NAMES[n], "c", told.incarnation, "boot", "ok", topics)

    def _world(self, shared: Shared, told: tuple[Told, ...]) -> World:
        places = range(len(told))
        return World(
            NOW,
            {
                NAMES[n]: Member(NAMES[n], shared.drawn[n], f"http://{NAMES[n]}", "boot")
                for n in places
                if shared.alive(n)
            },
            {
                NAMES[n]: IdClaim(
                    NAMES[n], drawn, answered=drawn, ended=dict.fromkeys(shared.ended[n], Ending.REAPED), version=1
                )
                for n, drawn in enumerate(shared.drawn)
            },
            {NAMES[n]: _directive(n, shared) for n in places if shared.isolated[n] or shared.draining[n]},
            {NAMES[n]: self._answer(n, one) for n, one in enumerate(told) if one is not None},
            fresh=GENERATION,
        )

    # Numbers ----------------------------------------------------------------------------------------------------------

    def node_id(self, node: TopicNode) -> int:
        """Return the number of a node with this content."""
        return self._number(("node", encode_node(node)), node, self.nodes)

    def state_id(self, state: TopicState) -> int:
        """Return the number of an equal state, ignoring the rebalance's name and the cause's text."""
        told = replace(state, rebalance="r" if state.rebalance else "", cause="", causes=())
        return self._number(("state", repr(told)), told, self.states)

    def releases_id(self, releases: tuple[Release, ...]) -> int:
        """Return the number of these releases."""
        return self._number(("releases", releases), releases, self.releases)

    def _number(self, key: Hashable, value: V, values: list[V]) -> int:
        found = self._ids.setdefault(key, len(values))
        if found == len(values):
            values.append(value)
        return found


def _guarded(n: int, shared: Shared) -> bool:
    """Return whether this consumer's next change voids a pending write: the look then has no effect."""
    return any(n in written.relies for written in shared.looked)


def _directive(n: int, shared: Shared) -> Directive:
    isolation = Isolation("ann", "", NOW) if shared.isolated[n] else None
    return Directive(NAMES[n], isolation, Draining("ann", "", NOW) if shared.draining[n] else None)


def started(incarnation: int) -> Process:
    """Return a process that was just started."""
    return Process(incarnation, -1, False, (), ())


def put(values: tuple, n: int, value: object) -> tuple:  # type: ignore[type-arg]
    """The tuple with this value at place `n`."""
    return (*values[:n], value, *values[n + 1 :])
