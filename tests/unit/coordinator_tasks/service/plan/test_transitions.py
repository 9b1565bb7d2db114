"""The transitions over the fakes: one effect for each transition in any process and after any failure, and no step on unknown facts."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from coordinator_tasks.adapters.discovery import ZooKeeperDiscovery, ZooKeeperRegistry, claim_incarnation, write_claim
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.errors import LookAgain, NoAccess, StoreUnavailable
from coordinator_tasks.core.machine.decision import ALL_STEPS, TopicOutcome
from coordinator_tasks.core.model import (
    Actor,
    Committed,
    Ending,
    Member,
    Silence,
    State,
    Token,
    Unreachable,
)
from coordinator_tasks.core.ports import Create, Delete, Operation, SetData
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, history, observe, store, topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import Need, TopicReport
from coordinator_tasks.service.run import loop, upkeep
from tests.fakes.clock import FakeClock
from tests.fakes.consumers import FakeDiscovery
from tests.fakes.counted import counted
from tests.fakes.kafka import FakeKafka
from tests.fakes.zookeeper import FakeZooKeeper, FakeZooKeeperServer
from tests.world.site import LOOP, Site, stable_site

Task = Callable[[Coordinator, Sequence[str], Actor], list[transitions.TopicReport]]
ONE = Actor("airflow", dag="rebalance", run="one", task="plan", attempt=1)
OTHER = Actor("airflow", dag="rebalance", run="other", task="plan", attempt=1)


@pytest.fixture
def site() -> Site:
    """a and b share the four partitions of orders; Stable."""
    return stable_site("a", "b")


def other(site: Site) -> Coordinator:
    """A second coordinator with a separate session."""
    return replace(site.coordinator, zk=site.server.connect())


def joining(site: Site) -> Site:
    site.starts("c")
    site.clock.advance(2)
    assert transitions.plan(site.coordinator, ["orders"], ONE)[0].after is State.CLOSING
    return site


# From task to task ---------------------------------------------------------------------------------------------------


def test_a_join_runs_through_its_tasks_one_record_each() -> None:
    site = stable_site("a", "b")
    before = len(site.history())
    joining(site)
    c = site.coordinator
    site.everybody_acts()
    assert transitions.await_closed(c, ["orders"]).confirmed == ("orders",)
    assert transitions.start(c, ["orders"], ONE)[0].after is State.STARTING
    site.everybody_acts()
    assert transitions.await_started(c, ["orders"]).outcome is TopicOutcome.WRITTEN
    assert transitions.settle(c, ["orders"], ONE)[0].after is State.STABLE
    records = site.history()[before:]
    assert [(r.source, r.target) for r in records] == [
        (State.STABLE, State.CLOSING),
        (State.CLOSING, State.STARTING),
        (State.STARTING, State.STABLE),
    ]
    assert len({r.rebalance for r in records}) == 1
    assert {r.actor for r in records} == {ONE}
    assert site.counts() == {"a": 2, "b": 1, "c": 1}
    site.check()


def test_a_consumer_that_only_knows_assignments_gives_and_takes_by_its_confirmations_alone() -> None:
    site = stable_site("a", "b")
    site.starts("c")
    c, plain = site.coordinator, site.processes["c"]
    plain.plain = True
    for joins in (True, False):
        if not joins:
            directives.drain(c, "c", by="ann", why="the host goes")
        site.clock.advance(2)
        assert transitions.plan(c, ["orders"], ONE)[0].after is State.CLOSING
        ((partition, entry),) = site.node().handoff.items()
        site.everybody_acts()
        assert site.releases()[partition].by == "b", "c has released nothing"
        running = [partition in site.processes[one].running["orders"] for one in (entry.giver, entry.taker)]
        assert running == [False, False], "c does not take over what is released, and b waits for a release"
        assert transitions.await_closed(c, ["orders"]).confirmed == ("orders",)
        assert transitions.start(c, ["orders"], ONE)[0].after is State.STARTING
        site.settles()
        assert site.counts() == ({"a": 2, "b": 1, "c": 1} if joins else {"a": 2, "b": 2})
        assert sorted(plain.running["orders"]) == ([partition] if joins else [])


@pytest.mark.parametrize("task", [transitions.plan, transitions.start, transitions.settle], ids=lambda t: t.__name__)
@pytest.mark.parametrize("stage", ["stable", "closing", "closed", "starting", "started"])
def test_every_task_run_again_after_its_success_changes_nothing(task: Task, stage: str) -> None:
    site = stable_site("a", "b")
    if stage != "stable":
        joining(site)
    if stage in ("closed", "starting", "started"):
        site.everybody_acts()
    if stage in ("starting", "started"):
        transitions.start(site.coordinator, ["orders"], ONE)
    if stage == "started":
        site.everybody_acts()
    task(site.coordinator, ["orders"], ONE)
    written = len(site.history())
    again = task(site.coordinator, ["orders"], OTHER)
    assert len(site.history()) == written
    assert again[0].outcome in (TopicOutcome.UNCHANGED, TopicOutcome.WAITING)


def test_a_plan_awaits_that_membership_is_still(site: Site) -> None:
    site.starts("c")
    began = site.clock.now()
    assert transitions.plan(site.coordinator, ["orders"], ONE)[0].outcome is TopicOutcome.WRITTEN
    assert site.clock.now() - began == pytest.approx(site.policy.settle_s)


def run_loop(site: Site) -> list[TopicOutcome]:
    """Turns of the plain loop until the first write."""
    stop, written = threading.Event(), list[TopicOutcome]()

    def show(report: transitions.TopicReport) -> None:
        written.append(report.outcome)
        stop.set()

    loop.run(site.coordinator, stop, "ada", show)
    return written


def test_the_loop_takes_over_from_the_dead_while_kafka_does_not_answer(site: Site) -> None:
    site.dies("a")
    site.clock.advance(5)
    site.kafka.down = True
    assert run_loop(site) == [TopicOutcome.WRITTEN]
    assert set(site.node().assignments.values()) == {"b"}


def test_the_loop_plans_without_a_folder_that_the_upkeep_needs(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.dies("a")
    site.zk.ensure(site.paths.fleets)
    site.zk.denied.add(site.paths.fleets)
    assert run_loop(site) == [TopicOutcome.WRITTEN]
    assert f"the redeployments wait: {site.paths.fleets} may not be used by this ZooKeeper account" in caplog.text


def test_the_loop_prunes_history_and_logs_a_repeated_line_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(history, "kept", lambda _: 5)
    folder, chores = site.paths.history("orders"), loop._Chores()
    for _ in range(8):
        site.zk.transact([Create(f"{folder}/", b"{}", sequence=True)])
    old = len(site.zk.children(folder)) - 5
    site.kafka.down = True
    for _ in range(10):
        chores.do(site.coordinator)
        site.clock.advance(loop.CHORES_S)
    assert len(site.zk.children(folder)) == 5
    said = [record.message for record in caplog.records]
    assert said.count(f"orders: old records pruned: {old}") == 1
    assert [line.startswith("the partition lists stay as they are") for line in said].count(True) == 1


def test_a_topic_that_settles_does_not_hold_up_what_another_has_to_write() -> None:
    site = stable_site("a", "b", names=("orders", "payments"))
    topics.change_config(
        site.coordinator, "orders", lambda config: replace(config, properties={"fetch.min.bytes": "2"})
    )
    topics.change_config(site.coordinator, "payments", lambda config: replace(config, frozen=True))
    site.settles()
    site.starts("c")
    site.dies("b")
    began = site.clock.now()
    written: list[tuple[str, float]] = []

    def note(_: FakeZooKeeper, operations: Sequence[Operation]) -> None:
        written.extend((op.path, site.clock.now()) for op in operations if "/history/" in op.path)

    site.server.before_write = note
    transitions.plan(site.coordinator, ["orders", "payments"], ONE)
    early = {path.split("/")[4] for path, at in written if at == began}
    assert early == {"orders", "payments"}


def test_a_registry_whose_clock_runs_ahead_delays_a_plan_by_the_longest_settling_time_at_most(site: Site) -> None:
    site.with_policy(settle_s=1.0, settle_max_s=5.0)
    site.clock.advance(4)
    site.starts("c")
    site.clock.advance(-4)
    began = site.clock.now()
    assert transitions.plan(site.coordinator, ["orders"], ONE)[0].outcome is TopicOutcome.WRITTEN
    assert site.clock.now() - began <= 6


def test_due_names_what_needs_a_run(site: Site) -> None:
    c = site.coordinator
    site.add_topic("payments")
    assert tuple(transitions.due(c)) == ("payments",)
    site.settles()
    assert tuple(transitions.due(c)) == ()
    site.starts("c")
    assert tuple(transitions.due(c)) == ("orders", "payments"), "while it settles too"
    assert tuple(transitions.due(c, ["payments"])) == ("payments",)
    site.clock.advance(2)
    transitions.plan(c, ["orders"], ONE)
    assert "orders" in transitions.due(c), "a confirmation is outstanding"


def test_an_absent_owner_is_due_when_its_end_is_known(site: Site) -> None:
    site.with_policy(settle_s=0.0)
    c = site.coordinator
    site.processes["b"].silence = Silence.REFUSED
    site.loses_session("b")
    transitions.plan(c, ["orders"], ONE)
    assert site.state("orders").state is State.STABLE
    site.clock.advance(1)
    assert transitions.due(c) == {"orders": Need(TopicOutcome.WAITING, site.zk.session_timeout_s - 1)}, (
        "no event tells of it"
    )
    site.clock.advance(site.zk.session_timeout_s - 1)
    assert transitions.due(c) == {"orders": Need(TopicOutcome.WRITTEN)}
    site.settles()
    assert site.counts() == {"a": 4}
    assert transitions.due(c) == {}


def test_an_absent_owner_that_only_a_person_isolates_is_not_due_unless_its_address_refuses(site: Site) -> None:
    site.with_policy(hold_absent=True)
    site.processes["b"].silence = Silence.SILENT
    site.loses_session("b")
    transitions.plan(site.coordinator, ["orders"], ONE)
    assert transitions.due(site.coordinator) == {}, "runs would follow each other until somebody comes"
    site.processes["b"].silence = Silence.REFUSED
    assert transitions.due(site.coordinator) == {"orders": Need(TopicOutcome.WAITING, site.zk.session_timeout_s)}


def test_with_hold_absent_the_platform_isolates_no_absent_owner(site: Site) -> None:
    site.with_policy(hold_absent=True)
    site.processes["b"].silence = Silence.SILENT
    site.loses_session("b")
    before = site.counts()
    for _ in range(2):
        transitions.plan(site.coordinator, ["orders"], ONE)
        site.clock.advance(site.coordinator.policy.absent_after_s + 1)
    transitions.plan(site.coordinator, ["orders"], ONE)
    assert site.counts() == before


def test_several_writes_of_one_call_are_one_report(site: Site) -> None:
    site.starts("c")
    site.clock.advance(2)
    site.dies("b")
    partition = min(site.owned("a"))
    topics.change_config(site.coordinator, "orders", lambda config: replace(config, pins={partition: "c"}))
    report = transitions.plan(site.coordinator, ["orders"], ONE)[0]
    assert len(site.history()) == 2 + 2
    assert all(record.moves for record in site.history()[2:])
    assert (report.before, report.outcome) == (State.STABLE, TopicOutcome.WRITTEN)
    assert report.moves == tuple(move for record in site.history()[2:] for move in record.moves)


def test_a_topic_that_is_gone_from_kafka_is_held(site: Site) -> None:
    site.kafka.delete_topic("orders")
    report = transitions.plan(site.coordinator, ["orders"], ONE)[0]
    assert report.outcome is TopicOutcome.HELD
    assert "no longer in Kafka" in report.reason


def test_a_release_counts_as_the_givers_confirmation_when_the_taker_is_lost() -> None:
    site = joining(stable_site("a", "b"))
    ((partition, entry),) = site.node().handoff.items()
    site.everybody_acts()
    assert site.releases()[partition].by == entry.giver
    site.dies("c")
    topics.change_config(site.coordinator, "orders", lambda config: replace(config, pins={partition: "a"}))
    assert transitions.start(site.coordinator, ["orders"], ONE)[0].after is State.STARTING
    assert site.node().assignments[partition] == "a"


# Two at once ---------------------------------------------------------------------------------------------------------


def interrupting(site: Site, act: Callable[[], object], folder: str = "/state/") -> None:
    """Do something just before the coordinator's next write in this folder."""
    site.server.before_next(act, lambda zk, operations: zk is site.zk and any(folder in op.path for op in operations))


