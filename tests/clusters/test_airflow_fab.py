"""Who may see the pages and start actions, by the roles of Airflow's FAB auth manager, in a plain Airflow with our wheel."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from coordinator_tasks.devstack.embedded.ports import HOST, free_port
from coordinator_tasks.devstack.embedded.processes import ManagedProcess, ProcessSpec
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests import airflow_access
from tests.airflow_access import (
    FORBIDDEN,
    ROLES,
    may_look,
    nobody_sees_or_starts_anything,
    starts_and_changes_what_its_role_may,
    wait_for_dags,
)
from tests.clusters.environments import airflow_constraints, build_wheel, new_environment
from tests.clusters.standalone_airflow import BUNDLES
from tests.integration.airflow_site import eventually

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(1_800)]
VERSION, CLUSTER, TOPIC = "3.3.2", "shop", "orders"
MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
NO_RIGHTS = "public"
"""FAB's role for who is known and may nothing."""


@dataclass(frozen=True)
class Site:
    base_url: str

    def client(self, role: str) -> httpx.Client:
        return airflow_access.signed_in(self.base_url, role, f"password-of-{role}")

    def pages(self) -> list[str]:
        return airflow_access.pages(CLUSTER, TOPIC)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, port = tmp_path_factory.mktemp("fab"), free_port()
    constraints = airflow_constraints(VERSION, folder)
    installed = new_environment(folder / "environment")
    wheel = build_wheel(folder / "dist")
    fab = "apache-airflow-providers-fab"
    installed.install(f"apache-airflow=={VERSION}", fab, f"{wheel}[airflow]", constraints=constraints)
    with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper:
        env = {
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__CORE__AUTH_MANAGER": MANAGER,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(BUNDLES[1:]),
            "AIRFLOW__KAFKA_COORDINATOR__CLUSTERS": CLUSTER,
            "AIRFLOW_CONN_ZOOKEEPER_DEFAULT": json.dumps({"conn_type": "generic", "host": zookeeper.connect_string}),
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "generic", "host": f"{HOST}:{free_port()}"}),
        }
        installed.run("airflow", "db", "migrate", env=env)
        installed.run("airflow", "dags", "reserialize", env=env)
        for role in (*ROLES, NO_RIGHTS):
            account = ("--username", role, "--password", f"password-of-{role}", "--email", f"{role}@site.example")
            named = ("--role", role.capitalize(), "--firstname", "Ada", "--lastname", role)
            installed.run("airflow", "users", "create", *account, *named, env=env)
        server = ManagedProcess(
            ProcessSpec(
                "airflow api-server",
                (installed.program("airflow"), "api-server", "--workers", "1"),
                folder / "api-server.log",
                env={**installed.environ(**env), "PYTHONPATH": ""},
                cwd=folder,
                ready_timeout_s=300.0,
            ),
            ready=lambda: _answers(port),
        )
        with server:
            made = Site(f"http://{HOST}:{port}")
            with made.client("admin") as admin:
                wait_for_dags(admin, eventually)
            yield made


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://{HOST}:{port}/api/v2/version", timeout=5.0).status_code == 200
    except httpx.HTTPError:
        return False


def test_no_page_is_there_for_who_is_not_signed_in(site: Site) -> None:
    with httpx.Client(base_url=site.base_url, timeout=60.0) as nobody:
        nobody_sees_or_starts_anything(nobody, site.pages())


@pytest.mark.parametrize("role", ROLES)
def test_every_role_may_look_and_starts_and_changes_what_it_may(site: Site, role: str) -> None:
    with site.client(role) as client:
        may_look(client, site.pages(), CLUSTER)
        starts_and_changes_what_its_role_may(client, role)


def test_who_has_no_rights_sees_no_page_and_starts_nothing(site: Site) -> None:
    with site.client(NO_RIGHTS) as client:
        codes = {path: client.get(path).status_code for path in site.pages()}
        assert codes.pop("/coordinator/tile.js") == 200, "it has no data"
        assert set(codes.values()) == {403}, codes
        for action in airflow_access.ACTIONS:
            started = client.post(f"/api/v2/dags/{action}/dagRuns", json={"logical_date": None})
            assert started.status_code in FORBIDDEN, (action, started.text)
