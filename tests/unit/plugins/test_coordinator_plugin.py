"""Airflow's side without Airflow's services: connections, waits, the watcher's comparisons, the reconciliation, the forms."""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.providers.common.compat.sdk import DagRunTriggerException
from airflow.sdk import DAG, Asset, BaseOperator, Connection
from airflow.sdk.exceptions import AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.triggers.base import TaskFailedEvent, TaskSuccessEvent, TriggerEvent
from coordinator_plugin import (
    changes,
    clusters,
    hook,
    operators,
    question,
    report,
    run_location,
    sessions,
    triggers,
    watcher,
)
from coordinator_plugin.confirmation import Patience, WaitKind, confirmations
from coordinator_plugin.operators import ContinueOperator, PlanOperator
from coordinator_plugin.reconcile import reconcile, runs
from coordinator_plugin.steps import IDLE_PAUSE_S, LeftOver, continuation
from coordinator_plugin.stuck_topics import ASK_AGAIN_S

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.codecs.codec import encode_node, encode_state
from coordinator_tasks.core.errors import NotManaged, Refused, StoreUnavailable, TopicConflict
from coordinator_tasks.core.model import (
    Actor,
    ConsumerStatus,
    Explanation,
    Fleet,
    Move,
    MoveKind,
    Reason,
    Silence,
    State,
    TopicNode,
    TopicState,
)
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service import directives, fleet, overrides, topics, transitions
from coordinator_tasks.service.actions import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.transitions import Outcome, TopicReport, Waiting, WaitReport
from coordinator_tasks.settings import settings_of
from tests.fakes.cluster import PERSON, Cluster
from tests.world.site import Site, stable_site

AIRFLOW = Actor("airflow", "ada", "drain", "run", "drain", 1)


def said_of(action: str, shop: Cluster, given: Mapping[str, Any], *, dry_run: bool) -> list[str]:
    return ACTIONS[action].lines(shop.coordinator, given, AIRFLOW, dry_run=dry_run)


@pytest.fixture
def shop() -> Cluster:
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 4)
    topics.add_topic(cluster.coordinator, "orders", "g", actor=PERSON)
    # Their interfaces answer, and say that they run nothing yet.
    for consumer in ("a", "b"):
        cluster.statuses.answers[consumer] = lambda member: ConsumerStatus(
            member.consumer, cluster.name, member.incarnation, "boot", "ok"
        )
    return cluster


# Clusters and connections


def test_without_a_setting_there_is_one_cluster_with_the_default_connections() -> None:
    (only,) = clusters.clusters({})
    assert (only.name, only.zookeeper_conn_id, only.kafka_conn_id) == ("main", "zookeeper_default", "kafka_default")
    assert only.dag_id("rebalance") == "rebalance"


def test_a_cluster_may_name_its_connections() -> None:
    found = clusters.cluster("eu", {"COORDINATOR_CLUSTERS": "us, eu=zk_eu/kafka_eu"})
    assert (found.zookeeper_conn_id, found.kafka_conn_id, found.dag_id("reconcile")) == (
        "zk_eu",
        "kafka_eu",
        "reconcile__eu",
    )


@pytest.mark.parametrize("text", ["", "a,a", "a/b", "../etc"])
def test_odd_cluster_lists_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        clusters.clusters({"COORDINATOR_CLUSTERS": text})


@pytest.mark.parametrize(
    ("set_to", "paused"),
    [({}, False), ({"COORDINATOR_DAGS_PAUSED": "True"}, True), ({"COORDINATOR_DAGS_PAUSED": "false"}, False)],
)
def test_a_new_dag_is_paused_where_the_site_says_so(set_to: dict[str, str], paused: bool) -> None:
    assert clusters.begin_paused(set_to) is paused


def test_a_word_for_paused_dags_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(
        Refused,
        match=r"COORDINATOR_DAGS_PAUSED or dags_paused in \[kafka_coordinator\] is 'yes'; set it to true or false",
    ):
        clusters.begin_paused({"COORDINATOR_DAGS_PAUSED": "yes"})


def test_an_unknown_cluster_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Refused, match="'eu' is not known here: choose one of main"):
        clusters.cluster("eu", {})


