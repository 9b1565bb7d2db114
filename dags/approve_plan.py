"""Asks a person to approve a plan that exceeds the site's budget."""

from airflow.sdk import DAG, Param
from coordinator_plugin.approval import PlanApprovalOperator
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import cluster_dag, notifiers, topic_param

DOCS = """
### Approve a plan
`reconcile` starts this DAG once for each plan that exceeds the budget of the site (`budget`: moves, share of the partitions, predicted
pause, time of the day). A person sees what would move, and approves or rejects the plan. If something changes before the plan is done, the
question is withdrawn and an approval is void. Partitions without a running owner never wait for an approval.
"""


def build(cluster: Cluster) -> DAG:
    """Return the DAG of a cluster."""
    which = "The plan: a digest of its inputs and moves."
    digest = Param("", type="string", pattern="^[0-9a-f]{0,64}$", title="Plan", description=which)
    params = {"topic": topic_param(), "digest": digest}
    with cluster_dag(cluster, "approve_plan", DOCS, params, schedule=None, max_active_runs=50) as dag:
        PlanApprovalOperator(task_id="ask", cluster=cluster.name, notifiers=notifiers(cluster))
    return dag


for one in clusters():
    globals()[one.dag_id("approve_plan")] = build(one)
