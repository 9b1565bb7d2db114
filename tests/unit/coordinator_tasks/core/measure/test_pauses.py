"""A pause from the reported spans of two consumers, and from ZooKeeper's times in between."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.measure import pauses
from coordinator_tasks.core.measure.pauses import Moved, TimeSpan
from coordinator_tasks.core.model import Ago, LastPass, Pause, Pauses, Release, Stall, Taken, Token, Unmoved

PLANNED, RELEASED = 1000.0, 1000.040
# The giver reads the plan 10 ms after the stamp; the last record passes at 1000.020; the giver writes at 1000.039.
RELEASE = Release(7, "a", 1, 50, "g1", Token(3, 1, "g1"), Ago(0.029, 0.019, 0.119))
# The taker's first record passes at 1000.060, after a batch of 5 ms; the answer comes at 1002.060.
TAKEN = Taken(9, 2.0, 0.005, 0.015)
MOVED = Moved(3, "a", "b", PLANNED, RELEASE, RELEASED, TAKEN, TimeSpan(1002.058, 1002.063), 100.0)


def of(**changes: object) -> Pause:
    found = pauses.pause(replace(MOVED, **changes))  # type: ignore[arg-type]
    assert isinstance(found, Pause), found
    return found


def test_the_moments_are_bounded_from_both_sides() -> None:
    found = of()
    assert found.last_at == pytest.approx(1000.016, abs=0.007)
    assert found.released_at == RELEASED
    assert found.first_at == pytest.approx(1000.060, abs=0.003)
    assert (found.records, found.size, found.least) == (9, 900, False)
    assert found.wait_s is not None
    assert abs(found.wait_s - 0.040) <= found.error_s < 0.012
    assert of(release=replace(RELEASE, ago=Ago(0.029, 0.019, 0.119, 0.012))).usual_s == 0.012


def test_the_true_wait_lies_within_the_error_wherever_the_stamps_lie() -> None:
    for read_late in (0.0, 0.004, 0.009):
        for stamped_late in (0.0, 0.002, 0.006):
            for answer_s in (0.001, 0.02):
                wrote_at = 1000.039
                ago = Ago(wrote_at - PLANNED - read_late, wrote_at - 1000.020, None)
                release = replace(RELEASE, ago=ago)
                answered = TimeSpan(1002.06 - answer_s / 3, 1002.06 + answer_s)
                found = of(release=release, released_at=wrote_at + stamped_late, answered=answered)
                assert found.wait_s is not None
                assert abs(found.wait_s - 0.040) <= found.error_s + 1e-4


def test_a_record_that_came_late_has_waited_since_it_came() -> None:
    # The last record passed ten seconds ago, the giver last saw the log's end at 1000.010: one record came in 45 ms.
    found = of(release=replace(RELEASE, ago=Ago(0.029, 10.0, 0.029)), taken=Taken(1, 2.0, 0.005, 0.015))
    assert found.wait_s == pytest.approx(0.030, abs=0.005)
    assert found.error_s > 0.02, "it came at some time between the two looks"


def test_without_a_word_of_the_giver_it_waited_at_least_since_the_plan_or_the_release() -> None:
    killed = of(release=None, released_at=None, taken=Taken(9, 2.0, 0.005, None))
    assert killed.least
    assert killed.last_at is None
    assert killed.wait_s == pytest.approx(0.060, abs=0.003)
    assert killed.most_s is None, "its giver is of an earlier release"
    older = of(release=replace(RELEASE, ago=None))
    assert older.least
    assert older.wait_s == pytest.approx(0.020, abs=0.003)


KILLED = {"release": None, "released_at": None}
"""The taker's first record passes at 1000.060."""


