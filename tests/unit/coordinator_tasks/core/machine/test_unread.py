"""Unread partitions, and the sentence about each."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.machine.unread import unread
from coordinator_tasks.core.model import Absence, Directive, Failure, PlannedRestart, TopicDescription
from tests.world.scene import TOPIC, Scene, stable


def of(scene: Scene) -> dict[int, str]:
    return unread(scene.view(), scene.world(), scene.policy)


def later(scene: Scene, seconds: float) -> Scene:
    scene.now += seconds
    return scene


def late(scene: Scene) -> Scene:
    return later(scene, scene.policy.stuck_after_s)


@pytest.fixture
def moving() -> Scene:
    """Partitions of a move to c after the join."""
    scene = stable("a", "b").joins("c")
    scene.step()
    return scene.acts("c")


def in_flight(scene: Scene) -> set[int]:
    return {p for listed in (scene.state.to_close, scene.state.to_start) for ps in listed.values() for p in ps}


def test_what_is_on_its_way_is_unread_when_no_possible_owner_has_run_it_for_long(moving: Scene) -> None:
    moved = in_flight(moving)
    for name in "abc":
        moving.is_silent(name)
    assert moved
    assert of(later(moving, moving.policy.stuck_after_s - 1)) == {}
    found = of(later(moving, 1))
    assert set(found) == moved
    assert all("does not answer" in why and "isolate it if it is dead" in why for why in found.values())


def test_a_taker_that_answers_and_does_not_start_is_asked_for_its_reports_and_not_isolated() -> None:
    scene = Scene().joins("a")
    scene.step()
    scene.acts("a", runs=())
    assert in_flight(scene)
    found = of(late(scene))
    assert found
    assert all(why.endswith("; see its reports in `status`") and "isolate" not in why for why in found.values()), found


def test_what_a_stranger_says_of_a_moving_partition_makes_nobody_read_it(moving: Scene) -> None:
    moved = in_flight(moving)
    for name in "abc":
        moving.is_silent(name)
    moving.joins("d").acts("d", runs=moved)
    assert set(of(late(moving))) == moved


def test_a_recreated_topic_is_unread_with_the_remedy() -> None:
    scene = stable("a", "b")
    scene.description = TopicDescription(TOPIC, "id-2", 4)
    for name in "ab":
        scene.says(name, running={})
    assert set(of(scene)) == {0, 1, 2, 3}, "that is certain at once"
    found = of(late(scene))
    assert set(found) == {0, 1, 2, 3}
    assert all("was recreated" in why and "remove it here and add it again" in why for why in found.values())
    scene.description = TopicDescription(TOPIC, "id-1", 4)
    assert all("owns it and does not run it" in why for why in of(scene).values())
    assert of(stable("a", "b")) == {}


def test_an_absent_owner_reads_nothing_after_the_limit_unless_it_is_to_restart() -> None:
    scene = stable("a", "b")
    mine = set(scene.owned["a"])
    scene.vanishes("a")
    scene.claims["a"] = replace(scene.claims["a"], absence=Absence(1, scene.now))
    assert of(scene) == {}
    late(scene)
    assert {p for p, why in of(scene).items() if "a, its owner, is absent since 120 s" in why} == mine
    restart = PlannedRestart("ada", "patch", scene.now, scene.now + 300, 1)
    scene.directives["a"] = Directive("a", restart=restart)
    assert of(scene) == {}


def test_what_its_owner_cannot_process_is_unread_after_the_limit() -> None:
    scene = stable("a", "b")
    first, *others = sorted(scene.owned["a"])
    limit_s = scene.policy.stuck_after_s
    scene.says("a", failures=(Failure((first,), "a batch of 2 offsets has not ended for 56 s", for_s=limit_s - 1),))
    assert of(scene) == {}
    scene.says("a", failures=(Failure((first,), "the database does not answer", for_s=limit_s),))
    assert of(scene) == {first: f"a cannot process it since {limit_s:.0f} s: the database does not answer"}
    scene.says("a", failures=(Failure((), "no module named shop", for_s=limit_s),))
    assert set(of(scene)) == {first, *others}


def test_a_batch_that_its_giver_calls_stuck_is_not_read(moving: Scene) -> None:
    moved = in_flight(moving)
    for name in "ab":
        moving.says(
            name, failures=(Failure(tuple(moved), "the batch has not ended", for_s=moving.policy.stuck_after_s),)
        )
    assert set(of(late(moving))) == moved
