"""What the checker makes of a lost or restored ZooKeeper, and of a consumer that was isolated while it lives."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.model import MoveKind, Record, State
from coordinator_tasks.devstack.demo.checker import unowned_rows
from coordinator_tasks.devstack.demo.ownership import holdings
from tests.faults.checker import adopted, history_faults, stretched
from tests.unit.coordinator_tasks.devstack.demo.demo_evidence import move, record, row

LOST_AT, AFTER = 1002.0, 1003.0


def history(keeper: str = "a", life: int = 1, kind: MoveKind = MoveKind.ADOPT) -> list[Record]:
    """One partition: a starts under epoch 1; ZooKeeper is lost, and `keeper` has it from itself under epoch 5."""
    start = move(0, "", "a", MoveKind.START)
    kept = move(0, keeper, keeper, kind)
    after = {"generation": "another", "epoch": 5}
    return [
        record(0, State.INITIAL, State.STARTING, 1, 1000.0, moves=(start,)),
        record(1, State.STARTING, State.STABLE, 1, 1001.0),
        replace(
            record(2, State.INITIAL, State.STARTING, 5, LOST_AT, moves=(kept,), incarnations={keeper: life}), **after
        ),
        replace(record(3, State.STARTING, State.STABLE, 5, LOST_AT + 1), **after),
    ]


@pytest.mark.parametrize("kind", [MoveKind.ADOPT, MoveKind.START])
@pytest.mark.parametrize("epoch", [1, 5])
def test_what_a_life_ran_goes_on_under_its_own_epoch_or_the_new_one(epoch: int, kind: MoveKind) -> None:
    assert unowned_rows([row(0, 7, "a", epoch, AFTER)], adopted(holdings(history(kind=kind), []))) == []


@pytest.mark.parametrize("kind", [MoveKind.ADOPT, MoveKind.START])
@pytest.mark.parametrize(("keeper", "life"), [("b", 1), ("a", 2)])
def test_no_right_goes_on_where_another_consumer_or_another_life_has_it(keeper: str, life: int, kind: MoveKind) -> None:
    held = adopted(holdings(history(keeper, life, kind), []))
    assert len(unowned_rows([row(0, 7, "a", 1, AFTER)], held)) == 1
    assert unowned_rows([row(0, 7, keeper, 5, AFTER, life)], held) == []


def test_a_history_may_begin_anew_where_zookeeper_was_lost_and_nowhere_else() -> None:
    assert list(history_faults(history(), {1})) == []
    assert len(list(history_faults(history()))) == 2
    assert len(list(history_faults(history(), {0}))) == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_further_recovery_is_for_somebody_who_comes_back_later_and_knows_of_before_the_loss(known: bool) -> None:
    *before, recovered, _ = history()
    acted_on = before[0].generation if known else "a third"
    later = replace(
        record(3, State.STARTING, State.STARTING, 6, LOST_AT + 1),
        generation="one more",
        cause=f"ZooKeeper was lost: b acts on generation {acted_on}, stored is {recovered.generation}",
    )
    assert len(list(history_faults([*before, recovered, later], {1}))) == (0 if known else 1)
    assert len(list(history_faults([*before, recovered, later]))) == 3, "nothing was lost"


def test_epochs_do_not_fall_where_zookeeper_was_lost_but_one_may_be_given_out_again() -> None:
    def after_the_loss(epoch: int) -> list[Record]:
        return [replace(one, epoch=epoch) if one.sequence > 1 else one for one in history()]

    assert any("epoch 0 after 1" in text for text in history_faults(after_the_loss(0), {1}))
    assert list(history_faults(after_the_loss(1), {1})) == []


@pytest.mark.parametrize(("after_s", "found"), [(0.9, 0), (1.1, 1)])
def test_an_isolated_consumer_may_go_on_until_it_can_know(after_s: float, found: int) -> None:
    taken = move(0, "a", "b", MoveKind.START)
    records = [
        *history()[:2],
        record(2, State.STABLE, State.STARTING, 2, LOST_AT, moves=(taken,), incarnations={"b": 1}),
    ]
    late = [row(0, 7, "a", 1, LOST_AT + after_s)]
    assert len(unowned_rows(late, stretched(holdings(records, []), {("a", 1): 1.0}))) == found
    assert len(unowned_rows(late, stretched(holdings(records, []), {("b", 1): 1.0, ("a", 2): 1.0}))) == 1
