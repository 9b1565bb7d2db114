"""The link from a task to the coordinator's pages."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import attrs
from airflow.sdk import BaseOperatorLink

from coordinator_plugin.clusters import cluster as find_cluster
from coordinator_plugin.pages_address import pages_address

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


@attrs.define()
class ClusterPageLink(BaseOperatorLink):
    """The link from a task to its cluster's page: topics, consumers and last moves."""

    name = "Topics and consumers"

    def get_link(self, operator: "BaseOperator", **_: Any) -> str:
        return f"{pages_address()}/clusters/{find_cluster(getattr(operator, 'cluster', '')).name}"


@attrs.define()
class ResultLink(BaseOperatorLink):
    """The link from an action's task to the effect of the action, or of its dry run."""

    name = "Result"

    def get_link(self, operator: "BaseOperator", *, ti_key: Any) -> str:  # noqa: ARG002 - Airflow's signature
        return f"{pages_address()}/runs/{quote(ti_key.dag_id)}/{quote(ti_key.run_id)}"