@pytest.mark.parametrize(
    ("read_at", "after_s", "least_s", "most_s"),
    [
        (990.0, 8.2, 0.060, 1.860),  # the last commit is of 1.8 s before the plan
        (990.0, 10.05, 0.010, 0.010),  # a running giver: commit 50 ms after the plan
        (990.0, 99.0, 0.060, None),  # no commit after the taker's first record
        (-4000.0, 1.0, 0.060, None),  # hours ago: a useless bound
        (None, 8.2, 0.060, None),  # the time of the epoch is unknown
    ],
    ids=["a crash", "it ran on", "a lie", "long ago", "an epoch that is pruned"],
)
def test_after_a_crash_the_last_commit_bounds_the_pause_from_above(
    read_at: float | None, after_s: float, least_s: float, most_s: float | None
) -> None:
    taken = Taken(9, 2.0, 0.005, None, LastPass(5, after_s, 0.5))
    found = of(**KILLED, taken=taken, read_at=read_at)
    assert found.least
    assert found.wait_s == pytest.approx(least_s, abs=0.004)
    assert (found.most_s is None) is (most_s is None)
    assert found.most_s == pytest.approx(most_s, abs=0.006)
    assert found.usual_s == 0.5


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"taken": Taken(9, 5.0, 0.005, 0.015)},
            "b says that partition 3 passed its first record 3.0 s before its release",
        ),
        (
            {"taken": Taken(9, 2.0, 0.005, 400.0)},
            "b says that partition 3 passed its first record 399.9 s before its release",
        ),
        ({"taken": Taken(9)}, "b says that records of partition 3 waited, and of none that it has passed"),
        (
            {"release": replace(RELEASE, ago=Ago(420.0, 0.01, None))},
            "a says of partition 3 that it had read the plan 419.9 s",
        ),
        (
            {"release": replace(RELEASE, ago=Ago(0.029, 1e6, None))},
            "a says that partition 3 has stood still since 1000000 s",
        ),
    ],
    ids=["before the release", "long after it read the release", "no first record", "a plan too early", "for ever"],
)
def test_what_cannot_be_true_is_left_out_and_named(changes: dict[str, object], why: str) -> None:
    found = pauses.pause(replace(MOVED, **changes))  # type: ignore[arg-type]
    assert isinstance(found, str)
    assert found.startswith(why)


def test_the_longest_stall_of_what_stayed_is_that_of_the_rebalance_s_epochs() -> None:
    told = {
        "a": {6: Stall(9.0, 1, 4), 7: Stall(0.004, 1, 4, 0.003), 8: Stall(0.002, 2, 3)},
        "b": {8: Stall(0.040, 3, 5)},
        "c": {7: Stall(0.009, 6, 2, 0.005)},
        "d": {9: Stall(8.0, 7, 1)},
    }
    found, left_out = pauses.unmoved(told, 7, 8, {3}, 1.0)
    assert found == Unmoved(6, 0.009, 6, "c", 0.005), "what moved does not count"
    assert left_out == []


def test_the_longest_stall_stays_also_if_its_consumer_says_nothing_any_more() -> None:
    long, short = Unmoved(18, 3.0, 7, "c", 0.0035), Unmoved(9, 0.004, 2, "a", 0.003)
    for stored, fresh in ((long, short), (short, long), (long, None), (None, long)):
        assert pauses.merged(Pauses((), 1, stored), Pauses((), 1, fresh)).unmoved == long


def test_a_stored_pause_is_not_replaced_by_a_later_one() -> None:
    stored, later, other = Pause(3, records=4), Pause(3, records=9), Pause(5, records=1)
    assert pauses.merged(Pauses((stored,), 0), Pauses((later, other), 0)).measured == (stored, other)


def test_the_sentence_has_the_three_numbers_and_what_else_is_known() -> None:
    waits = tuple(
        Pause(p, records=4, wait_s=wait_s, error_s=0.002, usual_s=0.02)
        for p, wait_s in enumerate((0.018, 0.023, 0.021))
    )
    found = Pauses(waits, unmoved=Unmoved(18, 0.004, 7, "c", 0.0035))
    assert pauses.sentence(found) == (
        "3 partitions moved; longest extra pause 3.0 ms, median 1.0 ms; longest total 23 ms (±2.0 ms), usual 20 ms; "
        "12 records waited; 18 unmoved: longest stall 4.0 ms (just before: 3.5 ms)"
    )
    killed = Pauses((Pause(1, records=1, wait_s=0.28, least=True, most_s=2.3, usual_s=0.5), Pause(2)), missing=1)
    assert pauses.sentence(killed) == (
        "3 partitions moved; extra pause between 0.0 ms and 1.80 s; total between 280 ms and 2.30 s, usual 500 ms; "
        "nothing waited in 1; 1 record waited; 1 not measured"
    )
    older = Pauses((Pause(1, wait_s=31.5, least=True), Pause(2, wait_s=0.5, usual_s=0.4)))
    assert pauses.sentence(older) == "2 partitions moved; longest total at least 31.50 s"
    assert pauses.longest([Pause(2)]) is None


@pytest.mark.parametrize(
    ("wait_s", "usual_s", "said"), [(0.858, 0.668, "190 ms"), (0.5, 0.668, "none"), (0.858, 0.0, "858 ms")]
)
def test_the_extra_pause_is_the_total_without_the_usual_or_zero(wait_s: float, usual_s: float, said: str) -> None:
    extra = Pause(1, wait_s=wait_s, usual_s=usual_s).extra
    assert extra is not None
    assert pauses.amount(extra) == said
