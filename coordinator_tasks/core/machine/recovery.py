"""Recovery: the first plan of a topic, and plans after ZooKeeper was lost or restored. Epochs never decrease, and
running partitions count as owned.

A recovery is needed when
- the topic's node or state is missing;
- an acted or committed epoch is larger than the node's, or the node does not supersede a consumer's generation;
- an owner runs a partition under a newer holding than the node says, or the commit of a surviving former owner fences
  the owner's start;
- a consumer holds other partitions than the node says at the node's own epoch. A plan was then made on a restored node
  while the consumer did not answer, so the same epoch was given out twice.

Rules:
- An epoch that the topic cannot have reached is no evidence (`fence.is_far_ahead`). A consumer whose answers have
  caused several recoveries is `doubted`: it causes no further recovery, keeps its partitions, and gets no more.
- Every registered consumer is asked. If traces of an earlier generation exist, the recovery waits for silent consumers.
- The new node has a new generation. Its epoch is 1 + the largest of the node's, acted and committed epochs.
  `supersedes` lists the epochs that went into the node, so that consumers of the older generations may accept the node.
- A partition is adopted, and goes on undisturbed, if exactly one consumer runs the partition, held the partition (by the
  node) or made its last commit. With several such consumers the partition goes through the barrier. So all partitions must be listed.
- A pending seek is kept, under its own epoch. A commit under a later epoch proves that the seek is done.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from coordinator_tasks.core.machine.draft import Draft, draft_of
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import Cause, CauseKind, Token, TopicNode, TopicStatus
from coordinator_tasks.core.protocol.fence import is_far_ahead
from coordinator_tasks.core.protocol.holding import all_may_hold

_SHOWN = 10  # largest number of sentences about single partitions


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery. In `draft`, every partition that may run has an owner. Write the draft once `blockers` is empty.

    `blockers`: consumer, or `kafka` or `partitions` → the missing answer. `objectors`: consumers whose answers
    contradict the stored node.
    """

    cause: Cause
    draft: Draft
    blockers: Mapping[str, str]
    objectors: frozenset[str]


class _Acted(NamedTuple):
    """A consumer that has acted on a node of the topic: its status, and the largest epoch in the status."""

    consumer: str
    incarnation: int
    status: TopicStatus
    newest: int


class _Commit(NamedTuple):
    """Owner and token of a partition's last commit."""

    owner: str
    token: Token


@dataclass(frozen=True, slots=True)
class _Holding:
    """The right of a consumer to run a partition since this epoch; 0 means unknown.

    `running`: the epoch under which the partition runs and stays; 0 if it does not run, closes, or is not asked.
    """

    epoch: int
    incarnation: int
    running: int = 0


def needed(view: TopicView, world: World) -> Recovery | None:
    """Return the needed recovery; `None` if the node, the state and the consumers' answers agree."""
    node, commits = view.node, _commits(view, world)
    acted = list(_acted(view.topic, world))
    known = [item for item in acted if not is_far_ahead(item.newest, _stored(view))]
    committed = max((item.token.epoch for item in commits.values()), default=0)
    newest = max([committed, *(item.newest for item in known)])
    objections: dict[str, Cause] = {}
    if node is not None and view.state is not None:
        objections = _objections(view, world, acted)
        cause = next(iter(objections.values()), None) or _of_commits(node, commits, world)
        if cause is None:
            return None
    else:
        cause = _missing(view, newest)
    old = _stored(view)
    draft = Draft(1 + max(old, newest), world.fresh, view.releases, supersedes=_supersedes(node, known))
    if node is not None:
        draft.guarded = set(node.guarded)
        if node.topic_id == view.config.topic_id:
            # Without the state, nothing tells which starts were confirmed. The running holding and the commits of the
            # partition's owner show whether a seek is done.
            draft.seeks = dict(node.seeks) if view.state is None else draft_of(view, world.fresh).seeks
    _adopt(draft, view, world, commits)
    return Recovery(cause, draft, _blockers(view, world, old + newest > 0), frozenset(objections))


