# No `from __future__ import annotations` here: FastAPI resolves these annotations when it builds the dependencies.
"""Access to the pages. Whoever may read the runs of a cluster's `rebalance` DAG may read the cluster's pages.

`Access` gives every route a readable cluster. `named_cluster` runs before every route.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, NewType

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from coordinator_plugin.clusters import Cluster, clusters
from coordinator_plugin.clusters import dag_id as named_here
from coordinator_plugin.forms import FORMS
from fastapi import Depends, HTTPException, Request

REBALANCE = "rebalance"
ReadableCluster = NewType("ReadableCluster", str)
"""The name of a cluster that the request's user may read. Only `Access` makes such names, and `Reader` needs them."""


class NotReadable(HTTPException):
    """The user may not read the runs of this DAG."""

    def __init__(self, dag: str) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, "Forbidden")
        self.dag = dag


@dataclass(frozen=True, slots=True)
class Access:
    """The clusters that a user may read. `check`: Airflow's check for a DAG's runs, which raises Airflow's refusal."""

    check: Callable[[str], None]

    def cluster(self, name: str = "") -> ReadableCluster:
        """Return the cluster of this name; the site's default if empty. Raises 403, and 404 for an unknown name."""
        found = next((one for one in clusters() if name in ("", one.name)), None)
        if found is None:
            known = ", ".join(self.all())
            raise HTTPException(
                HTTPStatus.NOT_FOUND, f"the cluster {name[:60]!r} is not known here: choose one of {known}"
            )
        if not self._may_read(found):
            raise NotReadable(found.dag_id(REBALANCE))
        return ReadableCluster(found.name)

    def all(self) -> tuple[ReadableCluster, ...]:
        """Return the clusters that the user may read. Raises 403 if there are none."""
        every = clusters()
        found = tuple(ReadableCluster(one.name) for one in every if self._may_read(one))
        if not found:
            raise NotReadable(every[0].dag_id(REBALANCE))
        return found

    def _may_read(self, one: Cluster) -> bool:
        try:
            self.check(one.dag_id(REBALANCE))
        except HTTPException as error:
            if error.status_code != HTTPStatus.FORBIDDEN:
                raise
            return False
        return True


def access_of(request: Request, user: GetUserDep) -> Access:
    """Return the access of the request's user. Answers 401 without a valid session in Airflow."""

    def check(dag_id: str) -> None:
        requires_access_dag("GET", DagAccessEntity.RUN, dag_id)(request, user)

    return Access(check)


UserAccess = Annotated[Access, Depends(access_of)]


def named_cluster(request: Request, access: UserAccess) -> ReadableCluster | None:
    """Return the cluster in the address's path or query; `None` if none is named. Runs before every route.

    Answers 403 or 404 unless the user may read every named cluster, and the runs of the DAG in the path.
    """
    if dag := str(request.path_params.get("dag_id", "")):
        try:
            access.check(dag)
        except HTTPException as error:
            raise NotReadable(dag) if error.status_code == HTTPStatus.FORBIDDEN else error from None
    names = [str(request.path_params.get("cluster", "")), *request.query_params.getlist("cluster")]
    found = [access.cluster(name) for name in names if name]
    return found[0] if found else None


def readable_clusters(access: UserAccess) -> tuple[ReadableCluster, ...]:
    """Return the clusters that the user may read. Answers 403 if there are none."""
    return access.all()


Named = Annotated[ReadableCluster | None, Depends(named_cluster)]
Readable = Annotated[tuple[ReadableCluster, ...], Depends(readable_clusters)]


def of_cluster(named: Named, access: UserAccess) -> ReadableCluster:
    """Return the cluster of a page: the cluster in the address, or the first that the user may read."""
    return named or access.all()[0]


OfCluster = Annotated[ReadableCluster, Depends(of_cluster)]


def action_of_dag(dag_id: str) -> str | None:
    """Return the action whose form is this DAG; `None` for any other DAG."""
    return next((name for name in FORMS if named_here(name) == dag_id), None)


def cluster_of_dag(dag_id: str) -> str:
    """Return the cluster whose `rebalance` DAG has this id; empty for any other DAG."""
    return next((one.name for one in clusters() if one.dag_id(REBALANCE) == dag_id), "")
