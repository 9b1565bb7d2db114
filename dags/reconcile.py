"""Every minute: finds what no event told, and starts the runs that are needed for it."""

from datetime import timedelta

from airflow.sdk import DAG
from coordinator_plugin.base_operators import TriggerRunOperator
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import COMMON, cluster_param
from coordinator_plugin.upkeep import ReconcileOperator

DOCS = """
### Reconcile
What correctness relies on; events only make things faster. Reads the partition lists from Kafka anew, prunes the
histories, and looks for due topics, missing consumers and topics that are stuck. Starts `rebalance`, `consumers` and
`stuck_topic` for what it finds, unless they are under way.
"""
WAKES = ("rebalance", "consumers", "stuck_topic")


def build(cluster: Cluster) -> DAG:
    """The DAG of one cluster."""
    with DAG(
        cluster.dag_id("reconcile"),
        **COMMON,
        schedule=timedelta(minutes=1),
        max_active_runs=1,
        dagrun_timeout=timedelta(minutes=5),
        doc_md=DOCS,
        tags=["coordinator", cluster.name],
        params={"cluster": cluster_param(cluster)},
    ) as dag:
        look = ReconcileOperator(
            task_id="look", cluster=cluster.name, dag_ids={name: cluster.dag_id(name) for name in WAKES}
        )
        TriggerRunOperator.partial(
            task_id="wake", map_index_template="{{ task.trigger_dag_id }} {{ task.conf.get('topic', '') }}"
        ).expand_kwargs(look.output)
    return dag


for one in clusters():
    globals()[one.dag_id("reconcile")] = build(one)
