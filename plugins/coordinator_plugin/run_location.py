"""Whether a consumer that is launched on this host outlives Airflow, and where its files are."""

import os
from collections.abc import Mapping
from pathlib import Path

BASE_VARIABLE = "COORDINATOR_RUN_BASE"
ALLOW_VARIABLE = "COORDINATOR_LET_GO"
SERVICE_VARIABLE = "COORDINATOR_LAUNCHER_SERVICE"
_CONTAINER_INITS = frozenset({"dumb-init", "tini", "docker-init", "catatonit", "pause"})
"""First processes of containers: they end with the one program that they start."""


def let_go_problem(environ: Mapping[str, str] = os.environ, proc: Path = Path("/proc")) -> str:
    """Why a launched child would die with Airflow, in a sentence; empty = it lives on.

    In a container whose first process is Airflow, everything ends when that container does. That of Airflow's image is
    `dumb-init`, and its command need not name Airflow: `dumb-init -- /entrypoint celery worker`.
    """
    if environ.get(ALLOW_VARIABLE, "") == "yes":
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
        f"{SERVICE_VARIABLE}=yes here, or run the launch tasks on a worker in a container that is not restarted with "
        f"Airflow and set {ALLOW_VARIABLE}=yes there, or use cluster mode on YARN or Kubernetes"
    )


def launched_elsewhere(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher service starts the consumers, so that a launch task only waits for them."""
    return environ.get(SERVICE_VARIABLE, "") == "yes"


def run_base(base: str = "", environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of all run folders on this host."""
    chosen = base or environ.get(BASE_VARIABLE, "")
    if chosen:
        return Path(chosen).absolute()
    return Path(environ.get("AIRFLOW_HOME", "~/airflow")).expanduser().absolute() / "consumers"