def test_every_secret_of_the_connections_reaches_the_settings_and_none_is_shown() -> None:
    zookeeper = Connection(
        conn_id="zk", conn_type="generic", host="zk1,zk2:2182", port=2181, login="u", password="p1",
        extra=json.dumps({"chroot": "/apps", "status_token": "t0", "policy": {"settle_s": 2}}),
    )  # fmt: skip
    kafka = Connection(
        conn_id="k", conn_type="kafka", host="b1,b2", port=9093, login="alice", password="p2",
        extra=json.dumps({"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem", "enable.ssl.certificate.verification": False}),
    )  # fmt: skip
    plain = {**hook.zookeeper_settings(zookeeper), "cluster": "main", "kafka": hook.kafka_settings(kafka)}
    settings = settings_of(plain)
    assert settings.zookeeper == "zk1:2181,zk2:2182/apps"
    assert (settings.zookeeper_access.user, settings.zookeeper_access.password) == ("u", "p1")
    assert settings.policy.settle_s == 2
    assert settings.status_token == "t0"
    assert settings.kafka == {
        "bootstrap.servers": "b1:9093,b2:9093",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "enable.ssl.certificate.verification": "false",
        "sasl.username": "alice",
        "sasl.password": "p2",
    }
    assert not any(secret in repr(settings) for secret in ("p1", "p2", "t0"))


def test_a_connection_does_not_say_what_may_be_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = json.dumps({"allowed": {"applications": "*"}})
    zookeeper = Connection(conn_id="zk", conn_type="generic", host="zk1", extra=extra)
    with pytest.raises(Refused, match="remove `allowed` from its extra, and set COORDINATOR_ALLOWED"):
        hook.zookeeper_settings(zookeeper)
    good = {
        "zookeeper_default": Connection(conn_id="zk", conn_type="generic", host="zk1"),
        "kafka_default": Connection(conn_id="k", conn_type="generic", host="b1"),
    }
    monkeypatch.setattr(hook.CoordinatorHook, "get_connection", lambda _, conn_id: good[conn_id])
    monkeypatch.setenv("COORDINATOR_ALLOWED_APPLICATIONS", "/opt/shop/*.py")
    assert settings_of(hook.CoordinatorHook().plain_settings()).allowed == AllowedLaunches("/opt/shop/*.py")


def test_a_connection_without_a_host_is_refused_by_its_id() -> None:
    with pytest.raises(Refused, match="'zk' has no host"):
        hook.zookeeper_settings(Connection(conn_id="zk", conn_type="generic"))
    with pytest.raises(Refused, match="'k' has no host"):
        hook.kafka_settings(Connection(conn_id="k", conn_type="kafka"))


@pytest.mark.parametrize(
    ("first", "allowed", "refused"),
    [
        ("/sbin/init", "", False),
        ("/lib/systemd/systemd --system", "", False),
        ("/usr/bin/dumb-init -- /entrypoint airflow scheduler", "", True),
        ("/usr/bin/dumb-init -- /entrypoint celery worker", "", True),
        ("/usr/bin/tini -- /start", "", True),
        ("/pause", "", True),
        ("/usr/bin/dumb-init -- /entrypoint airflow celery worker", "yes", False),
    ],
)
def test_a_container_that_ends_with_airflow_is_no_place_to_let_go(
    tmp_path: Path, first: str, allowed: str, refused: bool
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "cmdline").write_bytes(first.replace(" ", "\0").encode())
    problem = run_location.let_go_problem({"COORDINATOR_LET_GO": allowed} if allowed else {}, tmp_path)
    assert ("would die with it" in problem) is refused


# How a wait ends


def waiting(kind: Waiting, confirmed: tuple[str, ...] = (), pending: tuple[str, ...] = ()) -> WaitReport:
    return WaitReport(kind, dict.fromkeys(pending, "waits"), dict.fromkeys(pending, ("a",)), confirmed, pending)


def test_a_wait_ends_as_soon_as_all_is_confirmed_or_a_new_plan_is_due() -> None:
    assert Patience(0.0, 60.0).judge(waiting(Waiting.CONFIRMED), False, 0.1) is not None
    ended = Patience(0.0, 60.0).judge(waiting(Waiting.REPLAN, pending=("x",)), False, 0.1)
    assert ended is not None
    assert ended.waiting is Waiting.REPLAN


def test_a_stuck_topic_holds_up_no_other() -> None:
    patience = Patience(0.0, 60.0, patience_s=2.0)
    report = waiting(Waiting.PENDING, confirmed=("y",), pending=("x",))
    assert patience.judge(report, False, 1.0) is None
    assert patience.judge(report, False, 2.9) is None
    ended = patience.judge(report, False, 3.1)
    assert ended is not None
    assert ended.waiting is Waiting.CONFIRMED


