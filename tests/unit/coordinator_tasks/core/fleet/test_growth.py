"""The policy of growth: decisions and reasons from measurements, past decisions and limits."""

from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.errors import BadGrowth
from coordinator_tasks.core.fleet.growth import (
    GrowthDecision,
    GrowthKind,
    GrowthMove,
    GrowthObservation,
    Limits,
    Load,
    Memory,
    decide,
)

LIMITS = Limits(
    1, 10, utilisation=1.0, catch_up_s=100, start_up_s=10, window_s=30, grow_pause_s=20, shrink_pause_s=60, act=True
)
KNOWN = Memory(capacity=100.0)


def loads(*each: tuple[str, float, float], read: float | None = None) -> tuple[Load, ...]:
    """Owner, rate and lag of one partition after the other."""
    return tuple(
        Load("t", p, owner, rate, lag, rate if read is None else read) for p, (owner, rate, lag) in enumerate(each)
    )


def seen(
    *each: tuple[str, float, float], now: float = 1_000.0, consumers: str = "ab", **more: object
) -> GrowthObservation:
    return GrowthObservation(now, tuple(consumers), loads(*each), **more)  # type: ignore[arg-type]


def test_enough_is_left_as_it_is() -> None:
    found, memory = decide(LIMITS, seen(("a", 80, 0), ("b", 90, 0)), KNOWN)
    assert (found.kind, found.desired) == (GrowthKind.HOLD, 2)
    assert found.reasons == ("2 consumers are enough: 170 records/s are needed, and 2 x 100 are there",)
    assert memory.latest == found
    found, _ = decide(LIMITS, seen(("a", 80, 0), consumers="a"), KNOWN)
    assert found.reasons == ("1 consumer is enough: 80 records/s are needed, and 1 x 100 are there",)
    assert memory.decisions == ()


def test_nothing_is_decided_before_anybody_was_busy_and_capacity_is_what_the_busy_ones_read() -> None:
    each = [("a", 500, 9e6), ("b", 500, 9e6)]
    found, memory = decide(LIMITS, seen(*each), Memory())
    assert (found.kind, found.desired, memory.capacity) == (GrowthKind.HOLD, 2, 0.0)
    _, memory = decide(LIMITS, seen(*each, busy={"a": 90.0, "b": 110.0}), Memory())
    assert memory.capacity == 100.0
    _, memory = decide(replace(LIMITS, most=2), seen(*each, busy={"a": 50.0}), memory)
    assert memory.capacity == 75.0, "smoothed"


def test_it_grows_by_rate_utilisation_and_backlog_and_counts_the_time_of_the_start() -> None:
    each = [(owner, 20 / 3, 400 / 3) for owner in "ab" for _ in range(15)]  # 200 records/s, 4,000 of lag
    found, _ = decide(replace(LIMITS, utilisation=0.8), seen(*each), KNOWN)
    assert (found.kind, found.desired) == (GrowthKind.GROW, 3), "200/0.8 + 4000/100 = 290"
    assert found.reasons == ("290 records/s are needed, and 2 x 100 are there",)
    assert found.acted
    growing = [(owner, 40.0, 0.0) for owner in "aabb" for _ in range(2)]  # 320 records/s, 120 more than are read
    slow = replace(LIMITS, start_up_s=100, most=9)
    assert decide(LIMITS, seen(*growing), KNOWN)[0].desired == 4
    assert decide(slow, seen(*growing), KNOWN)[0].desired == 6, (
        "320 + 120 of each second until then, in 100 s; two fit in one each"
    )


def test_it_at_most_doubles_and_stays_within_its_limits() -> None:
    each = [(owner, 90.0, 0.0) for owner in "ab" for _ in range(20)]
    assert decide(replace(LIMITS, most=30), seen(*each), KNOWN)[0].desired == 6
    assert decide(replace(LIMITS, most=3), seen(*each), KNOWN)[0].desired == 3
    low, _ = decide(replace(LIMITS, least=4), seen(("a", 1, 0), ("b", 1, 0)), KNOWN)
    assert (low.kind, low.desired, low.reasons) == (GrowthKind.GROW, 4, ("2 consumers are outside of 4 to 10",))
    single, _ = decide(replace(LIMITS, least=2), seen(("a", 1, 0), consumers="a"), KNOWN)
    assert single.reasons == ("1 consumer is outside of 2 to 10",)
    high, _ = decide(replace(LIMITS, most=1), seen(("a", 1, 0), ("b", 1, 5)), KNOWN)
    assert (high.kind, high.desired, high.leaves) == (GrowthKind.SHRINK, 1, ("a",))


