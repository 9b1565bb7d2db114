"""The next topic node and state, as a draft: the rules for moving partitions.

Rules (2 and 6 of the hand-off in the design):
- Possible owners of a partition are the consumers in `toClose`, the taker of the hand-off and the assignee. Lost
  consumers are not possible owners. By a release of the present hand-off, the giver confirms its close.
- A partition is assigned at once if no consumer but the new target is a possible owner. If there is one other possible
  owner, the partition is handed off. If there are several, all of them go into `toClose`, without a hand-off (the
  barrier). A guarded partition goes through the barrier too: its former owner may still commit, and only a start after
  the barrier guards against such a commit.
- A partition is assigned to its target when its last possible owner is confirmed closed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coordinator_tasks.core.grouped import grouped
from coordinator_tasks.core.machine.world import TopicView
from coordinator_tasks.core.model import (
    CONFIGURED,
    Explanation,
    Handoff,
    Move,
    MoveKind,
    Release,
    Seek,
    State,
    StateOnReset,
    TopicConfig,
    TopicNode,
    TopicState,
)
from coordinator_tasks.core.protocol.holding import releases_entry


@dataclass(slots=True)
class Draft:
    """Mutable draft of node and state. `epoch`: the epoch of the new node. `draft_of` makes a draft. `node_of` and
    `label` return the results.

    - `former`: partition → lost former owner.
    - `explanation`: the strategy's reasons for its moves.
    - `kept`: the part of the explanation that fits into the history.
    """

    epoch: int
    generation: str
    releases: Mapping[int, Release]
    assignments: dict[int, str] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    handoff: dict[int, Handoff] = field(default_factory=dict)
    to_close: dict[int, set[str]] = field(default_factory=dict)
    to_start: dict[int, str] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    incarnations: dict[str, int] = field(default_factory=dict)
    guarded: set[int] = field(default_factory=set)
    seeks: dict[int, Seek] = field(default_factory=dict)
    supersedes: Mapping[str, int] = field(default_factory=dict)
    former: dict[int, str] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    explanation: Explanation | None = None
    kept: Explanation | None = None

    def owners(self, partition: int) -> set[str]:
        """Return the consumers that may run the partition now (rule 2). Lost consumers are already dropped."""
        found = set(self.to_close.get(partition, ()))
        entry = self.handoff.get(partition)
        if entry is not None:
            found.add(entry.taker)
            if self._released(partition):
                found.discard(entry.giver)
        owner = self.assignments.get(partition)
        if owner is not None:
            found.add(owner)
        return found

    def targets(self, partitions: Iterable[int]) -> dict[int, str]:
        """Return partition → owner or taker. Partitions with neither are left out."""
        takers = {partition: entry.taker for partition, entry in self.handoff.items()}
        found = {**self.to_start, **self.assignments, **takers}
        return {partition: found[partition] for partition in partitions if partition in found}

    def in_flight(self) -> set[int]:
        """Return the partitions with an unconfirmed close or start."""
        return self.to_close.keys() | self.to_start.keys()

    def runs(self, partition: int) -> bool:
        """Return whether the partition's owner has confirmed the start."""
        return partition in self.assignments and partition not in self.to_start and partition not in self.to_close

    def holders(self) -> set[str]:
        """Return the consumers that run, may run or will get a partition."""
        consumers = set(self.assignments.values()) | self.movers()
        for entry in self.handoff.values():
            consumers |= {entry.giver, entry.taker}
        return consumers

    def movers(self) -> set[str]:
        """Return the consumers that have to close a partition, or will get a partition from another consumer."""
        takers = {taker for p, taker in self.to_start.items() if p not in self.assignments}
        return takers.union(*self.to_close.values())

    def forget(self, partition: int) -> None:
        for entries in (self.assignments, self.since, self.handoff, self.to_close, self.to_start, self.epochs):
            entries.pop(partition, None)

    def move(self, partition: int, taker: str) -> None:
        """Send the partition to a new target: at once, by a hand-off or through the barrier."""
        owners = self.owners(partition)
        giver = next(iter(sorted(owners)), self.former.get(partition, ""))
        self.forget(partition)
        self.epochs[partition] = self.epoch
        self.to_start[partition] = taker
        if owners <= {taker}:
            self.assignments[partition] = taker
            self.since[partition] = self.epoch
            kind = MoveKind.START
        elif len(owners) == 1 and partition not in self.guarded:
            self.handoff[partition] = Handoff(giver, taker, self.epoch)
            self.to_close[partition] = owners
            kind = MoveKind.HANDOFF
        else:
            self.to_close[partition] = owners
            kind = MoveKind.BARRIER
        self.moves.append(Move(partition, giver, taker, kind))

    def adopt(self, partition: int, consumer: str, since: int) -> None:
        """Let the consumer keep the partition, held since the epoch `since`, and wait for the confirmation."""
        self.assignments[partition] = self.to_start[partition] = consumer
        self.since[partition] = since
        self.epochs[partition] = self.epoch
        self.moves.append(Move(partition, consumer, consumer, MoveKind.ADOPT))

    def stop(self, partition: int) -> None:
        """Close the partition everywhere, without a new owner."""
        owners = self.owners(partition)
        self.forget(partition)
        if owners:
            self.to_close[partition] = owners
            self.epochs[partition] = self.epoch
        self.moves.append(Move(partition, next(iter(sorted(owners)), ""), "", MoveKind.STOP))

    def restart(self, partition: int) -> None:
        """Let the owner start the partition again, from the committed position."""
        owner = self.assignments[partition]
        self.since[partition] = self.epochs[partition] = self.epoch
        self.to_start[partition] = owner
        self.moves.append(Move(partition, owner, owner, MoveKind.RESTART))

    def seek(self, partition: int, offset: int, state: StateOnReset | None = None) -> None:
        """Let the partition continue at `offset`, at the present owner or else at the next owner.

        The caller makes sure that only the assignee may run the partition. Another consumer could continue from a
        position before the seek.
        """
        self.seeks[partition] = Seek(offset, self.epoch, state)
        if partition in self.assignments:
            self.restart(partition)

    def close_confirmed(self, partition: int, consumers: Collection[str]) -> None:
        """Note that these consumers have confirmed the close. After the last close the target gets the partition."""
        remaining = self.to_close.get(partition, set()) - set(consumers)
        if remaining:
            self.to_close[partition] = remaining
            return
        self.to_close.pop(partition, None)
        entry = self.handoff.pop(partition, None)
        taker = entry.taker if entry is not None else self.to_start.get(partition)
        if taker is None:
            self.epochs.pop(partition, None)
            return
        self.assignments[partition] = taker
        self.since[partition] = self.epochs[partition] = entry.epoch if entry is not None else self.epoch

    def drop_lost(self, lost: Collection[str], over: Collection[str], awaited: Collection[str] = ()) -> set[int]:
        """Take all partitions from `lost` consumers (isolated or gone). Return the changed partitions.

        `awaited` consumers have ended too, but their partitions wait for the next process. So an awaited consumer loses
        only its pending closes, and its pending starts of partitions that another consumer gives up. `over` lists the
        ended consumers without a live process. If the former owner is not in `over`, it may still commit, so the
        partition is guarded.
        """
        touched: set[int] = set()
        ended = {*lost, *awaited}
        may_live = ended - set(over)
        for partition, owner in list(self.assignments.items()):
            if owner in lost:
                self.forget(partition)
                self.former[partition] = owner
                self._guard(partition, owner in may_live)
                touched.add(partition)
        for partition, taker in list(self.to_start.items()):
            if taker in lost or (taker in awaited and partition not in self.assignments):
                self._drop_taker(partition, taker, taker in may_live)
                touched.add(partition)
        for partition, owners in list(self.to_close.items()):
            closed = owners & ended
            if closed:
                self._guard(partition, bool(closed & may_live) and not self._released(partition))
                self.close_confirmed(partition, closed)
                touched.add(partition)
        return touched

    def _drop_taker(self, partition: int, taker: str, may_live: bool) -> None:
        """Drop the lost taker of a partition in flight. The other possible owners still have to close the partition."""
        released = self._released(partition)
        entry = self.handoff.pop(partition, None)
        self.to_start.pop(partition)
        self.former[partition] = taker
        # The taker may have read a release that was written after our read, and started.
        self._guard(partition, entry is not None and may_live)
        if released:
            # The release confirms the giver's close, so only the taker could have started.
            self.to_close.pop(partition, None)
            self.epochs.pop(partition, None)

    def _released(self, partition: int) -> bool:
        entry, release = self.handoff.get(partition), self.releases.get(partition)
        return entry is not None and release is not None and releases_entry(release, entry, self.generation)

    def _guard(self, partition: int, needed: bool) -> None:
        if needed:
            self.guarded.add(partition)