def doubted(view: TopicView, world: World, policy: Policy) -> dict[str, str]:
    """Return consumer → why its answer on this topic does not count: impossible, or cause of too many recoveries."""
    stored, reasons = _stored(view), dict[str, str]()
    for consumer, times in noted(view, world, policy).items():
        if len(times) >= policy.flap_registrations:
            reasons[consumer] = (
                f"the answers of {consumer} have led to {len(times)} recoveries of topic {view.topic}, and are no longer "
                f"believed: {_remedy(consumer, world)}"
            )
    for consumer, _, _, newest in _acted(view.topic, world):
        if is_far_ahead(newest, stored):
            reasons[consumer] = (
                f"{consumer} answers with epoch {newest} of topic {view.topic}, which it cannot have reached "
                f"(stored is {stored}): its answer is left out; {_remedy(consumer, world)}"
            )
    return reasons


def _remedy(consumer: str, world: World) -> str:
    asked = world.directives.get(consumer)
    if asked is None or asked.isolation is None:
        return "restart it, or isolate it"
    return "it is isolated, so nothing is left to do; `readmit` admits its next process"


def outliers(view: TopicView, world: World) -> tuple[str, ...]:
    """Return a sentence for each commit with an epoch that the topic cannot have reached."""
    stored = _stored(view)
    return tuple(
        f"partition {p} was committed under epoch {entry.token.epoch} by {entry.owner}, which topic {view.topic} cannot "
        f"have reached (stored is {stored}): that is left out, and its owner commits it again"
        for p, entry in sorted((world.committed or {}).items())
        if entry.token is not None and is_far_ahead(entry.token.epoch, stored)
    )[:_SHOWN]


def noted(
    view: TopicView, world: World, policy: Policy, objectors: Collection[str] = ()
) -> dict[str, tuple[float, ...]]:
    """Return consumer → times of the recoveries that the consumer's answers caused. `objectors` cause a recovery now.

    A consumer is forgotten once its answer agrees and its last recovery is `flap_window_s` ago.
    """
    before = view.state.recovered if view.state is not None else {}
    objecting = _objections(view, world, _acted(view.topic, world)) if before else {}
    times_of = {
        consumer: times
        for consumer, times in before.items()
        if consumer in objecting or 0 <= world.now - max(times, default=0.0) < policy.flap_window_s
    }
    for consumer in objectors:
        times_of[consumer] = (*times_of.get(consumer, ()), world.now)[-policy.flap_registrations :]
    return times_of


def _stored(view: TopicView) -> int:
    return view.node.epoch if view.node is not None else 0


def _missing(view: TopicView, newest: int) -> Cause:
    if view.node is None and view.state is None and not newest:
        return Cause(CauseKind.FIRST)
    lost = tuple(name for name, there in (("node", view.node), ("state", view.state)) if there is None)
    return Cause(CauseKind.LOST, lost)


def _acted(topic: str, world: World) -> Iterator[_Acted]:
    """Yield the consumers that have acted on the topic, by name."""
    for consumer, status in world.naming(topic).items():
        one = status.topics[topic]
        if one.acted_epoch > 0:
            # A held epoch may be newer than the acted one.
            running = (partition.token.epoch for partition in one.running.values())
            yield _Acted(consumer, status.incarnation, one, max([one.acted_epoch, *one.held.values(), *running]))


def _commits(view: TopicView, world: World) -> dict[int, _Commit]:
    """Return partition → last commit, if its token is of this topic id and the epoch is possible."""
    stored, topic_id = _stored(view), view.config.topic_id
    return {
        p: _Commit(entry.owner, token)
        for p, entry in (world.committed or {}).items()
        if (token := entry.token) is not None and entry.topic_id == topic_id and not is_far_ahead(token.epoch, stored)
    }


def _objections(view: TopicView, world: World, acted: Iterable[_Acted]) -> dict[str, Cause]:
    """Return consumer → how its answer contradicts the stored node. Ignored answers are left out."""
    node = view.node
    if node is None:
        return {}
    given = {} if node.removed else all_may_hold(node)
    objections: dict[str, Cause] = {}
    for consumer, incarnation, status, newest in acted:
        if consumer in world.doubted or is_far_ahead(newest, node.epoch):
            continue
        own = given.get(consumer, {}) if node.incarnations.get(consumer) == incarnation else {}
        cause = _disagreement(node, consumer, status, newest) or _given_out_twice(node, consumer, status, own)
        if cause is not None:
            objections[consumer] = cause
    return objections


