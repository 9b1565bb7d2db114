"""The forms for people: for topics, for consumers, and for single partitions and their offsets."""

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param
from coordinator_plugin.clusters import dag_id
from coordinator_plugin.dagparts import COMMON, cluster_param, dry_run_param, tags
from coordinator_plugin.forms import FORMS
from coordinator_plugin.upkeep import ActionOperator, WatchSensor

from coordinator_tasks.service.actions.action import Action

MAX_RUNS = 4
MAX_FOLLOWING = 50
"""Parallel runs. An action may take hours, and the action on another fleet, or the way back, must not wait for it."""


def fields(action: Action) -> Mapping[str, Param]:
    """Return the action's own fields by name."""
    return {one.name: Param(**optional(one.form)) for one in action.parameters if one.form is not None}


def optional(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the field for Airflow's own form, where a text may be left empty only if nullable."""
    return {**form, "type": ["null", "string"]} if form["type"] == "string" and form.get("default") == "" else form


def build(action: Action) -> DAG:
    """Return the form of an action."""
    asked = {} if action.reads else {"dry_run": dry_run_param()}
    dry_run = "Changes nothing." if action.reads else "A dry run says what would happen."
    with DAG(
        dag_id(action.name),
        dag_display_name=dag_id(action.words),
        **COMMON,
        schedule=None,
        max_active_runs=MAX_RUNS if action.watch is None else MAX_FOLLOWING,
        doc_md=f"### {action.words}\n{action.form}\n\n{dry_run}",
        tags=tags("action"),
        params={"cluster": cluster_param(), **fields(action), **asked},
    ) as dag:
        done = ActionOperator(task_id=action.name, task_display_name=action.words, action=action.name)
        if action.watch is not None:
            done >> WatchSensor(task_id="follow", action=action.name)
    return dag


for one in FORMS.values():
    globals()[one.name] = build(one)