def up_to(site: Site, stage: str) -> Task:
    """Join c, run the earlier tasks, and return this task."""
    site.starts("c")
    site.clock.advance(2)
    for name in ("plan", "start", "settle"):
        task: Task = getattr(transitions, name)
        if name == stage:
            break
        task(site.coordinator, ["orders"], ONE)
        site.everybody_acts()
    return task


@pytest.mark.parametrize("stage", ["plan", "start", "settle"])
def test_two_runs_at_once_have_one_effect_and_one_record(site: Site, stage: str) -> None:
    task = up_to(site, stage)
    before = len(site.history())
    second, reports = other(site), list[TopicReport]()
    interrupting(site, lambda: reports.extend(task(second, ["orders"], OTHER)))
    mine = task(site.coordinator, ["orders"], ONE)
    assert reports[0].outcome is TopicOutcome.WRITTEN
    assert mine[0].outcome is not TopicOutcome.WRITTEN
    assert [r.actor.run for r in site.history()[before:]] == ["other"]
    site.check()


def test_a_state_alone_is_not_written_when_the_node_has_changed(site: Site) -> None:
    joining(site)
    site.everybody_acts()
    c = site.coordinator
    assert transitions.start(c, ["orders"], ONE)[0].after is State.STARTING
    site.everybody_acts()
    stored = store.load(c.zk, c.paths, "orders")
    decision = transitions._decide(c, stored, look(site), ALL_STEPS, ONE)
    assert (decision.state.state, decision.node) == (State.STABLE, None)
    node = c.zk.get(c.paths.topic("orders"))
    c.zk.transact([SetData(c.paths.topic("orders"), node.data, node.stat.version)])
    with pytest.raises(LookAgain):
        store.commit(c.zk, c.paths, stored, decision, look(site).world)
    assert site.state().state is State.STARTING


