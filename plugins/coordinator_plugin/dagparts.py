"""Common parts of the DAG files: retries, the assets of ZooKeeper's watcher, and the fields of the forms."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, AssetWatcher, Param
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from coordinator_plugin.changes import Scope
from coordinator_plugin.clusters import Cluster, begin_paused, clusters
from coordinator_plugin.notifications import StuckTopicsNotifier
from coordinator_plugin.site_options import option
from coordinator_plugin.watcher import ZooKeeperChangesTrigger
from coordinator_tasks.service.actions.parameters import TOPIC

POOL = option("launch_pool")
"""The pool of the launches, if the site has created it: Airflow never runs a task whose pool is missing."""

DEADLINE = timedelta(minutes=5)
COMMON: Mapping[str, Any] = {
    "catchup": False,
    "is_paused_upon_creation": begin_paused(),
    "default_args": {
        "owner": "coordinator",
        "retries": 3,
        "retry_delay": timedelta(seconds=2),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(seconds=30),
    },
}


def cluster_dag(
    cluster: Cluster, name: str, docs: str, params: Mapping[str, Param] | None = None, **options: Any
) -> DAG:
    """Return a DAG of one cluster, with the common arguments."""
    return DAG(
        cluster.dag_id(name),
        **{**COMMON, "default_args": {**COMMON["default_args"], "on_failure_callback": notifiers(cluster)}},
        doc_md=docs,
        tags=tags(cluster.name),
        params={"cluster": cluster_param(cluster), **(params or {})},
        **options,
    )


def notifiers(cluster: Cluster) -> list[StuckTopicsNotifier]:
    """Return the callbacks that notify the site. Without a connection they only write to the log."""
    conn_id = option("notify_conn_id")
    return [StuckTopicsNotifier(cluster=cluster.name, http_conn_id=conn_id)] if conn_id else []


def deadline(cluster: Cluster) -> DeadlineAlert | None:
    """Return the alert for a run that takes longer than `DEADLINE`, because Airflow itself fails or is too busy."""
    conn_id = option("notify_conn_id")
    if not conn_id:
        return None
    told = AsyncCallback(StuckTopicsNotifier, kwargs={"cluster": cluster.name, "http_conn_id": conn_id})
    return DeadlineAlert(reference=DeadlineReference.DAGRUN_QUEUED_AT, interval=DEADLINE, callback=told)


def tags(*own: str) -> list[str]:
    """Return a DAG's tags, with the site's tags."""
    site = option("dag_tags").split(",")
    return ["coordinator", *own, *(tag.strip() for tag in site if tag.strip())]


def changes_of(cluster: Cluster, scope: Scope) -> Asset:
    """Return the asset for one part of ZooKeeper."""
    name = f"zookeeper_{cluster.name}_{scope}"
    watcher = AssetWatcher(name=name, trigger=ZooKeeperChangesTrigger(cluster.name, str(scope)))
    return Asset(name=name, uri=f"zookeeper://{cluster.name}/{scope}", group="coordinator", watchers=[watcher])


def cluster_param(cluster: Cluster | None = None) -> Param:
    """Return the cluster parameter. In a DAG of one cluster the parameter is fixed."""
    names = [cluster.name] if cluster is not None else [one.name for one in clusters()]
    return Param(names[0], type="string", enum=names, title="Cluster", description="The cluster to act on.")


def topic_param() -> Param:
    """Return the topic parameter."""
    return Param(**(TOPIC.form or {}))


def name_param(title: str, description: str) -> Param:
    """Return the parameter for a consumer or a fleet; may be empty."""
    pattern = "^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$"
    return Param("", type="string", pattern=pattern, title=title, description=description)


def dry_run_param(default: bool = True) -> Param:
    """Return the parameter for a dry run."""
    description = "Say what would be done, and change nothing."
    return Param(default, type="boolean", title="Dry run", description=description)
