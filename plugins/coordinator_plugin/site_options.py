"""The site's options in this Airflow, by environment variables of its services or the section `[kafka_coordinator]`.

Airflow needs these options while it parses DAGs, when connections cannot be read.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

SECTION = "kafka_coordinator"


class SiteOption(NamedTuple):
    """An option. `variable` overrides Airflow's configuration, which overrides `default`."""

    variable: str
    default: str
    what: str
    example: str


# Name: default, meaning, example.
_OPTIONS = {
    "clusters": (
        "main",
        "The clusters, the default first: name or name=ZOOKEEPER_CONNECTION/KAFKA_CONNECTION, separated by commas.",
        "main,eu=zookeeper_eu/kafka_eu",
    ),
    "dag_prefix": ("", "Goes before each DAG id.", "kafka_"),
    "dag_tags": ("", "Further tags of the DAGs, separated by commas.", "team-data"),
    "dags_paused": (
        "true",
        "false: a new DAG runs at once. Otherwise it is paused until somebody turns it on.",
        "false",
    ),
    "launch_pool": ("default_pool", "The pool of the tasks that launch consumers.", "consumers"),
    "notify_conn_id": (
        "",
        "An HTTP connection that is told which topics are stuck, when a person is asked or a task fails.",
        "chat",
    ),
    "run_base": (
        "",
        "The folder of all run folders on a worker; empty = consumers in AIRFLOW_HOME.",
        "/var/lib/coordinator",
    ),
    "let_go": ("", "yes: consumers are started on a worker although its container ends with Airflow.", "yes"),
    "launcher_service": ("", "yes: a launcher service starts the consumers, and tasks only wait for them.", "yes"),
}
OPTIONS: Mapping[str, SiteOption] = {
    name: SiteOption(f"COORDINATOR_{name.upper()}", *told) for name, told in _OPTIONS.items()
}


def option(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the site's value of an option."""
    wanted = OPTIONS[name]
    if wanted.variable in environ:
        return environ[wanted.variable]
    from airflow.configuration import conf  # noqa: PLC0415 - Airflow reads OPTIONS while it reads its configuration

    return str(conf.get(SECTION, name, fallback=wanted.default))


def named(name: str) -> str:
    """Return every name by which the option can be set, for an error's text."""
    return f"{OPTIONS[name].variable} or {name} in [{SECTION}]"
