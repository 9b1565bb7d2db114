"""Rules 2 and 6 of the hand-off: the possible owners of a partition, and the way of the move."""

from collections.abc import Callable

import pytest

from coordinator_tasks.core.machine.draft import Draft
from coordinator_tasks.core.model import Handoff, Move, MoveKind, Release, Token

RELEASE = Release(4, "a", 1, 10, "g1", Token(2, 1, "g1"))

STALE = Release(3, "a", 1, 10, "g1", Token(2, 1, "g1"))


def handing_over(*, release: Release | None = None) -> Draft:
    """Partition 0 on the way from a to b by the plan of epoch 4; epoch 5 is being written."""
    draft = Draft(5, "g1", {0: release} if release else {})
    draft.handoff[0] = Handoff("a", "b", 4)
    draft.to_close[0], draft.to_start[0], draft.epochs[0] = {"a"}, "b", 4
    return draft


def assigned(owner: str = "a") -> Draft:
    draft = Draft(5, "g1", {})
    draft.assignments[0], draft.since[0] = owner, 2
    return draft


def guarded() -> Draft:
    draft = assigned()
    draft.guarded = {0}
    return draft


def at_the_barrier(*, release: Release | None = None) -> Draft:
    draft = Draft(5, "g1", {0: release} if release else {})
    draft.to_close[0], draft.to_start[0], draft.epochs[0] = {"a", "b"}, "c", 4
    return draft


@pytest.mark.parametrize(
    ("draft", "owners"),
    [
        pytest.param(Draft(5, "g1", {}), set(), id="nobody"),
        pytest.param(assigned(), {"a"}, id="its assignee"),
        pytest.param(handing_over(), {"a", "b"}, id="the giver and the taker of a hand-off"),
        pytest.param(handing_over(release=RELEASE), {"b"}, id="the taker alone once the giver has released"),
        pytest.param(
            handing_over(release=Release(3, "a", 1, 10, "g1", Token(2, 1))), {"a", "b"}, id="an earlier release is none"
        ),
        pytest.param(
            handing_over(release=Release(4, "b", 1, 10, "g1", Token(2, 1))), {"a", "b"}, id="another author's is none"
        ),
        pytest.param(
            handing_over(release=Release(4, "a", 1, 10, "g0", Token(2, 1))),
            {"a", "b"},
            id="another generation's is none",
        ),
        pytest.param(at_the_barrier(), {"a", "b"}, id="everybody who is still to close, not the target"),
    ],
)
def test_the_possible_owners(draft: Draft, owners: set[str]) -> None:
    assert draft.owners(0) == owners


@pytest.mark.parametrize(
    ("make", "taker", "kind", "giver", "closing"),
    [
        pytest.param(lambda: Draft(5, "g1", {}), "c", MoveKind.START, "", None, id="nobody: at once"),
        pytest.param(assigned, "c", MoveKind.HANDOFF, "a", {"a"}, id="one: a hand-off from it"),
        pytest.param(assigned, "a", MoveKind.START, "a", None, id="only the target: at once"),
        pytest.param(handing_over, "c", MoveKind.BARRIER, "a", {"a", "b"}, id="two: the barrier"),
        pytest.param(
            handing_over, "b", MoveKind.BARRIER, "a", {"a", "b"}, id="two, one of them the target: the barrier"
        ),
        pytest.param(
            lambda: handing_over(release=RELEASE), "c", MoveKind.HANDOFF, "b", {"b"}, id="released: one, the taker"
        ),
        pytest.param(
            lambda: handing_over(release=RELEASE), "b", MoveKind.START, "b", None, id="released: only the target"
        ),
        pytest.param(at_the_barrier, "d", MoveKind.BARRIER, "a", {"a", "b"}, id="still the barrier"),
        pytest.param(guarded, "c", MoveKind.BARRIER, "a", {"a"}, id="one, but guarded: the barrier"),
    ],
)
def test_moves_of(make: Callable[[], Draft], taker: str, kind: MoveKind, giver: str, closing: set[str] | None) -> None:
    draft = make()
    draft.move(0, taker)
    assert draft.moves == [Move(0, giver, taker, kind)]
    assert draft.to_start == {0: taker}
    assert draft.epochs == {0: 5}
    assert draft.to_close.get(0) == closing
    assert draft.handoff == ({0: Handoff(giver, taker, 5)} if kind is MoveKind.HANDOFF else {})
    assert draft.assignments == ({0: taker} if kind is MoveKind.START else {})
    assert draft.since == ({0: 5} if kind is MoveKind.START else {})


