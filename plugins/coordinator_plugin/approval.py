"""The approval of a plan that exceeds the site's budget: Airflow's own approval, and the treatment of the answer.

The text shows names and figures of consumers and topics as code, so that Markdown makes no links or images of them.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from coordinator_plugin.airflow_versions import WAITING
from coordinator_plugin.base_operators import ClusterOperator, PassingError, actor_of
from coordinator_plugin.links import ClusterPageLink
from coordinator_plugin.question import one_line
from coordinator_plugin.triggers import QuestionTrigger
from coordinator_tasks.core.errors import ApprovalVoid
from coordinator_tasks.core.names import check_topic
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.action_log import recording
from coordinator_tasks.service.plan import plans_to_approve
from coordinator_tasks.service.plan.plans_to_approve import ASK_AGAIN_S

SHOWN_LINES = 60
BODY = """
A plan of topic **{topic}** of cluster **{cluster}** exceeds the budget of the site:

    {why}

It would move:

{moves}

*Approve* lets exactly this plan ({digest}) be done. When something changes before that, the approval is void, and the question is
withdrawn. *Reject* leaves everything where it is until something changes. Partitions that nobody runs are assigned meanwhile.
"""


class PlanApprovalOperator(ClusterOperator, ApprovalOperator):
    """Asks a person to approve the run's plan (`topic`, `digest`). If the site names approvers, only they may answer.

    The triggerer withdraws the question when the plan no longer waits.
    """

    operator_extra_links = (ClusterPageLink(),)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(subject="", defaults=self.REJECT, response_timeout=timedelta(seconds=ASK_AGAIN_S), **kwargs)

    def execute(self, context: Context) -> Any:
        """Ask with the current preview. Skip if the plan no longer waits."""
        topic, digest = _plan(context)
        with self.coordinator() as coordinator:
            self.ask(coordinator, topic, digest)
        with suppress(*WAITING):  # Airflow's own wait would not end when the plan changes
            super().execute(context)
        self.wait(context)

    def wait(self, context: Context) -> NoReturn:
        """Wait in the triggerer for the answer, which Airflow stores."""
        topic, digest = _plan(context)
        trigger = QuestionTrigger.of(self, context["ti"].id, topic, digest=digest)
        self.defer(trigger=trigger, method_name="execute_complete")

    def ask(self, c: Coordinator, topic: str, digest: str) -> None:
        """Build the question: the text, and who may answer. Skip the task unless exactly this plan waits."""
        found = plans_to_approve.waiting(c, [topic]).get(topic)
        if found is None or found.digest != digest or found.answered:
            raise AirflowSkipException(f"the plan {digest} of {topic} does not wait for an answer: nobody is asked")
        self.subject = f"{topic}: a plan waits for approval"
        why, moves = one_line(found.why), _block(plans_to_approve.lines(c, topic))
        self.body = BODY.format(topic=topic, cluster=c.paths.cluster, why=why, digest=digest, moves=moves)
        self.assigned_users = [{"id": one, "name": one} for one in c.budget.approvers] or None

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Write a person's answer. The default answer after a time-out does not count.

        An approval wakes `rebalance`, which runs the plan. The answer comes from Airflow's record of the question,
        which only this task can read, and not from an XCom, which other tasks may write.
        """
        granted = event.get("chosen_options") == [self.APPROVE]
        if granted or (event.get("chosen_options") == [self.REJECT] and _person(event)):
            try:
                with self.coordinator() as coordinator:
                    self._write(coordinator, context, event, granted=granted)
            except PassingError as error:  # another try of the task would ask the person again
                self.log.warning("holding: %s", error)
                self.wait(context)
        return super().execute_complete(context, event)

    def _write(self, c: Coordinator, context: Context, event: Mapping[str, Any], *, granted: bool) -> None:
        topic, digest = _plan(context)
        person = _person(event)
        names = [name for name in (person.get("name"), person.get("id")) if name] or ["nobody"]
        actor = replace(actor_of(context), who=names[0])
        asked = recording(c, "approve" if granted else "reject", topic, actor)
        try:
            plans_to_approve.answer(asked, topic, digest, granted=granted, by=names, why="")
        except ApprovalVoid as error:
            raise AirflowSkipException(error.told) from error
        self.log.info("the plan is %s by %s", "approved" if granted else "rejected", names[0])


def _plan(context: Context) -> tuple[str, str]:
    return check_topic(context["params"]["topic"]), str(context["params"]["digest"])


def _person(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return `id` and `name` of the user who answered; empty for the default answer."""
    return dict(answer.get("responded_by_user") or {})


def _block(lines: tuple[str, ...]) -> str:
    """Return each line as code in a list item of its own, because Airflow joins the lines of a code block."""
    shown = [*lines[:SHOWN_LINES]]
    shown += [f"and {len(lines) - SHOWN_LINES} more lines; `preview` shows all"] if len(lines) > SHOWN_LINES else []
    return "\n".join(f"-     {one_line(line)}" for line in shown or ["nothing any more"])
