"""From a strategy's answer to moves: placement of partitions without an owner, and a new plan for all partitions."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from coordinator_tasks.core.assignors import Assignor, Measuring, Problem, assignor, is_partial, validate
from coordinator_tasks.core.assignors.explain import Asked, explained, shortened
from coordinator_tasks.core.assignors.weights import PARAMETER, Measure, measured
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine.draft import Draft
from coordinator_tasks.core.machine.presence import is_draining, is_leaving, presence
from coordinator_tasks.core.machine.world import Policy, Presence, TopicView, World
from coordinator_tasks.core.model import Explanation, Reason
from coordinator_tasks.core.names import MAX_ID_BYTES

# Bytes of JSON with numbers of four digits for partitions and up to seven for epochs.
_ENTRY_BYTES = 26  # an assigned partition in the topic node, beside its owner's id
_START_BYTES = 30  # a partition in flight in the state and the record
_HANDOFF_BYTES = 80  # a hand-off in node, state and record, beside the two ids
_CONSUMER_BYTES = 60  # a consumer in the node's incarnations, the state's targets and lists, beside its id in each
_CONSUMER_LISTS = 7


def place(draft: Draft, view: TopicView, world: World, able: Mapping[str, int], policy: Policy) -> None:
    """Give every partition without a target to one of the `able`, if there are any, and move no other partition."""
    fixed = _targets(draft, view)
    homeless = {p: None for p in view.partitions if p not in fixed}
    if view.config.removed or not able or not homeless:
        return
    pins = {p: c for p, c in view.config.pins.items() if p in homeless and c in able}
    owned = {p: c for p, c in draft.former.items() if c in able}
    asked = _ask(view, world, policy, able, owned, fixed | pins, {**draft.former, **fixed})
    answer = asked.answer
    spare = _spare(draft, view, able, policy)
    for partition in list(homeless)[: _room(draft, spare, policy, _START_BYTES)]:
        if partition in answer:
            _move(draft, partition, answer[partition], able)
    _explain(draft, asked, _reasons_of(spare, policy), homeless)


def rebalance(draft: Draft, view: TopicView, world: World, able: Mapping[str, int], policy: Policy) -> bool:
    """Move partitions to where the strategy wants them; False if some moves have to wait for a further plan.

    Partitions in flight stay as they are unless their taker is draining. Those of an owner that is neither lost nor
    registered stay until it is known what happened to it.
    """
    if view.config.removed or view.config.frozen:
        return True
    if not able:
        _stop_leaving(draft, view, world, policy)
        return True
    flight = _flight(draft, world)
    fixed = _fixed(draft, view, world, able, policy)
    owned = {p: c for p, c in draft.assignments.items() if c in able}
    asked = _ask(view, world, policy, able, owned, fixed, _targets(draft, view))
    answer = asked.answer
    wanted = [p for p in view.partitions if p in answer and answer[p] != draft.target(p)]
    spare = _spare(draft, view, able, policy)
    room = _room(draft, spare, policy, _HANDOFF_BYTES + 2 * _longest(able))
    for partition in wanted[:room]:
        _move(draft, partition, answer[partition], able)
    _explain(draft, asked, _reasons_of(spare, policy))
    return not flight and len(wanted) <= room


def why(draft: Draft, view: TopicView, world: World, able: Mapping[str, int], policy: Policy) -> Explanation:
    """Why every partition is where it is, and what the strategy would do with it now. Changes nothing."""
    holders = _targets(draft, view)
    owned = {p: c for p, c in holders.items() if c in able}
    return explained(_ask(view, world, policy, able, owned, _fixed(draft, view, world, able, policy), holders))


def stop_vanished(draft: Draft, view: TopicView) -> None:
    """Close partitions that neither ZooKeeper nor Kafka lists: the topic was re-created with fewer partitions."""
    if view.description is None or view.config.removed or view.config.frozen:
        return
    known = range(max([view.description.partition_count - 1, *view.partitions], default=-1) + 1)
    for partition in sorted((draft.assignments.keys() | draft.handoff.keys() | draft.to_start.keys()) - set(known)):
        draft.stop(partition)


def finish(draft: Draft) -> None:
    """Stop every partition of a removed topic."""
    for partition in sorted(draft.assignments.keys() | draft.handoff.keys() | draft.in_flight()):
        draft.stop(partition)


def _move(draft: Draft, partition: int, taker: str, able: Mapping[str, int]) -> None:
    draft.move(partition, taker)
    draft.incarnations[taker] = able[taker]


def patience_s(view: TopicView, policy: Policy) -> float | None:
    """How long the topic has to be Stable before changed loads alone cause a plan; `None` = they never do."""
    found: object = assignor(view.config.strategy, policy.strategies.known)
    return found.patience_s(view.config.parameters) if isinstance(found, Measuring) else None


def _ask(
    view: TopicView,
    world: World,
    policy: Policy,
    able: Mapping[str, int],
    owned: Mapping[int, str],
    fixed: Mapping[int, str],
    holders: Mapping[int, str],
) -> Asked:
    config, listed = view.config, set(view.partitions)
    strategy = assignor(config.strategy, policy.strategies.known)
    measure = _measure(view, strategy)
    weights = measured(view.topic, measure, view.partitions, owned, world.answers, world.totals, world.loads)
    problem = Problem(
        view.topic,
        view.partitions,
        {c: world.members[c] for c in able},
        owned,
        {p: c for p, c in fixed.items() if p in listed},
        world.loads,
        config.parameters,
        weights.partitions,
        {c: weights.carried.get(c, 0.0) for c in able},
        view.description.racks if view.description is not None else {},
    )
    answer = strategy.assign(problem)
    validate(problem, answer, config.strategy, partial=is_partial(strategy))
    return Asked(config.strategy, problem, answer, holders, {p: c for p, c in config.pins.items() if c in able})


def _measure(view: TopicView, strategy: Assignor) -> Measure:
    if isinstance(strategy, Measuring):
        return strategy.measure(view.config.parameters)
    named = view.config.parameters.get(PARAMETER, Measure.PARTITIONS)
    try:
        return Measure(named)
    except ValueError:
        known = ", ".join(Measure)
        raise Refused(f"parameter 'measure' of topic {view.topic} is {named!r}; choose one of {known}") from None


def _explain(draft: Draft, asked: Asked, limit_bytes: int, only: Collection[int] | None = None) -> None:
    """Keep why the strategy moves what it moves, and nothing else (of `only` these partitions, if given)."""
    if not draft.moves:
        return
    moved = {move.partition for move in draft.moves}
    whole = explained(asked, only)
    split = [(reason.text, [p for p in reason.partitions if p in moved], reason.partitions) for reason in whole.moves]
    draft.explanation = replace(
        whole,
        moves=tuple(Reason(text, tuple(now)) for text, now, _ in split if now),
        stays=whole.stays
        + tuple(
            Reason(f"moves in a further plan, as this one is full: {text}", tuple(p for p in planned if p not in moved))
            for text, now, planned in split
            if len(now) < len(planned)
        ),
    )
    draft.kept = shortened(draft.explanation, limit_bytes)


def _targets(draft: Draft, view: TopicView) -> dict[int, str]:
    return {p: target for p in view.partitions if (target := draft.target(p)) is not None}


def _flight(draft: Draft, world: World) -> set[int]:
    return {p for p in draft.in_flight() if not _taker_drains(draft, p, world)}


def _fixed(draft: Draft, view: TopicView, world: World, able: Mapping[str, int], policy: Policy) -> dict[int, str]:
    """Partition → where it stays: pinned, at an owner that is neither lost nor registered, or on its way."""
    fixed = {p: c for p, c in view.config.pins.items() if c in able}
    fixed |= {p: c for p, c in draft.assignments.items() if not _movable(draft, c, world, policy)}
    return fixed | {p: target for p in _flight(draft, world) if (target := draft.target(p)) is not None}


def _taker_drains(draft: Draft, partition: int, world: World) -> bool:
    taker = draft.target(partition)
    return taker is not None and is_draining(taker, draft.incarnations.get(taker, 0), world)


def _movable(draft: Draft, consumer: str, world: World, policy: Policy) -> bool:
    return presence(consumer, draft.incarnations.get(consumer, 0), world, policy) is Presence.LIVE


def _stop_leaving(draft: Draft, view: TopicView, world: World, policy: Policy) -> None:
    """Nobody can take over: a consumer that was asked to end closes its partitions, so that it can end.

    If another consumer is absent and may come back, they wait for it. A consumer that only drains keeps its partitions.
    """
    absent = [c for c in draft.holders() if not _movable(draft, c, world, policy)]
    if any(not is_draining(c, draft.incarnations.get(c, 0), world) for c in absent):
        return
    for partition in view.partitions:
        taker = draft.target(partition)
        if taker is not None and is_leaving(taker, draft.incarnations.get(taker, 0), world):
            draft.stop(partition)


def _spare(draft: Draft, view: TopicView, able: Mapping[str, int], policy: Policy) -> int:
    """How many bytes of the transaction are left for moves and their reasons."""
    longest, flight = _longest(able), len(draft.in_flight())
    taken = len(view.partitions) * (longest + _ENTRY_BYTES) + flight * _START_BYTES
    taken += len(draft.handoff) * (_HANDOFF_BYTES + 2 * longest)
    taken += len(able) * (_CONSUMER_LISTS * longest + _CONSUMER_BYTES)
    return policy.max_write_bytes - taken


def _reasons_of(spare: int, policy: Policy) -> int:
    """How many of these bytes the reasons may take; none if there is hardly room for moves."""
    return max(0, min(policy.max_write_bytes // 50, spare - policy.max_write_bytes // 10))


def _room(draft: Draft, spare: int, policy: Policy, each: int) -> int:
    """How many more moves of `each` bytes fit in one transaction; at least one unless what is in flight fills it."""
    return max(0 if draft.in_flight() else 1, (spare - _reasons_of(spare, policy)) // each)


def _longest(able: Mapping[str, int]) -> int:
    return max((len(c) for c in able), default=MAX_ID_BYTES)
