"""Planning from Initial, and after ZooKeeper was lost or restored: epochs never go back, what runs counts as owned.

Rules:
- Needed when the topic's node or state is missing, or when an acted or committed epoch is larger than the node's, or a
  consumer acts on a generation that the node does not supersede, or an owner runs under a newer holding than the node
  names, or its start is barred by the commit of one, or a consumer holds something else at the node's own epoch: that
  was given out twice, because a restored node was planned on while the consumer that knew of it did not answer.
- An epoch that the topic cannot have reached is nobody's evidence (`fence.is_far_ahead`), and a consumer whose word has
  led to recoveries again and again asks for none any more: it is named, keeps what it has, and gets nothing more.
- Every registered consumer is asked; where there are traces of an older life, one that does not answer is waited for.
- The new node has a new generation, an epoch of 1 + the largest of node, acted and committed, and says in `supersedes`
  what went into it, so that consumers of the older generations may accept it.
- A partition that one consumer runs, or held by the node, or last committed, is adopted: what runs goes on undisturbed.
  With several such consumers it goes through the barrier. So the list of partitions must be complete.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from coordinator_tasks.core.machine.draft import Draft
from coordinator_tasks.core.machine.presence import is_isolated
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import Committed, Move, MoveKind, Token, TopicNode, TopicStatus
from coordinator_tasks.core.protocol.fence import credible, is_far_ahead
from coordinator_tasks.core.protocol.holding import all_may_hold


@dataclass(frozen=True, slots=True)
class Recovery:
    """A draft in which everything that may run has its owner; `blockers` must answer first.

    `objectors`: the consumers whose word has led to it.
    """

    cause: str
    draft: Draft
    supersedes: dict[str, int]
    blockers: dict[str, str]
    adopted: bool
    objectors: frozenset[str] = frozenset()


_SHOWN = 10  # sentences about single partitions


def needed(view: TopicView, world: World) -> Recovery | None:
    """What has to be recovered, or `None` when node, state and the consumers' own word agree."""
    node = view.node
    acted = list(_acted(view.topic, world))
    known = [one for one in acted if not is_far_ahead(_newest(one[2]), _stored(view))]
    tokens = _tokens(view, world)
    committed = max((token.epoch for token, _ in tokens.values()), default=0)
    newest = max([committed, *(_newest(status) for _, _, status in known)])
    objections: dict[str, str] = {}
    if node is not None and view.state is not None:
        objections = _objections(view, world)
        cause = next(iter(objections.values()), None) or _of_commits(node, committed, tokens)
        if cause is None:
            return None
    else:
        cause = _missing(view, newest)
    old = node.epoch if node is not None else 0
    draft = Draft(1 + max(old, newest), world.fresh, view.releases)
    supersedes = _supersedes(node, known)
    _adopt(draft, view, world, tokens)
    blockers = _blockers(view, world, old + newest > 0)
    return Recovery(cause, draft, supersedes, blockers, bool(draft.holders()), frozenset(objections))


def doubted(view: TopicView, world: World, policy: Policy) -> dict[str, str]:
    """Consumer → why its word on this topic does not count: it cannot be true, or has been followed too often."""
    stored, found = _stored(view), dict[str, str]()
    for consumer, times in noted(view, world, policy).items():
        if len(times) >= policy.flap_registrations:
            found[consumer] = (
                f"the answers of {consumer} have led to {len(times)} recoveries of topic {view.topic}, and are no longer "
                "believed: restart it, or isolate it"
            )
    for consumer, _, status in _acted(view.topic, world):
        if is_far_ahead(_newest(status), stored):
            found[consumer] = (
                f"{consumer} answers with epoch {_newest(status)} of topic {view.topic}, which it cannot have reached "
                f"(stored is {stored}): its answer is left out; restart it, or isolate it"
            )
    return found


def outliers(view: TopicView, world: World) -> tuple[str, ...]:
    """The committed entries whose epoch the topic cannot have reached, in a sentence each."""
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
    """When whose word has led to recoveries, with those of now. It is forgotten once it is long ago, and the word agrees."""
    before = view.state.recovered if view.state is not None else {}
    objecting = _objections(view, world) if before else {}
    found = {
        consumer: times
        for consumer, times in before.items()
        if consumer in objecting or 0 <= world.now - max(times, default=0.0) < policy.flap_window_s
    }
    for consumer in objectors:
        found[consumer] = (*found.get(consumer, ()), world.now)[-policy.flap_registrations :]
    return found


def _stored(view: TopicView) -> int:
    return view.node.epoch if view.node is not None else 0


def _missing(view: TopicView, newest: int) -> str:
    if view.node is None and view.state is None and not newest:
        return "first plan"
    lost = " and ".join(name for name, there in (("node", view.node), ("state", view.state)) if there is None)
    return f"the topic's {lost} was lost"


