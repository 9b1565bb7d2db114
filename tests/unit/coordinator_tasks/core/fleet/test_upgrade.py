"""The phases of an upgrade against their diagram, and how partitions are chosen."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.fleet.upgrade import (
    FOLLOWING,
    TopicSeen,
    UpgradeMark,
    UpgradeObservation,
    UpgradePhase,
    continued,
    entered,
    more,
    rates,
)
from tests.unit.coordinator_tasks.core.codecs.test_codecs import UPGRADE


@pytest.mark.parametrize("phase", UpgradePhase)
def test_only_the_table_s_transitions_can_be_made(phase: UpgradePhase) -> None:
    for target in UpgradePhase:
        before = replace(UPGRADE, phase=phase)
        if target in FOLLOWING[phase]:
            assert entered(before, target, 5.0, "why").phase is target
        else:
            with pytest.raises(ValueError, match=f"from {phase} to {target}"):
                entered(before, target, 5.0, "why")


def test_who_continues_it_begins_what_is_measured_and_waited_for_anew() -> None:
    waiting = replace(UPGRADE, paused="a rule", mark=UpgradeMark(1.0, {}), incarnations={"c": 3}, since_at=1.0)
    found = continued(waiting, 50.0, "ada", "mended")
    assert (found.paused, found.mark, found.incarnations, found.since_at) == ("", None, {}, 50.0)
    assert found.events[-1].text == "continued by ada: mended"


def chosen(owners: dict[int, str], percent: int, before: tuple[int, ...] = ()) -> tuple[int, ...]:
    seen = UpgradeObservation(0.0, {}, frozenset(), {"orders": TopicSeen(owners)})
    return more(replace(UPGRADE, chosen={"orders": before}), seen, percent)["orders"]


def test_each_old_consumer_gives_as_many_as_the_others() -> None:
    owners = {p: "ab"[p % 2] for p in range(20)}
    given = [owners[p] for p in chosen(owners, 50)]
    assert (given.count("a"), given.count("b")) == (5, 5)


def test_chosen_partitions_stay_chosen_under_every_owner() -> None:
    owners = {0: "c", 1: "a", 2: "x", 3: "b"}
    half = chosen(owners, 50, before=(0,))
    assert len(half) == 2
    assert 0 in half
    assert chosen(owners, 100, before=(0,)) == (0, 1, 3), "of another fleet nothing moves"
    assert chosen({}, 100, before=(0,)) == (0,)


def test_rates_need_both_positions_and_never_go_back() -> None:
    mark = UpgradeMark(10.0, {"orders": {0: 100, 1: 50, 2: 5}})
    assert rates(mark, {"orders": {0: 150, 1: 40, 3: 7}}, 20.0) == {"orders": {0: 5.0, 1: 0.0}}
    assert rates(mark, {"orders": {0: 150}}, 10.0) == {}