def test_a_configuration_that_changed_in_between_makes_the_commit_fail(site: Site) -> None:
    site.starts("c")
    site.clock.advance(2)
    interrupting(site, lambda: topics.change_config(other(site), "orders", lambda old: replace(old, frozen=True)))
    report = transitions.plan(site.coordinator, ["orders"], ONE)[0]
    assert site.counts() == {"a": 2, "b": 2}
    assert report.moves == ()


def test_a_consumer_that_registers_between_look_and_commit_makes_the_commit_fail(site: Site) -> None:
    # Refusals for a session time-out were taken for the consumer's end, wrongly.
    process = site.processes["b"]
    held = site.owned("b")
    process.silence = Silence.REFUSED
    site.loses_session("b")
    c = site.coordinator
    transitions.step(c, ["orders"], LOOP)
    site.clock.advance(c.zk.session_timeout_s)
    again = site.server.connect()

    def registers() -> None:
        process.silence = None
        process.zk = again
        site.register(process.member, again)

    interrupting(site, registers)
    transitions.step(c, ["orders"], LOOP)
    assert site.owned("b") == held


def test_a_readmission_between_look_and_commit_makes_the_commit_fail(site: Site) -> None:
    c = site.coordinator
    directives.isolate(c, "b", by="ann", why="odd")
    interrupting(site, lambda: directives._change(other(site), "b", lambda old: replace(old, isolation=None)))
    transitions.step(c, ["orders"], LOOP)
    assert site.counts() == {"a": 2, "b": 2}


