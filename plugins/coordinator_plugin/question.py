"""The question to a person about a topic that is held up, not owned, flapping or disputed, and the answer."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from coordinator_plugin.airflow_versions import WAITING
from coordinator_plugin.base_operators import ClusterOperator, actor_of
from coordinator_plugin.links import ClusterPageLink
from coordinator_plugin.steps import held_up
from coordinator_plugin.stuck_topics import ASK_AGAIN_S, disputes, flapping, unowned_of
from coordinator_plugin.triggers import QuestionTrigger
from coordinator_tasks.core.names import check_consumer, check_topic
from coordinator_tasks.core.text.partition_text import by_reason, cut, joined, named, shown
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.nodes.action_log import done_by, recording
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import audit, overview

WAIT, ISOLATE = "wait", "isolate"
SHOWN_CHARS = 1000
BODY = """
Topic **{topic}** of cluster **{cluster}** has not become Stable.

It waits for consumer **{consumer}**:

    {sentence}

*isolate* takes everything from this consumer at once: {takes}. If it still lives, it is fenced, and one batch may be
processed twice. *wait* changes nothing; the question comes again while the topic is stuck.
"""
UNOWNED = """
Nobody owns **{partitions}** of topic **{topic}** of cluster **{cluster}**, and nobody reads them:

    {sentence}

Start a consumer that has a pipeline for the topic: it is given them at once. The question comes again while they have no
owner.
"""
DISPUTED = """
What ZooKeeper, the consumers and the commits in Kafka say of topic **{topic}** of cluster **{cluster}** does not agree:

{findings}

Nothing was changed. The question comes again while this lasts; `audit {topic}` shows the present state.
"""
FLAPS = """
Topic **{topic}** of cluster **{cluster}** flaps: its partitions move again and again.

    {sentence}

