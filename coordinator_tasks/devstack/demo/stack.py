"""The servers of the demonstration: ZooKeeper, Kafka and Airflow start at the same time, and end together."""

import fcntl
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import coordinator_tasks
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.devstack.embedded import detached
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.jars import pyspark_home
from coordinator_tasks.devstack.embedded.kafka import EmbeddedBrokers, EmbeddedKafka
from coordinator_tasks.devstack.embedded.ports import HOST
from coordinator_tasks.devstack.embedded.processes import Guard, ManagedProcess, ProcessSpec, ServerGroup, reap_all
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedEnsemble, EmbeddedZooKeeper
from coordinator_tasks.java import find_java
from coordinator_tasks.settings import Settings

PROJECT = Path(coordinator_tasks.__file__).parent.parent
CLUSTER = "demo"
DAGS = ("rebalance", "consumers", "reconcile", "drain")
TOPIC_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
ALLOWED_CONF = "spark.driver.extraJavaOptions"
END_GRACE_S = 3.0
SEPARATORS = {",": "Kafka's log.dirs", "?": "the address of Airflow's database"}
"""Characters that a path must not have → where the character would end the path, because quoting is impossible there.
"""


class DemoFailed(CoordinatorError, code="KPC-075"):
    """The demonstration could not begin or continue; its processes have ended.

    Remedy: read the cause and the logs. `make demo-stop` ends a demonstration that `KEEP=1` has left running.
    """


class Folders:
    """The paths of all files below `base`. Each demonstration makes `run` anew."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.report = base / "report.json"
        self.kept = base / "kept.json"  # the processes that were left running, for the next `--stop`
        self.lock = base / "lock"  # locked by the demonstration that runs in these folders
        self.run = base / "run"  # data and logs of the servers and the consumers
        self.audit = self.run / "audit"  # the sink
        self.consumers = self.run / "consumers"  # the run folders of the consumers
        self.settings = self.run / "settings.json"  # for the command line, if the servers keep running
        self.journal = self.run / "journal.txt"  # the records that the broker has confirmed to the producer
        self.producer_log = self.run / "producer.log"


def default_folders() -> Folders:
    """Return the folders below the project's `build`."""
    return Folders(PROJECT / "build" / "demo")


