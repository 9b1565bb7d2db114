"""Tests that the oracle notices broken rules, also beside excused processes: production code with a broken rule."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_tasks.core.codecs.codec import encode_node
from coordinator_tasks.core.machine import churn, deciding, presence, recovery
from coordinator_tasks.core.model import Committed, Ending, Handoff, Token, TopicNode
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.protocol.fence import Judgement, start_position
from coordinator_tasks.core.protocol.holding import Changes, Reading
from coordinator_tasks.service.nodes import directives, fleet, topics
from spark_apps.agent.ownership import grants, requests
from spark_apps.agent.ownership.batches import Batches
from spark_apps.agent.ownership.grants import Grants
from spark_apps.agent.ownership.requests import Requests
from spark_apps.agent.ownership.schedule import Schedule
from tests.simulation.actions import Action, perform
from tests.simulation.consumer import Consumer, Query
from tests.simulation.excuses import Excuse
from tests.simulation.faults import Fault
from tests.simulation.healing import heal
from tests.simulation.history import without_chance
from tests.simulation.oracle import Broken
from tests.simulation.shown import Shown
from tests.simulation.turns import closing, drive, produce
from tests.simulation.world import Setup, World


@contextmanager
def settled(consumers: int = 3) -> Iterator[World]:
    """Yield a world in which every partition has an owner."""
    with without_chance():
        world = World(Setup(consumers))
        heal(world)
        yield world
    world.kernel.close()


def has_broken(world: World, task: str = "step") -> str:
    """Return the oracle's finding when everything continues, and this task runs repeatedly."""
    with pytest.raises(Broken) as found:
        _go_on(world, task)
    return str(found.value)


def _go_on(world: World, task: str = "step") -> None:
    for _ in range(12):
        world.attempt(task)
        world.round(0.5)


def _with_a_batch(world: World) -> tuple[Consumer, Query]:
    """Return a consumer with a handed-out batch that has not passed yet."""
    produce(world, 0, 5)
    for turn in range(100):
        for one in world.alive():
            for slot in one.threads():
                world.go((one, slot), 1)
            query = one.topics.queries["orders"] if one.topics is not None else None
            if query is not None and query.current is not None and query.current.ranges and not query.passed:
                return one, query
        world.advance(0.1 if turn % 5 == 0 else 0.01)
    raise AssertionError("nobody has a batch")


def test_what_is_wrong_after_a_turn_and_right_again_at_the_end_of_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    due, told = Grants._steps, set[tuple[str, int]]()

    def once_more(self: Grants, owed: Mapping[int, Handoff]) -> Changes:
        found = due(self, owed)
        accepted = self._holdings.accepted
        at = self._identity.consumer, accepted.epoch if accepted is not None else 0
        if not found.stop or at in told:
            return found
        told.add(at)
        return replace(found, stop=())

    with settled() as world:
        monkeypatch.setattr(Grants, "_steps", once_more)
        closing(world, 0, 1)
        assert "which its picture does not give it" in has_broken(world)


def test_an_owner_that_is_taken_for_closed_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        monkeypatch.setattr(deciding, "why_not_closed", lambda *_: "")
        closing(world, 0, 1)
        world.attempt("start").go(500)
        with pytest.raises(Broken, match="what is stored takes it for closed"):
            world.oracle.after_step()


def test_a_consumer_that_has_read_its_isolation_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grants, "on_isolated", lambda *_: None)
    with settled() as world:
        world.by_hand(lambda c: directives.isolate(c, "a", by="ada", why="odd"))
        assert "and has read that it is isolated" in has_broken(world)


def test_a_node_that_is_read_and_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        monkeypatch.setattr(grants, "accepts", lambda *_: Reading.OLDER)
        closing(world, 0, 1)
        assert "acts on what it reads" in has_broken(world)


def test_a_node_that_only_a_later_post_makes_acceptable_is_due_with_the_next_read() -> None:
    def node(epoch: int, **supersedes: int) -> TopicNode:
        return TopicNode("broker:9092", "g", epoch, f"g{epoch}", "id-1", supersedes=supersedes)

    paths, holdings = Paths("shop"), SimpleNamespace(accepted=node(1))
    one: Any = SimpleNamespace(name="a.1", ownership=lambda _: SimpleNamespace(holdings=holdings))
    shown, stored = Shown(paths), encode_node(node(3, g2=2))
    shown.on_read(one, paths.topic("orders"), stored)
    assert shown.ignored(one) == "", "it does not supersede what the consumer acts on"
    holdings.accepted = node(2, g1=1)  # posted
    assert shown.ignored(one) == ""
    shown.on_read(one, paths.topic("orders"), stored)
    assert shown.ignored(one) == "a.1 has read epoch 3 of g3 of orders and acts on epoch 2 of g2"


