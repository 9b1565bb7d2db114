"""The clusters of this Airflow, and the ids of their DAGs. The first cluster is the default.

A cluster without connections of its own uses `zookeeper_default` and `kafka_default`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from coordinator_plugin.site_options import named, option
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.names import check_cluster

_PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,50}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster's name and the ids of its Airflow connections. `first`: its DAG ids have no suffix."""

    name: str
    zookeeper_conn_id: str = "zookeeper_default"
    kafka_conn_id: str = "kafka_default"
    first: bool = True

    def dag_id(self, name: str) -> str:
        """Return a DAG's id: `rebalance` for the first cluster, `rebalance__NAME` for another cluster."""
        return dag_id(name if self.first else f"{name}__{self.name}")


def dag_id(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the DAG's id in this Airflow, with the site's prefix. Raises `Refused`."""
    prefix = option("dag_prefix", environ)
    if not _PREFIX.fullmatch(prefix):
        raise Refused(
            f"{named('dag_prefix')} is {prefix[:60]!r}; give at most 50 letters, digits, and characters of _ . -"
        )
    return prefix + name


def begin_paused(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a new DAG starts paused. Raises `Refused`."""
    found = option("dags_paused", environ).lower()
    if found not in ("true", "false"):
        raise Refused(f"{named('dags_paused')} is {found[:60]!r}; set it to true or false")
    return found == "true"


def clusters(environ: Mapping[str, str] = os.environ) -> tuple[Cluster, ...]:
    """Return all clusters, the default first. Raises `Refused`."""
    entries = [one.strip() for one in option("clusters", environ).split(",") if one.strip()]
    found = tuple(_cluster(entry, first=number == 0) for number, entry in enumerate(entries))
    names = [cluster.name for cluster in found]
    if not names or len(set(names)) != len(names):
        listed = ", ".join(names) or "empty"
        raise Refused(f"{named('clusters')} names no cluster, or one twice: {listed}; name each once")
    return found


def cluster(name: str = "", environ: Mapping[str, str] = os.environ) -> Cluster:
    """Return the cluster of this name, or the default cluster if empty. Raises `Refused` for an unknown name."""
    found = clusters(environ)
    for one in found:
        if one.name == (name or found[0].name):
            return one
    known = ", ".join(one.name for one in found)
    raise Refused(f"the cluster {name!r} is not known here: choose one of {known}, or add it to {named('clusters')}")


def _cluster(entry: str, *, first: bool) -> Cluster:
    name, _, connections = entry.partition("=")
    check_cluster(name)
    if not connections:
        return Cluster(name, first=first)
    zookeeper, _, kafka = connections.partition("/")
    return Cluster(name, zookeeper or "zookeeper_default", kafka or "kafka_default", first)
