"""Brings the fleets to their desired state: launches every missing consumer."""

from datetime import timedelta

from airflow.sdk import DAG
from coordinator_plugin.changes import Scope
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import POOL, changes_of, cluster_dag
from coordinator_plugin.launch import LaunchConsumerOperator
from coordinator_plugin.upkeep import LAUNCH, MissingConsumersOperator

DOCS = """
### Consumers
The fleet is a desired state in ZooKeeper. A launch task ends as soon as its consumer has registered; the consumer runs
independently of Airflow. A second launch of a live id has no effect, so every task may run again.
"""
LIMIT = timedelta(hours=1)
"""Of a run: `reconcile` starts none beside one that never ends, such as one that waits for a pool which is not there."""


def build(cluster: Cluster) -> DAG:
    """The DAG of one cluster."""
    schedule = [changes_of(cluster, Scope.FLEET)]
    with cluster_dag(cluster, "consumers", DOCS, schedule=schedule, max_active_runs=1, dagrun_timeout=LIMIT) as dag:
        missing = MissingConsumersOperator(task_id="missing", cluster=cluster.name)
        LaunchConsumerOperator.partial(
            task_id=LAUNCH, cluster=cluster.name, pool=POOL, map_index_template="{{ task.consumer }}"
        ).expand_kwargs(missing.output)
    return dag


for one in clusters():
    globals()[one.dag_id("consumers")] = build(one)
