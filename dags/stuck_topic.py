"""Asks a person about a topic that does not become Stable, naming the consumer that holds it up."""

from datetime import timedelta

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, Param
from coordinator_plugin.backstop import ASK_AGAIN_S
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.dagparts import COMMON, cluster_param, consumer_param, topic_param
from coordinator_plugin.upkeep import ISOLATE, WAIT, ApplyAnswer

DOCS = """
### Stuck topic
Started by `reconcile`, once for each topic and blocker. The answer is a person's: **wait** on, or **isolate** the
consumer, whose partitions then go to others without its word. Without an answer it waits, and asks again later.
"""
BODY = """
Topic **{{ params.topic }}** of cluster **{{ params.cluster }}** has not become Stable.

It waits for consumer **{{ params.consumer }}**: {{ params.sentence }}

*isolate* takes everything from this consumer at once; if it still lives, it is fenced, and one batch may be processed
twice. *wait* changes nothing; the question comes again while the topic is stuck.
"""


def build(cluster: Cluster) -> DAG:
    """The DAG of one cluster."""
    with DAG(
        cluster.dag_id("stuck_topic"),
        **COMMON,
        schedule=None,
        max_active_runs=50,
        doc_md=DOCS,
        tags=["coordinator", cluster.name],
        params={
            "cluster": cluster_param(cluster),
            "topic": topic_param(),
            "consumer": consumer_param(),
            "sentence": Param("", type="string", title="What is missing"),
        },
    ) as dag:
        ask = HITLOperator(
            task_id="ask",
            subject="{{ params.topic }} is held up by {{ params.consumer }}",
            body=BODY,
            options=[WAIT, ISOLATE],
            defaults=WAIT,
            response_timeout=timedelta(seconds=ASK_AGAIN_S),
        )
        answer = ApplyAnswer(
            task_id="apply_answer",
            cluster=cluster.name,
            topic="{{ params.topic }}",
            consumer="{{ params.consumer }}",
            question=ask.task_id,
        )
        ask >> answer
    return dag


for one in clusters():
    globals()[one.dag_id("stuck_topic")] = build(one)