def _disagreement(node: TopicNode, consumer: str, status: TopicStatus, newest: int) -> Cause | None:
    """Return how the answer contradicts the node; `None` if the answer agrees."""
    if status.generation == node.generation and status.acted_epoch > node.epoch:
        why = f"{consumer} has acted on epoch {status.acted_epoch}, stored is {node.epoch}"
        return Cause(CauseKind.RESTORED, why=why)
    covered = node.supersedes.get(status.generation, -1)
    if status.generation != node.generation and covered < status.acted_epoch:
        why = f"{consumer} acts on generation {status.generation}, stored is {node.generation}"
        return Cause(CauseKind.FORGOTTEN, why=why)
    for partition, one in sorted(status.running.items()):
        stored = node.since.get(partition, one.token.epoch)
        if node.assignments.get(partition) == consumer and one.token.epoch > stored:
            why = f"{consumer} runs partition {partition} since {one.token.epoch}, stored is {stored}"
            return Cause(CauseKind.RESTORED, why=why)
    if newest > node.epoch:
        return Cause(CauseKind.RESTORED, why=f"{consumer} holds something since epoch {newest}, stored is {node.epoch}")
    return None


def _given_out_twice(node: TopicNode, consumer: str, status: TopicStatus, own: Mapping[int, int]) -> Cause | None:
    """Return how the answer proves that the node's epoch was given out twice; `None` if there is no proof."""
    if node.removed or (status.generation, status.acted_epoch) != (node.generation, node.epoch):
        return None
    # An empty `held` proves nothing: the consumer may still see an isolation that has been lifted.
    if status.held and status.held != own:
        why = f"{consumer} has acted on another epoch {node.epoch} than the one that is stored"
        return Cause(CauseKind.RESTORED, why=why)
    return None


def _of_commits(node: TopicNode, commits: Mapping[int, _Commit], world: World) -> Cause | None:
    """Return how the commits contradict the node; `None` if they agree.

    If the committer is not registered, a consumer was lost after a restore, or a foreign client forged a token.
    """
    newest = max(commits, key=lambda partition: commits[partition].token.epoch, default=-1)
    if newest >= 0 and commits[newest].token.epoch > node.epoch:
        owner, epoch = commits[newest].owner, commits[newest].token.epoch
        if owner in world.members:
            return Cause(CauseKind.RESTORED, why=f"epoch {epoch} was committed, stored is {node.epoch}")
        why = f"{owner}, which is not registered, committed partition {newest} under epoch {epoch}, stored is {node.epoch}"
        return Cause(CauseKind.FOREIGN, why=why)
    for partition, one in sorted(commits.items()):
        if _bars(node, partition, one.token):
            life = f"epoch {one.token.epoch} of generation {one.token.generation}"
            why = f"{one.owner} committed partition {partition} at {life}, stored is {node.generation}"
            return Cause(CauseKind.FORGOTTEN, why=why)
    return None


def _bars(node: TopicNode | None, partition: int, token: Token) -> bool:
    """Return whether a silent former owner's commit fences the owner that the node names."""
    if node is None or token.generation == node.generation or partition not in node.since:
        return False
    return node.since[partition] <= token.epoch and node.supersedes.get(token.generation, -1) < token.epoch


def _supersedes(node: TopicNode | None, acted: Collection[_Acted]) -> dict[str, int]:
    found = {**node.supersedes, node.generation: node.epoch} if node is not None else {}
    for _, _, status, _ in acted:
        found[status.generation] = max(found.get(status.generation, 0), status.acted_epoch)
    return found


