"""The phases of an upgrade against their diagram, and how partitions are chosen."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator_tasks.core.fleet.upgrade import (
    BASELINE_S,
    FOLLOWING,
    Mark,
    Phase,
    Seen,
    TopicSeen,
    advanced,
    continued,
    entered,
    more,
    rates,
)
from tests.unit.coordinator_tasks.core.codecs.test_codecs import UPGRADE

PAGE = Path(__file__).parents[5] / "docs" / "architecture.md"


def test_the_diagram_has_the_table_s_transitions_and_no_others() -> None:
    text = PAGE.read_text().split("### Fleets and upgrades")[1].split("\n## ")[0]
    drawn = {(a, b) for a, b in re.findall(r"(\w+) --> (\w+)", text)}
    assert drawn == {(one.value, to.value) for one, following in FOLLOWING.items() for to in following}


@pytest.mark.parametrize("phase", Phase)
def test_only_the_table_s_transitions_can_be_made(phase: Phase) -> None:
    for target in Phase:
        before = replace(UPGRADE, phase=phase)
        if target in FOLLOWING[phase]:
            assert entered(before, target, 5.0, "why").phase is target
        else:
            with pytest.raises(ValueError, match=f"from {phase} to {target}"):
                entered(before, target, 5.0, "why")


def test_who_continues_it_begins_what_is_measured_and_waited_for_anew() -> None:
    waiting = replace(UPGRADE, paused="a rule", mark=Mark(1.0, {}), incarnations={"c": 3}, since_at=1.0)
    found = continued(waiting, 50.0, "ada", "mended")
    assert (found.paused, found.mark, found.incarnations, found.since_at) == ("", None, {}, 50.0)
    assert found.events[-1].text == "continued by ada: mended"


def test_a_clock_that_has_jumped_back_holds_up_no_start() -> None:
    before = replace(UPGRADE, phase=Phase.STARTING, paused="", mark=Mark(9_000.0, {}), since_at=8_990.0)
    seen = Seen(100.0, {"c": 3, "d": 4}, frozenset(), {})
    again = advanced(before, seen)
    assert (again.phase, again.mark, again.since_at) == (Phase.STARTING, Mark(100.0, {}), 100.0)
    assert advanced(again, replace(seen, now=100.0 + BASELINE_S)).phase is Phase.MOVING


def chosen(owners: dict[int, str], percent: int, before: tuple[int, ...] = ()) -> tuple[int, ...]:
    seen = Seen(0.0, {}, frozenset(), {"orders": TopicSeen(owners)})
    return more(replace(UPGRADE, chosen={"orders": before}), seen, percent)["orders"]


@pytest.mark.parametrize(("percent", "count"), [(1, 1), (5, 1), (10, 2), (11, 3), (50, 10), (99, 20), (100, 20)])
def test_a_step_has_its_share_rounded_up(percent: int, count: int) -> None:
    owners = {p: "ab"[p % 2] for p in range(20)}
    assert len(chosen(owners, percent)) == count


def test_each_old_consumer_gives_as_many_as_the_others() -> None:
    owners = {p: "ab"[p % 2] for p in range(20)}
    given = [owners[p] for p in chosen(owners, 50)]
    assert (given.count("a"), given.count("b")) == (5, 5)


def test_what_was_chosen_stays_chosen_whoever_has_it() -> None:
    owners = {0: "c", 1: "a", 2: "x", 3: "b"}
    half = chosen(owners, 50, before=(0,))
    assert len(half) == 2
    assert 0 in half
    assert chosen(owners, 100, before=(0,)) == (0, 1, 3), "of another fleet nothing moves"
    assert chosen({}, 100, before=(0,)) == (0,)


def test_rates_need_both_positions_and_never_go_back() -> None:
    mark = Mark(10.0, {"orders": {0: 100, 1: 50, 2: 5}})
    assert rates(mark, {"orders": {0: 150, 1: 40, 3: 7}}, 20.0) == {"orders": {0: 5.0, 1: 0.0}}
    assert rates(mark, {"orders": {0: 150}}, 10.0) == {}
