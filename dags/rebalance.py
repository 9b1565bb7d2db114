"""Brings topics to Stable: plan and begin, confirm closed, start, confirm started, settle."""

from datetime import timedelta

from airflow.sdk import DAG, Param
from coordinator_plugin.changes import Scope
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import changes_of, cluster_dag, deadline, dry_run_param
from coordinator_plugin.operators import (
    ConfirmClosedOperator,
    ConfirmStartedOperator,
    ContinueOperator,
    PlanOperator,
    SettleOperator,
    StartOperator,
)

DOCS = """
### Rebalance
One run serves many topics as a batch: each task applies a transition to every due topic, in one ZooKeeper
transaction per topic, and reports per topic in its log. Every task may run again at any time; it then changes nothing.

- **plan**: plans for consumers that joined or left, for new partitions, and for requests. If nothing has to close, the starts
  follow.
- **confirm_closed**, **confirm_started**: ask the consumers' own interfaces; end `written` (the step can be
  written), `unchanged` (nothing is awaited), `overtaken` (a new plan is due) or `stuck`.
- **start**, **settle**: write the confirmations.
- **further_run**: starts another run of this DAG for the remaining steps, or a later run if a step only waits for a set
  time. The rebalance keeps its id.

Changes in ZooKeeper, `reconcile` or a person start this DAG; two runs at once have the effect of one.
"""
MAX_RUNS = 4
"""Maximum parallel runs. Airflow combines the events of further changes in the next run."""
LIMIT = timedelta(minutes=30)
"""Time limit of a run. Two endless runs, such as runs with a logical date in the future, would block `reconcile`."""


def build(cluster: Cluster) -> DAG:
    """Return the DAG of a cluster."""
    changes = changes_of(cluster, Scope.TOPICS)
    which = "One per line; none means all that are due."
    topics = Param([], type="array", items={"type": "string"}, title="Topics", description=which)
    params = {"topics": topics, "dry_run": dry_run_param(default=False)}
    options = {"schedule": [changes], "max_active_runs": MAX_RUNS, "dagrun_timeout": LIMIT}
    with cluster_dag(cluster, "rebalance", DOCS, params, deadline=deadline(cluster), **options) as dag:
        plan = PlanOperator(
            task_id="plan", closing_steps=("confirm_closed", "start"), last_step="further_run", cluster=cluster.name
        )
        closed = ConfirmClosedOperator(task_id="confirm_closed", cluster=cluster.name)
        start = StartOperator(task_id="start", cluster=cluster.name)
        started = ConfirmStartedOperator(task_id="confirm_started", trigger_rule="none_failed", cluster=cluster.name)
        settle = SettleOperator(task_id="settle", cluster=cluster.name)
        further = ContinueOperator(
            task_id="further_run",
            trigger_dag_id=dag.dag_id,
            trigger_rule="none_failed",
            cluster=cluster.name,
            changes=changes,
        )
        plan >> closed >> start >> started >> settle >> further
    return dag


for one in clusters():
    globals()[one.dag_id("rebalance")] = build(one)
