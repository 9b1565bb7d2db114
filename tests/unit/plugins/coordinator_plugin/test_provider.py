"""What the installed package tells Airflow, and the classes that it names: options, link, bundle and notifier."""

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import airflow
import httpx
import jsonschema
import pytest
from airflow.sdk import BaseHook, Connection, Context
from coordinator_plugin import bundle, notifications, provider, site_options
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.links import ClusterPageLink
from coordinator_plugin.notifications import StuckTopicsNotifier
from coordinator_plugin.operators import PlanOperator
from coordinator_plugin.stuck_topics import sentences

from coordinator_tasks.core.codecs.codec import decode_state, encode_state
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.coordinator import Coordinator
from tests.world.site import Site, stable_site

TI = SimpleNamespace(dag_id="rebalance", task_id="plan", run_id="r1")
SECRET_ADDRESS = "https://chat.example/hooks/secret-part"


@pytest.fixture
def info(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(provider, "version", lambda _: "9.9.9")
    return provider.provider_info()


def test_airflows_schema_takes_the_information(info: dict[str, Any]) -> None:
    schema = Path(airflow.__file__).parent / "provider_info.schema.json"
    jsonschema.validate(info, json.loads(schema.read_text()))


def test_every_module_and_class_that_is_named_is_there(info: dict[str, Any]) -> None:
    modules = [
        module
        for part in ("hooks", "operators", "triggers", "bundles")
        for one in info[part]
        for module in one["python-modules"]
    ]
    for name in modules:
        importlib.import_module(name)
    classes = [
        *info["extra-links"],
        *info["notifications"],
        *(one["hook-class-name"] for one in info["connection-types"]),
    ]
    for name in classes:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type)
    assert {one.rpartition(".")[0] for one in classes[:3]} == {
        "coordinator_plugin.links",
        "coordinator_plugin.notifications",
    }


def test_the_section_of_the_configuration_has_every_option(info: dict[str, Any]) -> None:
    found = info["config"]["kafka_coordinator"]["options"]
    assert {name: one["default"] for name, one in found.items()} == {
        name: one.default for name, one in site_options.OPTIONS.items()
    }


@pytest.mark.parametrize("name", site_options.OPTIONS)
def test_a_variable_wins_over_configuration_and_that_over_default(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    option = site_options.OPTIONS[name]
    assert site_options.option(name, {}) == option.default
    monkeypatch.setenv(f"AIRFLOW__KAFKA_COORDINATOR__{name.upper()}", "configured")
    assert site_options.option(name, {}) == "configured"
    assert site_options.option(name, {option.variable: "ours"}) == "ours"


def test_the_link_leads_to_the_page_of_the_tasks_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "main,eu")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://host/airflow")
    link, key = ClusterPageLink(), SimpleNamespace()
    assert link.get_link(PlanOperator(task_id="a", cluster="eu"), ti_key=key) == "/airflow/coordinator/clusters/eu"
    assert link.get_link(PlanOperator(task_id="b"), ti_key=key) == "/airflow/coordinator/clusters/main"
    assert PlanOperator.operator_extra_links == (link,)


def test_the_bundle_is_the_folder_of_the_installed_dags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "PACKAGE", "dags")
    made = bundle.CoordinatorDagBundle(name="coordinator")
    assert {path.name for path in made.path.glob("*.py")} >= {"rebalance.py", "reconcile.py"}
    assert made.get_current_version() is None


def test_a_bundle_without_the_installed_dags_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "PACKAGE", "no_such_dags")
    with pytest.raises(ModuleNotFoundError, match="no_such_dags is not installed: install the wheel"):
        bundle.CoordinatorDagBundle(name="coordinator")


# The notifier


def stuck_site() -> Site:
    """A topic that has been Closing for an hour."""
    site = stable_site("a")
    path = site.paths.state("orders")
    node = site.zk.get(path)
    state = decode_state(path, node.data)
    site.zk.transact([SetData(path, encode_state(state).replace(b'"Stable"', b'"Closing"'), node.stat.version)])
    site.clock.advance(3_600)
    return site


