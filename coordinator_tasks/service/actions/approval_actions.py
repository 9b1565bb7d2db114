"""The approval of a plan at a terminal. In Airflow, the task `approve_plan` asks for the approval."""

from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.action_log import recording
from coordinator_tasks.service.plan import plans_to_approve


def _approve(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    topic, digest, granted, why = given["topic"], given["digest"], not given.get("reject"), given.get("why", "")
    c = c if granted else recording(c, "reject", topic, actor, why)
    found = plans_to_approve.answer(c, topic, digest, granted=granted, by=[actor.named], why=why)
    what = "approved; the next plan does it" if granted else "rejected; it waits until something changes"
    said = f"the plan {digest} of topic {topic} is {what}"
    return ActionResult(found, said, (said,))


APPROVAL_ACTIONS = (
    Action(
        "approve",
        "Approve or reject a plan above the budget of the site.\n\n"
        "`topics` and `plan --dry-run` name the plan. If something has changed since, the approval is void.",
        "",
        (p.TOPIC, p.DIGEST, p.REJECT, p.REASON, p.BY),
        do=_approve,
        before=lambda c, given: plans_to_approve.lines(c, given["topic"]),
    ),
)
