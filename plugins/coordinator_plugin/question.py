"""The question to a person about a topic that is held up, and what is done with the answer."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from coordinator_plugin.backstop import ASK_AGAIN_S
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.operators import one_line_errors
from coordinator_plugin.steps import held_up
from coordinator_plugin.untemplated import Untemplated
from coordinator_tasks.core.names import check_consumer, check_topic
from coordinator_tasks.service import directives
from coordinator_tasks.service.coordinator import Coordinator

WAIT, ISOLATE = "wait", "isolate"
SHOWN_CHARS = 1000
BODY = """
Topic **{topic}** of cluster **{cluster}** has not become Stable.

It waits for consumer **{consumer}**:

    {sentence}

*isolate* takes everything from this consumer at once; if it still lives, it is fenced, and one batch may be processed
twice. *wait* changes nothing; the question comes again while the topic is stuck.
"""


class AskAboutBlocker(Untemplated, HITLOperator):
    """Asks whether to wait on for the run's `consumer`, which holds up the run's `topic`, or to isolate it."""

    def __init__(self, *, cluster: str = "", **kwargs: Any) -> None:
        super().__init__(
            subject="",
            options=[WAIT, ISOLATE],
            defaults=WAIT,
            response_timeout=timedelta(seconds=ASK_AGAIN_S),
            **kwargs,
        )
        self.cluster = cluster

    def execute(self, context: Context) -> Any:
        """Ask with what is missing now; nobody is asked about what is no longer missing."""
        with one_line_errors(), CoordinatorHook(self.cluster).open() as coordinator:
            topic, consumer, sentence = _held_up_now(coordinator, context)
            cluster = coordinator.paths.cluster
        self.subject = f"{topic} is held up by {consumer}"
        self.body = BODY.format(topic=topic, cluster=cluster, consumer=consumer, sentence=_one_line(sentence))
        return super().execute(context)


class ApplyAnswer(Untemplated):
    """Does what a person answered about a blocker: isolates it, or waits on. `question`: the task that asked."""

    def __init__(self, *, cluster: str = "", question: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.question = question

    def execute(self, context: Context) -> str:
        """Isolate in the name of who answered; only while the consumer still holds the topic up."""
        answer: Mapping[str, Any] = context["ti"].xcom_pull(task_ids=self.question)
        who = (answer.get("responded_by_user") or {}).get("name") or "nobody (time-out)"
        if answer["chosen_options"] != [ISOLATE]:
            raise AirflowSkipException(f"{who}: wait on")
        with one_line_errors(), CoordinatorHook(self.cluster).open() as coordinator:
            topic, consumer, _ = _held_up_now(coordinator, context)
            why = f"held up {topic}"
            directives.isolate(coordinator, consumer, by=who, why=why)
        self.log.info("%s is isolated by %s: %s", consumer, who, why)
        return who


def _held_up_now(c: Coordinator, context: Context) -> tuple[str, str, str]:
    """The run's topic and consumer, and what is missing from it; skips the task where nothing is."""
    topic, consumer = check_topic(context["params"]["topic"]), check_consumer(context["params"]["consumer"])
    sentence = held_up(c, [topic]).get(topic, {}).get(consumer)
    if sentence is None:
        raise AirflowSkipException(f"{consumer} no longer holds up {topic}: nothing is done")
    return topic, consumer, sentence


def _one_line(sentence: str) -> str:
    """For a code block of one line, in which Markdown shows everything as it is: no link, no image."""
    shown = "".join(letter if letter.isprintable() else " " for letter in sentence).strip()
    return shown if len(shown) <= SHOWN_CHARS else shown[: SHOWN_CHARS - 3] + "..."