def _blockers(view: TopicView, world: World, older_life: bool) -> dict[str, str]:
    if world.committed is None:
        return {"kafka": "the brokers do not say what is committed"}
    if not older_life:
        return {}
    if not view.config.removed:  # a removed topic stops everywhere, even if Kafka has a new topic of this name
        if view.description is None:
            return {"kafka": "the brokers do not say how many partitions there are"}
        count = view.description.partition_count
        if len(view.partitions) < count:
            # Only a partition that runs keeps its token: its own commits would fence a restart under an old epoch. A
            # newer holding may have begun since the consumer was asked.
            return {"partitions": f"{len(view.partitions)} of {count} partitions of the topic are listed so far"}
    silent = [c for c in sorted(world.members) if world.status(c) is None]
    excused = {c for c in silent if world.life(c, world.members[c].incarnation).isolation is not None}
    return {c: f"{c} is registered but does not answer" for c in silent if c not in excused}


def _adopt(draft: Draft, view: TopicView, world: World, commits: Mapping[int, _Commit]) -> None:
    """Let the only possible owner adopt its partition. If a partition has several possible owners, all close it first."""
    by_node, by_answer = _by_node(view), _by_answer(view.topic, world, _stored(view))
    for partition in view.partitions:
        stored, said = by_node.get(partition, {}), by_answer.get(partition, {})
        holders = {**stored, **said}
        commit, committed, barred = commits.get(partition), 0, False
        if commit is not None:
            committed, barred = commit.token.epoch, _bars(view.node, partition, commit.token)
            if barred or (committed > view.node.epoch if view.node is not None else not holders):
                holders = {**_last_owner(commit, world), **holders}
        for consumer, one in holders.items():
            draft.incarnations[consumer] = max(one.incarnation, draft.incarnations.get(consumer, 0))
        if len(holders) == 1:
            ((consumer, one),) = holders.items()
            # A newer holding may have begun since the consumer was asked.
            newest = max(one.epoch, committed, stored[consumer].epoch if consumer in stored else 0)
            seek = draft.seeks.get(partition)
            begun = seek is None or one.running >= seek.epoch
            keeps = 0 < one.running >= newest and begun and not barred
            if keeps:
                draft.seeks.pop(partition, None)
            draft.adopt(partition, consumer, one.running if keeps else draft.epoch)
        elif holders:
            draft.to_close[partition] = set(holders)
            draft.epochs[partition] = draft.epoch


def _by_answer(topic: str, world: World, stored: int) -> dict[int, dict[str, _Holding]]:
    """Return partition → consumer → the holding that the consumer reports. The partition runs, or is about to start."""
    holdings: dict[int, dict[str, _Holding]] = {}
    for consumer, incarnation, status, _ in _acted(topic, world):
        for partition in status.held.keys() | status.running.keys():
            active = status.running.get(partition)
            runs = active.token.epoch if active is not None else 0
            epoch = max(runs, status.held.get(partition, 0))
            # An impossible epoch does not count, but the consumer may run the partition.
            known = 0 if is_far_ahead(epoch, stored) else epoch
            running = 0 if active is None or active.closing or is_far_ahead(runs, stored) else runs
            holdings.setdefault(partition, {})[consumer] = _Holding(known, incarnation, running)
    return holdings


def _by_node(view: TopicView) -> dict[int, dict[str, _Holding]]:
    """Return partition → consumer → the holding that the stored node and state give."""
    node, holdings = view.node, dict[int, dict[str, _Holding]]()
    if node is None:
        return holdings
    held = [(p, consumer, node.since[p]) for p, consumer in node.assignments.items()]
    held += [(p, consumer, one.epoch) for p, one in node.handoff.items() for consumer in (one.giver, one.taker)]
    closing = view.state.to_close if view.state is not None else {}
    held += [(p, consumer, 0) for consumer, partitions in closing.items() for p in partitions]
    for partition, consumer, epoch in held:
        holding = _Holding(epoch, node.incarnations.get(consumer, 0))
        holdings.setdefault(partition, {}).setdefault(consumer, holding)
    return holdings


def _last_owner(commit: _Commit, world: World) -> dict[str, _Holding]:
    """Return the consumer of the last commit; empty if the same incarnation answers and so lists the partitions it
    runs.
    """
    status = world.status(commit.owner)
    if status is not None and status.incarnation == commit.token.incarnation:
        return {}
    return {commit.owner: _Holding(commit.token.epoch, commit.token.incarnation)}