def test_a_batch_with_records_of_what_is_being_closed() -> None:
    with settled() as world:
        one, query = _with_a_batch(world)
        world.oracle.on_offer(one, "orders", query)
        for held in query.ownership.holdings.held.values():
            held.closing = True
        with pytest.raises(Broken, match="hands out records"):
            world.oracle.on_offer(one, "orders", query)


def test_who_was_asked_before_a_new_generation_and_is_not_counted_with(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        pinned = {0: "c", 1: "a", 2: "b"}
        world.by_hand(lambda c: topics.change_config(c, "orders", lambda old: replace(old, pins=pinned)))
        _go_on(world)
        perform(world, Action(Fault.LOST.name, 0, 0))
        monkeypatch.setattr(recovery, "_adopt", lambda *_: None)
        assert "what is stored takes it for closed" in has_broken(world)


def _with_records(world: World) -> None:
    """Every partition has a position to lose."""
    for n in range(8):
        if n < 4:
            produce(world, n, 7)
        world.round(0.5)


def _overwrite(world: World, token: Token | None = None) -> None:
    """Commit the first partition's first offset, or under a token its present offset."""
    log, known = world.brokers.logs["orders"], world.oracle.progress["id-1", 0]
    entry = Committed(known.position if token else 0, token, "z", "shop", log.topic_id if token else "")
    world.oracle.taint_all()
    world.brokers.write("g-orders", "orders", {0: entry}, world.consumers[0].name if token else "a stranger")


def test_an_owner_that_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        _with_records(world)
        monkeypatch.setattr(Schedule, "_fetch_due", lambda *_: False)
        assert "looks: " in has_broken(world)


def _read(world: World, one: Consumer) -> None:
    for _ in range(3):
        world.go((one, "query orders"), 1)


def test_an_owner_that_reads_on_an_old_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Batches, "readable", lambda self: self._holdings.ready())
    with settled() as world:
        owner = world.alive(world.oracle.nodes["orders"].assignments[0])[0]
        _with_records(world)
        produce(world, 0, 5)
        _read(world, owner)
        world.go((owner, "kafka orders"), 100)  # the log's ends
        world.advance(3.0)
        with pytest.raises(Broken, match=r"hands out records of orders-\d on a look of 3"):
            _read(world, owner)


def test_an_owner_that_commits_without_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Schedule._entry
    with settled() as world:
        monkeypatch.setattr(Schedule, "_entry", lambda self, held: replace(entry(self, held), token=None))
        produce(world, 0, 5)
        assert "without a token" in has_broken(world)


def test_what_is_read_again_after_a_holding_that_began_where_all_had_passed() -> None:
    with settled() as world:
        _with_records(world)
        world.oracle.taint_all()
        owner = world.oracle.nodes["orders"].assignments[0]
        closing(world, world.names.index(owner), 1)
        _go_on(world)
        assert world.oracle.nodes["orders"].assignments[0] != owner
        progress = world.oracle.progress["id-1", 0]
        assert not progress.tainted
        one, query = _with_a_batch(world)
        for each in query.current.ranges.values() if query.current is not None else ():
            world.oracle.progress["id-1", each.partition].tainted = False
            with pytest.raises(Broken, match="nothing doubled"):
                world.oracle.on_pass(one, "orders", "id-1", replace(each, start=0))


def test_an_owner_that_sees_a_newer_one_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        _with_records(world)
        monkeypatch.setattr(requests, "judge", lambda *_: Judgement.OURS)
        _overwrite(world, Token(99, 1, "another"))
        assert "has seen a newer owner of orders-0 and goes on" in has_broken(world, "chores")


def test_an_owner_that_leaves_its_entry_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        _with_records(world)
        monkeypatch.setattr(requests, "judge", lambda *_: Judgement.OURS)
        monkeypatch.setattr(requests, "_behind", lambda *_: False)
        _overwrite(world)
        assert "has seen its entry of orders-0 overwritten and leaves it" in has_broken(world)


def test_an_owner_that_gives_up_what_nobody_else_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        _with_records(world)
        monkeypatch.setattr(requests, "judge", lambda *_: Judgement.FENCED)
        assert "for no reason" in has_broken(world)


def test_an_owner_that_stops_at_the_first_commit_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Requests, "_commit_fails", lambda self, _partition, held, *_: self._holdings.stop(held))
    with settled() as world:
        _with_records(world)
        produce(world, 0, 5)
        for _ in range(3):
            world.round(0.1)
        world.brokers.down_until = world.kernel.now + 2.0
        assert "for no reason" in has_broken(world)


