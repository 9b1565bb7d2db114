"""That the oracle notices what it is there for, also where it excuses somebody: production code with one rule broken."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from coordinator_tasks.core import deciding, recovery
from coordinator_tasks.core.holding import Reading
from coordinator_tasks.service import directives, topics
from spark_apps.agent import holder
from spark_apps.agent.holder import Holder
from tests.simulation.actions import Action, perform
from tests.simulation.consumer import Consumer, Query
from tests.simulation.faults import Fault
from tests.simulation.history import heal, without_chance
from tests.simulation.memo import remembering
from tests.simulation.oracle import Broken
from tests.simulation.turns import closing, produce
from tests.simulation.world import Setup, World


@contextmanager
def settled(consumers: int = 3) -> Iterator[World]:
    """A world in which every partition has its owner."""
    with without_chance(), remembering():
        world = World(Setup(consumers))
        heal(world)
        yield world
    world.kernel.close()


def has_broken(world: World) -> str:
    """What the oracle says when everybody goes on."""
    with pytest.raises(Broken) as found:
        _go_on(world)
    return str(found.value)


def _go_on(world: World, rounds: int = 12) -> None:
    for _ in range(rounds):
        world.attempt("step")
        world.round(0.5)


def _with_a_batch(world: World) -> tuple[Consumer, Query]:
    """A consumer that has handed out a batch, which has not passed yet."""
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


def test_what_a_consumer_keeps_that_its_picture_has_taken_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    due = Holder._steps
    monkeypatch.setattr(Holder, "_steps", lambda self, owed: replace(due(self, owed), stop=()))
    with settled() as world:
        closing(world, 0, 1)
        assert "which its picture does not give it" in has_broken(world)


def test_an_owner_that_is_taken_for_closed_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        monkeypatch.setattr(deciding, "not_closed", lambda *_: "")
        closing(world, 0, 1)
        world.attempt("start").go(500)
        with pytest.raises(Broken, match="what is stored takes it for closed"):
            world.oracle.after_step()


def test_a_consumer_that_has_read_its_isolation_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holder, "on_isolated", lambda *_: None)
    with settled() as world:
        world.by_hand(lambda c: directives.isolate(c, "a", by="ada", why="odd"))
        assert "and has read that it is isolated" in has_broken(world)


def test_a_node_that_is_read_and_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    with settled() as world:
        monkeypatch.setattr(holder, "accepts", lambda *_: Reading.OLDER)
        closing(world, 0, 1)
        assert "acts on what it reads" in has_broken(world)


def test_a_batch_with_records_of_what_is_being_closed() -> None:
    with settled() as world:
        one, query = _with_a_batch(world)
        world.oracle.on_offer(one, "orders", query)
        for held in query.holder._ledger.held.values():
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