# Killed and cut off --------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process of the task has died."""


@pytest.mark.parametrize("kill_at", range(1, 12))
def test_a_run_killed_before_any_of_its_writes_is_continued_by_the_next(kill_at: int) -> None:
    site = stable_site("a", "b")
    site.starts("c")
    site.dies("b", how=None)
    site.clock.advance(2)
    writes = 0

    def kill(zk: FakeZooKeeper, _: Sequence[Operation]) -> None:
        nonlocal writes
        writes += zk is site.zk
        if writes == kill_at:
            raise Killed

    site.server.before_write = kill
    killed = False
    for _ in range(12):
        try:
            for task in (transitions.plan, transitions.start, transitions.settle):
                task(site.coordinator, ["orders"], ONE)
                site.everybody_acts()
        except Killed:
            killed = True
        site.clock.advance(10)
    site.server.before_write = None
    assert killed or writes < kill_at
    site.settles()
    assert site.counts() == {"a": 2, "c": 2}
    pairs = [(r.source, r.target) for r in site.history()]
    assert all(one[1] is two[0] for one, two in pairwise(pairs)), "every record begins where one ended"


@pytest.mark.parametrize("applied", [True, False], ids=["the write was applied", "the write was not applied"])
@pytest.mark.parametrize("stage", ["plan", "start", "settle"])
def test_a_lost_connection_leaves_exactly_one_record(site: Site, applied: bool, stage: str) -> None:
    task = up_to(site, stage)
    transitions.due(site.coordinator, ["orders"])  # the notes of c are kept
    before = len(site.history())
    site.zk.lose_next_write(applied=applied)
    with pytest.raises(StoreUnavailable):
        task(site.coordinator, ["orders"], ONE)
    task(site.coordinator, ["orders"], ONE)
    assert len(site.history()) == before + 1
    site.check()


@pytest.mark.parametrize("state", [State.STABLE, State.CLOSING, State.STARTING])
def test_an_unreachable_registry_means_hold(site: Site, state: State) -> None:
    if state is not State.STABLE:
        joining(site)
    if state is State.STARTING:
        site.everybody_acts()
        transitions.start(site.coordinator, ["orders"], ONE)
    site.everybody_acts()
    registry = FakeDiscovery(down=True)
    c = replace(site.coordinator, discovery=registry)
    zxid = site.server.zxid
    for task in (transitions.plan, transitions.start, transitions.settle, transitions.step):
        report = task(c, ["orders"], ONE)[0]
        assert report.outcome is TopicOutcome.HELD
        assert "registry" in report.reason
        assert (report.before, report.after) == (state, state)
    assert tuple(transitions.due(c)) == ()
    wait = (
        transitions.await_closed(c, ["orders"]) if state is State.CLOSING else transitions.await_started(c, ["orders"])
    )
    assert wait.outcome is (TopicOutcome.UNCHANGED if state is State.STABLE else TopicOutcome.WAITING)
    assert wait.confirmed == ()
    assert site.server.zxid == zxid, "nothing was written"


def test_brokers_that_do_not_answer_hold_up_a_first_plan_only(site: Site) -> None:
    site.add_topic("payments")
    site.kafka.down = True
    site.dies("b")
    first, second = transitions.step(site.coordinator, ["orders", "payments"], ONE)
    assert (first.outcome, first.topic) == (TopicOutcome.WRITTEN, "orders")
    assert second.outcome is TopicOutcome.WAITING
    assert second.blockers == ("kafka",)