def draft_of(view: TopicView, fresh: str) -> Draft:
    """Return a draft with everything as stored; `fresh` names the generation if there is no node."""
    node, state = view.node, view.state
    draft = Draft(1, fresh, view.releases)
    if node is not None:
        draft = Draft(node.epoch + 1, node.generation, view.releases, supersedes=node.supersedes)
        draft.assignments = dict(node.assignments)
        draft.since = dict(node.since)
        draft.handoff = dict(node.handoff)
        draft.incarnations = dict(node.incarnations)
    if state is not None:
        closers = grouped((p, consumer) for consumer, partitions in state.to_close.items() for p in partitions)
        draft.to_close = {partition: set(consumers) for partition, consumers in closers.items()}
        draft.to_start = {p: c for c, ps in state.to_start.items() for p in ps}
        draft.epochs = dict(state.epochs)
    if node is not None:
        # A confirmed start ends guard and seek, but does not rewrite the node. So drop finished guards and seeks here.
        draft.guarded = {p for p in node.guarded if not draft.runs(p)}
        draft.seeks = {p: seek for p, seek in node.seeks.items() if not draft.runs(p)}
    return draft


def label(of: Draft | TopicState) -> State:
    """Return the state that sums up the partitions."""
    if of.to_close:
        return State.CLOSING
    return State.STARTING if of.to_start else State.STABLE


