"""Unread partitions. Commands, pages, metrics, questions and the audit share this definition. Pure."""

from collections.abc import Iterator

from coordinator_tasks.core.machine import causes
from coordinator_tasks.core.machine.confirm import not_running, why_not_closed, why_not_started
from coordinator_tasks.core.machine.presence import absence_of, presence
from coordinator_tasks.core.machine.world import Policy, Presence, TopicView, World
from coordinator_tasks.core.model import Failure, TopicNode, TopicState, TopicStatus, topic_status
from coordinator_tasks.core.text.partition_text import joined

NO_OWNER = "no owner; start a consumer that may have it, or see with `topics` what is waited for"


def unowned_in(view: TopicView) -> tuple[int, ...]:
    """Return the topic's partitions without owner or taker; empty for a removed topic."""
    if view.config.removed:
        return ()
    owned = view.node.assignments.keys() if view.node is not None else set[int]()
    taken = owned | moving_in(view)
    return tuple(p for p in view.partitions if p not in taken)


def moving_in(view: TopicView) -> set[int]:
    """Return the partitions with an unconfirmed close or start."""
    if view.state is None:
        return set()
    listed = (*view.state.to_close.values(), *view.state.to_start.values())
    return {partition for partitions in listed for partition in partitions}


def unread(view: TopicView, world: World, policy: Policy) -> dict[int, str]:
    """Return partition → why the partition is unread, and the remedy; empty for a removed topic.

    The world must be observed after the topic. A partition is unread if

    - the partition has no owner and no taker;
    - the partition has been in flight for `stuck_after_s`, and no possible owner reports running it (a consumer that
      finishes its last batch counts as running);
    - the owner has reported for `stuck_after_s` that the partition cannot be processed, or that a batch with the
      partition does not end;
    - the topic is missing or recreated in Kafka, and the owner does not run the partition;
    - the topic has been Stable for `stuck_after_s`, and the owner reports that the partition does not run;
    - the topic has been Stable for `stuck_after_s`, and the owner has been absent for `stuck_after_s`.
    """
    reasons = dict.fromkeys(unowned_in(view), NO_OWNER)
    if view.config.removed or view.node is None or view.state is None:
        return reasons
    moving = moving_in(view)
    held = causes.hold(view)
    if held or _is_late(view.state, world, policy):
        reasons |= {p: held or why for p, why in _on_the_way(view, view.node, view.state, world, policy)}
        reasons |= {p: held or why for p, why in _not_run(view, view.node, world) if p not in moving}
    reasons |= dict(_failing(view, view.node, world, policy))
    reasons |= {p: why for p, why in _absent(view.node, world, policy) if p not in moving}
    return dict(sorted(reasons.items()))


def _is_late(state: TopicState, world: World, policy: Policy) -> bool:
    """Return whether the topic is late. After a repeated start (a new state), the rebalance's age counts."""
    since_at = state.began_at if state.restarts and state.began_at else state.since_at
    return world.now - since_at >= policy.stuck_after_s


def _on_the_way(
    view: TopicView, node: TopicNode, state: TopicState, world: World, policy: Policy
) -> Iterator[tuple[int, str]]:
    """Yield the partitions that wait for a close or a start, and that no possible owner runs."""
    waited: dict[int, list[tuple[str, str]]] = {}
    for listed, why_not in ((state.to_close, why_not_closed), (state.to_start, why_not_started)):
        for consumer, partitions in listed.items():
            for partition in partitions:
                epoch = state.epochs.get(partition, node.epoch)
                missing = why_not(consumer, partition, view.topic, node, epoch, world)
                waited.setdefault(partition, []).append((consumer, missing))
    for partition, each in waited.items():
        if not any(_runs(consumer, view.topic, partition, node, world, policy) for consumer, _ in each):
            why = joined(missing for _, missing in each) or "a plan is due"
            answers = any(_word(consumer, view.topic, node, world) for consumer, _ in each)
            remedy = "see its reports in `status`" if answers else "see its log, and isolate it if it is dead"
            yield partition, f"{why}; {remedy}"


def _word(consumer: str, topic: str, node: TopicNode, world: World) -> TopicStatus | None:
    """Return this consumer's status of the topic, if the incarnation that the node names has answered."""
    status = world.status(consumer)
    mine = status is not None and status.incarnation == node.incarnations.get(consumer)
    return topic_status(status, topic) if mine else None


def _runs(consumer: str, topic: str, partition: int, node: TopicNode, world: World, policy: Policy) -> bool:
    said = _word(consumer, topic, node, world)
    if said is None or not said.query_alive or partition not in said.running:
        return False
    return _lasting(said, partition, policy) is None


def _lasting(said: TopicStatus, partition: int, policy: Policy) -> Failure | None:
    """Return the failure that has blocked the partition for `stuck_after_s`."""
    lasting = (failure for failure in said.failures if failure.for_s >= policy.stuck_after_s)
    return next((failure for failure in lasting if failure.concerns(partition)), None)


def _not_run(view: TopicView, node: TopicNode, world: World) -> Iterator[tuple[int, str]]:
    """Yield the partitions that their owners report as not running."""
    for owner in sorted(set(node.assignments.values())):
        for partition in not_running(owner, view.topic, node, world):
            yield partition, f"{owner} owns it and does not run it; see its reports in `status`, and restart it"


def _failing(view: TopicView, node: TopicNode, world: World, policy: Policy) -> Iterator[tuple[int, str]]:
    """Yield the partitions that their owners have not been able to process for `stuck_after_s`."""
    for partition, owner in sorted(node.assignments.items()):
        said = _word(owner, view.topic, node, world)
        failure = _lasting(said, partition, policy) if said is not None else None
        if failure is not None:
            yield partition, f"{owner} cannot process it since {failure.for_s:.0f} s: {failure.why}"


def _absent(node: TopicNode, world: World, policy: Policy) -> Iterator[tuple[int, str]]:
    """Yield the partitions of owners absent for `stuck_after_s`, unless a planned restart gives the owner more time."""
    for owner in sorted(set(node.assignments.values())):
        incarnation = node.incarnations.get(owner, 0)
        if presence(owner, incarnation, world, policy) is not Presence.ABSENT:
            continue
        life = world.life(owner, incarnation)
        since = absence_of(life.claim, incarnation, world.now)
        if life.kept_until or since is None or world.now - since.since_at < policy.stuck_after_s:
            continue
        why = f"{owner}, its owner, is absent since {world.now - since.since_at:.0f} s; isolate it, if it is dead"
        yield from ((p, why) for p, one in node.assignments.items() if one == owner)
