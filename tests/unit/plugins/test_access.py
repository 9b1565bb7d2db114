"""The right to read a cluster on the pages: a walk over every route, with every way to name a cluster."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import product
from typing import Any

import pytest
from airflow.api_fastapi.core_api.security import get_user
from coordinator_ui.access import access_of
from coordinator_ui.data import audits
from coordinator_ui.data.reading import ClusterReader
from coordinator_ui.pages.routes import RunResult, make_app, run_result
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from coordinator_tasks.core.model import Committed, ConsumerStatus, Move, MoveKind, State, TopicStatus
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.watch import lag_moments
from tests.fakes.cluster import PERSON, Cluster
from tests.unit.plugins.pages_site import airflow_refuses, pages_of, stable, text_of, write

CLUSTERS = {"alphaville": "rebalance", "betatown": "rebalance__betatown"}
"""Cluster → DAG. The first cluster is the site's default."""
LETTERS = ("/dead-letters", "/clusters/{cluster}/dead-letters")
NO_CONTENT = (
    "/tile.js",
    "/live",
    "/clusters/{cluster}/live",
    *LETTERS,
    f"{LETTERS[1]}/{{database}}/{{topic}}/{{partition}}/{{offset}}",
)
"""Code, a page filled by its script, and pages of databases: `test_letters_page.py`."""


def topic_of(cluster: str) -> str:
    return f"{cluster}-orders"


def rebalance_of(cluster: str) -> str:
    return f"7-{cluster}"


def names_of(cluster: str) -> set[str]:
    """Marks of an answer about this cluster."""
    return {cluster, topic_of(cluster), rebalance_of(cluster), f"{cluster}-giver", f"{cluster}-taker", f"{cluster}-why"}


def busy(name: str) -> Cluster:
    """A cluster with a topic, two answering consumers, a rebalance, an action, and a moment of the trend."""
    found, topic = Cluster(name), topic_of(name)
    found.kafka.create_topic(topic, 2)
    topics.add_topic(found.coordinator, topic, "readers", actor=PERSON)
    giver, taker = f"{name}-giver", f"{name}-taker"
    for who in (giver, taker):
        found.join(who)
    stable(found, {0: giver, 1: taker}, topic)
    said = TopicStatus("g", 3)
    found.statuses.answers[giver] = ConsumerStatus(giver, name, 1, "boot", "ok", topics={topic: said})
    why = {"rebalance": rebalance_of(name), "cause": f"joined: {taker}", "topic": topic}
    write(found, State.STABLE, State.CLOSING, 900_000.0, Move(1, giver, taker, MoveKind.HANDOFF), **why)
    write(found, State.CLOSING, State.STABLE, 900_001.0, confirmed={giver: (1,)}, **why)
    ACTIONS["drain"].lines(found.coordinator, {"consumer": giver, "why": f"{name}-why"}, PERSON, dry_run=False)
    found.kafka.append(topic, 0, 5)
    found.kafka.offsets("readers").commit(topic, {0: Committed(2, None, "")})
    assert list(lag_moments.keep(found.coordinator, [topic])) == []
    return found


def routes() -> list[Any]:
    return list(make_app(ClusterReader()).routes)


def uses(dependant: Dependant, call: object) -> bool:
    return dependant.call is call or any(uses(one, call) for one in dependant.dependencies)


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.path)
def test_every_route_only_reads_and_asks_airflow_who_it_is(route: Any) -> None:
    assert isinstance(route, APIRoute), "a route that is none of ours has no check"
    assert route.methods == {"GET"}
    assert uses(route.dependant, get_user), "anyone could open it"


def requests(
    route: APIRoute, mine: str, other: str
) -> Iterator[tuple[str, list[tuple[str, str]], dict[str, Any], bool]]:
    """Path, query, request of an action, and whether any part names the other cluster."""
    values = {
        "cluster": (mine, other),
        "topic": (topic_of(mine), topic_of(other)),
        "rebalance": (rebalance_of(mine), rebalance_of(other)),
        "action": ("pause",),
        "dag_id": (CLUSTERS[mine], CLUSTERS[other], "pause", "elsewhere"),
        "run_id": ("run 1/x",),
        "database": ("shop",),
        "partition": ("0",),
        "offset": ("3",),
    }
    parameters = get_flat_dependant(route.dependant, skip_repeats=True).query_params
    said = (other, topic_of(other), f"{other}-giver")
    named = [(one.alias, text) for one in parameters for text in said]
    queries = [
        [],
        [("cluster", mine), ("cluster", other)],
        *([(name, other)] for name in ("cluster", "clusters", "name")),
    ]
    queries += [[one] for one in named]
    confs: tuple[dict[str, Any], ...] = ({}, {"cluster": mine}, {"cluster": other})
    inside = re.findall(r"{(\w+)(?::path)?}", route.path)
    for chosen in product(*(values[name] for name in inside)):
        given = dict(zip(inside, chosen, strict=True))
        path = re.sub(r":path}", "}", route.path).format(**given)
        for query, conf in product(queries, confs if "dag_id" in inside else ({},)):
            names = {*given.values(), *(text for name, text in query if name == "cluster")}
            if given.get("dag_id") == "pause":
                names.add(str(conf.get("cluster", next(iter(CLUSTERS)))))
            yield path, query, conf, bool(names & {other, CLUSTERS[other]})


