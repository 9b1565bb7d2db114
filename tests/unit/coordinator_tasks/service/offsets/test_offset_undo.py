"""Taking back a reset of offsets by its record in the history."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Actor, Explanation, Reason
from coordinator_tasks.service.actions.action import ONCE
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.topics import add_topic, remove_topic
from coordinator_tasks.service.offsets import offset_undo, positions
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON
from tests.world.shop import Shop, open_shop

GIVEN = {"topic": "orders", "rebalance": "", "why": ""}
TASK = Actor("airflow", "ada", "undo_offsets", "run-1", "undo_offsets", 1)


@pytest.fixture
def shop() -> Shop:
    return open_shop()


def seeks(shop: Shop) -> dict[int, int]:
    return {p: one.offset for p, one in shop.node.seeks.items()}


def newest(shop: Shop) -> str:
    return history.records(shop.coordinator, "orders")[0].rebalance


def test_a_reset_is_taken_back_and_the_undo_as_well_if_it_is_named(shop: Shop) -> None:
    positions.reset(shop.coordinator, "orders", "earliest", [0, 1], why="wrong", actor=PERSON)
    first = newest(shop)
    shop.settle()
    shop.commit(0, 30)
    before = shop.server.zxid
    shown = offset_undo.preview(shop.coordinator, "orders")
    assert shop.server.zxid == before
    assert (shown.rebalance, shown.offsets, shown.left_out) == (first, {0: 80, 1: 90}, ())
    done = offset_undo.undo(shop.coordinator, "orders", why="it was right", actor=PERSON)
    assert done.shifts == shown.shifts
    assert seeks(shop) == {0: 80, 1: 90}
    record = history.records(shop.coordinator, "orders")[0]
    assert record.cause == f"reset offsets of 2 partitions to where they were before {first} (by ada: it was right)"
    shop.settle()
    offset_undo.undo(shop.coordinator, "orders", record.rebalance, why="", actor=PERSON)
    assert seeks(shop)[0] == 30


def test_two_resets_of_one_rebalance_are_taken_back_to_before_the_first(shop: Shop) -> None:
    positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=PERSON)
    shop.commit(0, 30)
    positions.reset(shop.coordinator, "orders", "latest", [0], why="", actor=PERSON)
    assert len({record.rebalance for record in history.records(shop.coordinator, "orders")[:2]}) == 1
    assert offset_undo.preview(shop.coordinator, "orders").offsets == {0: 80}


def taken_back(shop: Shop) -> str:
    """The rebalance of a reset that an undo has taken back."""
    positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=PERSON)
    first = newest(shop)
    shop.settle()
    offset_undo.undo(shop.coordinator, "orders", why="", actor=PERSON)
    shop.settle()
    return first


def test_a_second_undo_is_refused_and_says_what_has_been_taken_back(shop: Shop) -> None:
    first = taken_back(shop)
    before = shop.server.zxid
    with pytest.raises(Refused, match=f"has taken back {first} already; name the rebalance"):
        offset_undo.undo(shop.coordinator, "orders", why="", actor=PERSON)
    assert shop.server.zxid == before


def test_a_reset_that_is_taken_back_is_not_taken_back_again_and_the_dry_run_says_so(shop: Shop) -> None:
    first = taken_back(shop)
    shop.commit(0, 99)
    before, given = shop.server.zxid, GIVEN | {"rebalance": first}
    undo, run = ACTIONS["undo_offsets"], replace(TASK, run="run-2")
    said = [undo.run(shop.coordinator, given, actor, dry_run=True) for actor in (PERSON, run)]
    said += [undo.run(shop.coordinator, given, actor, dry_run=False) for actor in (PERSON, run)]
    assert shop.server.zxid == before
    already = f"the reset {first} is taken back already"
    assert {one.text for one in said} == {f"nothing to do: {already}", f"nothing would change: {already}"}
    assert {one.lines for one in said} == {(f"orders: {one.text}",) for one in said}


def test_a_task_that_is_tried_again_takes_back_once(shop: Shop) -> None:
    positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=PERSON)
    shop.settle()
    assert offset_undo.undo(shop.coordinator, "orders", why="", actor=TASK).shifts
    shop.settle()
    epoch = shop.node.epoch
    assert not offset_undo.undo(shop.coordinator, "orders", why="", actor=replace(TASK, attempt=2)).shifts
    again = ACTIONS["undo_offsets"].run(shop.coordinator, GIVEN, replace(TASK, attempt=2), dry_run=False)
    assert again.lines == (ONCE,)
    assert shop.node.epoch == epoch


def test_two_persons_at_once_take_it_back_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=PERSON)
    shop.settle()
    real = positions.shifts_to

    def overtaken(c: Coordinator, topic: str, to: positions.Place, partitions: tuple[int, ...]) -> object:
        monkeypatch.setattr(positions, "shifts_to", real)
        offset_undo.undo(c, topic, why="", actor=Actor("command", "bob"))
        return real(c, topic, to, partitions)

    monkeypatch.setattr(positions, "shifts_to", overtaken)
    epoch = shop.node.epoch
    assert not offset_undo.undo(shop.coordinator, "orders", why="", actor=PERSON).shifts
    assert shop.node.epoch == epoch + 1


def test_a_reset_of_a_former_topic_of_this_name_is_not_taken_back(shop: Shop) -> None:
    positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=PERSON)
    shop.settle()
    remove_topic(shop.coordinator, "orders", PERSON)
    shop.settle()
    shop.kafka.create_topic("orders", 3)
    add_topic(shop.coordinator, "orders", "g", actor=PERSON)
    with pytest.raises(Refused, match="is older than the topic, which was recreated in Kafka"):
        offset_undo.preview(shop.coordinator, "orders")


def test_a_record_of_an_earlier_release_has_no_offsets_and_says_so(shop: Shop) -> None:
    reasons = (Reason("partition 0 continues at 10, was at 80: 70 offsets are read again", (0,)),)
    plan = Explanation(positions.RESET, "", "reset offsets", reasons)
    transitions.seek(shop.coordinator, "orders", {0: 10}, plan, PERSON, done=lambda: False)
    with pytest.raises(Refused, match="has no former offsets: none was committed, or an earlier release"):
        offset_undo.preview(shop.coordinator, "orders")
