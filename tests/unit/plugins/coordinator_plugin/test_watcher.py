"""The trigger that watches ZooKeeper for changes."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.triggers.base import TriggerEvent
from coordinator_plugin import watcher
from coordinator_plugin.changes import Scope, observe

from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.model import Silence, Unreachable
from coordinator_tasks.service.nodes import refused_connections
from coordinator_tasks.service.nodes.observe import load_claims, snapshot
from coordinator_tasks.service.nodes.store import load_topics
from tests.fakes.cluster import Cluster
from tests.unit.plugins.coordinator_plugin.stage import Opened, stable


class Store:
    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = json.loads(json.dumps(value))


def watching(store: Store) -> watcher.ZooKeeperChangesTrigger:
    trigger = watcher.ZooKeeperChangesTrigger("main", "topics")
    trigger.asset_state_store = store  # type: ignore[assignment]
    return trigger


def changed(event: TriggerEvent) -> list[str]:
    found: list[str] = event.payload["changes"]
    return found


def test_an_airflow_without_a_store_for_triggers_begins_with_nothing_seen() -> None:
    trigger = watching(Store())
    del trigger.asset_state_store
    assert asyncio.run(trigger._load()) == {}
    trigger._unstored_since_s = 0.0
    asyncio.run(trigger._store())
    assert trigger._unstored_since_s is None


def test_the_watcher_tells_each_change_once(shop: Cluster, borrowed: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "STORED_AFTER_S", 0.05)
    store = Store()

    async def scenario() -> list[list[str]]:
        found = []
        running = watching(store).run()
        found.append(changed(await asyncio.wait_for(anext(running), 5)))
        following = asyncio.ensure_future(anext(running))
        await asyncio.sleep(0.3)
        assert store.kept["seen"]["topic"].keys() == {"orders"}
        await asyncio.to_thread(shop.join, "a")
        found.append(changed(await asyncio.wait_for(following, 5)))
        await running.aclose()  # type: ignore[attr-defined]
        # The second change was not stored yet: the watcher tells the change again, together with the changes of the time without a watcher.
        await asyncio.to_thread(shop.join, "b")
        found.append(changed(await asyncio.wait_for(anext(watching(store).run()), 5)))
        return found

    assert asyncio.run(scenario()) == [["first look"], ["member a joined"], ["member a joined", "member b joined"]]
    assert borrowed.opened >= 1


def test_the_watcher_holds_while_zookeeper_is_away(borrowed: Opened) -> None:
    borrowed.problem = StoreUnavailable("away")

    async def scenario() -> TriggerEvent:
        waiting_for_it = asyncio.ensure_future(anext(watching(Store()).run()))
        await asyncio.sleep(0.3)
        assert not waiting_for_it.done()
        borrowed.problem = None
        return await asyncio.wait_for(waiting_for_it, 5)

    assert changed(asyncio.run(scenario())) == ["first look"]


def test_many_changes_take_few_connections(shop: Cluster, borrowed: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(refused_connections, "note", lambda _, members, __: tried.append(len(members)) or frozenset())
    monkeypatch.setattr(watcher, "NOTE_S", 60.0)
    monkeypatch.setattr(watcher, "COALESCE_S", 0.0)

    async def scenario() -> list[list[str]]:
        running = watching(Store()).run()
        found = [changed(await asyncio.wait_for(anext(running), 5))]
        for name in "abcd":
            following = asyncio.ensure_future(anext(running))
            await asyncio.sleep(0.05)
            await asyncio.to_thread(shop.join, name)
            found.append(changed(await asyncio.wait_for(following, 5)))
        return found

    assert asyncio.run(scenario()) == [["first look"], *([f"member {name} joined"] for name in "abcd")]
    assert tried == [0]


@pytest.mark.parametrize(
    ("at_once", "change"),
    [(True, lambda shop: shop.server.sessions[-1].close()), (False, lambda shop: shop.join("c"))],
    ids=["one is gone", "one joins"],
)
def test_a_loss_is_told_at_once_and_what_joins_is_told_together_with_further_changes(
    shop: Cluster, borrowed: Opened, monkeypatch: pytest.MonkeyPatch, at_once: bool, change: Callable[[Cluster], None]
) -> None:
    monkeypatch.setattr(watcher, "COALESCE_S", 60.0)
    shop.join("a")
    shop.join("b")

    async def scenario() -> bool:
        store = Store()
        await store.aset("seen", observe(shop.coordinator, Scope.TOPICS, lambda: None))
        running = watching(store).run()
        following = asyncio.ensure_future(anext(running))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(change, shop)
        done, _ = await asyncio.wait([following], timeout=5 if at_once else 0.5)
        following.cancel()
        return bool(done)

    assert asyncio.run(scenario()) is at_once


@pytest.mark.parametrize("scope", ["topics", "fleet"])
def test_the_watcher_of_topics_alone_notes_that_a_registered_consumer_refuses(
    shop: Cluster, borrowed: Opened, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setattr(watcher, "NOTE_S", 0.02)
    shop.join("a")
    stable(shop, "orders", {0: "a"})
    snapshot(shop.coordinator, load_topics(shop.zk, shop.paths).nodes)  # a run has had its answer
    noted: list[float] = []

    async def scenario() -> None:
        running = watcher.ZooKeeperChangesTrigger("main", scope).run()
        await asyncio.wait_for(anext(running), 5)
        following = asyncio.ensure_future(anext(running))
        answer = shop.statuses.answers["a"]
        for now in (Unreachable(Silence.REFUSED, "nobody listens"), answer):
            shop.statuses.answers["a"] = now
            for _ in range(50):
                (claim,) = load_claims(shop.coordinator, ["a"], {}).values()
                if bool(claim.refused_at) is (now is not answer):
                    noted.append(claim.refused_at)
                    break
                await asyncio.sleep(0.01)
        following.cancel()

    asyncio.run(scenario())
    assert noted == ([shop.clock.now(), 0] if scope == "topics" else [0])
