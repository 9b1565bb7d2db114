"""The hand-off benchmark's analyser: a few partitions whose course is known."""

from math import inf

import pytest

from benchmarks.stalls import Flow, Span, Window, course, fewest_moves, impact
from coordinator_tasks.devstack.demo.stalls import MeasuredStall

TICKS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
FLOW = Flow(100, TICKS)
EVENT, CONTROL, ALL = Window(2.5, 4.9), Window(4.9, 7.0), Window(0.0, 9.0)


def prompt(owner: str, first: int, end: int) -> list[Span]:
    """Every record a tenth of a second after it was produced."""
    return [Span(TICKS[n - 100] + 0.1, owner, n, n + 1) for n in range(first, end)]


def test_a_partition_that_stays_and_is_prompt_stalls_as_in_the_control() -> None:
    found = impact({0: course(FLOW, prompt("a", 100, 106))}, EVENT, CONTROL, ALL, 0)
    assert not found.moved
    assert found.unmoved[0] == pytest.approx((0.1, 0.1))
    assert (found.changes, found.lost, found.duplicated) == (0, 0, 0)


def test_a_moved_partition_stalls_from_its_first_waiting_record_to_its_next_processing() -> None:
    late = Span(4.7, "b", 102, 104)
    one = course(FLOW, [*prompt("a", 100, 102), late, *prompt("b", 104, 106)])
    assert MeasuredStall(3.0, 4.7) in one.stalls
    assert [one.owner_at(at) for at in (1.0, 3.0, 5.0)] == ["", "a", "b"]
    found = impact({0: one}, EVENT, CONTROL, ALL, 1)
    assert found.moved[0] == pytest.approx((1.7, 0.1))
    assert (found.changes, found.needless) == (1, 0)


def test_what_a_moved_partition_waited_is_the_sum_of_its_stalls_in_each_window() -> None:
    later = [Span(3.6, "b", 102, 103), Span(4.7, "b", 103, 104)]
    one = course(FLOW, [*prompt("a", 100, 102), *later, *prompt("b", 104, 106)])
    assert impact({0: one}, EVENT, CONTROL, ALL, 1).waited[0] == pytest.approx((0.6 + 0.7, 0.2))
    assert not impact({0: course(FLOW, prompt("a", 100, 106))}, EVENT, CONTROL, ALL, 0).waited


def test_what_the_next_event_causes_is_not_the_controls() -> None:
    one = course(FLOW, [*prompt("a", 100, 104), Span(9.0, "b", 104, 106)])
    assert impact({0: one}, EVENT, Window(3.5, 7.0), ALL, 0).unmoved[0] == pytest.approx((0.1, 0.1))


def test_a_stall_that_began_in_the_event_is_not_the_controls() -> None:
    one = course(FLOW, [*prompt("a", 100, 103), Span(5.5, "b", 103, 105), *prompt("b", 105, 106)])
    found = impact({0: one}, EVENT, Window(5.0, 7.0), ALL, 0)
    assert found.unmoved[0] == pytest.approx((1.5, 0.1))
    moved = impact({0: one}, Window(2.5, 5.6), Window(5.4, 7.0), ALL, 0)
    assert moved.waited[0] == pytest.approx((1.6, 0.1))


def test_a_partition_that_goes_to_and_fro_moves_twice_and_needlessly() -> None:
    there = [Span(3.1, "b", 102, 103), Span(4.1, "a", 103, 104)]
    one = course(FLOW, [*prompt("a", 100, 102), *there, *prompt("a", 104, 106)])
    found = impact({0: one}, EVENT, CONTROL, ALL, 0)
    assert (found.changes, found.needless) == (2, 2)


def test_what_is_processed_again_is_a_duplicate_and_ends_no_stall() -> None:
    again = Span(3.5, "b", 101, 102)
    one = course(FLOW, [*prompt("a", 100, 102), again, Span(4.5, "b", 102, 104), *prompt("b", 104, 106)])
    assert list(one.duplicated) == [3.5]
    assert MeasuredStall(3.0, 4.5) in one.stalls
    assert impact({0: one}, EVENT, CONTROL, Window(2.0, 5.0), 1).duplicated == 1
    assert impact({0: one}, EVENT, CONTROL, Window(5.0, 9.0), 1).duplicated == 0


def test_what_is_skipped_is_lost_and_stalls_for_ever() -> None:
    one = course(FLOW, [*prompt("a", 100, 102), *prompt("b", 103, 106)])
    assert list(one.lost) == [3.0]
    assert one.stalls[-1].until_at == inf
    assert impact({0: one}, EVENT, CONTROL, Window(2.5, 5.0), 1).lost == 1


def test_an_offset_that_was_never_produced_is_refused() -> None:
    with pytest.raises(ValueError, match="outside of the 6 records"):
        course(FLOW, [Span(1.0, "a", 105, 107)])


def test_records_of_the_flow_before_are_none_of_this_one() -> None:
    one = course(FLOW, [Span(0.5, "x", 98, 100), Span(1.1, "a", 99, 101), *prompt("a", 101, 106)])
    assert one == course(FLOW, prompt("a", 100, 106))


def test_the_fewest_moves_are_the_orphans_and_what_is_too_much() -> None:
    owners = {p: "abc"[p % 3] for p in range(12)}
    assert fewest_moves(owners, "abc") == 0
    assert fewest_moves(owners, "abcd") == 3
    assert fewest_moves(owners, "ab") == 4
    assert fewest_moves(owners, "ab", ["a", "b", "c again"]) == 8
    assert fewest_moves({**owners, 12: "a"}, "abc") == 0


def test_what_happens_at_a_border_counts_in_the_later_window_alone() -> None:
    one = course(FLOW, [*prompt("a", 100, 104), Span(5.0, "a", 103, 104), *prompt("a", 104, 106)])
    found = [impact({0: one}, EVENT, CONTROL, scope, 0).duplicated for scope in (Window(2.0, 5.0), Window(5.0, 9.0))]
    assert found == [0, 1]