def test_moving_goes_before_growing() -> None:
    each = [("a", 60.0, 0.0), ("a", 60.0, 0.0), ("b", 10.0, 0.0), ("b", 10.0, 0.0)]
    found, memory = decide(LIMITS, seen(*each), KNOWN)
    assert (found.kind, found.desired) == (GrowthKind.MOVE, 2)
    assert [(one.partition, one.giver, one.taker) for one in found.moves] == [(0, "a", "b")]
    again, _ = decide(LIMITS, seen(*each, now=1_010.0), memory)
    assert again.kind is GrowthKind.HOLD, "what that did is not known yet"
    later, _ = decide(LIMITS, seen(*each, now=1_031.0), memory)
    assert later.kind is GrowthKind.MOVE


def test_sharing_better_goes_before_a_consumer_more_if_the_present_consumers_could_read_all() -> None:
    each = [("a", 60.0, 0.0), ("a", 60.0, 0.0), ("a", 10.0, 0.0), ("b", 50.0, 0.0)]  # 180 of 200, but 60 + 50 > 100
    found, _ = decide(LIMITS, seen(*each), KNOWN)
    assert (found.kind, [(one.giver, one.taker) for one in found.moves]) == (GrowthKind.MOVE, [("a", "b")])


def test_nobody_is_added_while_the_effect_of_the_last_moves_is_not_known() -> None:
    each = [("a", 60.0, 0.0), ("a", 60.0, 0.0), ("b", 60.0, 0.0)]
    moved = replace(KNOWN, decisions=(GrowthDecision(GrowthKind.MOVE, 1_000.0, 2, 2, acted=True),))
    found, _ = decide(LIMITS, seen(*each, now=1_010.0), moved)
    assert (found.kind, found.desired) == (GrowthKind.HOLD, 2)
    assert found.reasons == (
        "180 records/s are needed, and 2 x 100 are there; the effect of the last moves is not known yet",
    )
    assert decide(LIMITS, seen(*each, now=1_031.0), moved)[0].kind is GrowthKind.GROW


UNEVEN = [("a", 60.0, 0.0), ("a", 60.0, 0.0), ("b", 10.0, 0.0), ("b", 10.0, 0.0)]


@pytest.mark.parametrize("stays", [{"pin": "a"}, {"frozen": True}])
def test_no_consumer_is_added_for_partitions_without_another_possible_owner(stays: dict[str, Any]) -> None:
    mine = tuple(replace(one, **stays) for one in loads(*[("a", 90.0, 0.0)] * 4))
    found, _ = decide(LIMITS, replace(seen(("b", 10, 0)), loads=mine), KNOWN)
    assert (found.kind, found.desired) == (GrowthKind.HOLD, 2)
    assert found.reasons[1] == "a has more than one consumer gives, pinned or of frozen topics; unpin or unfreeze"
    others = tuple(replace(one, partition=4 + one.partition) for one in loads(("b", 90, 0), ("b", 90, 0)))
    found, _ = decide(LIMITS, replace(seen(("b", 10, 0)), loads=(*mine, *others)), KNOWN)
    assert (found.kind, found.desired) == (GrowthKind.GROW, 3), "the others need one"


def test_a_pin_of_growth_itself_is_moved_on_unless_a_person_has_changed_it() -> None:
    done = GrowthDecision(
        GrowthKind.MOVE, 900.0, 2, 2, moves=(GrowthMove("t", 0, "b", "a"), GrowthMove("t", 1, "b", "a")), acted=True
    )
    mine, persons, *others = seen(*UNEVEN).loads
    every = (replace(mine, pin="a"), replace(persons, pin="b"), *others)
    found, _ = decide(LIMITS, replace(seen(*UNEVEN), loads=every), replace(KNOWN, decisions=(done,)))
    assert [one.partition for one in found.moves] == [0]


def test_one_partition_that_needs_more_than_a_consumer_gives_is_named() -> None:
    found, _ = decide(LIMITS, seen(("a", 250, 0), ("b", 50, 0)), KNOWN)
    assert (found.kind, found.desired) == (GrowthKind.CANNOT_HELP, 2)
    assert found.reasons[0] == (
        "adding consumers cannot help partition 0 of t: it gets 250 records/s, and one consumer gives 100; give the topic more "
        "partitions, or its consumers more cores"
    )
    both, _ = decide(LIMITS, seen(("a", 250, 0), ("b", 90, 0), ("b", 90, 0)), KNOWN)
    assert (both.kind, both.desired) == (GrowthKind.GROW, 3), "the others need one"
    assert "are needed" in both.reasons[0]
    assert "cannot help partition 0" in both.reasons[-1]
    many, _ = decide(LIMITS, seen(("a", 250, 0), ("a", 260, 0), ("b", 50, 0)), KNOWN)
    assert [one for one in many.reasons if "cannot help" in one] == [
        "adding consumers cannot help partitions 0-1 of t: each gets up to 260 records/s, and one consumer gives 100; give the "
        "topic more partitions, or its consumers more cores"
    ]