def test_topics_that_wait_for_something_else_are_not_held_up_either() -> None:
    patience = Patience(0.0, 60.0, patience_s=2.0)
    assert patience.judge(waiting(Waiting.PENDING, pending=("x",)), True, 1.0) is None
    assert patience.judge(waiting(Waiting.PENDING, pending=("x",)), True, 3.1) is not None


def test_a_wait_with_nothing_confirmed_ends_blocked_at_its_limit() -> None:
    patience = Patience(0.0, 5.0, patience_s=2.0)
    assert patience.judge(waiting(Waiting.BLOCKED, pending=("x",)), False, 4.0) is None
    ended = patience.judge(waiting(Waiting.BLOCKED, pending=("x",)), False, 5.0)
    assert ended is not None
    assert ended.plain() == {"waiting": "blocked", "topics": {"x": "waits"}, "blockers": {"x": ["a"]}, "waited_s": 5.0}


def test_a_report_reads_as_sentences() -> None:
    moves = (Move(1, "a", "b", MoveKind.HANDOFF), Move(4, "a", "b", MoveKind.HANDOFF), Move(2, "", "c", MoveKind.START))
    done = TopicReport("orders", State.STABLE, State.CLOSING, Outcome.WRITTEN, "joined: b", moves, ("a",), 7, "r1")
    assert list(report.lines([done])) == [
        "orders: Stable -> Closing, written at epoch 7: joined: b",
        "orders:   1 partition start on c: 2",
        "orders:   2 partitions from a to b by hand-off: 1, 4",
        "orders:   waits for a",
    ]
    assert json.loads(json.dumps(report.plain(done)))["moves"][0] == [1, "a", "b", "handoff"]


# Sessions of the triggerer


class Opened:
    def __init__(self, coordinator: Coordinator, problem: Exception | None = None) -> None:
        self.coordinator, self.problem = coordinator, problem
        self.opened = self.closed = 0

    @contextmanager
    def __call__(self) -> Iterator[Coordinator]:
        if self.problem is not None:
            raise self.problem
        self.opened += 1
        yield self.coordinator
        self.closed += 1


def test_many_waits_share_one_session_and_the_last_one_closes_it_after_a_while(shop: Cluster) -> None:
    opened, shared = Opened(shop.coordinator), sessions.Sessions(linger_s=0.2)
    for _ in range(5):
        shared.take("main", opened)
    for _ in range(5):
        shared.give_back("main")
    assert (opened.opened, opened.closed) == (1, 0)
    shared.take("main", opened)
    time.sleep(0.4)
    assert opened.closed == 0  # borrowed again in time
    shared.give_back("main")
    deadline_s = time.monotonic() + 5
    while opened.closed == 0 and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert (opened.opened, opened.closed, len(shared)) == (1, 1, 0)


def test_what_cannot_be_opened_leaves_nothing_behind(shop: Cluster) -> None:
    shared = sessions.Sessions()
    with pytest.raises(StoreUnavailable):
        shared.take("main", Opened(shop.coordinator, StoreUnavailable("away")))
    assert len(shared) == 0


# Triggers


