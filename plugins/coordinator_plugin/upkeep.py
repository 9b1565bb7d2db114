"""Operators around the transitions: the backstop, the fleet, the question to a person, and the actions of the forms."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from coordinator_plugin import backstop
from coordinator_plugin.actions import ACTIONS
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.operators import actor_of, one_line_errors
from coordinator_tasks.service import directives, fleet, transitions

WAIT, ISOLATE = "wait", "isolate"
_ACTIVE = ["queued", "running"]


class ReconcileOperator(BaseOperator):
    """Does the upkeep and returns the runs to start; `dag_ids` are this cluster's DAGs by their plain name."""

    template_fields: Sequence[str] = ("cluster",)

    def __init__(self, *, cluster: str = "", dag_ids: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.dag_ids = dag_ids

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Look, and say what was found."""
        with one_line_errors(), CoordinatorHook(self.cluster).open() as coordinator:
            findings = backstop.reconcile(coordinator, actor_of(context))
        for line in findings.lines or ["everything is as it should be"]:
            self.log.info("%s", line)
        ti = context["ti"]
        return backstop.runs(
            findings,
            self.dag_ids,
            active_rebalances=ti.get_dr_count(self.dag_ids["rebalance"], states=_ACTIVE),
            active_launches=ti.get_dr_count(self.dag_ids["consumers"], states=_ACTIVE),
        )


class MissingConsumers(BaseOperator):
    """The consumers that should run and do not, as the arguments of their launches."""

    template_fields: Sequence[str] = ("cluster",)

    def __init__(self, *, cluster: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster

    def execute(self, context: Context) -> list[dict[str, Any]]:  # noqa: ARG002 - Airflow's signature
        """One mapping for each."""
        with one_line_errors(), CoordinatorHook(self.cluster).open() as coordinator:
            launches = fleet.missing(coordinator)
        for launch in launches:
            self.log.info("%s of %s is missing", launch.consumer, launch.app)
        return [
            {
                "consumer": launch.consumer,
                "application": launch.application,
                "application_args": list(launch.arguments),
                "conf": dict(launch.conf),
            }
            for launch in launches
        ]


class ApplyAnswer(BaseOperator):
    """Does what a person answered about a blocker: isolates it, or waits on."""

    template_fields: Sequence[str] = ("cluster", "topic", "consumer")

    def __init__(self, *, cluster: str = "", topic: str, consumer: str, question: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.topic = topic
        self.consumer = consumer
        self.question = question

    def execute(self, context: Context) -> str:
        """Isolate in the name of who answered; only while the consumer still holds the topic up."""
        answer: Mapping[str, Any] = context["ti"].xcom_pull(task_ids=self.question)
        who = (answer.get("responded_by_user") or {}).get("name") or "nobody (time-out)"
        if answer["chosen_options"] != [ISOLATE]:
            raise AirflowSkipException(f"{who}: wait on")
        with one_line_errors(), CoordinatorHook(self.cluster).open() as coordinator:
            looks = (
                transitions.await_closed(coordinator, [self.topic]),
                transitions.await_started(coordinator, [self.topic]),
            )
            if not any(self.consumer in look.blockers.get(self.topic, ()) for look in looks):
                raise AirflowSkipException(f"{self.consumer} no longer holds up {self.topic}: nothing is done")
            why = f"held up {self.topic}"
            directives.isolate(coordinator, self.consumer, by=who, why=why)
        self.log.info("%s is isolated by %s: %s", self.consumer, who, why)
        return who


class ActionOperator(BaseOperator):
    """One of the actions of `coordinator_plugin.actions`, with the run's parameters."""

    def __init__(self, *, action: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action = action

    def execute(self, context: Context) -> list[str]:
        """Do it, or say what it would do."""
        given = dict(context["params"])
        dry_run = bool(given.get("dry_run", True))
        with one_line_errors(), CoordinatorHook(given.get("cluster", "")).open() as coordinator:
            lines = list(ACTIONS[self.action](coordinator, given, actor_of(context), dry_run))
        for line in lines:
            self.log.info("%s", line)
        if dry_run:
            self.log.info("dry run: nothing was changed; run it again without dry run to do it")
        return lines