def test_a_taker_that_begins_at_a_foreign_commit_and_not_where_the_giver_was(monkeypatch: pytest.MonkeyPatch) -> None:
    start = start_position
    with settled() as world:
        _with_records(world)
        owner = world.oracle.nodes["orders"].assignments[0]
        closing(world, world.names.index(owner), 1)
        while not world.server.nodes[world.paths.partition("orders", 0)].data:
            world.go((world.alive(owner)[0], "agent"), 1)
            world.go((world.alive(owner)[0], "kafka orders"), 1)
            world.go((world.alive(owner)[0], "query orders"), 1)
            world.advance(0.01)
        monkeypatch.setattr(requests, "start_position", lambda p, c, _, *rest: start(p, c, None, *rest))
        _overwrite(world)
        assert "was released at" in has_broken(world)


@pytest.mark.parametrize("how", [Ending.LEFT, Ending.REAPED])
def test_who_runs_on_after_its_end_was_told(how: Ending) -> None:
    with settled() as world:
        one = world.alive("a")[0]
        one.paused = True
        world.advance(5.0)
        world.by_hand(lambda c: fleet.record_end(c, "a", one.incarnation, how))
        assert "what is stored takes it for closed" in has_broken(world)


@pytest.mark.parametrize("how", [Ending.LEFT, Ending.REAPED])
def test_who_is_isolated_is_not_excused_any_more_when_its_end_was_told(how: Ending) -> None:
    with settled() as world:
        one, token = _owner(world)
        world.by_hand(lambda c: directives.isolate(c, one.consumer, by="ada", why="odd"))
        assert world.oracle.excuses.of(one, "orders", 0, token) is Excuse.SET_ASIDE
        world.by_hand(lambda c: fleet.record_end(c, one.consumer, one.incarnation, how))
        assert world.oracle.excuses.of(one, "orders", 0, token) is None


def test_who_was_not_asked_before_a_new_generation_is_excused_until_a_node_names_it() -> None:
    with settled() as world:
        one, token = _owner(world)
        excuses, node = world.oracle.excuses, world.oracle.nodes["orders"]
        excuses.on_restore({"orders": node.epoch})
        excuses.on_elder(one, "orders", frozenset({node.generation}))
        assert excuses.of(one, "orders", 0, token) is Excuse.ELDER
        excuses.on_node("orders", node)
        assert excuses.of(one, "orders", 0, token) is None


def _owner(world: World) -> tuple[Consumer, Token]:
    """Return the owner of the first partition, and its token."""
    one = world.alive(world.oracle.nodes["orders"].assignments[0])[0]
    return one, world.oracle._tokens(one, "orders")[0]


def _write_late(world: World) -> tuple[Consumer, Token]:
    """Repeat an earlier commit of its owner, over a later commit of the first partition."""
    _with_records(world)
    one = world.alive(world.oracle.nodes["orders"].assignments[0])[0]
    token = world.oracle._tokens(one, "orders")[0]
    world.oracle.taint_all()
    world.brokers.write("g-orders", "orders", {0: _entry(one, token)}, one.name, late=True)
    return one, token


def _entry(one: Consumer, token: Token) -> Committed:
    return Committed(0, token, one.consumer, "shop", "id-1")


def test_an_owner_that_goes_back_to_what_has_come_late() -> None:
    with settled() as world:
        one, token = _write_late(world)
        with pytest.raises(Broken, match="position never goes back"):
            world.brokers.write("g-orders", "orders", {0: _entry(one, token)}, one.name)


def test_who_stops_before_it_looks_and_begins_anew_under_the_same_grant_is_counted() -> None:
    with settled() as world:
        one, token = _write_late(world)
        world.by_hand(lambda c: directives.isolate(c, one.consumer, by="ada", why="odd"))
        world.go((one, "agent"), 100)
        assert world.oracle._tokens(one, "orders") == {}
        world.by_hand(lambda c: directives.readmit(c, one.consumer, "ada"))
        world.attempt("chores").go(500)
        _go_on(world)
        assert world.oracle._tokens(one, "orders")[0] == token
        assert world.oracle.rewinds == 1


def test_a_writer_need_not_have_asked_who_registered_after_it_had_read_the_list() -> None:
    with settled() as world:
        one, early = world.alive("a")[0], world.attempt("plan")
        assert drive(world, (early, ""), "http.ask")
        assert world.oracle._asked(one, early.name)
        one.session.expire()
        one.session.reconnect()
        for _ in range(20):
            world.go((one, "agent"), 100)
            world.advance(0.5)
        late = world.attempt("plan")
        assert drive(world, (late, ""), "http.ask")
        assert (world.oracle._asked(one, early.name), world.oracle._asked(one, late.name)) == (False, True)