def _acted(topic: str, world: World) -> Iterator[tuple[str, int, TopicStatus]]:
    """Consumer, incarnation and status of everybody who has acted on something in this topic."""
    for consumer in sorted(world.answers):
        status = world.status(consumer)
        if status is not None and topic in status.topics and status.topics[topic].acted_epoch > 0:
            yield consumer, status.incarnation, status.topics[topic]


def _newest(status: TopicStatus) -> int:
    """The largest epoch that a consumer knows of; a holding newer than what it has acted on is taken at its word."""
    held = [*status.held.values(), *(one.token.epoch for one in status.running.values())]
    return max([status.acted_epoch, *held])


def _tokens(view: TopicView, world: World) -> dict[int, tuple[Token, Committed]]:
    """Partition → the token of its committed entry, where it is one of ours for this very topic."""
    committed = {p: credible(entry, _stored(view)) for p, entry in (world.committed or {}).items()}
    return {
        p: (entry.token, entry)
        for p, entry in committed.items()
        if entry.token is not None and entry.topic_id == view.config.topic_id
    }


def _objections(view: TopicView, world: World) -> dict[str, str]:
    """Consumer → how its word contradicts the stored node, of those whose word is believed."""
    node = view.node
    if node is None:
        return {}
    given = {} if node.removed else all_may_hold(node)
    found: dict[str, str] = {}
    for consumer, incarnation, status in _acted(view.topic, world):
        if consumer in world.doubted or is_far_ahead(_newest(status), node.epoch):
            continue
        own = given.get(consumer, {}) if node.incarnations.get(consumer) == incarnation else {}
        cause = _disagreement(node, consumer, status) or _given_out_twice(node, consumer, status, own)
        if cause is not None:
            found[consumer] = cause
    return found


def _disagreement(node: TopicNode, consumer: str, status: TopicStatus) -> str | None:
    if status.generation == node.generation and status.acted_epoch > node.epoch:
        return f"ZooKeeper was restored: {consumer} has acted on epoch {status.acted_epoch}, stored is {node.epoch}"
    covered = node.supersedes.get(status.generation, -1)
    if status.generation != node.generation and covered < status.acted_epoch:
        return f"ZooKeeper was lost: {consumer} acts on generation {status.generation}, stored is {node.generation}"
    for partition, one in sorted(status.running.items()):
        stored = node.since.get(partition, one.token.epoch)
        if node.assignments.get(partition) == consumer and one.token.epoch > stored:
            return f"ZooKeeper was restored: {consumer} runs partition {partition} since {one.token.epoch}, stored is {stored}"
    if _newest(status) > node.epoch:
        return (
            f"ZooKeeper was restored: {consumer} holds something since epoch {_newest(status)}, stored is {node.epoch}"
        )
    return None


def _given_out_twice(node: TopicNode, consumer: str, status: TopicStatus, own: Mapping[int, int]) -> str | None:
    if node.removed or (status.generation, status.acted_epoch) != (node.generation, node.epoch):
        return None
    # Nothing at all: it may still see an isolation that has been lifted.
    if status.held and status.held != own:
        return f"ZooKeeper was restored: {consumer} has acted on another epoch {node.epoch} than the one that is stored"
    return None


def _of_commits(node: TopicNode, committed: int, tokens: dict[int, tuple[Token, Committed]]) -> str | None:
    if committed > node.epoch:
        return f"ZooKeeper was restored: epoch {committed} was committed, stored is {node.epoch}"
    return _barred_start(node, tokens)


def _barred_start(node: TopicNode, tokens: dict[int, tuple[Token, Committed]]) -> str | None:
    for partition, (token, entry) in sorted(tokens.items()):
        if _bars(node, partition, token):
            life = f"epoch {token.epoch} of generation {token.generation}"
            return f"ZooKeeper was lost: {entry.owner} committed partition {partition} at {life}, stored is {node.generation}"
    return None


def _bars(node: TopicNode | None, partition: int, token: Token) -> bool:
    """Whether a survivor that no consumer's answer has shown fences the one that the node names."""
    if node is None or token.generation == node.generation or partition not in node.since:
        return False
    return node.since[partition] <= token.epoch and node.supersedes.get(token.generation, -1) < token.epoch


def _supersedes(node: TopicNode | None, acted: list[tuple[str, int, TopicStatus]]) -> dict[str, int]:
    found = {**node.supersedes, node.generation: node.epoch} if node is not None else {}
    for _, _, status in acted:
        found[status.generation] = max(found.get(status.generation, 0), status.acted_epoch)
    return found