def grown(at: float = 1_000.0, *, count: int = 2, to: int = 4, throughput: float = 200.0) -> Memory:
    done = GrowthDecision(GrowthKind.GROW, at, count, to, throughput=throughput, acted=True)
    return replace(KNOWN, decisions=(done,))


FULL = [(owner, 100.0, 5_000.0) for owner in "abcd"]


def test_a_growth_that_brings_no_throughput_is_undone_once_that_can_be_judged() -> None:
    slow = replace(seen(*FULL, consumers="abcd", busy={"a": 51.0, "b": 51.0}), loads=loads(*FULL, read=51.0))
    early, _ = decide(LIMITS, replace(slow, now=1_039.0), grown())
    assert early.kind is not GrowthKind.UNDO
    found, memory = decide(LIMITS, replace(slow, now=1_041.0), grown())
    assert (found.kind, found.desired, len(found.leaves)) == (GrowthKind.UNDO, 2, 2)
    assert found.reasons == (
        "adding consumers cannot help: 204 records/s are read with 4 consumers, 200 were with 2; the sink or the brokers are the limit",
    )
    assert memory.capacity == 100.0, "it is not the consumers that became slow"
    still, _ = decide(LIMITS, seen(*FULL[:2], *FULL[:2], now=1_300.0, busy={"a": 100.0}), memory)
    assert (still.kind, still.desired) == (GrowthKind.CANNOT_HELP, 2)
    assert "within the last 5 min" in still.reasons[0]
    after, _ = decide(LIMITS, seen(*FULL[:2], *FULL[:2], now=1_342.0, busy={"a": 100.0}), memory)
    assert after.kind is GrowthKind.GROW


def test_a_growth_that_has_helped_stays_and_so_does_one_whose_load_is_gone() -> None:
    all_busy = dict.fromkeys("abcd", 100.0)
    risen = replace(seen(*FULL, now=1_041.0, consumers="abcd", busy=all_busy), loads=loads(*FULL, read=100.0))
    assert decide(LIMITS, risen, grown())[0].kind is not GrowthKind.UNDO
    one = replace(seen(*FULL, now=1_041.0, consumers="abcd", busy={"a": 50.0}), loads=loads(*FULL, read=50.0))
    assert decide(LIMITS, one, grown())[0].kind is not GrowthKind.UNDO, "one that is busy alone has too many partitions"
    calm = seen(*[(owner, 40.0, 0.0) for owner in "abcd"], now=1_041.0, consumers="abcd")
    assert decide(LIMITS, calm, grown())[0].kind is not GrowthKind.UNDO


def test_the_next_growth_waits_until_the_last_consumers_have_started() -> None:
    each = [(owner, 90.0, 0.0) for owner in "abcd" for _ in range(4)]
    found, _ = decide(LIMITS, seen(*each, now=1_019.0, consumers="abcd"), grown())
    assert (found.kind, found.reasons[0].split("; ")[1]) == (GrowthKind.HOLD, "the last consumers have just been added")
    assert decide(LIMITS, seen(*each, now=1_020.0, consumers="abcd"), grown())[0].kind is GrowthKind.GROW


def test_it_shrinks_by_the_cheapest_to_empty_after_a_calm_time() -> None:
    each = [("a", 30.0, 900.0), ("b", 20.0, 0.0), ("c", 20.0, 0.0), ("c", 5.0, 0.0)]
    memory = KNOWN
    for at in (1_000.0, 1_030.0, 1_059.0):
        found, memory = decide(LIMITS, seen(*each, now=at, consumers="abc"), memory)
        assert found.kind is GrowthKind.HOLD
        assert "fewer would do for" in found.reasons[0]
    found, memory = decide(LIMITS, seen(*each, now=1_060.0, consumers="abc"), memory)
    assert (found.kind, found.desired, found.leaves) == (GrowthKind.SHRINK, 1, ("b", "c")), "a has a backlog"
    busy = [("a", 90.0, 0.0), ("b", 90.0, 0.0), ("c", 90.0, 0.0)]
    _, peak = decide(LIMITS, seen(*busy, now=1_055.0, consumers="abc"), KNOWN)
    assert decide(LIMITS, seen(*each, now=1_060.0, consumers="abc"), peak)[0].kind is GrowthKind.HOLD