@pytest.fixture(scope="module")
def site() -> dict[str, Cluster]:
    return {name: busy(name) for name in CLUSTERS}


@pytest.fixture
def client(site: dict[str, Cluster], monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """A client of a signed-in user; an action's run logs a line of the requested cluster."""
    monkeypatch.setenv("COORDINATOR_CLUSTERS", ",".join(CLUSTERS))
    monkeypatch.setattr(audits, "BETWEEN_S", 0.0)
    client = pages_of(lambda name: (name, lambda: nullcontext(site[name].coordinator)))
    client.app.dependency_overrides.pop(access_of)  # type: ignore[attr-defined]
    client.app.dependency_overrides[get_user] = lambda: "ada"  # type: ignore[attr-defined]
    return client


def asked(client: TestClient, route: APIRoute, mine: str, other: str) -> Iterator[tuple[str, bool, int, str]]:
    """The address, whether the other cluster is named, and the answer."""
    for path, query, conf, named in requests(route, mine, other):
        line = f"{topic_of(str(conf.get('cluster', next(iter(CLUSTERS)))))} is paused"
        result = RunResult((line,), False, True, True, done=True, conf=conf) if "/runs/pause/" in path else None
        client.app.dependency_overrides[run_result] = lambda result=result: result  # type: ignore[attr-defined]
        answer = client.get(path, params=query)
        yield f"{path} {query} {conf}", named, answer.status_code, answer.text


@pytest.mark.parametrize("mine", CLUSTERS)
@pytest.mark.parametrize("route", routes(), ids=lambda route: route.path)
def test_who_may_read_one_cluster_gets_nothing_of_the_other_however_it_is_named(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, route: APIRoute, mine: str
) -> None:
    (other,) = CLUSTERS.keys() - {mine}
    airflow_refuses(monkeypatch, lambda what: what == f"GET {CLUSTERS[other]}")
    for address, named, code, text in asked(client, route, mine, other):
        assert {name for name in names_of(other) if name in text and name not in address} == set(), address
        if named and route.path != "/tile.js":
            assert code in (403, 404), address


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.path)
def test_who_may_read_both_clusters_gets_what_the_walk_looks_for_and_writes_nothing(
    client: TestClient, site: dict[str, Cluster], monkeypatch: pytest.MonkeyPatch, route: APIRoute
) -> None:
    airflow_refuses(monkeypatch, lambda _: False)
    mine, other = CLUSTERS
    before = [cluster.server.zxid for cluster in site.values()]
    seen = any(
        code == 200 and any(name in text and name not in address for name in names_of(other))
        for address, _, code, text in asked(client, route, mine, other)
    )
    assert seen or route.path in NO_CONTENT
    assert [cluster.server.zxid for cluster in site.values()] == before


@pytest.mark.parametrize("mine", CLUSTERS)
def test_the_default_is_a_readable_cluster(client: TestClient, monkeypatch: pytest.MonkeyPatch, mine: str) -> None:
    (other,) = CLUSTERS.keys() - {mine}
    airflow_refuses(monkeypatch, lambda what: what == f"GET {CLUSTERS[other]}")
    for path in ("/", "/live", "/audit"):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert set(re.findall(r"clusters/(\w+)", answer.text)) == {mine}
    assert topic_of(mine) in client.get("/").text


@pytest.mark.parametrize(
    "path", ["/", "/clusters/shop", "/clusters/none", "/clusters/shop/topics/orders", "/runs/rebalance/r"]
)
def test_a_stranger_gets_401_and_is_told_to_sign_in(shop: Cluster, path: str) -> None:
    answer = pages_of(shop, allowed=False).get(path)
    assert answer.status_code == 401
    assert "Sign in to Airflow" in answer.text
    assert "orders" not in answer.text


@pytest.mark.parametrize(
    ("path", "dag"),
    [
        ("/", "ours_rebalance"),
        ("/clusters/eu", "ours_rebalance__eu"),
        ("/runs/ours_drain/r", "ours_drain"),
        ("/runs/other/r", "other"),
        ("/rebalances", "ours_rebalance"),
    ],
)
def test_the_refused_are_told_which_dag(shop: Cluster, monkeypatch: pytest.MonkeyPatch, path: str, dag: str) -> None:
    airflow_refuses(monkeypatch, lambda _: True)
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop,eu")
    monkeypatch.setenv("COORDINATOR_DAG_PREFIX", "ours_")
    client = pages_of(shop, allowed=False)
    client.app.dependency_overrides[get_user] = lambda: "ada"  # type: ignore[attr-defined]
    answer = client.get(path)
    assert answer.status_code == 403
    assert f"Ask an administrator for permission to read the runs of the DAG {dag}." in text_of(answer.text)
    data = client.get("/api/v1/rebalances")
    assert (data.status_code, data.json()) == (403, {"error": "Forbidden", "code": ""})
