"""Brings topics to Stable: plan and begin, confirm closed, start, confirm started, settle."""

from airflow.sdk import DAG
from coordinator_plugin.changes import Scope
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import COMMON, changes_of, cluster_param, dry_run_param, topics_param
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
One run serves many topics as a batch: each task applies its transition to every topic that is due, one ZooKeeper
transaction each, and reports per topic in its log. Every task may be run again at any time; it then changes nothing.

- **plan**: what joined, left, was added or asked for becomes a plan. Without anything to close it goes on to the starts.
- **confirm_closed**, **confirm_started**: ask the consumers' own interfaces; end `confirmed`, `replan` or `blocked`.
- **start**, **settle**: write what was confirmed.
- **further_run**: what is left over goes on in a further run under the same rebalance id: it wakes this DAG, as a change in
  ZooKeeper does, or starts a run for later where something only waits for its time.

Woken by changes in ZooKeeper, by `reconcile`, or by hand; two runs at once have one effect.
"""
MAX_RUNS = 4
"""Events of more are put together into the next one."""


def build(cluster: Cluster) -> DAG:
    """The DAG of one cluster."""
    rebalance_id = cluster.dag_id("rebalance")
    with DAG(
        rebalance_id,
        **COMMON,
        schedule=[changes_of(cluster, Scope.TOPICS)],
        max_active_runs=MAX_RUNS,
        doc_md=DOCS,
        tags=["coordinator", cluster.name],
        params={
            "cluster": cluster_param(cluster),
            "topics": topics_param(),
            "dry_run": dry_run_param(default=False),
        },
    ) as dag:
        plan = PlanOperator(
            task_id="plan",
            closing_steps=("confirm_closed", "start"),
            last_step="further_run",
            cluster=cluster.name,
        )
        closed = ConfirmClosedOperator(task_id="confirm_closed", cluster=cluster.name)
        start = StartOperator(task_id="start", cluster=cluster.name)
        started = ConfirmStartedOperator(task_id="confirm_started", trigger_rule="none_failed", cluster=cluster.name)
        settle = SettleOperator(task_id="settle", cluster=cluster.name)
        further = ContinueOperator(
            task_id="further_run",
            trigger_dag_id=rebalance_id,
            trigger_rule="none_failed",
            cluster=cluster.name,
            changes=changes_of(cluster, Scope.TOPICS),
        )
        plan >> closed >> start >> started >> settle >> further
    return dag


for one in clusters():
    globals()[one.dag_id("rebalance")] = build(one)
