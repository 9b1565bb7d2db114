"""Every minute: finds changes for which no event came, and starts the necessary runs."""

from datetime import timedelta

from airflow.sdk import DAG
from coordinator_plugin.base_operators import TriggerRunOperator
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import cluster_dag
from coordinator_plugin.upkeep import ReconcileOperator

DOCS = """
### Reconcile
Correctness relies on this DAG; events only make the work faster. It reads the partition lists from Kafka, prunes the histories, keeps
the lag, audits the ownership, and searches due topics, missing consumers, stuck topics and plans that wait for
approval. It starts `rebalance`, `consumers`, `stuck_topic` and `approve_plan`, and `autoscale` while a fleet has limits of growth, unless under
way. If steps are due while a run of `rebalance` is under way, another run starts for these steps, because the first run may hang after the
death of its worker.
"""
WAKES = ("rebalance", "consumers", "stuck_topic", "approve_plan", "autoscale")


def build(cluster: Cluster) -> DAG:
    """Return the DAG of a cluster."""
    minute = timedelta(minutes=1)
    with cluster_dag(cluster, "reconcile", DOCS, schedule=minute, max_active_runs=1, dagrun_timeout=5 * minute) as dag:
        look = ReconcileOperator(
            task_id="look", cluster=cluster.name, dag_ids={name: cluster.dag_id(name) for name in WAKES}
        )
        # Airflow's database allows 250 characters for the name.
        label = "{{ (task.trigger_dag_id ~ ' ' ~ task.conf.get('topic', ''))[:250] }}"
        TriggerRunOperator.partial(task_id="wake", map_index_template=label).expand_kwargs(look.output)
    return dag


for one in clusters():
    globals()[one.dag_id("reconcile")] = build(one)
