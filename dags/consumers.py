"""Brings the fleets to their desired state, by launching every missing consumer."""

from airflow.sdk import DAG
from coordinator_plugin.base_operators import TriggerRunOperator
from coordinator_plugin.changes import Scope
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import POOL, changes_of, cluster_dag, name_param
from coordinator_plugin.fleet_runs import LIMIT, MOST_AT_ONCE, FleetRunsOperator
from coordinator_plugin.launch import LaunchConsumerOperator
from coordinator_plugin.upkeep import LAUNCH, MissingConsumersOperator

DOCS = """
### Consumers
The fleet is a desired state in ZooKeeper. A launch task ends with the registration of the consumer; the consumer runs
independently of Airflow. A second launch of a live id has no effect, so every task may run again.

A run without a fleet starts a run for each fleet with missing consumers. The runs are parallel: a slow or failing fleet delays no other.
A fleet has a single run at a time.
"""


def build(cluster: Cluster) -> DAG:
    """Return the DAG of a cluster."""
    options = {"schedule": [changes_of(cluster, Scope.FLEET)], "max_active_runs": MOST_AT_ONCE, "dagrun_timeout": LIMIT}
    which = "Launch for this one alone; empty = start a run for each fleet with missing consumers."
    with cluster_dag(cluster, "consumers", DOCS, {"app": name_param("Fleet", which)}, **options) as dag:
        fleets = FleetRunsOperator(task_id="fleets", cluster=cluster.name)
        label = "{{ task.conf.get('app', '') }}"
        TriggerRunOperator.partial(task_id="start", map_index_template=label).expand_kwargs(fleets.output)
        missing = MissingConsumersOperator(task_id="missing", cluster=cluster.name)
        LaunchConsumerOperator.partial(
            task_id=LAUNCH, cluster=cluster.name, pool=POOL, map_index_template="{{ task.consumer }}"
        ).expand_kwargs(missing.output)
    return dag


for one in clusters():
    globals()[one.dag_id("consumers")] = build(one)
