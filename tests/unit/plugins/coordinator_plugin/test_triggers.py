"""Triggers of waits, launches and questions."""

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from coordinator_plugin import triggers

from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.nodes import directives, topics
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON, Cluster
from tests.unit.plugins.coordinator_plugin.stage import Opened, first, stable


def test_a_confirmed_wait_ends_its_task_with_the_outcome(borrowed: Opened) -> None:
    event = asyncio.run(first(triggers.ConfirmationTrigger("main", "closed", "[]", 5.0)))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms["return_value"]["outcome"] == "unchanged"  # type: ignore[index, call-overload]
    assert borrowed.opened == 1


def test_a_wait_holds_while_zookeeper_is_away_and_says_so_at_its_limit(borrowed: Opened) -> None:
    borrowed.problem = StoreUnavailable("ZooKeeper does not answer")
    event = asyncio.run(first(triggers.ConfirmationTrigger("main", "closed", "[]", 0.2)))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms["return_value"]["topics"] == {"": "ZooKeeper does not answer"}  # type: ignore[index, call-overload]


def launch_wait(folder: str = "", limit_s: float = 5.0, began_at: float = 0.0) -> triggers.RegistrationTrigger:
    return triggers.RegistrationTrigger("main", "a", folder, limit_s, time.time() + limit_s, began_at)


def test_a_driver_that_ended_fails_the_launch_at_once_with_the_end_of_its_log(
    tmp_path: Path, borrowed: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    folder = RunFolder.of(tmp_path, "main", "a")
    folder.path.mkdir(parents=True)
    folder.ended.write_text('{"code": 3}')
    folder.log.write_text("ModuleNotFoundError: no such thing\n")
    assert isinstance(asyncio.run(first(launch_wait(str(folder.path)))), TaskFailedEvent)
    assert "a ended before it had registered: exit code 3" in caplog.text
    assert "ModuleNotFoundError: no such thing" in caplog.text
    assert borrowed.opened == 1


def test_the_end_of_a_start_before_the_launch_fails_no_launch(tmp_path: Path, shop: Cluster, borrowed: Opened) -> None:
    """The triggerer may be on another host than the worker where the consumer ran an hour ago."""
    folder = RunFolder.of(tmp_path, "main", "a")
    folder.path.mkdir(parents=True)
    now = time.time()
    folder.write_ended(3, "", now - 3_600)

    async def scenario() -> TriggerEvent:
        waiting_for_it = asyncio.ensure_future(first(launch_wait(str(folder.path), began_at=now)))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(shop.join, "a")
        return await waiting_for_it

    assert isinstance(asyncio.run(scenario()), TaskSuccessEvent)
    assert borrowed.opened == 1


@pytest.mark.parametrize(
    ("is_here", "said"),
    [
        (False, "it may still start; its log is where its master keeps it"),
        (True, "it keeps running, and the next try waits for it; its log is {log}"),
    ],
    ids=["on a master", "on this host"],
)
def test_a_launch_that_takes_too_long_fails_with_a_sentence(
    tmp_path: Path, borrowed: Opened, caplog: pytest.LogCaptureFixture, is_here: bool, said: str
) -> None:
    folder = RunFolder.of(tmp_path, "main", "a")
    trigger = launch_wait(str(folder.path) if is_here else "", limit_s=0.1)
    assert isinstance(asyncio.run(first(trigger)), TaskFailedEvent)
    assert f"a has not registered within 0.1 s; {said.format(log=folder.log)}" in caplog.text
    assert borrowed.opened == 1


class Asked(triggers.QuestionTrigger):
    """A question about orders without an Airflow to keep answers, and without an answer."""

    def __init__(self, consumer: str, limit_s: float = 60.0) -> None:
        at = datetime.now(UTC) + timedelta(seconds=limit_s)
        super().__init__(
            cluster="main",
            topic="orders",
            consumer=consumer,
            ti_id=uuid.uuid4(),
            options=["wait", "isolate"],
            defaults=["wait"],
            params={},
            timeout_datetime=at,
            poke_interval=0.02,
        )

    async def _handle_response(self) -> None:
        return None

    async def _handle_timeout(self) -> TriggerEvent:
        return TriggerEvent("wait")


@pytest.mark.usefixtures("borrowed")
def test_a_question_is_withdrawn_when_its_topic_is_removed(shop: Cluster) -> None:
    async def scenario() -> bool:
        shop.join("a")
        transitions.plan(shop.coordinator, ["orders"], PERSON)
        shop.clock.sleep(shop.coordinator.policy.stuck_after_s + 1)
        asked = asyncio.ensure_future(first(Asked("a")))
        await asyncio.sleep(0.2)
        stood = not asked.done()
        await asyncio.to_thread(topics.remove_topic, shop.coordinator, "orders", PERSON)
        await asyncio.to_thread(directives.isolate, shop.coordinator, "a", by="ada", why="gone")
        await asyncio.to_thread(transitions.plan, shop.coordinator, ["orders"], PERSON)
        await asked
        return stood

    assert asyncio.run(scenario())


@pytest.mark.usefixtures("borrowed")
@pytest.mark.parametrize(("consumer", "owned"), [("a", 4), ("", 1)])
def test_a_question_stands_while_its_topic_cannot_be_read(shop: Cluster, consumer: str, owned: int) -> None:
    async def scenario() -> bool:
        stable(shop, "orders", dict.fromkeys(range(owned), "a"))
        path = shop.paths.state("orders")
        readable = shop.zk.get(path).data
        shop.zk.transact([SetData(path, b"{")])
        asked = asyncio.ensure_future(first(Asked(consumer)))
        await asyncio.sleep(0.2)
        stood = not asked.done()
        await asyncio.to_thread(topics.remove_topic, shop.coordinator, "orders", PERSON)
        shop.zk.transact([SetData(path, readable)])
        await asked
        return stood

    assert asyncio.run(scenario())


def test_a_question_stands_to_its_time_out_while_zookeeper_is_away(borrowed: Opened) -> None:
    borrowed.problem = StoreUnavailable("ZooKeeper does not answer")

    async def scenario(limit_s: float) -> bool:
        asked = asyncio.ensure_future(first(Asked("a", limit_s)))
        done, _ = await asyncio.wait([asked], timeout=0.5)
        asked.cancel()
        return bool(done)

    assert asyncio.run(scenario(60.0)) is False
    assert asyncio.run(scenario(0.1)) is True


def test_an_answer_that_is_there_is_taken_after_airflow_has_noted_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[float | str] = []

    class Answered(Asked):
        async def _handle_response(self) -> Any:
            order.append("looks")
            return TriggerEvent("isolate")

    async def sleep(seconds: float) -> None:
        order.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert asyncio.run(first(Answered("a"))).payload == "isolate"
    assert order == [0.02, "looks"]


def test_a_stored_question_is_the_same_again() -> None:
    path, arguments = Asked("a").serialize()
    assert path == "coordinator_plugin.triggers.QuestionTrigger"
    assert triggers.QuestionTrigger(**arguments).serialize() == (path, arguments)
