"""A real YARN of one node: ResourceManager and NodeManager as plain Java processes, without HDFS.

The jars are Hadoop's own, of the version whose client PySpark has. They are fetched once and compared with the checksums
in `hadoop-3.5.0.sha256` beside this file. Containers carry the owner's mark, so none outlives the tests.
"""

import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from coordinator_tasks.devstack.embedded import reaper
from coordinator_tasks.devstack.embedded.jars import JarSet, Resolution, ensure_jars, pyspark_home
from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java
from tests.clusters.engine import Engine

HADOOP_VERSION = "3.5.0"
MEMORY_MB, CORES = 6_144, 8
_GROUP = "org.apache.hadoop"
_OPENS = tuple(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util"))


HADOOP = JarSet(
    f"YARN {HADOOP_VERSION}",
    Path(__file__).with_name(f"hadoop-{HADOOP_VERSION}.sha256"),
    (
        Resolution(
            ",".join(
                f"{_GROUP}:{name}:{HADOOP_VERSION}"
                for name in (
                    "hadoop-common",
                    "hadoop-yarn-client",
                    "hadoop-yarn-server-resourcemanager",
                    "hadoop-yarn-server-nodemanager",
                    "hadoop-yarn-server-timelineservice",
                )
            )
        ),
    ),
)


class Yarn(Engine):
    """`conf` is the folder for HADOOP_CONF_DIR; `folder` holds all that YARN writes: staging, local files, logs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.conf, self.staging = folder / "conf", folder / "staging"
        self.local, self.logs = folder / "local", folder / "containers"
        self.page = f"{HOST}:{free_port()}"
        self._write_conf()
        self._add("ResourceManager", "resourcemanager", lambda: self._nodes() is not None)
        self._add("NodeManager", "nodemanager", lambda: self._nodes() == 1)

    def environment(self) -> dict[str, str]:
        """What spark-submit needs to find this YARN."""
        return {
            "HADOOP_CONF_DIR": str(self.conf),
            "SPARK_HOME": str(pyspark_home()),
            "JAVA_HOME": str(find_java().home),
        }

    def spark_conf(self) -> dict[str, str]:
        """Of every application: Spark's jars are on this host, and nothing goes into a home folder."""
        return {
            "spark.yarn.jars": f"local:{pyspark_home()}/jars/*",
            "spark.yarn.stagingDir": f"file://{self.staging}",
        }

    def applications(self) -> list[dict[str, Any]]:
        """All of them as the ResourceManager tells them, oldest first."""
        found = (self._get("/ws/v1/cluster/apps")["apps"] or {}).get("app", [])
        return sorted(found, key=lambda one: one["startedTime"])

    def attempts(self, application: str) -> list[dict[str, Any]]:
        """The attempts of one application."""
        found: list[dict[str, Any]] = self._get(f"/ws/v1/cluster/apps/{application}/appattempts")["appAttempts"][
            "appAttempt"
        ]
        return found

    def kill(self, application: str) -> None:
        """End an application as its user would."""
        address = f"http://{self.page}/ws/v1/cluster/apps/{application}/state?user.name={_user()}"
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(address, b'{"state": "KILLED"}', headers, method="PUT")
        urllib.request.urlopen(asked, timeout=10.0).close()

    def said(self, limit: int = 6_000) -> str:
        """The ends of what the containers wrote, for a test that fails."""
        errors = sorted(self.logs.glob("application_*/container_*/std*"), key=lambda path: path.stat().st_mtime)
        return "\n".join(f"== {path}\n{path.read_text(errors='replace')[-limit:]}" for path in errors[-4:])

    def _nodes(self) -> int | None:
        """How many nodes are active; `None` while the ResourceManager does not answer."""
        try:
            return int(self._get("/ws/v1/cluster/metrics")["clusterMetrics"]["activeNodes"])
        except (OSError, ValueError, KeyError):
            return None

    def _get(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self.page}{path}", timeout=10.0) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _add(self, name: str, package: str, ready: Callable[[], bool]) -> None:
        classes = os.pathsep.join((str(self.conf), f"{ensure_jars(HADOOP)}/*"))
        main = f"org.apache.hadoop.yarn.server.{package}.{name}"
        java = (str(find_java().executable), *QUICK_START_OPTIONS, *_OPENS, "-Xmx256m", "-cp", classes)
        self.add(name, *java, main, ready=ready)

    def _write_conf(self) -> None:
        self.conf.mkdir(parents=True)
        self.staging.mkdir(mode=0o700)
        manager = {
            name: f"{HOST}:{free_port()}"
            for name in ("address", "scheduler.address", "resource-tracker.address", "admin.address")
        }
        node = {name: f"{HOST}:{free_port()}" for name in ("address", "localizer.address", "webapp.address")}
        self._write(
            "yarn-site.xml",
            {
                "yarn.resourcemanager.hostname": HOST,
                "yarn.resourcemanager.bind-host": HOST,
                "yarn.resourcemanager.webapp.address": self.page,
                **{f"yarn.resourcemanager.{name}": value for name, value in manager.items()},
                "yarn.nodemanager.hostname": HOST,
                "yarn.nodemanager.collector-service.address": f"{HOST}:{free_port()}",
                **{f"yarn.nodemanager.{name}": value for name, value in node.items()},
                "yarn.nodemanager.local-dirs": str(self.local),
                "yarn.nodemanager.log-dirs": str(self.logs),
                "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
                "yarn.nodemanager.resource.cpu-vcores": str(CORES),
                "yarn.nodemanager.vmem-check-enabled": "false",
                # What an application has left stays for the search for secrets.
                "yarn.nodemanager.delete.debug-delay-sec": "3600",
                "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
                "yarn.nodemanager.env-whitelist": f"JAVA_HOME,PATH,LANG,{reaper.MARK_VARIABLE}",
                "yarn.scheduler.minimum-allocation-mb": "128",
            },
        )
        self._write("core-site.xml", {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self.folder / "tmp")})
        self._write(
            "capacity-scheduler.xml",
            {
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": "100",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
            },
        )
        layout = "org.apache.log4j.PatternLayout"
        (self.conf / "log4j.properties").write_text(
            "log4j.rootLogger=INFO,console\n"
            "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
            f"log4j.appender.console.layout={layout}\n"
            "log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n\n"
        )

    def _write(self, name: str, properties: Mapping[str, str]) -> None:
        lines = [
            f"<property><name>{key}</name><value>{escape(value)}</value></property>"
            for key, value in properties.items()
        ]
        (self.conf / name).write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))


def _user() -> str:
    return os.environ.get("USER") or "root"
