"""What a launch adds in cluster mode on YARN and Kubernetes, where the cluster chooses the driver's host."""

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException

from coordinator_tasks.core.errors import Refused

FILE_VARIABLE = "ASSIGNED_KAFKA_SETTINGS_FILE"
SECRET_VARIABLE = "ASSIGNED_KAFKA_SETTINGS_SECRET"  # noqa: S105 - the name of a variable
CONTENT_VARIABLE = "COORDINATOR_SETTINGS_SECRET"
"""Copy of a name in `spark_apps` or `coordinator_tasks.settings`, whose import would make tasks slower."""
STATUS_PORT = 7070
"""Port of a driver in a pod. `docs/kubernetes/network-policies.yaml` opens only this port."""
HOST, ADDRESS = "host", "address"
"""Words that a consumer's `--advertise` takes in place of a URL."""
_TRACKING = re.compile(r"^\s*tracking URL: (https?://[!-~]{1,500})$", re.MULTILINE)
MOST_CHARS = 300
DRIVER = {"spark.driver.minMemoryOverhead": "1g"}
"""A driver's container has the JVM's heap and eight Python processes of some 0.5 GB. Spark would add only 384 MiB."""
KUBERNETES = "k8s"
KUBERNETES_PROVIDER = "airflow.providers.cncf.kubernetes"
KUBERNETES_SECRET_VARIABLE = "COORDINATOR_KUBERNETES_SECRET"  # noqa: S105 - the name of a variable


def provider_problem(conn_id: str) -> str:
    """Return a sentence about the package that Airflow lacks for this Spark connection; empty if none is missing.

    Without the package, Spark's provider would end with a trace.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except AirflowException:  # Spark's provider falls back to YARN
        return ""
    kubernetes = KUBERNETES in (connection.host or "") or KUBERNETES in (connection.conn_type or "")
    if not kubernetes or _installed(KUBERNETES_PROVIDER):
        return ""
    return (
        f"the connection {conn_id!r} names Kubernetes, and Airflow lacks its provider: install "
        "apache-airflow-providers-cncf-kubernetes where tasks run, and restart the workers"
    )


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def yarn_conf(kafka_file: str) -> dict[str, str]:
    """Return Spark's settings on YARN. `kafka_file`: name of the file that is shipped to the executors."""
    return {
        **DRIVER,
        "spark.yarn.submit.waitAppCompletion": "false",
        "spark.yarn.maxAppAttempts": "1",
        f"spark.executorEnv.{FILE_VARIABLE}": kafka_file,
    }


def kubernetes_conf(cluster: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return Spark's settings on Kubernetes.

    Driver and executors get their secrets by reference to the cluster's Secret. With `--files`, the secrets would be in
    an upload folder, and have mode 644 in the pod.
    """
    secret = environ.get(KUBERNETES_SECRET_VARIABLE) or f"coordinator-{cluster}"
    kafka = f"{secret}:kafka.json"
    return {
        **DRIVER,
        "spark.kubernetes.submission.waitAppCompletion": "false",
        f"spark.kubernetes.driver.secretKeyRef.{CONTENT_VARIABLE}": f"{secret}:settings.json",
        f"spark.kubernetes.driver.secretKeyRef.{SECRET_VARIABLE}": kafka,
        f"spark.kubernetes.executor.secretKeyRef.{SECRET_VARIABLE}": kafka,
    }


def without_traces(said: str) -> str:
    """Return the output of a JVM without stack frames."""
    return "\n".join(line for line in said.splitlines() if not line.lstrip().startswith(("at ", "... ")))


def cause(said: str) -> str:
    """Return the innermost cause in the output, or else its last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["it said nothing"]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines)[-1][:MOST_CHARS]


def tracking_url(said: str) -> str:
    """Return YARN's page of the application from the output of spark-submit; empty if the output does not name it."""
    found = _TRACKING.search(said)
    return found[1] if found else ""


def reachable(arguments: Sequence[str], *, on_kubernetes: bool, has_token: bool) -> list[str]:
    """Return the arguments for a status interface that the coordinator can reach. Raises `Refused` without a token."""
    given = list(arguments)
    if any(one.partition("=")[0] == "--listen" for one in given):
        return given
    if not has_token:
        raise Refused(
            "in cluster mode the coordinator asks the consumer from another host, and no status token is set: "
            "set status_token in the extra of the ZooKeeper connection, or give --listen"
        )
    port = STATUS_PORT if on_kubernetes else 0
    return [*given, "--listen", f"0.0.0.0:{port}", "--advertise", ADDRESS if on_kubernetes else HOST]
