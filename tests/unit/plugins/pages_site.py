"""The pages over a cluster in memory, and a topic with a history."""

import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pytest
from coordinator_plugin.pages_address import PREFIX
from coordinator_ui import access
from coordinator_ui.access import Access, access_of
from coordinator_ui.data.reading import ClusterReader
from coordinator_ui.data.timeline import TaskSpan
from coordinator_ui.pages.routes import RunResult, make_app, run_result, run_times
from fastapi import HTTPException
from fastapi.testclient import TestClient

from coordinator_tasks.adapters.discovery import ZooKeeperRegistry
from coordinator_tasks.core.codecs.codec import encode_node, encode_state
from coordinator_tasks.core.codecs.history_codec import encode_record
from coordinator_tasks.core.model import Actor, Member, Move, MoveKind, Record, State, TopicNode, TopicState
from coordinator_tasks.core.ports import Create, Delete, SetData, ZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from tests.fakes.cluster import Cluster

NASTY = "<script>alert(1)</script>"
SETTLED = TopicState(State.STABLE)


def under_way(shop: Cluster) -> None:
    state = TopicState(State.CLOSING, {"b": (3,)}, {"a": (3,)}, {3: 3}, "3-abc", 999_990.0, 999_990.0, "joined: b")
    stable(shop, {0: "a", 1: "a", 2: "b"}, state=state)


def task(name: str, run: str = "run 1/x", who: str = "") -> Actor:
    return Actor("airflow", who, "rebalance", run, name, 2)


def write(
    shop: Cluster, source: State, target: State, at: float, *moves: Move, topic: str = "orders", **more: Any
) -> None:
    values = {"epoch": 2, "generation": "g", "rebalance": "2-abc", "cause": "joined: b", "actor": task("plan")}
    times = {"at": at, "lasted_s": 1.0, "rebalance_s": at - 900_000.0}
    record = Record(topic, source, target, **{**values, **times, "moves": moves, **more})
    shop.zk.ensure(shop.paths.history(topic))
    shop.zk.transact([Create(f"{shop.paths.history(topic)}/", encode_record(record), sequence=True)])


def a_hand_off(shop: Cluster, **more: Any) -> None:
    moves = [Move(p, "a", "b", MoveKind.HANDOFF) for p in (1, 2, 3)]
    write(shop, State.STABLE, State.CLOSING, 900_000.0, *moves, **more)
    write(shop, State.CLOSING, State.STARTING, 900_001.5, confirmed={"a": (1, 2, 3)}, actor=task("start"))
    write(shop, State.STARTING, State.STABLE, 900_002.25, confirmed={"b": (1, 2, 3)}, actor=task("settle"))


def pages_of(
    cluster: Cluster | Callable[[str], Any],
    *,
    allowed: bool = True,
    result: RunResult | None = None,
    tasks: Iterable[TaskSpan] = (),
    shell_after_s: float = 60.0,
    **reader: Any,
) -> TestClient:
    """A client of the pages; `allowed` = Airflow's own checks are passed."""

    def connect(name: str) -> tuple[str, Callable[[], AbstractContextManager[Coordinator]]]:
        return name, lambda: nullcontext(cluster.coordinator)  # type: ignore[union-attr]

    app = make_app(ClusterReader(connect if isinstance(cluster, Cluster) else cluster, **reader), shell_after_s)
    if allowed:
        app.dependency_overrides[access_of] = everything
        app.dependency_overrides[run_times] = lambda: (900_000.0, 900_010.0)
        app.dependency_overrides[run_result] = lambda: result
    app.state.task_spans = lambda _dag_id, _actors: tuple(tasks)
    return TestClient(app, root_path="/airflow" + PREFIX)


def everything() -> Access:
    """The access of a user with all rights in Airflow."""
    return Access(lambda _dag: None)


def airflow_refuses(monkeypatch: pytest.MonkeyPatch, refused: Callable[[str], bool]) -> None:
    """Airflow's own check refuses this, as `GET` and the name of a DAG, to everybody."""

    def requires(method: str, _: object, dag_id: str) -> Callable[..., None]:
        def check(*_: object) -> None:
            if refused(f"{method} {dag_id}"):
                raise HTTPException(403, "Forbidden")

        return check

    monkeypatch.setattr(access, "requires_access_dag", requires)


def text_of(html: str) -> str:
    """The visible text of the page, in one line."""
    visible = re.sub(r"<(script|style|title)\b.*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", visible)


def stable(shop: Cluster, owners: dict[int, str], topic: str = "orders", state: TopicState = SETTLED) -> None:
    """The topic has these owners; `state` is written if there is none."""
    since, incarnations = dict.fromkeys(owners, 1), dict.fromkeys(owners.values(), 1)
    node = TopicNode("broker:9092", "readers", 3, "g", "id-1", owners, since, incarnations=incarnations)
    shop.zk.transact([SetData(shop.paths.topic(topic), encode_node(node))])
    if shop.zk.find(shop.paths.state(topic)) is None:
        shop.zk.transact([Create(shop.paths.state(topic), encode_state(state))])


def register(shop: Cluster, consumer: str, session: ZooKeeper | None = None, **more: Any) -> None:
    """A process of this id registers again, and says more of itself."""
    zk = session or shop.server.connect()
    found = shop.coordinator.discovery.members().get(consumer, Member(consumer, 1, f"http://{consumer}:1", "boot"))
    shop.zk.transact([Delete(shop.paths.member(consumer))])
    ZooKeeperRegistry(zk, shop.paths, shop.clock).register(replace(found, **more))
