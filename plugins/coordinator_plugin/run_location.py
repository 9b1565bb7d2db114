"""Checks whether a consumer on this host outlives Airflow, and gives the folder of its files."""

import os
from collections.abc import Mapping
from pathlib import Path

from coordinator_plugin.site_options import named, option
from coordinator_tasks.core.errors import Refused

_CONTAINER_INITS = frozenset({"dumb-init", "tini", "docker-init", "catatonit", "pause"})
"""First processes of containers that end together with the program they start."""


def let_go_problem(environ: Mapping[str, str] = os.environ, proc: Path = Path("/proc")) -> str:
    """Return why a launched child would die with Airflow, as a sentence; empty if the child would survive.

    If Airflow is a container's first process, the end of Airflow ends all processes of the container. The first process
    of Airflow's image is `dumb-init`, whose command need not name Airflow: `dumb-init -- /entrypoint celery worker`.
    Raises `Refused`.
    """
    if _is_yes("let_go", environ):
        return ""
    try:
        first = (proc / "1" / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    program = first.split(" ", 1)[0].rpartition("/")[2]
    if "airflow" not in first.lower() and program not in _CONTAINER_INITS:
        return ""
    return (
        f"this worker runs in a container whose first process is {program}, so a consumer launched here would die with it: "
        "run spark_apps.launch.launcher_service in a container of its own and set "
        f"{named('launcher_service')} to yes here, or run the launch tasks on a worker in a container that is not "
        f"restarted with Airflow and set {named('let_go')} to yes there, or use cluster mode on YARN or Kubernetes"
    )


def launched_elsewhere(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a launcher service starts the consumers, so that a launching task only waits. Raises `Refused`."""
    return _is_yes("launcher_service", environ)


def _is_yes(name: str, environ: Mapping[str, str]) -> bool:
    found = option(name, environ)
    if found not in ("yes", "no", ""):
        raise Refused(f"{named(name)} is {found[:60]!r}; set it to yes or no")
    return found == "yes"


def run_base(base: str = "", environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all run folders on this host."""
    chosen = base or option("run_base", environ)
    if chosen:
        return Path(chosen).absolute()
    return Path(environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "consumers"