@pytest.fixture
def borrowed(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> Opened:
    opened = Opened(shop.coordinator)
    shared = sessions.Sessions(linger_s=0.01)

    async def borrow(_cluster: str) -> Any:
        return shared.borrow("main", opened)

    for module in (triggers, watcher):
        monkeypatch.setattr(module, "borrowed", borrow)
        monkeypatch.setattr(module, "RECONNECT_S", 0.05)
    return opened


async def first(trigger: Any) -> TriggerEvent:
    event: TriggerEvent = await asyncio.wait_for(anext(trigger.run()), 10)
    return event


def test_a_confirmed_wait_ends_its_task_with_the_outcome(borrowed: Opened) -> None:
    event = asyncio.run(first(triggers.ConfirmationTrigger("main", "closed", "[]", 5.0)))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms is not None
    assert event.xcoms["return_value"]["waiting"] == "confirmed"  # type: ignore[index, call-overload]
    assert borrowed.opened == 1


def test_a_wait_holds_while_zookeeper_is_away_and_says_so_at_its_limit(borrowed: Opened) -> None:
    borrowed.problem = StoreUnavailable("ZooKeeper does not answer")
    event = asyncio.run(first(triggers.ConfirmationTrigger("main", "closed", "[]", 0.2)))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms is not None
    assert event.xcoms["return_value"]["topics"] == {"": "ZooKeeper does not answer"}  # type: ignore[index, call-overload]


def test_a_wait_names_the_blocker_and_ends_blocked(shop: Cluster, borrowed: Opened) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    event = asyncio.run(first(triggers.ConfirmationTrigger("main", "started", '["orders"]', 0.3)))
    assert isinstance(event, TaskSuccessEvent)
    assert event.xcoms is not None
    outcome: Any = event.xcoms["return_value"]
    assert (outcome["waiting"], outcome["blockers"]) == ("blocked", {"orders": ["a"]})
    assert borrowed.opened == 1


def launch_wait(folder: str = "", limit_s: float = 5.0) -> triggers.RegistrationTrigger:
    return triggers.RegistrationTrigger("main", "a", folder, limit_s, time.time() + limit_s)


def test_a_launch_ends_when_the_consumer_registers(shop: Cluster, borrowed: Opened) -> None:
    async def scenario() -> TriggerEvent:
        waiting_for_it = asyncio.ensure_future(first(launch_wait()))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(shop.join, "a")
        return await waiting_for_it

    event = asyncio.run(scenario())
    assert isinstance(event, TaskSuccessEvent)
    assert borrowed.opened == 1


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


def test_a_launch_that_takes_too_long_fails_with_a_sentence(borrowed: Opened, caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(asyncio.run(first(launch_wait(limit_s=0.1))), TaskFailedEvent)
    assert "a has not registered within 0.1 s" in caplog.text
    assert borrowed.opened == 1


class Asked(triggers.QuestionTrigger):
    """A question about orders, whose answers no Airflow keeps; nobody answers."""

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
def test_a_question_about_partitions_without_an_owner_is_withdrawn_when_its_topic_is_removed(shop: Cluster) -> None:
    async def scenario() -> bool:
        stable(shop, "orders", {0: "a"})
        asked = asyncio.ensure_future(first(Asked("")))
        await asyncio.sleep(0.2)
        stood = not asked.done()
        await asyncio.to_thread(topics.remove_topic, shop.coordinator, "orders", PERSON)
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


def test_a_stored_question_is_the_same_again() -> None:
    path, arguments = Asked("a").serialize()
    assert path == "coordinator_plugin.triggers.QuestionTrigger"
    assert triggers.QuestionTrigger(**arguments).serialize() == (path, arguments)


# The watcher


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


def test_the_watcher_tells_each_change_once_and_remembers_it_over_a_restart(
    shop: Cluster, borrowed: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        # The second change was not stored yet: it is told again, and with it what happened while nobody watched.
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


def nobody() -> None:
    """A watcher that nobody waits for."""


def test_our_own_transitions_wake_nobody(shop: Cluster) -> None:
    shop.join("a")
    before = changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    assert changes.differences(before, changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)) == []


def test_partitions_directives_and_lost_states_wake_the_rebalance(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    before = changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)
    topics.create_partitions(shop.coordinator, "orders", 6, 0)
    said_of("isolate", shop, {"consumer": "a", "why": ""}, dry_run=False)
    shop.zk.transact([changes_delete(shop), Create(shop.paths.leave("b"), b"{}")])
    now = changes.observe(shop.coordinator, changes.Scope.TOPICS, nobody)
    assert changes.differences(before, now) == [
        "directive a is new",
        "leave of b is new",
        "partitions of orders changed",
        "state of orders is gone",
    ]


def changes_delete(shop: Cluster) -> Any:
    from coordinator_tasks.core.ports import Delete  # noqa: PLC0415 - only here

    return Delete(shop.paths.state("orders"))


def test_the_fleet_is_woken_by_its_own_change_and_by_those_who_left_only(shop: Cluster) -> None:
    scope = changes.Scope.FLEET
    session = shop.server.connect()
    shop.join("a", session)
    before = changes.observe(shop.coordinator, scope, nobody)
    shop.join("b")
    assert changes.differences(before, changes.observe(shop.coordinator, scope, nobody)) == []
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("a", "b")))
    session.close()
    now = changes.observe(shop.coordinator, scope, nobody)
    assert changes.differences(before, now) == ["member a left", "fleet app is new"]


# The reconciliation, the forms, what is left over


def test_reconcile_finds_due_topics_and_missing_consumers_and_lets_running_runs_be(shop: Cluster) -> None:
    shop.join("a")
    fleet.set_fleet(shop.coordinator, Fleet("app", "app.py", ("c1",)))
    shop.kafka.add_partitions("orders", 2)
    findings = reconcile(shop.coordinator)
    assert (findings.due, findings.missing, findings.questions) == (("orders",), ("c1",), ())
    assert "orders has 2 new partitions" in findings.lines
    names = {"rebalance": "rebalance", "consumers": "consumers", "stuck_topic": "stuck_topic"}
    wanted = runs(findings, names, active_rebalances=0, active_launches=0)
    assert [one["trigger_dag_id"] for one in wanted] == ["rebalance", "consumers"]
    assert runs(findings, names, active_rebalances=1, active_launches=1) == []


