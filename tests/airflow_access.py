"""Who may see the pages and start our DAGs in an Airflow, by role: the same checks for each of its auth managers."""

from collections.abc import Callable

import httpx
from coordinator_ui.pages.routes import make_app
from fastapi.routing import APIRoute

ROLES = ("viewer", "user", "op", "admin")
ACTIONS = ("drain", "isolate", "pause", "reset_offsets", "remove_topic", "drop_dead_letters", "rebalance", "consumers")
FORBIDDEN = (401, 403, 404)
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
MAY_START = {"viewer": False, "user": True, "op": True, "admin": True}
MAY_CHANGE_CONNECTIONS = {"viewer": False, "user": False, "op": True, "admin": True}


def pages(cluster: str, topic: str) -> list[str]:
    """An address of each route of the pages."""
    values = {"cluster": cluster, "topic": topic, "rebalance": "1-x", "dag_id": "rebalance", "action": "drain"}
    values |= {"database": "rows", "partition": "0", "offset": "7"}
    paths = [route.path for route in make_app().routes if isinstance(route, APIRoute) and route.path != "/tile.js"]
    return [f"/coordinator{path.replace('{run_id:path}', 'r').format(**values)}" for path in paths]


def signed_in(base_url: str, username: str, password: str) -> httpx.Client:
    """With a token of this account."""
    answer = httpx.post(f"{base_url}/auth/token", json={"username": username, "password": password}, timeout=60.0)
    headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    return httpx.Client(base_url=base_url, headers=headers, timeout=60.0)


def nobody_sees_or_starts_anything(nobody: httpx.Client, paths: list[str]) -> None:
    assert {path: nobody.get(path).status_code for path in paths} == dict.fromkeys(paths, 401)
    for method in (*CHANGING, "OPTIONS", "HEAD"):
        for path in paths:
            assert nobody.request(method, path).status_code in (*FORBIDDEN, 405), (method, path)
    for wrong in ("Bearer x", "Bearer", "Basic YWRtaW46YWRtaW4="):
        assert nobody.get(paths[0], headers={"Authorization": wrong}).status_code in FORBIDDEN
    for action in ACTIONS:
        assert nobody.post(f"/api/v2/dags/{action}/dagRuns", json={"logical_date": None}).status_code in FORBIDDEN


def may_look(client: httpx.Client, paths: list[str], cluster: str) -> None:
    """Every page is there for a GET, and for nothing else."""
    codes = {path: client.get(path).status_code for path in paths}
    assert set(codes.values()) <= {200, 404}, codes
    assert codes[f"/coordinator/clusters/{cluster}"] == 200
    for method in CHANGING:
        assert {client.request(method, path).status_code for path in paths} == {405}


def starts_and_changes_what_its_role_may(client: httpx.Client, role: str) -> None:
    may_start, may_change = MAY_START[role], MAY_CHANGE_CONNECTIONS[role]
    for action in ACTIONS:
        # An id with a line break is refused after the right was checked: nothing is started.
        answer = client.post(f"/api/v2/dags/{action}/dagRuns", json={"dag_run_id": "a\nb", "logical_date": None})
        assert (answer.status_code not in (401, 403)) == may_start, (action, answer.text)
        assert answer.status_code != 200
        paused = client.patch(f"/api/v2/dags/{action}", json={"is_paused": True})
        assert (paused.status_code == 200) == may_start, (action, paused.text)
    wanted = {"connection_id": f"by_{role}", "conn_type": "generic"}
    answer = client.post("/api/v2/connections", json=wanted)
    assert (answer.status_code == 201) == may_change, answer.text
    seen = client.get("/api/v2/connections/zookeeper_default")
    assert may_change or seen.status_code in FORBIDDEN


def wait_for_dags(client: httpx.Client, eventually: Callable[[Callable[[], object]], object]) -> None:
    """Until Airflow has parsed the DAGs of `ACTIONS`."""
    eventually(lambda: {*ACTIONS} <= {one["dag_id"] for one in client.get("/api/v2/dags?limit=100").json()["dags"]})