def test_the_last_owner_confirmed_passes_the_barrier() -> None:
    draft = at_the_barrier()
    draft.close_confirmed(0, {"a"})
    assert draft.to_close == {0: {"b"}}
    assert draft.assignments == {}
    draft.close_confirmed(0, {"b"})
    assert (draft.to_close, draft.assignments, draft.since, draft.epochs) == ({}, {0: "c"}, {0: 5}, {0: 5})
    assert draft.to_start == {0: "c"}


def test_a_confirmed_hand_off_keeps_its_epoch_so_that_nothing_restarts() -> None:
    draft = handing_over()
    draft.close_confirmed(0, {"a"})
    assert (draft.handoff, draft.assignments, draft.since, draft.epochs) == ({}, {0: "b"}, {0: 4}, {0: 4})


def test_a_restart_begins_a_new_holding_of_the_same_owner() -> None:
    draft = assigned()
    draft.restart(0)
    assert (draft.since, draft.epochs, draft.to_start, draft.assignments) == ({0: 5}, {0: 5}, {0: "a"}, {0: "a"})


@pytest.mark.parametrize(
    ("make", "lost", "over", "guarded", "assignments", "closing", "touched"),
    [
        pytest.param(assigned, "a", "", {0}, {}, {}, {0}, id="an owner: unowned and guarded"),
        pytest.param(assigned, "a", "a", set(), {}, {}, {0}, id="an owner that is over: unowned"),
        pytest.param(assigned, "x", "", set(), {0: "a"}, {}, set(), id="somebody else: nothing"),
        pytest.param(handing_over, "a", "", {0}, {0: "b"}, {}, {0}, id="a giver: the taker at once, guarded"),
        pytest.param(handing_over, "a", "a", set(), {0: "b"}, {}, {0}, id="a giver that is over"),
        pytest.param(
            lambda: handing_over(release=RELEASE), "a", "", set(), {0: "b"}, {}, {0}, id="a giver that had released"
        ),
        pytest.param(
            lambda: handing_over(release=STALE), "a", "", {0}, {0: "b"}, {}, {0}, id="a giver with an earlier release"
        ),
        pytest.param(
            lambda: handing_over(release=STALE), "b", "", {0}, {}, {0: {"a"}}, {0}, id="a taker and an earlier release"
        ),
        pytest.param(
            lambda: at_the_barrier(release=RELEASE), "a", "", {0}, {}, {0: {"b"}}, {0}, id="an owner with no entry"
        ),
        pytest.param(handing_over, "b", "", {0}, {}, {0: {"a"}}, {0}, id="a taker: the giver still has to close"),
        pytest.param(handing_over, "b", "b", set(), {}, {0: {"a"}}, {0}, id="a taker that is over"),
        pytest.param(
            lambda: handing_over(release=RELEASE),
            "b",
            "",
            {0},
            {},
            {},
            {0},
            id="a taker after the release: nobody left",
        ),
        pytest.param(handing_over, "ab", "", {0}, {}, {}, {0}, id="both"),
        pytest.param(at_the_barrier, "c", "", set(), {}, {0: {"a", "b"}}, {0}, id="the target at the barrier"),
        pytest.param(at_the_barrier, "a", "", {0}, {}, {0: {"b"}}, {0}, id="one owner at the barrier"),
        pytest.param(at_the_barrier, "ab", "ab", set(), {0: "c"}, {}, {0}, id="every owner at the barrier"),
    ],
)
def test_dropping_the_lost(
    make: Callable[[], Draft],
    lost: str,
    over: str,
    guarded: set[int],
    assignments: dict[int, str],
    closing: dict[int, set[str]],
    touched: set[int],
) -> None:
    draft = make()
    assert draft.drop_lost(set(lost), set(over)) == touched
    assert (draft.guarded, draft.assignments, draft.to_close) == (guarded, assignments, closing)
    assert not draft.holders() & set(lost)


def test_a_partition_remembers_who_had_it_last() -> None:
    draft = assigned()
    draft.drop_lost({"a"}, set())
    draft.move(0, "c")
    assert draft.moves == [Move(0, "a", "c", MoveKind.START)]


def test_of_an_awaited_consumer_only_what_is_in_between_changes() -> None:
    """The consumer has ended, and its next process is awaited: owned partitions stay, also without a confirmed start."""
    draft = handing_over()
    draft.assignments[1] = draft.to_start[1] = draft.to_start[2] = "a"
    draft.assignments[3], draft.to_close[2] = "a", {"c"}
    assert draft.drop_lost((), {"a"}, {"a"}) == {0, 2}
    assert draft.assignments == {0: "b", 1: "a", 3: "a"}
    assert draft.to_start == {0: "b", 1: "a"}
    assert draft.to_close == {2: {"c"}}
