"""Grows and shrinks fleets with limits of growth, by measured load, or only reports the decision.

`reconcile` starts the runs.
"""

from datetime import timedelta

from airflow.sdk import DAG
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import cluster_dag
from coordinator_plugin.upkeep import AutoscaleOperator

DOCS = """
### Autoscale
For each fleet with limits (`set-growth`), this DAG measures rates, lag and the reads of busy consumers. It then decides to move
partitions, to add consumers, or to drain the consumer that is cheapest to empty. In shadow mode, the default, the decision is only
reported. Nothing is decided on old measurements, while a rebalance or a redeployment is not finished, or while consumers start.
`reconcile` starts a run each minute while a fleet has limits; without limits there are no runs. A person may start a run at any time.
"""


def build(cluster: Cluster) -> DAG:
    """Return the DAG of a cluster."""
    limit = timedelta(minutes=10)
    with cluster_dag(cluster, "autoscale", DOCS, schedule=None, max_active_runs=1, dagrun_timeout=limit) as dag:
        AutoscaleOperator(task_id="look", cluster=cluster.name)
    return dag


for one in clusters():
    globals()[one.dag_id("autoscale")] = build(one)