def by_consumer(pairs: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    """Return consumer → partitions, both sorted."""
    return {consumer: tuple(partitions) for consumer, partitions in grouped(sorted(pairs)).items()}


def node_of(draft: Draft, config: TopicConfig) -> TopicNode:
    """Return the topic node of the draft, with the current configuration of the topic."""
    holders = draft.holders()
    return TopicNode(
        **{name: getattr(config, name) for name in CONFIGURED},
        epoch=draft.epoch,
        generation=draft.generation,
        assignments=dict(sorted(draft.assignments.items())),
        since=dict(sorted(draft.since.items())),
        handoff=dict(sorted(draft.handoff.items())),
        incarnations={c: i for c, i in sorted(draft.incarnations.items()) if c in holders},
        guarded=frozenset(p for p in draft.guarded if not draft.runs(p)),
        supersedes=dict(draft.supersedes),
        seeks={p: seek for p, seek in sorted(draft.seeks.items()) if not draft.runs(p)},
    )


def unless_same(old: TopicNode | None, new: TopicNode, same: bool) -> TopicNode | None:
    """Return the new node, or `None` if no write is needed.

    `same`: the partitions are unchanged. Then no write is needed unless the configuration has changed.
    """
    if not same or old is None:
        return new
    # No consumer waits for the removal of finished seeks, so the next write drops them.
    alike = _without_epoch(new) == _without_epoch(old) and new.seeks.items() <= old.seeks.items()
    return None if alike else new


def _without_epoch(node: TopicNode) -> tuple[object, ...]:
    """Return the part of the node that consumers act on, without epoch, guards and incarnations."""
    return (dict(node.assignments), dict(node.since), dict(node.handoff), *configured(node))


def configured(one: TopicNode | TopicConfig) -> tuple[object, ...]:
    """Return the configuration fields that the topic's node repeats."""
    return tuple(getattr(one, name) for name in CONFIGURED)
