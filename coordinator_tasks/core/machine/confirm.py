"""Confirmations from the consumers' interfaces. Each confirmation is for one incarnation, generation and epoch."""

from collections.abc import Iterable, Iterator

from coordinator_tasks.core.machine.draft import by_consumer
from coordinator_tasks.core.machine.failures import CommonFailure, by_cause, failures_of
from coordinator_tasks.core.machine.world import TopicView, World
from coordinator_tasks.core.model import Failure, Reason, Silence, TopicNode, TopicStatus, Unreachable, topic_status
from coordinator_tasks.core.text.partition_text import counted, moment


def _status(consumer: str, topic: str, node: TopicNode, epoch: int, world: World) -> TopicStatus | str:
    """Return the consumer's status of the topic once `epoch` is acted on; before, return a sentence with the missing
    step.
    """
    incarnation = node.incarnations.get(consumer, 0)
    answer = world.answers.get(consumer)
    if answer is None:
        said = f"{consumer} is not registered and was not asked"
        if world.knows(consumer):
            return said
        return f"{said}: ZooKeeper knows no consumer of this id, only a commit in Kafka names the id"
    if isinstance(answer, Unreachable):
        refused = answer.silence is Silence.REFUSED
        return f"{consumer} does not answer ({'connection refused' if refused else answer.detail})"
    if answer.incarnation != incarnation:
        return f"{consumer} answers as incarnation {answer.incarnation}, not {incarnation}"
    status = answer.topics.get(topic)
    if status is None:
        return f"{consumer} does not know of the topic yet"
    if status.generation != node.generation:
        return f"{consumer} acts on generation {status.generation or 'none'}, not {node.generation}"
    if status.acted_epoch < epoch:
        return f"{consumer} has acted on epoch {status.acted_epoch}, not yet on {epoch}"
    return status


def why_not_closed(consumer: str, partition: int, topic: str, node: TopicNode, epoch: int, world: World) -> str:
    """Return what this possible owner still has to do to close the partition; empty if the partition is closed."""
    status = _status(consumer, topic, node, epoch, world)
    if isinstance(status, str):
        return status
    return f"{consumer} still runs partition {partition}" if partition in status.running else ""


def why_not_started(consumer: str, partition: int, topic: str, node: TopicNode, epoch: int, world: World) -> str:
    """Return what the assignee still has to do to start the partition; empty if the partition is started."""
    return why_not_all_started(consumer, (partition,), topic, node, epoch, world)


def why_not_all_started(
    consumer: str, partitions: Iterable[int], topic: str, node: TopicNode, epoch: int, world: World
) -> str:
    """Return the first thing that the assignee still has to do to start these partitions; empty if all are started."""
    status = _status(consumer, topic, node, epoch, world)
    if isinstance(status, str):
        return status
    return next((why for p in partitions if (why := _why_not_started(consumer, p, node, status))), "")


def _why_not_started(consumer: str, partition: int, node: TopicNode, status: TopicStatus) -> str:
    running = status.running.get(partition)
    started = running is not None and running.started
    failure = None if started else next((one for one in status.failures if one.concerns(partition)), None)
    if failure is not None:
        return f"{consumer} cannot process partition {partition}: {failure.why}"
    if running is None:
        return f"{consumer} does not run partition {partition} yet"
    if not status.query_alive:
        return f"{consumer} has no live query for the topic"
    if running.closing or running.token.epoch != node.since.get(partition):
        return f"{consumer} runs partition {partition} under an older holding"
    if running.started:
        return ""
    return f"{consumer} has not yet read partition {partition}: its start is not committed, or a batch is under way"


def not_running(consumer: str, topic: str, node: TopicNode, world: World) -> tuple[int, ...]:
    """Return the consumer's partitions that do not run at the current epoch; empty if unknown.

    Also empty for a leaving consumer, because a leaving consumer starts no partition.
    """
    status, said = _status(consumer, topic, node, node.epoch, world), world.status(consumer)
    if isinstance(status, str) or (said is not None and said.leaves):
        return ()
    held = sorted(p for p, owner in node.assignments.items() if owner == consumer)
    return tuple(p for p in held if p not in status.running)


def _failures(view: TopicView, world: World) -> Iterator[tuple[str, TopicStatus, Failure]]:
    """Yield each owner by name, the owner's status, and each failure in the status."""
    for owner in sorted(set(view.owners.values())):
        status = topic_status(world.answers.get(owner), view.topic)
        if status is not None:
            yield from ((owner, status, failure) for failure in status.failures)


def failing(view: TopicView, world: World) -> tuple[CommonFailure, ...]:
    """Return the reported processing failures. Failures with the same cause are merged."""
    owned = by_consumer((c, p) for p, c in view.owners.items())
    return by_cause(
        common
        for owner, _, failure in _failures(view, world)
        for common in failures_of(owner, view.topic, owned[owner], (failure,))
    )


def waiting(view: TopicView, world: World) -> tuple[Reason, ...]:
    """Return the partitions with processing failures, each with offset, reason and next try."""
    found: list[Reason] = []
    for owner, status, failure in _failures(view, world):
        again = f"the next try is in {failure.next_s:.0f} s" if failure.next_s else "the next try is under way"
        why = f"{failure.why} (failed {counted(failure.tries, 'time')}; {again})"
        for partition in (p for p, c in view.owners.items() if c == owner and failure.concerns(p)):
            running = status.running.get(partition)
            place = f" at offset {running.position}" if running is not None else ""
            found.append(Reason(f"{owner} cannot process it{place}: {why}", (partition,)))
    return tuple(sorted(found, key=lambda reason: reason.partitions))


def states(view: TopicView, world: World) -> tuple[Reason, ...]:
    """Return the size of each partition's state as its owner reports it; only for a stateful pipeline."""
    found: list[Reason] = []
    for partition, owner in sorted(view.owners.items()):
        running = world.running(owner, view.topic, partition)
        if running is not None and (size := running.state) is not None:
            timer = "" if size.first_timer_ms is None else f", earliest timer {moment(size.first_timer_ms / 1_000)}"
            found.append(Reason(f"{size.rows:,} rows, {size.value_bytes:,} bytes{timer}", (partition,)))
    return tuple(found)


def blockers(view: TopicView, world: World) -> dict[str, str]:
    """Return consumer → its first missing confirmation, for the consumers that delay the topic."""
    node, state = view.node, view.state
    missing_by_consumer: dict[str, str] = {}
    if node is None or state is None:
        return missing_by_consumer
    for outstanding, why_not in ((state.to_close, why_not_closed), (state.to_start, why_not_started)):
        for consumer, partitions in sorted(outstanding.items()) if not missing_by_consumer else ():
            for partition in partitions:
                epoch = state.epochs.get(partition, node.epoch)
                missing = why_not(consumer, partition, view.topic, node, epoch, world)
                if missing:
                    missing_by_consumer.setdefault(consumer, missing)
    return missing_by_consumer