def test_a_topic_that_kafka_does_not_let_us_describe_is_named_and_holds_up_no_other(site: Site) -> None:
    site.add_topic("payments")
    site.settles()
    site.kafka.denied = {"payments"}
    site.kafka.add_partitions("orders", 2)
    lines = list(upkeep.upkeep(site.coordinator, ["orders", "payments"]).lines)
    assert "orders has 2 new partitions" in lines
    said = "the partition list of topic payments stays as it is: Kafka does not let this user ask for topic 'payments'"
    assert [line for line in lines if line.startswith(said)]
    site.dies("b")
    orders, payments = transitions.step(site.coordinator, ["orders", "payments"], ONE)
    assert orders.outcome is TopicOutcome.WRITTEN, "both are read in one group"
    assert (payments.outcome, said.endswith(payments.reason.partition(";")[0])) == (TopicOutcome.HELD, True)
    site.settles()
    assert len(site.node().assignments) == 6
    assert set(site.node().assignments.values()) == {"a"}
    site.kafka.denied = {"orders", "payments"}
    (line,) = upkeep.upkeep(site.coordinator, ["orders", "payments"]).lines
    assert line.startswith("the partition lists stay as they are: Kafka does not let this user ask for topic 'orders'")
    with pytest.raises(NoAccess):
        topics.described_topic(site.coordinator, "orders")


# What cannot be read -------------------------------------------------------------------------------------------------


def test_a_topics_node_that_somebody_has_emptied_is_named_and_never_written_over() -> None:
    site = stable_site("a", "b", names=("orders", "payments"))
    path = site.paths.topic("orders")
    site.zk.transact([SetData(path, b""), Delete(site.paths.state("orders"))])
    version = site.server.node(path).version
    site.dies("b")
    report, fine = transitions.plan(site.coordinator, ["orders", "payments"], ONE)
    assert (report.outcome, fine.outcome) == (TopicOutcome.HELD, TopicOutcome.WRITTEN)
    assert report.reason.startswith(f"{path}: is empty, though a plan was written to it")
    assert (site.server.node(path).data, site.server.node(path).version) == (b"", version)


def test_a_topics_node_that_was_deleted_is_made_anew_and_its_owners_adopted(site: Site) -> None:
    before, path = site.node(), site.paths.topic("orders")
    children = [f"{path}/{child}" for child in site.zk.children(path)]
    site.zk.transact([Delete(one) for one in [*children, path]])
    topics.refresh_partitions(site.coordinator)
    assert (site.server.node(path).data, site.server.node(path).version) == (b"", 0)
    site.settles()
    assert site.node().assignments == before.assignments
    assert site.node().epoch > before.epoch


def test_a_commit_in_a_partition_that_is_not_listed_yet_shows_that_zookeeper_was_restored(site: Site) -> None:
    node = site.node()
    site.kafka.add_partitions("orders", 1)
    later = Committed(7, Token(node.epoch + 3, 4, node.generation), "c", site.paths.cluster, node.topic_id)
    site.kafka.offsets("g").commit("orders", {4: later})
    site.starts("c")
    site.clock.advance(2)
    report = transitions.plan(site.coordinator, ["orders"], ONE)[0]
    told = f"ZooKeeper was restored: epoch {node.epoch + 3} was committed, stored is {node.epoch}"
    assert report.reason == f"{told}; 4 of 5 partitions of the topic are listed so far"
    topics.refresh_partitions(site.coordinator)
    site.settles()
    assert site.node().epoch > node.epoch + 3


def with_a_holding_of_the_future(site: Site) -> None:
    node = replace(site.node(), since=dict.fromkeys(range(4), 99))
    site.server.overwrite(site.paths.topic("orders"), codec.encode_node(node))


def with_another_state(site: Site) -> None:
    state = replace(site.state(), state=State.CLOSING)
    site.server.overwrite(site.paths.state("orders"), codec.encode_state(state))


@pytest.mark.parametrize(
    ("spoil", "problem"), [(with_a_holding_of_the_future, "no holding began"), (with_another_state, "sums up")]
)
def test_a_topic_that_says_what_cannot_be_is_held_alone(spoil: Callable[[Site], None], problem: str) -> None:
    site = stable_site("a", "b", names=("orders", "payments"))
    spoil(site)
    site.dies("b")
    report, fine = transitions.step(site.coordinator, ["orders", "payments"], ONE)
    assert report.outcome is TopicOutcome.HELD
    assert problem in report.reason
    assert fine.outcome is TopicOutcome.WRITTEN


def test_a_state_and_a_node_of_two_moments_are_read_again(site: Site) -> None:
    site.starts("c")
    site.clock.advance(2)
    racing = _Racing(site.zk, lambda: transitions.plan(other(site), ["orders"], OTHER))
    stored = store.load(racing, site.paths, "orders")  # type: ignore[arg-type]
    assert stored.view.state.state is State.CLOSING
    assert len(stored.view.node.handoff) == 1