def occupy(folders: Folders) -> int:
    """Lock the folders for this process and empty them. Return the lock's descriptor. Raises `DemoFailed`."""
    for sign, place in SEPARATORS.items():
        if sign in str(folders.base):
            raise DemoFailed(
                f"{folders.base} has {sign!r} in its path, where a path in {place} ends; move the project to a folder without it"
            )
    folders.base.mkdir(parents=True, exist_ok=True)
    lock = os.open(folders.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DemoFailed(f"another demonstration uses {folders.base}; wait until it ends, or end it") from None
    kept = detached.details(folders.kept)
    if kept:
        raise DemoFailed(f"the last demonstration still runs ({kept.get('airflow', '')}); end it with: make demo-stop")
    shutil.rmtree(folders.run, ignore_errors=True)
    if folders.run.exists():
        raise DemoFailed(
            f"{folders.run} cannot be deleted: wait if the last demonstration still ends, else delete it, and start again"
        )
    folders.kept.unlink(missing_ok=True)
    folders.report.unlink(missing_ok=True)
    folders.audit.mkdir(parents=True)
    return lock


class Stack:
    """The servers, which start in the background. `wait_for_servers` and `airflow` wait until they serve."""

    def __init__(self, folders: Folders, *, ensemble: bool = False) -> None:
        self.folders = folders
        self.zookeeper = (EmbeddedEnsemble if ensemble else EmbeddedZooKeeper)(folders.run / "zookeeper")
        self.kafka = (EmbeddedBrokers if ensemble else EmbeddedKafka)(folders.run / "kafka")
        self._status_token = secrets.token_urlsafe()
        self._starting = ThreadPoolExecutor(3, thread_name_prefix="start")
        Guard.current()  # made here, before several threads use it
        self._servers = [self._starting.submit(one) for one in (self.zookeeper.start, self.kafka.start)]
        self._airflow = self._starting.submit(self._start_airflow)
        self.producer: ManagedProcess | None = None

    def wait_for_servers(self) -> None:
        for one in self._servers:
            one.result()

    @property
    def airflow(self) -> EmbeddedAirflow:
        """Return Airflow, once its services are healthy and the DAGs are parsed."""
        return self._airflow.result()

    @property
    def airflow_is_up(self) -> bool:
        """Return whether `airflow` would return at once."""
        return self._airflow.done()

    @property
    def settings(self) -> Settings:
        return Settings(
            CLUSTER,
            self.zookeeper.connect_string,
            self.client,
            status_token=self._status_token,
            answer_timeout_s=ANSWER_TIMEOUT_S,
            allowed=AllowedLaunches(conf=ALLOWED_CONF, folders=str(self.folders.run)),
        )

    @property
    def client(self) -> Mapping[str, str]:
        """Return the settings of the demonstration's Kafka clients, which do not log the end of the broker."""
        return {"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": "0"}

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic, and wait until the broker knows it; raises `KafkaUnavailable`."""
        ConfluentKafkaAdmin(self.client, TOPIC_TIMEOUT_S).create_topic(topic, partitions)

    def start_producer(self, topic: str, partitions: int, rate: float) -> None:
        """Start the steady producer in a separate process."""
        command = (
            *(sys.executable, "-m", "coordinator_tasks.devstack.demo.producer"),
            *("--bootstrap", self.kafka.bootstrap_servers, "--topic", topic, "--partitions", str(partitions)),
            *("--rate", str(rate), "--journal", str(self.folders.journal)),
        )
        spec = ProcessSpec("the producer", command, self.folders.producer_log, cwd=PROJECT, stop_timeout_s=40.0)
        journal = self.folders.journal
        self.producer = ManagedProcess(spec, ready=lambda: journal.exists() and journal.stat().st_size > 0)
        self.producer.start()

    def stop_producer(self) -> None:
        """End the producer. Its journal is complete afterwards."""
        if self.producer is not None:
            self.producer.stop()

    def keep(self) -> None:
        """Let all processes outlive this process. `--stop` ends them."""
        airflow = self.airflow
        clusters = (self.zookeeper, self.kafka)
        servers = [one.servers if isinstance(one, ServerGroup) else (one,) for one in clusters]
        processes = [*chain.from_iterable(servers), *airflow.services.values()]
        detached.detach(self.folders.kept, processes, {"airflow": airflow.base_url})

    def end(self) -> None:
        """End all processes, also processes that are just starting or have left their session."""
        self._starting.shutdown(wait=False, cancel_futures=True)
        reap_all(grace_s=END_GRACE_S)
        while not (self._airflow.done() and all(one.done() for one in self._servers)):
            reap_all(grace_s=END_GRACE_S)  # ends the processes that have started since

    def _start_airflow(self) -> EmbeddedAirflow:
        airflow = EmbeddedAirflow(
            self.folders.run / "airflow",
            PROJECT / "dags",
            PROJECT / "plugins",
            env=self._environment(),
            connections={
                "zookeeper_default": {
                    "conn_type": "generic",
                    "host": self.zookeeper.connect_string,
                    "extra": {"status_token": self._status_token},
                },
                "kafka_default": {"conn_type": "generic", "extra": {"bootstrap.servers": self.kafka.bootstrap_servers}},
                "spark_default": {"conn_type": "spark", "host": "local[2]"},
            },
            expected_dags=DAGS,
        )
        airflow.start()
        return airflow

    def _environment(self) -> dict[str, str]:
        """Return an environment with this installation's Spark and Python. The shell may be set up for others."""
        programs, spark = Path(sys.executable).parent, pyspark_home()
        return {
            "COORDINATOR_ALLOWED_CONF": ALLOWED_CONF,
            "COORDINATOR_ALLOWED_FOLDERS": str(self.folders.run),
            "COORDINATOR_CLUSTERS": CLUSTER,
            "COORDINATOR_RUN_BASE": str(self.folders.consumers),
            # Otherwise Spark would look for the consumers' paths on the file system of a cluster.
            **dict.fromkeys(("HADOOP_CONF_DIR", "YARN_CONF_DIR"), ""),
            "JAVA_HOME": str(find_java().home),
            "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", "")]),
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(spark / "conf"),
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": HOST,
        }


def stop_kept(folders: Folders, say: Callable[[str], None]) -> None:
    """End the processes that an earlier demonstration has left running."""
    ended = detached.stop(folders.kept)
    what = "process" if ended == 1 else "processes"
    say(f"ended {ended} {what}" if ended else "nothing was left running")
