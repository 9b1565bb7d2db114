"""From a strategy's answer to moves: immediate placement of what has no owner, and a new plan for everybody."""

from collections.abc import Mapping

from coordinator_tasks.core.assignors import Problem, assignor, validate
from coordinator_tasks.core.draft import Draft
from coordinator_tasks.core.names import MAX_ID_BYTES
from coordinator_tasks.core.presence import is_draining, presence
from coordinator_tasks.core.world import Policy, Presence, TopicView, World

# Bytes of JSON with numbers of four digits for partitions and up to seven for epochs.
_ENTRY_BYTES = 26  # an assigned partition in the topic node, beside its owner's id
_START_BYTES = 30  # a partition in flight in the state and the record
_HANDOFF_BYTES = 80  # a hand-off in node, state and record, beside the two ids
_CONSUMER_BYTES = 60  # a consumer in the node's incarnations, the state's targets and lists, beside its id in each
_CONSUMER_LISTS = 7


def place(draft: Draft, view: TopicView, world: World, able: Mapping[str, int], policy: Policy) -> None:
    """Give every partition without a target to somebody; nobody else's moves. Nothing happens without targets."""
    homeless = {p: None for p in view.partitions if draft.target(p) is None}
    if view.config.removed or not able or not homeless:
        return
    fixed = {p: target for p in view.partitions if (target := draft.target(p)) is not None}
    pins = {p: c for p, c in view.config.pins.items() if p in homeless and c in able}
    owned = {p: c for p, c in draft.former.items() if c in able}
    answer = _ask(view, world, able, owned, fixed | pins)
    for partition in list(homeless)[: _room(draft, view, able, policy, _START_BYTES)]:
        if partition in answer:
            _move(draft, partition, answer[partition], able)


def rebalance(draft: Draft, view: TopicView, world: World, able: Mapping[str, int], policy: Policy) -> bool:
    """Move partitions to where the strategy wants them; False if some of that has to wait for a further plan.

    Partitions in flight stay as they are unless their taker is draining; those of owners that are neither lost nor
    registered stay until it is known what became of them.
    """
    if view.config.removed or view.config.frozen:
        return True
    if not able:
        _stop_draining(draft, view, world)
        return True
    flight = {p for p in draft.in_flight() if not _taker_drains(draft, p, world)}
    fixed = {p: c for p, c in view.config.pins.items() if c in able}
    fixed |= {p: c for p, c in draft.assignments.items() if not _movable(draft, c, world, policy)}
    fixed |= {p: target for p in flight if (target := draft.target(p)) is not None}
    owned = {p: c for p, c in draft.assignments.items() if c in able}
    answer = _ask(view, world, able, owned, fixed)
    wanted = [p for p in view.partitions if p in answer and answer[p] != draft.target(p)]
    room = _room(draft, view, able, policy, _HANDOFF_BYTES + 2 * _longest(able))
    for partition in wanted[:room]:
        _move(draft, partition, answer[partition], able)
    return not flight and len(wanted) <= room


def finish(draft: Draft) -> None:
    """Stop every partition of a topic that was removed."""
    for partition in sorted(draft.assignments.keys() | draft.handoff.keys() | draft.in_flight()):
        draft.stop(partition)


def _move(draft: Draft, partition: int, taker: str, able: Mapping[str, int]) -> None:
    draft.move(partition, taker)
    draft.incarnations[taker] = able[taker]


def _ask(
    view: TopicView, world: World, able: Mapping[str, int], owned: Mapping[int, str], fixed: Mapping[int, str]
) -> Mapping[int, str]:
    config = view.config
    members = {c: world.members[c] for c in able}
    listed = set(view.partitions)
    fixed = {p: c for p, c in fixed.items() if p in listed}
    problem = Problem(view.topic, view.partitions, members, owned, fixed, world.loads, config.parameters)
    answer = assignor(config.strategy).assign(problem)
    validate(problem, answer, config.strategy)
    return answer


def _taker_drains(draft: Draft, partition: int, world: World) -> bool:
    taker = draft.target(partition)
    return taker is not None and is_draining(taker, draft.incarnations.get(taker, 0), world)


def _movable(draft: Draft, consumer: str, world: World, policy: Policy) -> bool:
    return presence(consumer, draft.incarnations.get(consumer, 0), world, policy) is Presence.LIVE


def _stop_draining(draft: Draft, view: TopicView, world: World) -> None:
    """Nobody can take over: who drains closes its partitions, so that it may leave."""
    for partition in view.partitions:
        if _taker_drains(draft, partition, world):
            draft.stop(partition)


def _room(draft: Draft, view: TopicView, able: Mapping[str, int], policy: Policy, each: int) -> int:
    """How many more moves of `each` bytes fit in one transaction; at least one unless what is in flight fills it."""
    longest, flight = _longest(able), len(draft.in_flight())
    taken = len(view.partitions) * (longest + _ENTRY_BYTES) + flight * _START_BYTES
    taken += len(draft.handoff) * (_HANDOFF_BYTES + 2 * longest)
    taken += len(able) * (_CONSUMER_LISTS * longest + _CONSUMER_BYTES)
    return max(0 if flight else 1, (policy.max_write_bytes - taken) // each)


def _longest(able: Mapping[str, int]) -> int:
    return max((len(c) for c in able), default=MAX_ID_BYTES)
