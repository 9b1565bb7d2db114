"""The actions for committed offsets: a reset to a position or to the offsets of a file, and the undo of a reset."""

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.model import Actor, StateOnReset
from coordinator_tasks.core.text.partition_text import named
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import ONCE, Action, ActionResult, Given
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.topics import list_topics
from coordinator_tasks.service.offsets import offset_undo, positions
from coordinator_tasks.service.offsets.position_rules import offsets_of
from coordinator_tasks.service.offsets.positions import WantedReset


def wishes_of(c: Coordinator, text: str, state: StateOnReset | None = None) -> list[WantedReset]:
    """Return a reset for each topic of a file in the format of Kafka's tool. Raises `Refused`."""
    unreadable: dict[str, CoordinatorError] = {}
    groups = {one.topic: one.group_id for one in list_topics(c, unreadable)}
    groups |= dict.fromkeys(unreadable, "")  # the reset of an unreadable topic raises the error
    return [WantedReset(topic, offsets, state=state) for topic, offsets in sorted(offsets_of(text, groups).items())]


def _state(given: Given) -> StateOnReset | None:
    return StateOnReset(given["state"]) if given.get("state") else None


def _would_reset(c: Coordinator, given: Given) -> ActionResult:
    topic = given["topic"]
    shifts = positions.preview(c, topic, given["to"], given.get("partitions") or (), _state(given))
    lines = tuple(f"{topic}: {one.would}" for one in shifts)
    return ActionResult(shifts, "\n".join(one.would for one in shifts) or "nothing would change", lines)


def _reset_offsets(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    topic, partitions = given["topic"], given.get("partitions") or ()
    shifts = positions.reset(c, topic, given["to"], partitions, _state(given), why=given["why"], actor=actor)
    lines = tuple(f"{topic}: {one.text}" for one in shifts) or (ONCE,)
    return ActionResult(shifts, "\n".join(one.text for one in shifts) or "nothing to do", lines)


def _would_import(c: Coordinator, given: Given) -> ActionResult:
    resets = positions.preview_all(c, wishes_of(c, given["offsets"], _state(given)))
    lines = tuple(f"{one.topic}: {shift.would}" for one in resets for shift in one.shifts)
    return ActionResult(resets, "\n".join(lines), lines)


def _import_offsets(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    wishes = wishes_of(c, given["offsets"], _state(given))
    resets = positions.reset_all(c, wishes, why=given["why"], actor=actor)
    lines = tuple(f"{one.topic}: {shift.text}" for one in resets for shift in one.shifts)
    lines += tuple(f"{one.topic}: {ONCE}" for one in resets if not one.shifts)
    return ActionResult(resets, "\n".join(lines), lines)


def _would_undo(c: Coordinator, given: Given) -> ActionResult:
    topic, rebalance = given["topic"], given.get("rebalance", "")
    return _undone(topic, offset_undo.preview(c, topic, rebalance, _state(given)), would=True)


def _undo_offsets(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    topic, rebalance = given["topic"], given.get("rebalance", "")
    return _undone(topic, offset_undo.undo(c, topic, rebalance, _state(given), why=given["why"], actor=actor))


def _undone(topic: str, found: offset_undo.Undo, *, would: bool = False) -> ActionResult:
    if not found.offsets:
        return ActionResult(found, ONCE, (ONCE,))
    if not found.shifts:
        nothing = "nothing would change" if would else "nothing to do"
        text = f"{nothing}: the reset {found.rebalance} is taken back already"
        return ActionResult(found, text, (f"{topic}: {text}",))
    does = "would take" if would else "takes"
    said = [f"this {does} back {found.rebalance}", *(one.would if would else one.text for one in found.shifts)]
    if found.left_out:
        be = "would be " if would else ""
        said.append(f"{named(found.left_out)}: {be}left out, nothing was committed before that reset")
    return ActionResult(found, "\n".join(said), tuple(f"{topic}: {text}" for text in said))


OFFSET_ACTIONS = (
    Action(
        "reset_offsets",
        "Move partitions to another position; without --execute the move is only shown. `offsets reset` does the same with the options "
        "of Kafka's tool.\n\nThe owners stop the partitions, commit, and start again there. `offsets undo` takes the move back.",
        "Move partitions to another position: the consumers stop the partitions, commit, and start again there. The history keeps "
        "their former offsets, and `offsets undo` takes the move back.",
        (p.TOPIC, p.TO, p.PARTITIONS, p.STATE, p.WHY, p.DRY_RUN, p.EXECUTE, p.BY),
        do=_reset_offsets,
        preview=_would_reset,
    ),
    Action(
        "import_offsets",
        "Move partitions to the offsets of a file.",
        "Move partitions to the offsets of a file written by `offsets reset "
        "--export` or Kafka's `kafka-consumer-groups`. Topics follow each other; all lines are checked before the first move.",
        (p.OFFSETS, p.STATE, p.WHY, p.BY),
        do=_import_offsets,
        preview=_would_import,
    ),
    Action(
        "undo_offsets",
        "Take a reset back: the partitions continue at the offsets before the reset. Without --execute, only show the undo.",
        "Take a reset of offsets back: the partitions continue at the offsets before the reset. Records in between are read "
        "again, or are left out.",
        (p.TOPIC, p.REBALANCE, p.STATE, p.REASON, p.DRY_RUN, p.EXECUTE, p.BY),
        do=_undo_offsets,
        preview=_would_undo,
    ),
)
