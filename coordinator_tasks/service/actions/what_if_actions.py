"""The actions for a roll back and for a preview of changes."""

from coordinator_tasks.core.machine.what_if import SiteChange
from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given, texts, will
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.plan import preview, rollback


def _would_roll_back(c: Coordinator, given: Given) -> ActionResult:
    found = rollback.preview(c, given["topic"], given["rebalance"], for_s=_for_s(given), why=given["why"])
    return ActionResult(found, "\n".join(found.lines), found.lines)


def _roll_back(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    topic, for_s = given["topic"], _for_s(given)
    found = rollback.roll_back(c, topic, given["rebalance"], for_s=for_s, why=given["why"], actor=actor)
    lines = (*will(found.lines), f"{topic}: {_result(found)}")
    return ActionResult(found, "\n".join(lines), lines)


def _result(found: rollback.Way) -> str:
    if found.standing:
        return "this roll back is in force already, nothing was changed"
    if found.preview.moves:
        return "the next plan moves them" + (", once it is approved" if found.preview.over else "")
    return "nothing differs, and it is held" if found.wanted.for_s else "nothing differs, so nothing was changed"


def _for_s(given: Given) -> float:
    return 60 * float(given.get("minutes") or 0)


def _preview(c: Coordinator, given: Given) -> ActionResult:
    strategy, parameters = given.get("strategy") or "", texts(given.get("parameters"))
    change = SiteChange(
        join=int(given.get("join") or 0),
        leave=tuple(given.get("leave") or ()),
        strategy=strategy,
        parameters=parameters,
        partitions=int(given.get("size") or 0),
    )
    found = preview.preview(c, change, given.get("topics") or ())
    lines = tuple(line for one in found for line in one.lines) or ("no topic is managed, so nothing would move",)
    return ActionResult(found, "\n".join(lines), lines, partial=any(one.problem for one in found))


WHAT_IF_ACTIONS = (
    Action(
        "roll_back",
        "Go back to a topic's assignment before an earlier rebalance, as far as its consumers are still there.\n\n"
        "`history` names the rebalances. The assignment holds until the next change of membership, or for --minutes.",
        "Go back to a topic's assignment before an earlier rebalance. Partitions of lost consumers stay with "
        "the present owners. The assignment holds until the next change of membership, or for a time.",
        (p.TOPIC, p.BEFORE, p.WHY, p.HOLD, p.DRY_RUN, p.BY),
        do=_roll_back,
        preview=_would_roll_back,
    ),
    Action(
        "preview",
        "Show the moves, reasons, backlogs and pauses of a changed situation; changes nothing.\n\n"
        "Without an option: the plan due now. Options can be combined; all changes happen at once. Exit code 1 if a "
        "topic is left out as unreadable.",
        "The moves of a changed situation: more consumers, fewer, another strategy, more partitions, or all "
        "at once. Each move has a reason, a backlog, and a pause predicted from earlier moves.",
        (p.TOPICS, p.JOIN, p.LEAVE, p.OTHER_STRATEGY, p.PARAMETERS, p.SIZE),
        do=lambda c, given, _actor: _preview(c, given),
        reads=True,
    ),
)
