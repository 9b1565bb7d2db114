"""A Spark standalone cluster: a master, and workers with one core each."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from coordinator_tasks.devstack.embedded.ports import HOST, free_port, listening
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java

READY_S = 90.0
DECOMMISSION = "spark.decommission.enabled=true"


class StandaloneCluster:
    """The folders of the workers are `worker-0`, `worker-1`, and so on."""

    def __init__(self, folder: Path) -> None:
        self.folder, port = folder, free_port()
        self.url = f"spark://{HOST}:{port}"
        self.master = self._process("master", port, "master.Master", "--host", HOST, "--port", str(port), page=0)
        self.workers: list[ManagedProcess] = []

    def add_worker(self, host: str = HOST, cores: int = 1) -> None:
        """Start a worker, and wait until its page is there."""
        page, name = free_port(), f"worker-{len(self.workers)}"
        size = ("--host", host, "--cores", str(cores), "--memory", "512m")
        work = ("--work-dir", str(self.folder / name), self.url)
        self.workers.append(self._process(name, page, "worker.Worker", *size, *work, page=page))
        self.workers[-1].start(READY_S)

    def _process(self, name: str, port: int, main: str, *arguments: str, page: int) -> ManagedProcess:
        # Executors must find our packages where the application ships them, not by this environment.
        env = {
            "PYTHONPATH": "",
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_HOME": _find_spark_home(),
            "PYSPARK_PYTHON": sys.executable,
        }
        java = (str(find_java().executable), *QUICK_START_OPTIONS, "-Xmx256m", f"-D{DECOMMISSION}")
        classes = ("-cp", f"{_find_spark_home()}/jars/*", f"org.apache.spark.deploy.{main}")
        pages = ("--webui-port", str(page or free_port()))
        spec = ProcessSpec(name, (*java, *classes, *pages, *arguments), self.folder / f"{name}.log", env=env)
        return ManagedProcess(spec, ready=lambda: listening(port))


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """A master alone, until the end of the block."""
    made = StandaloneCluster(folder)
    try:
        made.master.start(READY_S)
        yield made
    finally:
        for process in (*made.workers, made.master):
            process.stop()
