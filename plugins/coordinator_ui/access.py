# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the dependencies.
"""Access to the pages: a user who may read the runs of a cluster's `rebalance` DAG may read the cluster's pages."""

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.clusters import cluster as find_cluster
from coordinator_plugin.clusters import dag_id as named_here
from fastapi import HTTPException, Request

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.service.actions import ACTIONS

REBALANCE = "rebalance"


def may_read_cluster(request: Request, user: GetUserDep) -> None:
    """Answers 401 without a valid session of Airflow, 404 for an unknown cluster, 403 without the permission."""
    cluster = cluster_of(request.path_params.get("cluster", ""))
    requires_access_dag("GET", DagAccessEntity.RUN, cluster.dag_id(REBALANCE))(request, user)


def may_read_run(request: Request, user: GetUserDep) -> None:
    """Answers 401 without a valid session of Airflow, 403 without the permission for the DAG in the path."""
    requires_access_dag("GET", DagAccessEntity.RUN, str(request.path_params["dag_id"]))(request, user)


def readable_clusters(request: Request, user: GetUserDep) -> tuple[Cluster, ...]:
    """The clusters whose pages this user may read. Answers 401 without a valid session of Airflow, 403 if there is none."""
    found, refusal = [], HTTPException(403, "Forbidden")
    for one in clusters():
        try:
            requires_access_dag("GET", DagAccessEntity.RUN, one.dag_id(REBALANCE))(request, user)
        except HTTPException as error:
            refusal = error
        else:
            found.append(one)
    if not found:
        raise refusal
    return tuple(found)


def cluster_of(name: str) -> Cluster:
    """The cluster of this name (empty = the default); raises 404 for an unknown one."""
    try:
        return find_cluster(name)
    except Refused as error:
        raise HTTPException(404, str(error)) from error


def action_of_dag(dag_id: str) -> str | None:
    """The action whose form this DAG is."""
    return next((name for name, one in ACTIONS.items() if one.form and named_here(name) == dag_id), None)


def cluster_of_dag(dag_id: str) -> Cluster | None:
    """The cluster whose `rebalance` DAG this is."""
    return next((one for one in clusters() if one.dag_id(REBALANCE) == dag_id), None)