def _blockers(view: TopicView, world: World, older_life: bool) -> dict[str, str]:
    if world.committed is None:
        return {"kafka": "the brokers do not say what is committed"}
    if not older_life:
        return {}
    if not view.config.removed:  # of a removed one everything stops, whatever Kafka has under its name now
        if view.description is None:
            return {"kafka": "the brokers do not say how many partitions there are"}
        count = view.description.partition_count
        if len(view.partitions) < count:
            # What is listed later would have no owner by the new node, and be given away while somebody runs it.
            return {"partitions": f"{len(view.partitions)} of {count} partitions of the topic are listed so far"}
    silent = [c for c in sorted(world.members) if world.status(c) is None]
    excused = {c for c in silent if is_isolated(c, world.members[c].incarnation, world)}
    return {c: f"{c} is registered but does not answer" for c in silent if c not in excused}


def _adopt(draft: Draft, view: TopicView, world: World, tokens: dict[int, tuple[Token, Committed]]) -> None:
    """Enter everybody who may run a partition as its owner, and who that is by incarnation."""
    stored_epoch = _stored(view)
    runners, running = _runners(view.topic, world, stored_epoch), _running(view.topic, world, stored_epoch)
    known = view.node.epoch if view.node is not None else 0
    for partition in view.partitions:
        own_word, stored = runners.get(partition, {}), _held(view, partition)
        since = {**stored, **own_word}
        committed = tokens[partition][0].epoch if partition in tokens else 0
        barred = partition in tokens and _bars(view.node, partition, tokens[partition][0])
        if barred or (partition in tokens and (committed > known if view.node is not None else not since)):
            since = {**_last_owner(*tokens[partition], world), **since}
        for consumer, (_, incarnation) in since.items():
            draft.incarnations[consumer] = max(incarnation, draft.incarnations.get(consumer, 0))
        if len(since) == 1:
            ((consumer, (epoch, _)),) = since.items()
            # Only what runs goes on under its token: what started anew under that epoch would meet its own commits of
            # the former generation, and below the committed one it would be fenced. What its picture or the node gives
            # it anew it may have begun since it was asked.
            runs = running.get((consumer, partition), 0)
            goes_on = 0 < runs >= max(epoch, committed, stored.get(consumer, (0, 0))[0]) and not barred
            _enter(draft, partition, consumer, runs if goes_on else draft.epoch)
        elif since:
            draft.to_close[partition] = set(since)
            draft.epochs[partition] = draft.epoch


def _enter(draft: Draft, partition: int, consumer: str, since: int) -> None:
    draft.assignments[partition] = draft.to_start[partition] = consumer
    draft.since[partition] = since
    draft.epochs[partition] = draft.epoch
    draft.moves.append(Move(partition, consumer, consumer, MoveKind.ADOPT))


def _runners(topic: str, world: World, stored: int) -> dict[int, dict[str, tuple[int, int]]]:
    """Partition → consumer → (epoch of the holding, incarnation) of all that runs, or may yet start, by its own word."""
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for consumer, incarnation, status in _acted(topic, world):
        for partition in status.held.keys() | status.running.keys():
            runs = status.running[partition].token.epoch if partition in status.running else 0
            epoch = max(runs, status.held.get(partition, 0))
            # What cannot be true says that it may run, and nothing of since when.
            known = 0 if is_far_ahead(epoch, stored) else epoch
            found.setdefault(partition, {})[consumer] = (known, incarnation)
    return found


def _running(topic: str, world: World, stored: int) -> dict[tuple[str, int], int]:
    """Consumer and partition → epoch of the holding that runs, and is not about to close, by the consumers' own word."""
    return {
        (consumer, partition): one.token.epoch
        for consumer, _, status in _acted(topic, world)
        for partition, one in status.running.items()
        if not one.closing and not is_far_ahead(one.token.epoch, stored)
    }


def _held(view: TopicView, partition: int) -> dict[str, tuple[int, int]]:
    """Consumer → (epoch, incarnation) of everybody who may run the partition by the stored node and state."""
    node, state = view.node, view.state
    if node is None:
        return {}
    found: dict[str, tuple[int, int]] = {}
    if partition in node.assignments:
        consumer = node.assignments[partition]
        found[consumer] = (node.since[partition], node.incarnations.get(consumer, 0))
    entry = node.handoff.get(partition)
    if entry is not None:
        for consumer in (entry.giver, entry.taker):
            found[consumer] = (entry.epoch, node.incarnations.get(consumer, 0))
    for consumer, partitions in (state.to_close if state is not None else {}).items():
        if partition in partitions:
            found.setdefault(consumer, (0, node.incarnations.get(consumer, 0)))
    return found


def _last_owner(token: Token, committed: Committed, world: World) -> dict[str, tuple[int, int]]:
    """Who committed last, unless its own interface answers (then its word on what it runs is known already)."""
    status = world.status(committed.owner)
    if status is not None and status.incarnation == token.incarnation:
        return {}
    return {committed.owner: (token.epoch, token.incarnation)}