def test_a_node_that_is_no_topics_hides_no_stuck_topic() -> None:
    site = stuck_site()
    site.zk.transact([Create(f"{site.paths.configs}/no topic")])
    strange, said = sentences(site.coordinator)
    assert strange.startswith("no topic cannot be read: KPC-011: ")
    assert said.startswith("orders is stuck in Closing: ")


class Told:
    """What was posted; `answer` is what the address says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: httpx.Response | Exception) -> None:
        self.posts: list[tuple[str, Mapping[str, Any]]] = []
        self.answer = answer
        monkeypatch.setattr(httpx, "stream", self.post)

    @contextmanager
    def post(self, method: str, url: str, **given: Any) -> Iterator[httpx.Response]:
        self.posts.append((url, given))
        if isinstance(self.answer, Exception):
            raise self.answer
        self.answer.request = httpx.Request(method, url)
        yield self.answer


def notify(
    monkeypatch: pytest.MonkeyPatch,
    coordinator: Coordinator | Exception,
    connection: Connection,
    about: SimpleNamespace = TI,
) -> None:
    @contextmanager
    def opened(_: object) -> Iterator[Coordinator]:
        if isinstance(coordinator, Exception):
            raise coordinator
        yield coordinator

    monkeypatch.setattr(CoordinatorHook, "open", opened)
    monkeypatch.setattr(BaseHook, "get_connection", lambda _: connection)
    StuckTopicsNotifier(http_conn_id="chat").notify(cast("Context", {"ti": about}))


def test_the_address_is_told_the_run_and_each_stuck_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, httpx.Response(200))
    chat = Connection(conn_id="chat", conn_type="http", host="chat.example", port=8443, schema="https", password="t0")
    notify(monkeypatch, stuck_site().coordinator, chat)
    ((url, given),) = told.posts
    assert url == "https://chat.example:8443"
    assert given["headers"] == {"Authorization": "Bearer t0"}
    assert given["timeout"] == notifications.LIMIT_S
    head, line = given["json"]["text"].splitlines()
    assert head == "rebalance, task plan, run r1:"
    assert line.startswith("orders is stuck in Closing: ")


def test_nothing_in_the_text_is_markup_of_a_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(monkeypatch, httpx.Response(200))
    hostile = SimpleNamespace(dag_id="<!here> [x](http://evil)", task_id="@all", run_id="`r`" * 1_000)
    chat = Connection(conn_id="chat", conn_type="http", host=SECRET_ADDRESS)
    notify(monkeypatch, StoreUnavailable("x" * 5_000), chat, hostile)
    ((url, given),) = told.posts
    assert url == SECRET_ADDRESS
    text = given["json"]["text"]
    assert not set(text) & set("<>[]@`")
    assert len(text) == notifications.SHOWN_CHARS


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(500), "HTTPStatusError 500"),
        (httpx.ConnectError("refused " + SECRET_ADDRESS), "ConnectError"),
        (httpx.InvalidURL(SECRET_ADDRESS), "InvalidURL"),
        (UnicodeEncodeError("ascii", SECRET_ADDRESS, 0, 1, "not in range"), "UnicodeEncodeError"),
    ],
)
def test_an_address_that_does_not_take_it_fails_nothing_and_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: httpx.Response | Exception, said: str
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(StuckTopicsNotifier, "log", SimpleNamespace(
        warning=lambda text, *given: logged.append(text % given), error=lambda text, *given: logged.append(text % given)
    ))  # fmt: skip
    Told(monkeypatch, answer)
    notify(monkeypatch, StoreUnavailable("gone"), Connection(conn_id="chat", conn_type="http", host=SECRET_ADDRESS))
    assert logged == [
        "the coordinator cannot read its topics: KPC-041: gone",
        f"the post to connection chat failed: {said}",
    ]
