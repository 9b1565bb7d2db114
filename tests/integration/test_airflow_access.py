"""Rights by role in a real Airflow with its simple auth manager, and foreign web pages.

401 without a log-in, for every route and method. 403 for starts by a viewer, and for a cluster that the user may not read. A form
of another site starts nothing.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import httpx
import pytest

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.model import Actor
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests import airflow_access
from tests.airflow_access import (
    ACTIONS,
    FORBIDDEN,
    ROLES,
    may_look,
    nobody_sees_or_starts_anything,
    starts_and_changes_what_its_role_may,
    wait_for_dags,
)
from tests.integration.airflow_site import ROOT, cluster_of, eventually
from tests.integration.one_cluster_manager import ONLY, OneClusterManager

pytestmark = [pytest.mark.integration, pytest.mark.promise, pytest.mark.timeout(400)]
TOPIC = "orders"


@dataclass
class Site:
    """An Airflow with one account for each role, named as the role; Airflow makes the passwords at its start."""

    airflow: EmbeddedAirflow
    settings: Settings
    clusters: tuple[str, str]
    """The default one, and another one with the same connections."""

    def client(self, role: str) -> httpx.Client:
        """Signed in as an account of this role; without a role, as nobody."""
        if not role:
            return httpx.Client(base_url=self.airflow.base_url, timeout=60.0)
        passwords = json.loads((self.airflow.home / "passwords.json").read_text())
        return airflow_access.signed_in(self.airflow.base_url, role, passwords[role])

    def pages(self) -> list[str]:
        return airflow_access.pages(self.settings.cluster, TOPIC)


@pytest.fixture(scope="module")
def site(
    zookeeper: EmbeddedZooKeeper,
    kafka: EmbeddedKafka,
    airflow_factory: Callable[..., EmbeddedAirflow],
) -> Iterator[Site]:
    settings = cluster_of(zookeeper, kafka)
    ConfluentKafkaAdmin(settings.kafka).create_topic(TOPIC + settings.cluster, 2)
    clusters = (settings.cluster, f"other-{settings.cluster[::-1]}")
    accounts = [f"{role}:{role}" for role in ROLES] + [f"{ONLY}{name}:viewer" for name in clusters]
    airflow = airflow_factory(
        ROOT / "dags",
        ROOT / "plugins",
        connections={
            "zookeeper_default": {"conn_type": "generic", "host": settings.zookeeper},
            "kafka_default": {"conn_type": "generic", "host": settings.kafka["bootstrap.servers"]},
        },
        env={"COORDINATOR_CLUSTERS": ",".join(clusters), "COORDINATOR_DAGS_PAUSED": "true"},
        settings={
            "core.auth_manager": f"{OneClusterManager.__module__}.{OneClusterManager.__name__}",
            "core.simple_auth_manager_users": ",".join(accounts),
        },
    )
    made = Site(airflow, settings, clusters)
    with made.client("admin") as admin:
        wait_for_dags(admin, eventually)
    yield made
    airflow.kill()


def test_no_page_is_there_for_who_is_not_signed_in(site: Site) -> None:
    with site.client("") as nobody:
        nobody_sees_or_starts_anything(nobody, site.pages())


@pytest.mark.parametrize("role", ROLES)
def test_every_role_may_look_and_no_page_takes_anything_but_a_get(site: Site, role: str) -> None:
    with site.client(role) as client:
        may_look(client, site.pages(), site.settings.cluster)


@pytest.mark.parametrize("role", ROLES)
def test_who_may_start_an_action_or_change_where_airflow_logs_in(site: Site, role: str) -> None:
    with site.client(role) as client:
        starts_and_changes_what_its_role_may(client, role)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_on_another_site_starts_nothing(site: Site, kind: str) -> None:
    """A browser sends a form of another site without asking first; the cookie of the session does not come with it."""
    with site.client("admin") as admin:
        token = admin.headers["Authorization"].removeprefix("Bearer ")
    headers = {"Origin": "https://evil.example", "Content-Type": kind, "Referer": "https://evil.example/"}
    with httpx.Client(base_url=site.airflow.base_url, timeout=60.0) as browser:
        for action in ACTIONS:
            path = f"/api/v2/dags/{action}/dagRuns"
            answer = browser.post(path, headers=headers, content=b'{"logical_date":null}')
            assert answer.status_code in FORBIDDEN
            # Even where it did, Airflow takes JSON only.
            forged = browser.post(path, headers=headers, content=b"logical_date=", cookies={"_token": token})
            assert forged.status_code not in (200, 201), forged.text
        preflight = browser.options(
            "/api/v2/dags/drain/dagRuns", headers={**headers, "Access-Control-Request-Method": "POST"}
        )
        assert "access-control-allow-origin" not in preflight.headers
        page = browser.get(site.pages()[0], headers=headers, cookies={"_token": token})
        assert "access-control-allow-origin" not in page.headers


def test_who_may_read_one_cluster_gets_nothing_of_the_other_however_it_is_named(site: Site) -> None:
    for name in site.clusters:
        ConfluentKafkaAdmin(site.settings.kafka).create_topic(f"topic-of-{name}", 2)
        with open_coordinator(replace(site.settings, cluster=name)) as c:
            topics.add_topic(c, f"topic-of-{name}", f"readers-of-{name}", actor=Actor("command", "ada"))
    for mine, other in (site.clusters, site.clusters[::-1]):
        with site.client(f"{ONLY}{mine}") as client:
            default = client.get("/coordinator/")
            assert (default.status_code, f"topic-of-{mine}" in default.text, other in default.text) == (
                200,
                True,
                False,
            )
            for path in airflow_access.pages(mine, f"topic-of-{mine}"):
                answer = client.get(path, params={"cluster": other})
                assert (answer.status_code, f"topic-of-{other}" in answer.text) == (403, False), path
            named = [path for path in airflow_access.pages(other, f"topic-of-{other}") if other in path]
            assert {client.get(path).status_code for path in named} == {403}
            for path in airflow_access.pages(mine, f"topic-of-{mine}"):
                answer = client.get(path)
                assert other not in answer.text, path