def test_reconcile_finds_what_is_due_beside_a_fleet_and_a_topic_that_cannot_be_read(shop: Cluster) -> None:
    c = shop.coordinator
    for consumer in ("a", "b"):
        shop.join(consumer)
    fleet.set_fleet(c, Fleet("app", "app.py", ("c1",)))
    shop.kafka.create_topic("clicks", 1)
    topics.add_topic(c, "clicks", "g", actor=PERSON)
    directives.isolate(c, "b", by="ada", why="disk")
    directives.readmit(c, "b", by="ada")
    broken = [c.paths.fleet("app"), c.paths.topic("clicks")]
    shop.zk.transact([SetData(path, b"{") for path in broken])
    findings = reconcile(c)
    assert (findings.due, findings.missing) == (("orders",), ())
    assert any(line.startswith(broken[0]) for line in findings.lines)
    assert any(
        line.startswith("nobody who may run topic clicks is readmitted: ") and broken[1] in line
        for line in findings.lines
    )


def test_a_stuck_topic_is_asked_about_once_and_again_later(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    transitions.plan(c, ["orders"], PERSON)
    assert reconcile(c).questions == ()
    shop.clock.sleep(c.policy.stuck_after_s + 1)
    (asked,) = reconcile(c).questions
    assert (asked.topic, asked.consumer) == ("orders", "a")
    shop.clock.sleep(60)
    (again,) = reconcile(c).questions
    assert again.run_id == asked.run_id
    shop.clock.sleep(ASK_AGAIN_S)
    (later,) = reconcile(c).questions
    assert later.run_id != asked.run_id


def stable(shop: Cluster, topic: str, assignments: dict[int, str]) -> None:
    at = shop.clock.now()
    since, incarnations = dict.fromkeys(assignments, 1), dict.fromkeys(assignments.values(), 1)
    node = TopicNode("broker:9092", "g", 1, "g", "id-1", assignments, since, incarnations=incarnations)
    shop.zk.transact([SetData(shop.paths.topic(topic), encode_node(node))])
    state = TopicState(State.STABLE, rebalance="1-abc", since_at=at)
    shop.zk.transact([Create(shop.paths.state(topic), encode_state(state))])


def test_partitions_that_nobody_owns_are_told_at_once_and_asked_about_when_that_lasts(shop: Cluster) -> None:
    c = shop.coordinator
    shop.join("a")
    directives.drain(c, "a", "ada", "new disk")
    stable(shop, "orders", {0: "a"})
    transitions.plan(c, ["orders"], PERSON)
    found = reconcile(c)
    assert any(line.startswith("orders: nobody owns partitions 1") for line in found.lines)
    assert found.questions == ()
    shop.clock.sleep(c.policy.stuck_after_s + 1)
    (asked,) = reconcile(c).questions
    assert asked.plain()["conf"] == {"topic": "orders", "consumer": ""}
    (again,) = reconcile(c).questions
    assert again.run_id == asked.run_id

    ask = question.QuestionOperator(task_id="ask")
    ask._about_unowned(c, cast(Any, {"params": asked.plain()["conf"]}))
    assert ask.subject.startswith("nobody owns partition")
    assert "no live consumer is there to take partitions 1" in str(ask.body)
    assert ask.options == [question.WAIT], "there is nobody to isolate"

    topics.remove_topic(c, "orders", PERSON)
    assert reconcile(c).questions == ()
    with pytest.raises(AirflowSkipException, match="nobody is asked"):
        ask._about_unowned(c, cast(Any, {"params": asked.plain()["conf"]}))


def test_the_question_says_what_else_isolating_would_take(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.kafka.create_topic("clicks", 6)
    topics.add_topic(shop.coordinator, "clicks", "g", actor=PERSON)
    stable(shop, "clicks", {0: "a", 1: "b", 2: "a", 3: "a"})
    monkeypatch.setattr(question, "held_up", lambda _, names: {names[0]: {"a": "a does not answer"}})
    ask = question.QuestionOperator(task_id="ask")
    ask._about_consumer(shop.coordinator, cast(Any, {"params": {"topic": "orders", "consumer": "a"}}))
    assert "takes everything from this consumer at once: partitions 0,2-3 of clicks. If" in str(ask.body)
    assert question.takes({}) == "it has no partition now"
    assert question.takes({f"t{n:02}": (n,) for n in range(12)}).endswith("partition 9 of t09, those of 2 more topics")


def test_two_runs_that_leave_the_same_over_agree_on_the_further_one(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    left = continuation(shop.coordinator, [])
    assert (left.topics, left.now) == (("orders",), True)
    assert continuation(shop.coordinator, ["orders"]) == left


class Told(list[Any]):
    """The events by which runs have told what they leave over; `after` as Airflow's."""

    def after(self, since: str) -> list[Any]:
        return [one for one in self if one.timestamp >= datetime.fromisoformat(since)]


def told(left: str, ago_s: float = 0.0, run: str = "other") -> SimpleNamespace:
    """The event of a run that has left this over."""
    return SimpleNamespace(timestamp=NOW - timedelta(seconds=ago_s), extra={"left": left}, source_run_id=run)


NOW = datetime.now(UTC)
BEGAN_AGO_S = 10.0


def goes_on(
    shop: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    topics: Sequence[str] = (),
    lately: Sequence[SimpleNamespace] = (),
    woken_by: Sequence[SimpleNamespace] = (),
) -> tuple[list[dict[str, Any]], DagRunTriggerException | None]:
    """The extras of the events by which a run's last task wakes the DAG, and the run that it starts by itself."""
    monkeypatch.setattr(hook.CoordinatorHook, "open", lambda _: nullcontext(shop.coordinator))
    asset = Asset(name="zookeeper", uri="zookeeper://shop/topics")
    task = ContinueOperator(task_id="further_run", trigger_dag_id="rebalance", changes=asset)
    events = OutletEventAccessors()
    (alias,) = task.outlets
    assert task.inlets == [alias]
    context: Any = {
        "ti": SimpleNamespace(),
        "dag_run": SimpleNamespace(start_date=NOW - timedelta(seconds=BEGAN_AGO_S)),
        "params": {"topics": list(topics)},
        "outlet_events": events,
        "inlet_events": {alias: Told([*lately, *woken_by])},
        "triggering_asset_events": {alias: woken_by} if woken_by else {},
    }
    started = None
    try:
        task.execute(context)
    except DagRunTriggerException as error:
        started = error
    return [one.extra for one in events[alias].asset_alias_events], started


def test_what_can_go_on_at_once_wakes_the_dag_as_zookeeper_does(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    left = continuation(shop.coordinator, []).digest
    assert goes_on(shop, monkeypatch) == ([{"left": left}], None)
    # A run that was woken for it waits as long as any, and then goes on with it.
    for other in (left, "something else"):
        assert goes_on(shop, monkeypatch, woken_by=[told(other)]) == ([{"left": left}], None)


@pytest.mark.parametrize(
    ("other", "ago_s", "skipped"),
    [
        (False, 1, True),
        (False, BEGAN_AGO_S + 1, False),
        (True, 1, False),
    ],
)
def test_of_runs_that_leave_the_same_over_the_one_that_began_last_goes_on(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch, other: bool, ago_s: float, skipped: bool
) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    left = "something else" if other else continuation(shop.coordinator, []).digest
    lately = [told(left, ago_s)]
    if skipped:
        with pytest.raises(AirflowSkipException, match="another run continues with it"):
            goes_on(shop, monkeypatch, lately=lately)
        # The one that was woken for it is that other run, also where the clocks of Airflow's hosts differ.
        assert goes_on(shop, monkeypatch, woken_by=lately)[0]
    else:
        assert goes_on(shop, monkeypatch, lately=lately)[0]


def test_what_a_run_was_woken_for_and_could_not_write_is_tried_again_after_a_pause(
    shop: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.join("a")
    left = continuation(shop.coordinator, [])
    assert (left.now, left.writable) == (True, True)
    assert goes_on(shop, monkeypatch) == ([{"left": left.digest}], None)
    before = datetime.now(UTC)
    events, started = goes_on(shop, monkeypatch, woken_by=[told(left.digest)])
    assert events == []
    assert started is not None
    assert started.run_after is not None
    assert (started.run_after - before).total_seconds() >= IDLE_PAUSE_S


def test_a_run_for_a_part_of_the_topics_wakes_the_dag_too(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    left = continuation(shop.coordinator, ["orders"]).digest
    assert goes_on(shop, monkeypatch, ["orders"]) == ([{"left": left}], None)


def test_what_waits_for_its_time_is_looked_at_when_it_is_over(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(pause_s: float) -> DagRunTriggerException:
        left = LeftOver(("orders",), "digest", now=False, pause_s=pause_s)
        monkeypatch.setattr(operators, "continuation", lambda *_: left)
        events, started = goes_on(shop, monkeypatch, ["orders"])
        assert events == []
        assert started is not None
        assert started.conf == {"topics": ["orders"]}
        return started

    before = datetime.now(UTC)
    started = at(60.0)
    assert started.run_after is not None
    assert 60 <= (started.run_after - before).total_seconds() < 120
    # Airflow makes one run of an id: two runs that leave the same over name the same time, a later one another.
    assert started.dag_run_id == f"further__digest__{started.run_after:%Y%m%dT%H%M%S}"
    assert at(120.0).dag_run_id != started.dag_run_id


def skipped_by_plan(site: Site, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tasks that a plan of all topics leaves nothing to do for."""
    monkeypatch.setattr(hook.CoordinatorHook, "open", lambda _: nullcontext(site.coordinator))
    found: set[str] = set()
    monkeypatch.setattr(PlanOperator, "skip", lambda _, ti, tasks: found.update(task.task_id for task in tasks))
    with DAG("rebalance"):
        plan = PlanOperator(task_id="plan", closing_steps=("start",), last_step="further_run")
        plan >> BaseOperator(task_id="start") >> BaseOperator(task_id="settle") >> BaseOperator(task_id="further_run")
    ti = SimpleNamespace(dag_id="rebalance", run_id="r", task_id="plan", try_number=1, xcom_push=lambda **_: None)
    context: Any = {"ti": ti, "dag_run": SimpleNamespace(), "params": {"topics": []}}
    plan.execute(context)
    return found


def test_a_run_looks_again_for_an_owner_that_is_absent_and_not_once_its_partitions_have_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = stable_site("a", "b")
    site.with_policy(settle_s=0.0)
    assert skipped_by_plan(site, monkeypatch) == {"start", "settle", "further_run"}
    site.processes["b"].silence = Silence.REFUSED
    site.loses_session("b")
    assert skipped_by_plan(site, monkeypatch) == {"start", "settle"}
    left = continuation(site.coordinator, [])
    assert (left.topics, left.now, left.pause_s) == (("orders",), False, site.zk.session_timeout_s)
    site.clock.advance(site.zk.session_timeout_s)
    assert skipped_by_plan(site, monkeypatch) == {"start"}
    site.settles()
    assert skipped_by_plan(site, monkeypatch) == {"start", "settle", "further_run"}


def test_a_run_that_leaves_nothing_over_is_the_last_one(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AirflowSkipException, match="nothing is left over"):
        goes_on(shop, monkeypatch)


def test_one_look_tells_of_topics_that_wait_for_something_else(shop: Cluster) -> None:
    assert not confirmations(shop.coordinator, WaitKind.CLOSED, []).report.pending
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    seen = confirmations(shop.coordinator, WaitKind.STARTED, ["orders"])
    assert (seen.report.pending, seen.others_ready) == (("orders",), False)


def test_a_wait_sees_that_something_is_due_in_a_topic_that_is_stable() -> None:
    site = stable_site("a", "b")
    site.add_topic("payments")
    transitions.plan(site.coordinator, ["payments"], PERSON)
    seen = confirmations(site.coordinator, WaitKind.STARTED, [])
    assert (seen.report.pending, seen.others_ready) == (("payments",), False)
    overrides.set_pins(site.coordinator, "orders", "a", [0, 1, 2, 3], actor=PERSON)
    assert confirmations(site.coordinator, WaitKind.STARTED, []).others_ready, "or it would wait for payments"
    assert not confirmations(site.coordinator, WaitKind.STARTED, ["payments"]).others_ready


def test_a_dry_run_changes_nothing_and_tells_what_would(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    before = shop.zk.find(shop.paths.directive("a"))
    assert said_of("drain", shop, {"consumer": "a", "why": ""}, dry_run=True) == ["a gives away 4 partitions of orders"]
    assert shop.zk.find(shop.paths.directive("a")) == before
    said_of("drain", shop, {"consumer": "a", "why": ""}, dry_run=False)
    assert shop.zk.find(shop.paths.directive("a")) is not None


def test_a_strategy_is_changed_by_a_form_and_a_dry_run_says_what_to(shop: Cluster) -> None:
    given = {"topic": "orders", "strategy": "weighted", "parameters": {"measure": "lag", "floor": 0.25}}
    said = ["orders has strategy 'balanced' (its defaults) now, and gets 'weighted' (floor=0.25, measure=lag)"]
    assert said_of("set_strategy", shop, given, dry_run=True) == said
    assert topics.configuration(shop.coordinator, "orders").strategy == ""
    assert said_of("set_strategy", shop, given, dry_run=False) == [*said, "the next plan uses it"]
    config = topics.configuration(shop.coordinator, "orders")
    assert (config.strategy, config.parameters) == ("weighted", {"measure": "lag", "floor": "0.25"})
    wrong = {**given, "parameters": {"floor": 2}}
    with pytest.raises(Refused, match="'floor' of strategy 'weighted' is '2'"):
        said_of("set_strategy", shop, wrong, dry_run=True)
    with pytest.raises(NotManaged, match="'nothing' is not managed"):
        said_of("set_strategy", shop, {**given, "topic": "nothing"}, dry_run=True)


def test_offsets_are_reset_and_partitions_paused_by_forms_that_show_it_first(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    given = {"topic": "orders", "partitions": [1], "to": "earliest", "why": "wrong"}
    shown = ["orders: partition 1 continues at 0, nothing was committed"]
    epoch = shop.zk.get(shop.paths.topic("orders")).stat.version
    assert said_of("reset_offsets", shop, given, dry_run=True) == shown
    assert shop.zk.get(shop.paths.topic("orders")).stat.version == epoch
    assert said_of("reset_offsets", shop, given, dry_run=False) == shown
    assert said_of("reset_offsets", shop, given, dry_run=False) == ["another try of this task has done it"]
    said = "partition 1 of orders is paused"
    assert said_of("pause", shop, given, dry_run=True) == [said]
    assert topics.configuration(shop.coordinator, "orders").paused == frozenset()
    said_of("pause", shop, given, dry_run=False)
    assert topics.configuration(shop.coordinator, "orders").paused == {1}
    assert said_of("resume", shop, {"topic": "orders"}, dry_run=True)[0] == ("partition 1 of orders is read again")


def test_the_log_of_a_plan_names_the_reasons_of_most_partitions_and_how_many_more_there_are() -> None:
    found = [Reason(f"because {n}", tuple(range(n))) for n in range(1, report.SHOWN_REASONS + 3)]
    lines = list(report.reasons(Explanation("s", "i", "the summary", tuple(found), (Reason("it fits", (7,)),))))
    assert lines[0] == "the summary"
    assert lines[1].endswith(f" move: because {report.SHOWN_REASONS + 2}")
    assert lines[-2:] == ["and 2 more reasons why partitions move", "why 7 stay: it fits"]


def test_wrong_names_in_a_form_are_one_line_that_says_what_to_do(shop: Cluster) -> None:
    given = {"group_id": "g", "start": "earliest", "strategy": "balanced"}
    with pytest.raises(TopicConflict, match="there is no topic 'nothing' in Kafka"):
        said_of("add_topic", shop, {"topic": "nothing", **given}, dry_run=True)
    with pytest.raises(NotManaged, match=r"cluster 'shop' has never seen a consumer 'zoe' \(it knows: none\)"):
        said_of("isolate", shop, {"consumer": "zoe", "why": ""}, dry_run=True)
    with pytest.raises(NotManaged, match="'nothing' is not managed"):
        said_of("remove_topic", shop, {"topic": "nothing"}, dry_run=True)


def test_a_topic_is_frozen_and_its_partitions_pinned_by_forms(shop: Cluster) -> None:
    shop.join("a")
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    given = {"topic": "orders", "consumer": "a", "partitions": [2]}
    said = ["orders: partition 2 is pinned to a and stays there"]
    assert said_of("pin", shop, given, dry_run=True) == said
    assert topics.configuration(shop.coordinator, "orders").pins == {}
    assert said_of("pin", shop, given, dry_run=False) == said
    assert said_of("pin", shop, given, dry_run=False) == ["no pin of orders changes"]
    assert topics.configuration(shop.coordinator, "orders").pins == {2: "a"}
    assert said_of("unpin", shop, {"topic": "orders"}, dry_run=False) == [
        "orders: partition 2 may move again, was pinned to a"
    ]
    assert said_of("freeze", shop, given, dry_run=True) == ["orders gets frozen"]
    assert not topics.configuration(shop.coordinator, "orders").frozen
    said_of("freeze", shop, given, dry_run=False)
    assert said_of("freeze", shop, given, dry_run=False) == ["orders is frozen"]
    said_of("unfreeze", shop, given, dry_run=False)
    assert not topics.configuration(shop.coordinator, "orders").frozen
