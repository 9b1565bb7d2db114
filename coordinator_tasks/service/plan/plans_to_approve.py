"""Plans that wait for a person's approval, with their moves, and the person's answer."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from coordinator_tasks.core.errors import ApprovalVoid, NotEntitled
from coordinator_tasks.core.machine.what_if import SiteChange
from coordinator_tasks.core.model import Approval
from coordinator_tasks.core.names import check_words
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.cluster import ClusterObservation
from coordinator_tasks.service.nodes.topics import change_config, configuration
from coordinator_tasks.service.plan import preview, transitions

MAX_DIGEST_CHARS = 64
ASK_AGAIN_S = 86_400.0
"""Seconds for which a request for approval is valid."""


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """A plan that waits for approval. `why`: its cause, and how it exceeds the budget. `answered`: it was rejected."""

    topic: str
    digest: str
    why: str
    answered: bool = False


def waiting(c: Coordinator, topics: Collection[str], seen: ClusterObservation | None = None) -> dict[str, WaitingPlan]:
    """Return topic → the plan that waits for approval. Write nothing. Raises the `Unavailable` kinds.

    `seen`: an observation to use.
    """
    found: dict[str, WaitingPlan] = {}
    for report in transitions.preview(c, topics, seen) if c.budget.is_set and topics else ():
        if report.approval:
            answer = configuration(c, report.topic).approval
            answered = answer is not None and answer.digest == report.approval
            found[report.topic] = WaitingPlan(report.topic, report.approval, report.reason, answered)
    return found


def lines(c: Coordinator, topic: str) -> tuple[str, ...]:
    """Return the plan's moves as text, each with its backlog and predicted pause."""
    return tuple(line for one in preview.preview(c, SiteChange(), [topic]) for line in replace(one, over=()).lines)


def check_entitled(c: Coordinator, names: Collection[str]) -> None:
    """Raise `NotEntitled` unless a person with one of these names may approve plans."""
    if c.budget.approvers and not set(names) & set(c.budget.approvers):
        who = next((name for name in names if name), "nobody")
        raise NotEntitled(
            f"{who} may not approve plans of cluster {c.paths.cluster!r}; ask one of {', '.join(c.budget.approvers[:10])}, or "
            "add a name to budget.approvers"
        )


def answer(c: Coordinator, topic: str, digest: str, *, granted: bool, by: Collection[str], why: str) -> Approval:
    """Approve or reject exactly this plan. The next run follows the answer. Repeating changes nothing.

    `by`: the person's names; the first is stored. Raises `NotEntitled`, `NotManaged`, and `ApprovalVoid` if this plan
    no longer waits.
    """
    check_entitled(c, by)
    given = Approval(digest, granted, check_words(next(iter(by)), "name"), check_words(why, "reason"), c.clock.now())
    before, found = configuration(c, topic).approval, waiting(c, [topic]).get(topic)
    same = before is not None and replace(before, at=given.at) == given
    if before is not None and same and (found is None or found.digest == digest):
        return before
    if not c.budget.is_set:
        raise ApprovalVoid(
            f"no budget is set here, so no plan of topic {topic!r} waits as these settings see it; give this command the `budget` "
            "of the coordinator (for Airflow that is COORDINATOR_BUDGET_... in the environment of its services)"
        )
    if found is None:
        raise ApprovalVoid(
            f"no plan of topic {topic!r} waits for approval: it is done, or nothing is to move any more; "
            f"`plan {topic} --dry-run` shows what is due now"
        )
    if found.digest != digest:
        raise ApprovalVoid(
            f"the plan {digest[:MAX_DIGEST_CHARS]!r} of topic {topic!r} is not the one that waits now, which is {found.digest}: something has "
            f"changed since; look at it with `plan {topic} --dry-run`, and approve that one"
        )

    change_config(c, topic, lambda config: replace(config, approval=given))
    return given


def still_waits(c: Coordinator, topic: str, digest: str) -> bool:
    """Return whether exactly this plan waits for an answer. Raises a `CoordinatorError` if the topic cannot be read."""
    found = waiting(c, [topic]).get(topic)
    return found is not None and found.digest == digest and not found.answered
