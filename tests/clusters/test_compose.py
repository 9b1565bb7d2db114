"""docker-compose.yaml on a real Docker Engine: the documented commands as they stand, every restart, and kill -9 of everything."""

import json
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clusters import images
from tests.clusters.docker_engine import DockerEngine

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(3600)]
ROOT = Path(__file__).resolve().parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
ONCE = "airflow-init"
PARTITIONS = 12
LIMIT_S, POLL_S = 400.0, 0.5
ROWS = "import sqlite3; print(sqlite3.connect('file:/var/lib/coordinator/data/orders.sqlite?mode=ro', uri=True).execute({!r}).fetchone()[0])"
PRODUCE = """
import json, sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "127.0.0.1:29092"})
event = {"product": "tea", "quantity": 2, "price": "3.50", "ordered_at": "2026-11-21T08:15:30Z"}
first, count, partitions = map(int, sys.argv[1:])
for number in range(first, first + count):
    producer.produce("orders", json.dumps({**event, "order_id": f"A-{number}"}).encode(), partition=number % partitions)
assert producer.flush(60) == 0
"""


def documented() -> list[str]:
    """The blocks of commands in the page on Docker Compose, one after the other."""
    page = (ROOT / "docs" / "compose.md").read_text()
    return re.findall(r"^```\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


class Stack:
    """The stack in a checkout of its own; `produced` counts the events that were sent."""

    def __init__(self, engine: DockerEngine, checkout: Path) -> None:
        self.engine, self.checkout = engine, checkout
        self.produced = 0
        self.password = secrets.token_hex(8)

    def type(self, text: str) -> str:
        """As in a terminal of the host."""
        return self.engine.shell(text, self.checkout)

    def containers(self) -> list[dict[str, Any]]:
        """All of the stack, as the engine describes them."""
        names = self.type("docker compose ps --all --quiet").split()
        found: list[dict[str, Any]] = json.loads(self.type(f"docker inspect {' '.join(names)}"))
        return found

    def wait_healthy(self) -> None:
        """Wait until every service is healthy, and the one that runs once has ended well."""

        def healthy() -> bool:
            found = self.containers()
            names = {one["Config"]["Labels"]["com.docker.compose.service"] for one in found}
            return names == set(SERVICES) and all(map(_well, found))

        self.wait_for(healthy, "all services are healthy")

    def wait_for(self, holds: Callable[[], object], what: str) -> None:
        begun = time.monotonic()
        while not holds():
            if time.monotonic() - begun > LIMIT_S:
                shown = self.type("docker compose ps --all; docker compose logs --tail 40")
                raise AssertionError(f"not within {LIMIT_S:g} s: {what}\n{shown[-12_000:]}")
            time.sleep(POLL_S)

    def records_reach_the_table(self, count: int = 120) -> None:
        """Send events from the host; wait until each event that was ever sent is a row, once."""
        arguments = f"{self.produced} {count} {PARTITIONS}"
        self.engine.shell(f"{sys.executable} -c {_quoted(PRODUCE)} {arguments}", self.checkout)
        self.produced += count
        self.wait_for(lambda: self.rows() == (self.produced, self.produced), f"{self.produced} rows of as many events")

    def rows(self) -> tuple[int, int]:
        """How many rows, and how many different events in them."""
        words = ("COUNT(*)", "COUNT(DISTINCT order_id)")
        try:
            all_of_them, different = (self.ask_table(f"SELECT {word} FROM orders") for word in words)
        except AssertionError:  # nothing was written yet, or the launcher's container restarts
            return 0, 0
        return all_of_them, different

    def ask_table(self, query: str) -> int:
        return int(self.type(f"docker compose exec -T launcher python -c {_quoted(ROWS.format(query))}"))

    def incarnations(self) -> dict[str, str]:
        """Of the registered consumers."""
        shown = self.type("docker compose exec -T launcher python -m coordinator_tasks status")
        return dict(re.findall(r"^(billing-\d)\s+live\s+(\d+)", shown, re.MULTILINE))

    def ask(self, url: str, body: object = None, token: str = "") -> Any:
        """From the host, as a browser there does."""
        given = f"--header 'Authorization: Bearer {token}'" if token else ""
        if body is not None:
            given += f" --json {_quoted(json.dumps(body))}"
        return json.loads(self.type(f"curl --fail --silent --show-error {given} {url}"))

    def runs(self) -> int:
        """How many runs of DAGs Airflow remembers."""
        token = self.ask("http://localhost:8080/auth/token", {"username": "admin", "password": self.password})[
            "access_token"
        ]
        return int(self.ask("http://localhost:8080/api/v2/dags/~/dagRuns?limit=1", token=token)["total_entries"])


def _well(container: dict[str, Any]) -> bool:
    state = container["State"]
    if container["Config"]["Labels"]["com.docker.compose.service"] == ONCE:
        return (state["Status"], state["ExitCode"]) == ("exited", 0)
    return (state["Status"], state["Health"]["Status"]) == ("running", "healthy")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if images.missing():
        pytest.skip(images.missing())
    folder = tmp_path_factory.mktemp("compose")
    images.lay_checkout(folder / "checkout")
    with images.engine_with_stand_ins(folder / "context") as running:
        found = Stack(running, folder / "checkout")
        found.type("docker ps --all --quiet | xargs --no-run-if-empty docker rm --force && docker volume prune --force")
        yield found
        found.type("docker compose down --volumes --remove-orphans")


def test_the_stack_starts_as_documented_and_survives_every_restart(stack: Stack) -> None:
    copy_env, up, consumers = documented()
    stack.type(copy_env)
    assert (stack.checkout / ".env").stat().st_mode & 0o077 == 0
    images.fill_env(stack.checkout, AIRFLOW_ADMIN_PASSWORD=stack.password)

    stack.type(up)
    stack.wait_healthy()
    assert_images_hold_only_what_is_copied(stack)

    stack.type(consumers)
    stack.records_reach_the_table()
    assert stack.ask("http://localhost:8081/json/")["aliveworkers"] == 2
    assert stack.runs() > 0, "Airflow's DAGs have planned"

    for service in SERVICES:
        if service == ONCE:
            continue
        before = stack.incarnations()
        stack.type(f"docker compose restart {service}")
        stack.wait_healthy()
        stack.records_reach_the_table()
        if service.startswith(("airflow", "postgres")):
            assert stack.incarnations() == before, f"a restart of {service} touches no consumer"

    known = stack.runs()
    stack.engine.kill()
    stack.engine.start()
    stack.type(up)
    stack.wait_healthy()
    assert stack.rows() == (stack.produced, stack.produced), "the table is in a volume"
    stack.records_reach_the_table()
    assert stack.runs() >= known, "Airflow's database is in a volume"

    stack.type("docker compose down")
    stack.type(up)
    stack.wait_healthy()
    stack.records_reach_the_table()
    assert stack.runs() >= known


def assert_images_hold_only_what_is_copied(stack: Stack) -> None:
    copied = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for image in {one["image"] for one in SERVICES.values() if "build" in one}:
        held = stack.type(f"docker run --rm --entrypoint ls {image} --almost-all /opt/coordinator").split()
        assert {"requirements.txt", "spark_apps"} <= set(held) <= copied
