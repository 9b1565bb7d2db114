"""Asks a person about a topic that is not Stable for too long, and names the consumer that blocks it."""

from airflow.sdk import DAG, Param
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import cluster_dag, name_param, notifiers, topic_param
from coordinator_plugin.question import ApplyAnswerOperator, QuestionOperator

DOCS = """
### Stuck topic
`reconcile` starts this DAG once for each topic and blocking consumer. A person answers: **wait**, or **isolate** the consumer: other
consumers then get the partitions without a confirmation. Without an answer the DAG waits, and asks again later.
The DAG also starts for a Stable topic with partitions without an owner, names the partitions, and says what to do. With `audit`, the question names
the findings of the ownership audit.
"""


def build(cluster: Cluster) -> DAG:
    """Return the DAG of a cluster."""
    disputed = "Partitions have two owners, or somebody commits what is not theirs."
    params = {
        "topic": topic_param(),
        "consumer": name_param("Consumer", "None = partitions have no owner."),
        "audit": Param(False, type="boolean", title="Ownership audit", description=disputed),
    }
    with cluster_dag(cluster, "stuck_topic", DOCS, params, schedule=None, max_active_runs=50) as dag:
        ask = QuestionOperator(task_id="ask", cluster=cluster.name, notifiers=notifiers(cluster))
        ask >> ApplyAnswerOperator(task_id="apply_answer", cluster=cluster.name, question=ask.task_id)
    return dag


for one in clusters():
    globals()[one.dag_id("stuck_topic")] = build(one)