class _Racing:
    """Another writer, between the first two znodes of one read."""

    def __init__(self, zk: FakeZooKeeper, act: Callable[[], object]) -> None:
        self.zk, self.act = zk, act

    def __getattr__(self, name: str) -> object:
        return getattr(self.zk, name)

    def get_many(self, paths: Sequence[str]) -> list[object]:
        found = [self.zk.find(path) for path in paths[:2]]
        act, self.act = self.act, lambda: None
        act()
        return [*found, *(self.zk.find(path) for path in paths[2:])]


# A session that lags behind ------------------------------------------------------------------------------------------


class _Lagging:
    """A session on a follower that applies no write before a `sync`."""

    def __init__(self, server: FakeZooKeeperServer) -> None:
        past = FakeZooKeeperServer(server.clock)
        past._nodes = dict(server._nodes)
        self.newest, self.follower = server.connect(), past.connect()

    def __getattr__(self, name: str) -> object:
        return getattr(self.follower if name in ("get", "find", "get_many", "children") else self.newest, name)

    def sync(self) -> None:
        self.follower = self.newest


def lagging(site: Site) -> Coordinator:
    """A coordinator without events from now on: only reads show changes."""
    zk = _Lagging(site.server)
    return replace(site.coordinator, zk=zk, discovery=ZooKeeperDiscovery(zk, site.paths))  # type: ignore[arg-type]


def test_who_has_gone_while_our_session_lagged_behind_is_not_taken_for_present(site: Site) -> None:
    c = lagging(site)
    site.dies("b")
    assert c.discovery.members().keys() == {"a"}
    c = lagging(site)
    site.starts("b")
    assert c.discovery.members()["b"].incarnation == 2