A consumer comes and goes. `history` names it: look at its log, drain it, or freeze the topic. The question comes again while the topic
flaps.
"""
CLOCKS_S = 60.0
"""Maximum seconds by which Airflow's clock, which stamps an answer, may be ahead of this host's clock."""
SHOWN_TOPICS = 10
SHOWN_FINDINGS = 10


class QuestionOperator(ClusterOperator, HITLOperator):
    """Asks a person whether to wait for the run's `consumer`, which holds up the run's `topic`, or to isolate it.

    If the run names no consumer, the only answer is to wait. The question then names the topic's partitions without an
    owner, or reports flapping; with `audit`, it names the disputed partitions. The triggerer withdraws a question when
    its topic is removed, or is no longer stuck or flapping. A question about a dispute is not withdrawn.
    """

    operator_extra_links = (ClusterPageLink(),)

    def __init__(self, **kwargs: Any) -> None:
        form: dict[str, Any] = {"subject": "", "options": [WAIT, ISOLATE], "defaults": WAIT}
        super().__init__(response_timeout=timedelta(seconds=ASK_AGAIN_S), **form, **kwargs)

    def execute(self, context: Context) -> Any:
        """Ask about the current problem. Skip if the problem has ended."""
        params = context["params"]
        with self.coordinator() as coordinator:
            about_unowned = self._about_audit if params.get("audit") else self._about_unowned
            ask = self._about_consumer if params["consumer"] else about_unowned
            ask(coordinator, context)
        if params.get("audit"):
            super().execute(context)  # not withdrawn: the audit needs two looks, and the triggerer looks once
            return
        with suppress(*WAITING):  # Airflow's own wait would not end when the topic changes
            super().execute(context)
        trigger = QuestionTrigger.of(self, context["ti"].id, params["topic"], params["consumer"])
        self.defer(trigger=trigger, method_name="execute_complete")

    def _about_consumer(self, c: Coordinator, context: Context) -> None:
        topic, consumer, sentence = _held_up_now(c, context)
        self.subject = f"{topic} is held up by {consumer}"
        held = overview.at_stake(c, consumer)
        taken, why = takes(held, directives.without_taker(c, consumer, held)), one_line(sentence)
        self.body = BODY.format(topic=topic, cluster=c.paths.cluster, consumer=consumer, sentence=why, takes=taken)

    def _about_unowned(self, c: Coordinator, context: Context) -> None:
        topic = check_topic(context["params"]["topic"])
        self.options = [WAIT]
        unowned = unowned_of(c, topic)
        if not unowned:
            self._about_flapping(c, topic)
            return
        (report,) = transitions.preview(c, [topic])
        partitions, why = named(unowned), joined(f"{said}: {why}" for why, said in by_reason(unowned))
        self.subject = f"nobody reads {partitions} of {topic}"
        sentence = one_line(f"{report.reason}; {why}")
        self.body = UNOWNED.format(topic=topic, cluster=c.paths.cluster, partitions=partitions, sentence=sentence)

    def _about_audit(self, c: Coordinator, context: Context) -> None:
        topic = check_topic(context["params"]["topic"])
        found = disputes(audit.audit(c, [topic]))
        if not found:
            raise AirflowSkipException(f"the audit of {topic} finds nothing now: nobody is asked")
        self.options = [WAIT]
        self.subject = f"ownership of {topic} is disputed"
        shown = "\n\n".join(f"    {one_line(one.told)}" for one in found[:SHOWN_FINDINGS])
        self.body = DISPUTED.format(topic=topic, cluster=c.paths.cluster, findings=shown)

    def _about_flapping(self, c: Coordinator, topic: str) -> None:
        sentence = flapping(c, [topic]).get(topic)
        if sentence is None:
            raise AirflowSkipException(f"every partition of {topic} has an owner: nobody is asked")
        self.subject = f"{topic} flaps"
        self.body = FLAPS.format(topic=topic, cluster=c.paths.cluster, sentence=one_line(sentence))


class ApplyAnswerOperator(ClusterOperator):
    """Isolates the blocker, or waits, by a person's answer. `question`: id of the task that asks."""

    def __init__(self, *, question: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.question = question

    def execute(self, context: Context) -> str:
        """Isolate in the person's name, if the consumer still holds the topic up."""
        answer = answer_of(context, self.question)
        who = (answer.get("responded_by_user") or {}).get("name") or "nobody"
        if answer["chosen_options"] != [ISOLATE]:
            raise AirflowSkipException(f"{who}: wait on")
        actor, blocker = replace(actor_of(context), who=who), context["params"]["consumer"]
        with self.coordinator() as coordinator:
            # An earlier isolation belongs to an earlier answer of the run.
            answered = answer.get("responded_at")
            since = (answered.timestamp() if isinstance(answered, datetime) else 0.0) - CLOCKS_S
            if done_by(coordinator, "isolate", blocker, actor, since=since):
                self.log.info("%s is isolated by %s: an earlier try of this task has done it", blocker, who)
                return who
            topic, consumer, _ = _held_up_now(coordinator, context)
            why = f"held up {topic}"
            asked = recording(coordinator, "isolate", consumer, actor, why)
            directives.isolate(asked, consumer, by=who, why=why)
        self.log.info("%s is isolated by %s: %s", consumer, who, why)
        return who


def answer_of(context: Context, question: str) -> Mapping[str, Any]:
    """Return the answer to the run's question.

    Skip the task if a person has marked the question as success without answering. The answer comes from the question's
    XCom, which anyone with the right to change the DAG's XComs can write.
    """
    answer = context["ti"].xcom_pull(task_ids=question)
    if answer is None:
        raise AirflowSkipException(
            f"nothing is done, because {question!r} has no answer: it was marked as success; clear it to ask again"
        )
    if not _is_answer(answer):
        raise AirflowFailException(f"the XCom of {question!r} is no answer to its question; clear it to ask again")
    return cast(Mapping[str, Any], answer)


def _is_answer(found: object) -> bool:
    if not isinstance(found, Mapping) or not isinstance(found.get("chosen_options"), list):
        return False
    person = found.get("responded_by_user") or {}
    return isinstance(person, Mapping) and all(isinstance(person.get(one) or "", str) for one in ("id", "name"))


def _held_up_now(c: Coordinator, context: Context) -> tuple[str, str, str]:
    """Return the run's topic and consumer, and the missing confirmation. Skip if no confirmation is missing."""
    topic, consumer = check_topic(context["params"]["topic"]), check_consumer(context["params"]["consumer"])
    sentence = held_up(c, [topic]).get(topic, {}).get(consumer)
    if sentence is None:
        raise AirflowSkipException(f"{consumer} no longer holds up {topic}: nothing is done")
    return topic, consumer, sentence


def takes(held: Mapping[str, Sequence[int]], alone: Collection[str] = ()) -> str:
    """Return, as text, the partitions that an isolation takes from a consumer.

    `alone`: topics for which no other consumer can take over.
    """
    listed = [f"{named(partitions)} of {topic}" for topic, partitions in sorted(held.items())]
    more = [f"those of {len(listed) - SHOWN_TOPICS} more topics"] if len(listed) > SHOWN_TOPICS else []
    taken = ", ".join([*listed[:SHOWN_TOPICS], *more]) or "it has no partition now"
    return f"{taken}; nobody else is there to take those of {shown(sorted(alone))}" if alone else taken


def one_line(sentence: str) -> str:
    """Return the text as one line for a code block, in which Markdown makes no links or images."""
    shown = "".join(letter if letter.isprintable() else " " for letter in sentence).strip()
    return cut(shown, SHOWN_CHARS)