def test_whom_a_frozen_topic_keeps_does_not_leave() -> None:
    limits, free = replace(LIMITS, most=1), seen(("a", 1, 0), ("b", 1, 5))
    a, b = (replace(one, frozen=True) for one in free.loads)
    other, _ = decide(limits, replace(free, loads=(a, free.loads[1])), KNOWN)
    assert (other.kind, other.desired, other.leaves) == (GrowthKind.SHRINK, 1, ("b",))
    nobody, _ = decide(limits, replace(free, loads=(a, b)), KNOWN)
    assert (nobody.kind, nobody.desired, nobody.leaves) == (GrowthKind.HOLD, 2, ())
    assert nobody.reasons == (
        "2 consumers are outside of 1 to 1; none can leave: each keeps partitions of a frozen topic; unfreeze it",
    )
    fewer, _ = decide(limits, replace(free, consumers=("a", "b", "c"), loads=(a, b)), KNOWN)
    assert (fewer.kind, fewer.desired, fewer.leaves) == (GrowthKind.SHRINK, 2, ("c",))


@pytest.mark.parametrize("pause_s", [3_600.0, 86_400.0])
def test_it_shrinks_after_a_long_pause_and_keeps_few_numbers_until_then(pause_s: float) -> None:
    limits, memory = replace(LIMITS, shrink_pause_s=pause_s), KNOWN
    for minute in range(int(pause_s / 60)):
        rate = 40.0 if minute % 2 else 10.0
        found, memory = decide(
            limits, seen(*[(owner, rate, 0.0) for owner in "abcd"], now=60.0 * minute, consumers="abcd"), memory
        )
        assert found.kind is GrowthKind.HOLD
        assert len(memory.wanted) <= 3
    found, _ = decide(limits, seen(*[(owner, 10.0, 0.0) for owner in "abcd"], now=pause_s, consumers="abcd"), memory)
    assert (found.kind, found.desired) == (GrowthKind.SHRINK, 2), "two were needed within that time"


def test_one_fewer_that_would_be_close_to_its_limit_stays() -> None:
    each = [("a", 48.0, 0.0), ("b", 47.0, 0.0)]
    memory = replace(KNOWN, wanted=((900.0, 1),))
    found, _ = decide(LIMITS, seen(*each), memory)
    assert (found.kind, found.reasons[0].split("; ")[1]) == (GrowthKind.HOLD, "one fewer would be close to its limit")


def test_what_is_unsure_decides_nothing_and_is_not_remembered() -> None:
    each = [("a", 900.0, 9e6)] * 9
    found, memory = decide(LIMITS, seen(*each, unsure="a rebalance is not finished", busy={"a": 1.0}), KNOWN)
    assert (found.kind, found.desired, found.text) == (
        GrowthKind.HOLD,
        2,
        "hold: nothing is decided: a rebalance is not finished",
    )
    assert memory == replace(KNOWN, latest=found)


def test_in_shadow_mode_the_same_is_said_each_time_and_kept_once() -> None:
    shadow, memory = replace(LIMITS, act=False), KNOWN
    each = [(owner, 90.0, 0.0) for owner in "ab" for _ in range(2)]
    for now in (1_000.0, 1_001.0, 1_500.0):
        found, memory = decide(shadow, seen(*each, now=now), memory)
        assert (found.kind, found.desired, found.acted) == (GrowthKind.GROW, 4, False)
    assert memory.decisions == (found,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"least": 5, "most": 4}, "cannot grow from 5 to 4 consumers"),
        ({"least": 0}, "cannot grow from 0 to 10"),
        ({"most": 10_001}, "cannot grow from 1 to 10001"),
        ({"spare": 10}, "10 warm spares do not fit into 10 consumers"),
        ({"utilisation": 0.0}, "a utilisation of 0 cannot be"),
        ({"utilisation": 1.1}, "a utilisation of 1.1 cannot be"),
        ({"utilisation": float("nan")}, "a utilisation of nan cannot be"),
        ({"catch_up_s": 0.0}, "a catch-up of 0 s cannot be; give 1 to 86400 seconds"),
        ({"window_s": float("inf")}, "a window of inf s cannot be"),
    ],
)
def test_limits_that_cannot_be_are_refused(change: dict[str, float], said: str) -> None:
    with pytest.raises(BadGrowth, match=said):
        replace(LIMITS, **change).check()
    LIMITS.check()