@pytest.mark.parametrize("newer", [True, False])
def test_a_dead_process_whose_commit_comes_late_stops_the_owner_only_if_its_token_is_the_newer_one(newer: bool) -> None:
    with settled() as world:
        _with_records(world)
        owner = world.alive(world.oracle.nodes["orders"].assignments[0])[0]
        dead = next(one for one in world.alive() if one is not owner)
        token, progress = world.oracle._tokens(owner, "orders")[0], world.oracle.progress["id-1", 0]
        dead.dies()
        progress.tainted = False
        written = replace(token, incarnation=token.incarnation + (1 if newer else -1))
        entry = Committed(progress.position, written, dead.consumer, "shop", "id-1")
        world.brokers.write("g-orders", "orders", {0: entry}, dead.name)
        assert progress.tainted is newer


@pytest.mark.parametrize("another", [True, False])
def test_a_recovery_that_adopts_an_owner_forgets_who_else_has_committed_at_its_epoch(another: bool) -> None:
    with settled() as world:
        _with_records(world)
        oracle, node = world.oracle, world.oracle.nodes["orders"]
        at = node.topic_id, 0, node.since[0]
        owner = next(one for one in world.consumers if one.consumer == node.assignments[0])
        assert oracle._committers[at] == owner.name
        if another:
            oracle._committers[at] = next(one.name for one in world.consumers if one is not owner)
        oracle._new_generation("orders", replace(node, epoch=node.epoch + 1, generation="another"), "step#99")
        assert (at in oracle._committers) is not another


@pytest.mark.parametrize("overwritten", [True, False])
def test_records_may_come_twice_below_a_commit_that_was_overwritten_before_a_recovery_forgot_it(
    overwritten: bool,
) -> None:
    with settled() as world:
        _with_records(world)
        oracle, node = world.oracle, world.oracle.nodes["orders"]
        other = next(one for one in world.consumers if one.consumer != node.assignments[0])
        oracle._committers[node.topic_id, 0, node.since[0]] = other.name
        progress = oracle.progress[node.topic_id, 0]
        progress.overwritten = overwritten
        oracle._new_generation("orders", replace(node, epoch=node.epoch + 1, generation="another"), "step#99")
        assert (progress.token, progress.tainted) == (None, overwritten)


@pytest.mark.parametrize(("read", "asked", "holds"), [(False, False, True), (False, True, False), (True, False, False)])
def test_a_new_generation_is_above_what_its_writer_could_know_of(read: bool, asked: bool, holds: bool) -> None:
    with settled() as world:
        _with_records(world)
        oracle, node = world.oracle, world.oracle.nodes["orders"]
        owner = next(one for one in world.consumers if one.consumer == node.assignments[0])
        token = Token(node.epoch + 1, owner.incarnation, node.generation)
        passed = Committed(oracle.progress[node.topic_id, 0].frontier, token, owner.consumer, topic_id=node.topic_id)
        writer = world.attempt("plan")
        writer.go(500)
        world.brokers.write(world.groups["orders"], "orders", {0: passed}, owner.name)
        if read:
            world.brokers.unread[writer.name].clear()
        if not asked:
            world.registry.missed[writer.name].add(owner.address)
        found = replace(node, epoch=token.epoch, generation="another")
        with nullcontext() if holds else pytest.raises(Broken, match=f"epoch {token.epoch} after {token.epoch} was"):
            oracle._new_generation("orders", found, writer.name)


def _fail_twice(world: World, name: str) -> None:
    """End two processes of this id with an error, and start the next one at once."""
    for _ in range(2):
        one = world.alive(name)[0]
        assert one.topics is not None
        one.topics.broken = "the query failed"
        while one.alive:
            world.attempt("step")
            world.round(0.2)
        world.launch(name)
        for _ in range(3):
            world.attempt("step")
            world.round(0.3)


def test_a_plan_that_gives_partitions_to_a_consumer_that_has_just_failed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "in_backoff", lambda *_: 0.0)
    with settled() as world:
        _fail_twice(world, "a")
        assert "failed ends withhold" in has_broken(world)


def test_a_consumer_that_is_withheld_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence, "backoff_until", lambda claim, *_: 1e12 if churn.failed_in_a_row(claim) else 0.0)
    with settled() as world:
        _fail_twice(world, "a")
        with pytest.raises(Broken, match="settles"):
            heal(world)
