"""What a person may ask for, as forms: of topics, of consumers, and of single partitions and their offsets."""

from collections.abc import Mapping

from airflow.sdk import DAG, Param
from coordinator_plugin.dagparts import COMMON, cluster_param, consumer_param, dry_run_param, topic_param, why_param
from coordinator_plugin.upkeep import ActionOperator

START = Param(
    "earliest",
    type="string",
    enum=["earliest", "latest", "none"],
    title="Start",
    description="Where a partition begins that has no committed offset; none = that is an error.",
)
GROUP = Param(type="string", minLength=1, maxLength=255, title="Group id", description="The Kafka group to commit to.")
STRATEGY = Param(
    "", type="string", title="Strategy", description="How partitions are given to consumers; empty = the cluster's."
)
PARAMETERS = Param(
    {}, type="object", title="Parameters", description='All of the strategy\'s, such as {"measure": "lag"}.'
)
PARTITIONS = Param(
    [], type="array", items={"type": "integer", "minimum": 0}, title="Partitions", description="None means all."
)
PINNED = Param(
    type="array", items={"type": "integer", "minimum": 0}, minItems=1, title="Partitions", description="At least one."
)
TO = Param(
    type="string", minLength=1, title="To", description="earliest, latest, an offset, or a time: 2026-11-21T08:15:00Z."
)
MINUTES = Param(
    0,
    type="number",
    minimum=0,
    maximum=527_040,
    title="Minutes",
    description="For how long; 0 = until it is readmitted.",
)

ACTIONS: Mapping[str, tuple[str, Mapping[str, Param]]] = {
    "add_topic": (
        "Manage a Kafka topic: its partitions are assigned to the consumers from then on.",
        {"topic": topic_param(), "group_id": GROUP, "start": START, "strategy": STRATEGY, "parameters": PARAMETERS},
    ),
    "set_strategy": (
        "Give a topic another strategy and all of its parameters; a dry run of `rebalance` then shows what that moves.",
        {"topic": topic_param(), "strategy": STRATEGY, "parameters": PARAMETERS},
    ),
    "remove_topic": (
        "Stop managing a topic: its consumers stop and commit. The topic and its committed offsets stay.",
        {"topic": topic_param()},
    ),
    "drain": (
        "Let a consumer give everything away by hand-offs, and leave its fleet.",
        {"consumer": consumer_param(), "why": why_param()},
    ),
    "isolate": (
        "Take everything from a consumer at once, without its word; it may run nothing until it is readmitted.",
        {"consumer": consumer_param(), "why": why_param(), "minutes": MINUTES},
    ),
    "readmit": (
        "Let an isolated consumer in again; it takes effect when it has confirmed that it runs nothing.",
        {"consumer": consumer_param()},
    ),
    "pause": (
        "Read partitions no longer. Their consumers keep them, commit them as they are, and go on with the others.",
        {"topic": topic_param(), "partitions": PARTITIONS},
    ),
    "resume": (
        "Read paused partitions again, from where they are.",
        {"topic": topic_param(), "partitions": PARTITIONS},
    ),
    "freeze": (
        "Let nothing of a topic move for those who come or go. What nobody runs any more is placed all the same.",
        {"topic": topic_param()},
    ),
    "unfreeze": (
        "Let a frozen topic be planned again; a dry run of `rebalance` then shows what that moves.",
        {"topic": topic_param()},
    ),
    "pin": (
        "Keep partitions with one consumer whenever it is there. They move to it with the next plan.",
        {"topic": topic_param(), "consumer": consumer_param(), "partitions": PINNED},
    ),
    "unpin": (
        "Let pinned partitions go where the strategy puts them.",
        {"topic": topic_param(), "partitions": PARTITIONS},
    ),
    "reset_offsets": (
        "Let partitions go on somewhere else: their consumers stop them, commit, and start again there. The history keeps "
        "where each of them was, so that another reset undoes it.",
        {"topic": topic_param(), "to": TO, "partitions": PARTITIONS, "why": why_param()},
    ),
}


def build(action: str, docs: str, params: Mapping[str, Param]) -> DAG:
    """One form."""
    with DAG(
        action,
        **COMMON,
        schedule=None,
        max_active_runs=4,
        doc_md=f"### {action.replace('_', ' ').capitalize()}\n{docs}\n\nA dry run says what would happen.",
        tags=["coordinator", "action"],
        params={"cluster": cluster_param(), **params, "dry_run": dry_run_param()},
    ) as dag:
        ActionOperator(task_id=action, action=action)
    return dag


for one, (text, fields) in ACTIONS.items():
    globals()[one] = build(one, text, fields)
