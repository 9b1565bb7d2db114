"""Undo of an offset reset. The reset's record in the history has the former offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from coordinator_tasks.core.errors import BadOffsets
from coordinator_tasks.core.model import Actor, Explanation, StateOnReset
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.topics import configuration
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.offsets.positions import RESET, Shift


@dataclass(frozen=True, slots=True)
class Undo:
    """The undo of the resets of one rebalance: the offset of each partition before the first reset.

    `offsets`: empty if another try of this task has done the undo. `left_out`: partitions without a former offset,
    which cannot be restored. `shifts`: the writes; empty if already undone.
    """

    rebalance: str
    offsets: Mapping[int, int]
    left_out: tuple[int, ...] = ()
    shifts: tuple[Shift, ...] = ()


def preview(c: Coordinator, topic: str, rebalance: str = "", state: StateOnReset | None = None) -> Undo:
    """Return the undo that `undo` would do, or raise the same errors."""
    found = _undoable(c, topic, rebalance)
    newest = next(_resets(c, topic), None)
    if newest is not None and newest[1].undoes == found.rebalance:
        return found
    return replace(found, shifts=positions.preview(c, topic, found.offsets, state=state))


def undo(
    c: Coordinator, topic: str, rebalance: str = "", state: StateOnReset | None = None, *, why: str, actor: Actor
) -> Undo:
    """Send the partitions of a reset back to the former offsets. Without a `rebalance`, undo the newest reset.

    An undo is a reset as well, and can be undone by naming the undo's rebalance. Raises `NotManaged`, `Malformed`, the
    errors of `positions.reset`, and `BadOffsets` if no reset exists, the record has no offsets, or the newest reset is
    an undo. If the newest reset has undone this one, nothing is done and no shifts are returned. A task of Airflow
    undoes once: every other try returns no shifts.
    """
    if positions.done_by(c, topic, actor):
        return Undo(rebalance, {})
    found = _undoable(c, topic, rebalance)

    def done() -> bool:
        newest = next(_resets(c, topic), None)
        return positions.done_by(c, topic, actor) or (newest is not None and newest[1].undoes == found.rebalance)

    where = f"to where they were before {found.rebalance}"
    shifts = positions.shifts_to(c, topic, found.offsets, ())
    done_now = positions.write_reset(
        c, topic, shifts, where=where, state=state, why=why, actor=actor, done=done, undoes=found.rebalance
    )
    return replace(found, shifts=done_now)


def _resets(c: Coordinator, topic: str) -> Iterator[tuple[str, Explanation]]:
    """Yield rebalance and plan of each reset, newest first."""
    for record in history.backwards(c, topic):
        if record.plan is not None and record.plan.strategy == RESET:
            yield record.rebalance, record.plan


def _undoable(c: Coordinator, topic: str, rebalance: str) -> Undo:
    config = configuration(c, topic)
    newest = next(_resets(c, topic), None)
    if not rebalance and newest is not None and newest[1].undoes:
        raise BadOffsets(
            f"the newest reset of topic {topic!r}, {newest[0]}, has taken back {newest[1].undoes} already; name the "
            "rebalance of the reset to take back"
        )
    wanted = rebalance or (newest[0] if newest is not None else "")
    plans = [plan for found, plan in _resets(c, topic) if found == wanted]
    if not plans:
        where = f"rebalance {rebalance!r} of topic {topic!r}" if rebalance else f"the history of topic {topic!r}"
        raise BadOffsets(f"{where} has no reset of offsets; the command history shows what there is")
    if plans[0].inputs != config.topic_id and plans[0].inputs:
        raise BadOffsets(
            f"the reset {wanted} of topic {topic!r} is older than the topic, which was recreated in Kafka: its offsets "
            "mean other records; reset to a position instead"
        )
    return _summed_up(topic, wanted, plans)


def _summed_up(topic: str, rebalance: str, newest_first: Sequence[Explanation]) -> Undo:
    offsets: dict[int, int] = {}
    touched: set[int] = set()
    for plan in newest_first:
        of_this = {p for reason in plan.moves for p in reason.partitions}
        touched |= of_this
        offsets = {p: at for p, at in offsets.items() if p not in of_this} | dict(plan.was_at)
    if not offsets:
        raise BadOffsets(
            f"the record of the reset {rebalance} of topic {topic!r} has no former offsets: none was committed, or an "
            "earlier release has written it; the history names them, so reset to these"
        )
    return Undo(rebalance, dict(sorted(offsets.items())), tuple(sorted(touched - offsets.keys())))
