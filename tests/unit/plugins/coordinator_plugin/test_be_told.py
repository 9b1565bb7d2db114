"""Notifications at an HTTP receiver: stuck topics, unowned partitions, flapping topics, a missed deadline."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import httpx
import pytest
from airflow.sdk import BaseHook, Connection, Context
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowSkipException
from airflow.triggers.callback import CallbackTrigger
from coordinator_plugin import dagparts, notifications, question
from coordinator_plugin.clusters import Cluster as NamedCluster
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.notifications import StuckTopicsNotifier
from coordinator_plugin.reconcile import reconcile
from coordinator_plugin.stuck_topics import ASK_AGAIN_S, FLAPS, sentences, still_asked

from coordinator_tasks.core.codecs.codec import decode_state, encode_state
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.core.model import Ending
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.nodes import directives, topics
from tests.receiver import Receiver
from tests.world.site import Site, stable_site

PASSWORD = "pager-key"
SECRET_ADDRESS = "https://chat.example/hooks/secret-part"
TI = SimpleNamespace(dag_id="rebalance", task_id="plan", run_id="r1")


def connected(monkeypatch: pytest.MonkeyPatch, **chat: Any) -> None:
    """The connection `chat` has these fields."""
    monkeypatch.setattr(BaseHook, "get_connection", lambda _: Connection(conn_id="chat", conn_type="http", **chat))


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    made = Receiver()
    host, port = made.server.server_address[:2]
    connected(monkeypatch, host=str(host), port=port, schema="http", password=PASSWORD)
    yield made
    made.close()


def opened(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoordinatorHook, "open", lambda _: nullcontext(site.coordinator))


def away(_: object) -> NoReturn:
    raise StoreUnavailable("gone")


def notify(about: SimpleNamespace = TI) -> None:
    StuckTopicsNotifier(http_conn_id="chat").notify(cast("Context", {"ti": about}))


def stuck_site() -> Site:
    """A topic that has been Closing for an hour."""
    site = stable_site("a")
    path = site.paths.state("orders")
    node = site.zk.get(path)
    state = decode_state(path, node.data)
    site.zk.transact([SetData(path, encode_state(state).replace(b'"Stable"', b'"Closing"'), node.stat.version)])
    site.clock.advance(3_600)
    return site


def unowned_site() -> Site:
    site = stable_site("a")
    site.dies("a")
    site.settles()
    return site


def flapping_site(times: int = FLAPS) -> Site:
    """A consumer crashes and is started again within the window: unrequested rebalances."""
    site = stable_site("a", "b")
    site.with_policy(flap_registrations=99)
    for number in range(times):
        if number % 2:
            site.starts("b")
        else:
            site.dies("b")
        site.settles()
    return site


SITES = {
    "stuck": (stuck_site, "orders is stuck in Closing: "),
    "unowned": (unowned_site, "nobody reads partitions 0-3 of orders: "),
    "flapping": (flapping_site, f"orders flaps: {FLAPS} rebalances within 10 minutes that nobody asked for; "),
}


@pytest.mark.parametrize("kind", SITES)
def test_the_receiver_is_told_the_run_and_what_is_wrong(
    kind: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, said = SITES[kind]
    opened(made(), monkeypatch)
    notify()
    ((authorization, text),) = receiver.posts
    assert authorization == f"Bearer {PASSWORD}"
    assert text.splitlines()[0] == "rebalance, task plan, run r1:"
    assert any(line.startswith(said) for line in text.splitlines()[1:]), text


def test_a_node_that_is_no_topics_hides_no_stuck_topic() -> None:
    site = stuck_site()
    site.zk.transact([Create(f"{site.paths.configs}/no topic")])
    strange, said = sentences(site.coordinator)
    assert strange.startswith("no topic cannot be read: KPC-011: ")
    assert said.startswith("orders is stuck in Closing: ")


def test_nothing_in_the_text_is_markup_of_a_chat(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoordinatorHook, "open", away)
    notify(SimpleNamespace(dag_id="<!here> [x](http://evil)", task_id="@all", run_id="`r`" * 1_000))
    ((_, text),) = receiver.posts
    assert not set(text) & set("<>[]@`")
    assert len(text) == notifications.SHOWN_CHARS


def test_an_endless_receiver_is_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made = Receiver(endless=True)
    connected(monkeypatch, host=made.address)
    monkeypatch.setattr(notifications, "LIMIT_S", 5.0)
    opened(stuck_site(), monkeypatch)
    StuckTopicsNotifier(http_conn_id="chat").notify(cast("Context", {}))
    made.close()
    assert (len(made.posts), "failed" in capsys.readouterr().out) == (1, False)
    assert made.posts[0][1].startswith("the coordinator:\n")


@pytest.mark.parametrize(
    "error",
    [
        None,
        httpx.ConnectError("refused " + SECRET_ADDRESS),
        httpx.InvalidURL(SECRET_ADDRESS),
        UnicodeEncodeError("ascii", SECRET_ADDRESS, 0, 1, "not in range"),
    ],
)
def test_an_address_that_does_not_take_it_fails_nothing_and_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    logged: list[str] = []
    monkeypatch.setattr(StuckTopicsNotifier, "log", SimpleNamespace(
        warning=lambda text, *given: logged.append(text % given), error=lambda text, *given: logged.append(text % given)
    ))  # fmt: skip
    monkeypatch.setattr(CoordinatorHook, "open", away)
    refusing = Receiver(status=500)
    connected(monkeypatch, host=refusing.address)

    def fails(*_: object, **__: object) -> None:
        raise error  # type: ignore[misc]

    if error is not None:
        monkeypatch.setattr(httpx, "stream", fails)
    notify()
    refusing.close()
    problem, failure = logged
    assert problem == "the coordinator cannot read its topics: KPC-041: gone"
    said = "HTTPStatusError 500" if error is None else type(error).__name__
    assert failure == f"the post to connection chat failed: {said}"


def test_a_connection_that_is_not_there_keeps_no_question_from_being_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> Connection:
        raise AirflowNotFoundException("The conn_id `chta` isn't defined")

    opened(stuck_site(), monkeypatch)
    monkeypatch.setattr(BaseHook, "get_connection", missing)
    StuckTopicsNotifier(http_conn_id="chta")(cast("Context", {}))


@pytest.mark.parametrize(
    ("site", "said"), [(stuck_site, "orders is stuck in Closing"), (lambda: stable_site("a"), "no topic is stuck now")]
)
def test_a_missed_deadline_tells_it_from_the_triggerer(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, site: Callable[[], Site], said: str
) -> None:
    opened(site(), monkeypatch)
    monkeypatch.setenv("COORDINATOR_NOTIFY_CONN_ID", "chat")
    alert = dagparts.deadline(NamedCluster("main", "zookeeper_default", "kafka_default"))
    assert isinstance(alert.callback, AsyncCallback)
    missed = {"dag_run": {"dag_id": "rebalance__eu", "dag_run_id": "asset__1"}, "deadline": {"id": "1"}}
    trigger = CallbackTrigger(alert.callback.path, {**alert.callback.kwargs, "context": missed})

    async def run() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    states = [str(payload["state"]) for payload in asyncio.run(run())]
    assert states == ["running", "success"]
    ((_, text),) = receiver.posts
    assert text.startswith("run asset__1 of rebalance__eu has not ended within its deadline: ")
    assert said in text


def test_a_topic_that_flaps_is_asked_about_once_in_a_while() -> None:
    site = flapping_site()
    found = reconcile(site.coordinator)
    (asked,) = found.questions
    assert asked.plain()["conf"] == {"topic": "orders", "consumer": ""}
    assert any(line.startswith("orders flaps: ") for line in found.lines)
    assert still_asked(site.coordinator, "orders", "")
    ask = question.QuestionOperator(task_id="ask")
    ask._about_unowned(site.coordinator, cast("Any", {"params": asked.plain()["conf"]}))
    assert (ask.subject, ask.options) == ("orders flaps", [question.WAIT])
    assert f"{FLAPS} rebalances within 10 minutes" in str(ask.body)
    site.clock.advance(ASK_AGAIN_S)
    assert reconcile(site.coordinator).questions == ()
    assert not still_asked(site.coordinator, "orders", "")
    with pytest.raises(AirflowSkipException, match="nobody is asked"):
        ask._about_unowned(site.coordinator, cast("Any", {"params": asked.plain()["conf"]}))


def drains_and_returns(site: Site, consumer: str) -> None:
    directives.drain(site.coordinator, consumer, "ada", "")
    site.settles()
    site.dies(consumer, Ending.LEFT)
    directives.undrain(site.coordinator, consumer)
    site.starts(consumer)


def restarts_as_planned(site: Site, consumer: str) -> None:
    directives.expect_restart(site.coordinator, consumer, 60.0, moves=False, by="ada", why="")
    site.dies(consumer)
    site.settles()
    site.starts(consumer)


def is_isolated_for_a_while(site: Site, consumer: str) -> None:
    directives.isolate(site.coordinator, consumer, by="ada", why="")
    site.settles()
    directives.readmit(site.coordinator, consumer, "ada")
    directives.complete_readmissions(site.coordinator)


def is_added(site: Site, consumer: str) -> None:
    site.starts(f"{consumer}{len(site.processes)}")


def gets_a_pin(site: Site, consumer: str) -> None:
    before = site.node().assignments[0]
    pins = {0: min({*site.processes} - {before})}
    topics.change_config(site.coordinator, "orders", lambda config: replace(config, pins=pins))
    del consumer


@pytest.mark.parametrize(
    "work", [drains_and_returns, restarts_as_planned, is_isolated_for_a_while, is_added, gets_a_pin]
)
def test_what_somebody_asked_for_is_no_flapping(work: Callable[[Site, str], None]) -> None:
    site = stable_site("a", "b", partitions=12)
    began = len(site.history())
    for _ in range(FLAPS):
        work(site, "b")
        site.settles()
    assert len({record.rebalance for record in site.history()[began:]}) >= FLAPS
    assert reconcile(site.coordinator).questions == ()
    assert "b" in site.counts(), "its partitions are not kept from it as from one that flaps"
