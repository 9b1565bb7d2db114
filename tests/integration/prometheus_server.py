"""A real Prometheus over the project's own configuration and alerts, which looks each second."""

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator_tasks.devstack.embedded.host import prometheus_program
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from tests.integration.agent_site import Site

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
PROMETHEUS = prometheus_program("prometheus")


@dataclass(frozen=True, slots=True)
class Prometheus:
    """Asks its API."""

    address: str

    def ask(self, path: str, **given: str) -> Any:
        """The `data` of an answer."""
        with urllib.request.urlopen(
            f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(given)}", timeout=10
        ) as answer:
            return json.loads(answer.read())["data"]

    def values(self, query: str) -> dict[str, float]:
        """Labels, as text and without those of the scrape, → value."""
        found = self.ask("query", query=query)["result"]
        left_out = ("__name__", "instance", "job")
        return {
            ",".join(f"{name}={value}" for name, value in sorted(one["metric"].items()) if name not in left_out): float(
                one["value"][1]
            )
            for one in found
        }

    def value(self, query: str) -> float | None:
        """Of a query with one series; `None` = none yet."""
        return next(iter(self.values(query).values()), None)

    def firing(self) -> set[str]:
        """The alerts that fire now."""
        return {one["labels"]["alertname"] for one in self.ask("alerts")["alerts"] if one["state"] == "firing"}


@contextmanager
def running_prometheus(home: Path, coordinator: str, token: str = "") -> Iterator[Prometheus]:
    """Over the metrics at `coordinator` (host:port), until the block ends."""
    text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:9308", coordinator).replace("15s", "1s")
    text = text.replace("- alerts.yml", f"- {FOLDER / 'alerts.yml'}")
    if token:
        (home / "status_token").write_text(token, encoding="utf-8")
        text = text.replace("# authorization:", "authorization:")
        text = text.replace("/etc/prometheus/status_token", str(home / "status_token"))
    page = home / "prometheus.yml"
    page.write_text(text, encoding="utf-8")
    listen = f"127.0.0.1:{free_port()}"
    assert PROMETHEUS is not None
    argv = (
        PROMETHEUS,
        f"--config.file={page}",
        f"--storage.tsdb.path={home / 'data'}",
        f"--web.listen-address={listen}",
    )
    found = Prometheus(f"http://{listen}")
    server = ManagedProcess(ProcessSpec("prometheus", argv, home / "prometheus.log"), lambda: is_ready(found))
    server.start()
    try:
        yield found
    finally:
        server.kill()


def environment_of(site: Site, token: str) -> dict[str, str]:
    """For a consumer of this site and for its metrics."""
    return {**site.environment, "COORDINATOR_STATUS_TOKEN": token}


@contextmanager
def running_metrics(home: Path, listen: str, environment: Mapping[str, str]) -> Iterator[None]:
    """The command `metrics` at `listen` (host:port), which looks each second, until the block ends."""
    argv = (sys.executable, "-m", "coordinator_tasks", "metrics", "--listen", listen, "--every", "1")
    log = home / "metrics.log"
    spec = ProcessSpec("metrics", argv, log, environment)
    command = ManagedProcess(spec, lambda: "metrics of cluster" in log.read_text(encoding="utf-8"))
    command.start()
    try:
        yield
    finally:
        command.kill()


def is_ready(server: Prometheus) -> bool:
    try:
        with urllib.request.urlopen(f"{server.address}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