def test_a_look_across_a_plan_does_not_suspect_a_lost_zookeeper(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    committed = type(site.kafka).committed

    def after_a_plan(kafka: FakeKafka, wanted: Any) -> Any:
        monkeypatch.setattr(type(site.kafka), "committed", committed)
        directives.isolate(site.coordinator, "b", by="ada", why="wrong results")
        site.settles()
        return committed(kafka, wanted)

    monkeypatch.setattr(type(site.kafka), "committed", after_a_plan)
    (report,) = transitions.preview(site.coordinator, ["orders"])
    assert "ZooKeeper was" not in report.reason, report.reason
    assert report.epoch == site.node().epoch


# Who is there --------------------------------------------------------------------------------------------------------


def test_a_first_answer_is_noted_and_a_consumer_is_no_target_before(site: Site) -> None:
    site.starts("c")
    site.processes["c"].silence = Silence.REFUSED
    site.clock.advance(2)
    transitions.plan(site.coordinator, ["orders"], ONE)
    assert observe.load_claims(site.coordinator, ["c"], {})["c"].answered == 0
    assert site.state().state is State.STABLE
    site.processes["c"].silence = None
    transitions.plan(site.coordinator, ["orders"], ONE)
    assert observe.load_claims(site.coordinator, ["c"], {})["c"].answered == 1
    assert site.state().state is State.CLOSING


def test_the_answer_of_another_process_at_its_address_is_not_its_first(site: Site) -> None:
    site.starts("c")
    process = site.processes["c"]
    site.statuses.answers["c"] = lambda asked: replace(process.answer(asked), incarnation=7)  # type: ignore[type-var]
    look(site)
    assert observe.load_claims(site.coordinator, ["c"], {})["c"].answered == 0


def look(site: Site) -> observe.Observation:
    return seen_by(site.coordinator)


def seen_by(c: Coordinator) -> observe.Observation:
    return observe.snapshot(c, store.load_topics(c.zk, c.paths).nodes)


def test_an_absence_is_noted_when_it_is_seen_and_forgotten_when_it_ends(site: Site) -> None:
    process = site.processes["b"]
    process.silence = Silence.SILENT
    site.loses_session("b")
    assert look(site).world.claims["b"].absence is not None
    began = site.clock.now()
    site.clock.advance(5)
    absence = look(site).world.claims["b"].absence
    assert absence.since_at == began
    process.silence = None
    assert look(site).world.claims["b"].absence is None, "it answers: detached"


def test_refusals_count_while_the_session_of_a_dead_process_still_runs(site: Site) -> None:
    died_at, process = site.clock.now(), site.processes["b"]
    process.silence = Silence.REFUSED
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert observe.load_claims(site.coordinator, ["b"], {})["b"].refused_at == died_at
    assert site.counts() == {"a": 2, "b": 2}, "a registered one is never gone"
    site.clock.advance(site.zk.session_timeout_s)
    site.loses_session("b")
    transitions.step(site.coordinator, ["orders"], LOOP)
    claim = observe.load_claims(site.coordinator, ["b"], {})["b"]
    assert claim.ended == {1: Ending.REFUSED}
    assert not claim.refused_at
    assert site.counts() == {"a": 4}


@pytest.mark.parametrize("over", [True, False], ids=["its process is gone", "its process lives"])
def test_a_quick_restart_ends_the_life_before_it_only_if_that_process_is_gone(site: Site, over: bool) -> None:
    claim = observe.load_claims(site.coordinator, ["b"], {})["b"]
    old = replace(site.processes["b"].member, process="one")
    site.zk.transact([write_claim(site.paths, replace(claim, process="one"))])
    site.loses_session("b")
    new = replace(old, incarnation=5, address="http://b:2", process="two")
    session = site.server.connect()
    ZooKeeperRegistry(session, site.paths, site.clock, is_gone=lambda name: over and name == "one").register(new)
    del site.processes["b"]
    site.process(new, session)
    site.clock.advance(site.coordinator.policy.settle_max_s)
    transitions.step(site.coordinator, ["orders"], LOOP)
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.node().incarnations == {"a": 1, "b": 5 if over else 1}
    assert site.node().guarded == frozenset()
    site.check()


def test_a_refusing_address_that_has_answered_is_gone_after_a_session_time_out(site: Site) -> None:
    site.dies("b", how=None)
    timeout_s = site.zk.session_timeout_s
    assert look(site).world.claims["b"].ended == {}
    site.clock.advance(timeout_s - 0.1)
    assert look(site).world.claims["b"].ended == {}
    site.clock.advance(0.1)
    assert look(site).world.claims["b"].ended == {1: Ending.REFUSED}
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.counts() == {"a": 4}


def test_a_successors_refusing_address_says_nothing_of_its_predecessor(site: Site) -> None:
    # b's first process is cut off but alive; the second process registers elsewhere and does not listen yet.
    site.processes["b"].silence = Silence.SILENT
    site.loses_session("b")
    look(site)
    site.join("b")
    site.statuses.answers["b"] = Unreachable(Silence.REFUSED, "connection refused")
    for _ in range(3):
        site.clock.advance(9)
        assert look(site).world.claims["b"].ended == {}


@pytest.mark.parametrize(("boot", "gone"), [("boot", True), ("other", False), ("", False)])
def test_a_refusal_at_loopback_counts_on_the_same_boot_only(boot: str, gone: bool) -> None:
    site = Site()
    site.coordinator = replace(site.coordinator, boot_id=boot)
    site.add_topic()
    session = site.server.connect()
    incarnation = claim_incarnation(session, site.paths, "b", 1)
    member = Member("b", incarnation, "http://127.0.0.1:9000", "boot")
    site.register(member, session)
    process = site.process(member, session)
    site.settles()
    session.close()
    process.silence = Silence.REFUSED
    look(site)
    site.clock.advance(site.zk.session_timeout_s)
    assert (look(site).world.claims["b"].ended != {}) is gone


def test_an_absent_and_silent_consumer_is_isolated_by_the_platform_after_its_time(site: Site) -> None:
    site.processes["b"].silence = Silence.SILENT
    site.loses_session("b")
    look(site)
    site.clock.advance(site.policy.absent_after_s - 0.1)
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.isolation("b") is None
    assert site.counts() == {"a": 2, "b": 2}
    site.clock.advance(0.1)
    transitions.step(site.coordinator, ["orders"], LOOP)
    isolation = site.isolation("b")
    assert (isolation.by, isolation.incarnation, isolation.readmit) == ("platform", 1, True)
    assert "30 s" in isolation.why
    assert site.counts() == {"a": 4}
    assert site.node().guarded != frozenset()


def test_the_platform_isolates_no_consumer_registered_since_the_look(site: Site) -> None:
    site.processes["b"].silence = Silence.SILENT
    site.loses_session("b")
    seen = look(site).world
    path = site.paths.id("b")
    site.zk.transact([SetData(path, site.zk.get(path).data)])
    assert observe._isolate(site.coordinator, seen, "b", 1) is None
    assert site.isolation("b") is None
    assert observe._isolate(site.coordinator, look(site).world, "b", 1) is not None


def test_an_owner_whose_claim_was_lost_with_zookeeper_is_noted_and_isolated_all_the_same(site: Site) -> None:
    site.loses_session("b")
    site.processes["b"].silence = Silence.SILENT
    path = site.paths.id("b")
    site.zk.transact([Delete(path)])
    look(site)
    claim = decode_claim(path, site.zk.get(path).data, "b", 0)
    assert claim.incarnation == 1, "whoever starts under the id next is another one"
    assert claim.absence is not None
    site.clock.advance(site.policy.absent_after_s)
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.counts() == {"a": 4}


@pytest.mark.parametrize("by", ["wait", "step"])
def test_a_detached_consumer_is_handed_the_node_when_it_has_to_close(site: Site, by: str) -> None:
    joining(site)
    giver = next(iter(site.node().handoff.values())).giver
    site.loses_session(giver)
    site.statuses.posted.clear()
    if by == "wait":
        transitions.await_closed(site.coordinator, ["orders"])
    else:
        assert transitions.step(site.coordinator, ["orders"], LOOP)[0].reason == f"no longer a target: {giver}"
        transitions.step(site.coordinator, ["orders"], LOOP)
    assert [(who, topic) for who, topic, _ in site.statuses.posted] == [(giver, "orders")]
    assert codec.decode_node("posted", site.statuses.posted[0][2]) == site.node()
    process = site.processes[giver]
    process.accept("orders", site.node())
    process.act("orders")
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.state().state is State.STARTING
    assert "c" in site.counts()


def test_a_grace_that_was_noted_by_a_clock_that_is_ahead_counts_anew() -> None:
    site = stable_site("a", "b")
    site.with_policy(rejoin_grace_s=20.0)
    site.dies("b")
    ahead = FakeClock(site.clock.now() + 3600.0)
    transitions.step(replace(site.coordinator, clock=ahead), ["orders"], LOOP)
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.counts() == {"a": 2, "b": 2}
    site.clock.advance(20.0)
    transitions.step(site.coordinator, ["orders"], LOOP)
    assert site.counts() == {"a": 4}


# Waiting -------------------------------------------------------------------------------------------------------------


def test_a_wait_names_who_holds_it_up(site: Site) -> None:
    joining(site)
    giver = next(iter(site.node().handoff.values())).giver
    site.processes[giver].silence = Silence.SILENT
    report = transitions.await_closed(site.coordinator, ["orders"])
    assert report.outcome is TopicOutcome.WAITING
    assert report.blockers == {"orders": (giver,)}
    assert giver in report.topics["orders"]
    assert report.pending == ("orders",)
    site.clock.advance(site.policy.stuck_after_s - 0.1)
    assert transitions.await_closed(site.coordinator, ["orders"]).outcome is TopicOutcome.WAITING
    site.clock.advance(0.1)
    report = transitions.await_closed(site.coordinator, ["orders"])
    assert report.outcome is TopicOutcome.STUCK
    assert report.pending == ("orders",)


def test_a_held_topic_is_waited_for_once(site: Site) -> None:
    joining(site)
    site.kafka.create_topic("orders", 4)
    report = transitions.await_closed(site.coordinator, ["orders"])
    assert (report.outcome, report.pending) == (TopicOutcome.WAITING, ("orders",))
    assert "recreated" in report.topics["orders"]


def test_a_topic_that_waits_holds_up_no_other() -> None:
    site = stable_site("a", "b", names=("orders", "payments"))
    site.starts("c")
    site.clock.advance(2)
    transitions.plan(site.coordinator, ["orders", "payments"], ONE)
    for _ in range(2):
        for process in site.processes.values():
            process.read("payments")
            process.act("payments")
    report = transitions.await_closed(site.coordinator, ["orders", "payments"])
    assert report.outcome is TopicOutcome.WAITING
    assert report.confirmed == ("payments",)
    assert report.pending == ("orders",)
    first, second = transitions.start(site.coordinator, ["orders", "payments"], ONE)
    assert (first.outcome, second.outcome) == (TopicOutcome.WAITING, TopicOutcome.WRITTEN)


def test_a_consumer_that_releases_but_goes_on_running_blocks_the_start(site: Site) -> None:
    joining(site)
    giver = next(iter(site.node().handoff.values())).giver
    site.processes[giver].stubborn = True
    site.everybody_acts()
    assert site.releases() != {}
    assert transitions.start(site.coordinator, ["orders"], ONE)[0].outcome is TopicOutcome.WAITING
    assert transitions.await_closed(site.coordinator, ["orders"]).blockers == {"orders": (giver,)}
    assert site.state().state is State.CLOSING


# The world of one look -----------------------------------------------------------------------------------------------


def test_loads_are_those_of_the_other_topics_and_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[object] = []

    class Noted(Counter[str]):
        def update(self, *given: object, **named: int) -> None:
            added.append(given)
            super().update(*given, **named)  # type: ignore[arg-type]

    names = tuple(f"topic-{number:02d}" for number in range(30))
    site = stable_site("a", "b", partitions=2, names=names)
    monkeypatch.setattr(observe, "Counter", Noted)
    snapshot = look(site)
    assert all(snapshot.world_of(name).loads == {"a": 29, "b": 29} for name in names)
    assert snapshot.world_of("nothing").loads == {"a": 30, "b": 30}
    assert len(added) < 5 * len(names), "for each topic all the others again: 90,000 sums for 300 topics"


def test_a_call_reads_each_node_and_asks_each_consumer_once() -> None:
    site = stable_site("a", "b", names=("clicks", "orders"))
    c, requests = counted(site.coordinator)
    transitions.step(c, ["clicks", "orders"], ONE)
    assert requests.nodes.keys() > {c.paths.topic("orders"), c.paths.config("clicks"), c.paths.id("a")}
    assert set(requests.nodes.values()) == {1}
    assert requests.polls == [("a", "b")]


def test_a_claim_noted_twice_at_once_is_noted_once(site: Site) -> None:
    site.dies("b", how=None)
    interrupting(site, lambda: seen_by(other(site)), "/ids/")
    look(site)
    assert observe.load_claims(site.coordinator, ["b"], {})["b"].absence is not None
