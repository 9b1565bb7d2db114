"""What a cluster would do if something were different: the planner's own answer, and what it is refused for."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.assignors import Strategies
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine.what_if import ClusterMoment, PredictedTopic, SiteChange, changed, replay
from coordinator_tasks.core.model import MoveKind, State
from tests.world.scene import TOPIC, Scene, stable

STRATEGIES = Strategies()


def site(scene: Scene) -> ClusterMoment:
    return ClusterMoment(replace(scene.world(), loads={}), {TOPIC: scene.view()})


def after(scene: Scene, change: SiteChange) -> PredictedTopic:
    _, (found,) = replay(changed(site(scene), change, STRATEGIES), scene.policy)
    return found


@pytest.mark.parametrize("partitions", [4, 9, 40])
@pytest.mark.parametrize("join", [1, 2, 3])
def test_consumers_more_get_what_they_would_get_in_truth(partitions: int, join: int) -> None:
    scene = stable("a", "b", partitions=partitions)
    found = after(scene, SiteChange(join=join))
    assert {(one.giver in "ab", one.taker[:4], one.kind) for one in found.moves} == {(True, "new-", MoveKind.HANDOFF)}
    scene.joins(*(f"new-{number + 1}" for number in range(join))).settles()
    assert found.counts == scene.counts()
    assert {(one.partition, one.taker) for one in found.moves} == {
        (p, who) for who, owned in scene.owned.items() if who.startswith("new-") for p in owned
    }
    assert all("the even share is" in one.reason for one in found.moves)


def test_a_leaving_consumer_gives_all_by_hand_offs_and_a_crashing_consumer_loses_all_without() -> None:
    leaves, crashes = (
        after(stable("a", "b"), change) for change in (SiteChange(leave=("b",)), SiteChange(crash=("b",)))
    )
    assert {(one.giver, one.taker, one.kind) for one in leaves.moves} == {("b", "a", MoveKind.HANDOFF)}
    assert {(one.giver, one.taker, one.kind) for one in crashes.moves} == {("b", "a", MoveKind.START)}
    assert leaves.counts == crashes.counts == {"a": 4}
    assert all(one.reason.startswith("b cannot keep it: ") for one in crashes.moves)


def test_the_last_consumer_keeps_all_when_it_drains_and_leaves_all_without_an_owner_when_it_dies() -> None:
    kept = after(stable("a"), SiteChange(leave=("a",)))
    assert (kept.moves, kept.counts) == ((), {"a": 4})
    lost = after(stable("a"), SiteChange(crash=("a",)))
    assert (lost.unowned, lost.counts) == ((0, 1, 2, 3), {})
    assert {(one.giver, one.taker, one.kind, one.reason) for one in lost.moves} == {
        ("a", "", MoveKind.STOP, "gone: a (reaped)")
    }
    assert lost.waits == "no live consumer is there to take partitions"


def test_lags_and_rates_stay_with_their_partitions_wherever_these_go() -> None:
    """`weighted` decides by them: the partition with all the load is alone on its consumer."""
    scene = stable("a", "b", partitions=4)
    for who in ("a", "b"):
        said = scene.answers[who]
        topic = said.topics[TOPIC]  # type: ignore[union-attr]
        running = {p: replace(one, rate=1_000.0 if p == 0 else 1.0) for p, one in topic.running.items()}
        scene.says(who, running=running)
    change = SiteChange(strategy="weighted", parameters={"measure": "records"})
    middle, (found,) = replay(changed(site(scene), change, STRATEGIES), scene.policy)
    assert sorted(found.counts.values()) == [1, 3]
    _, (again,) = replay(changed(middle, SiteChange(join=1), STRATEGIES), scene.policy)
    heavy = next(who for who, count in again.counts.items() if count == 1)
    node = replay(changed(middle, SiteChange(join=1), STRATEGIES), scene.policy)[0].topics[TOPIC].node
    assert node.assignments[0] == heavy


def test_a_replay_goes_on_from_where_another_one_ended() -> None:
    scene = stable("a", "b")
    middle, _ = replay(changed(site(scene), SiteChange(join=2), STRATEGIES), scene.policy)
    state = middle.topics[TOPIC].state
    assert state.state is State.STABLE
    _, (end,) = replay(changed(middle, SiteChange(join=1, crash=("new-1",)), STRATEGIES), scene.policy)
    assert end.counts == {"a": 1, "b": 1, "new-2": 1, "new-3": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (SiteChange(join=-1), "-1 consumers cannot join; give a number from 0 to 10000"),
        (SiteChange(join=10_001), "10001 consumers cannot join"),
        (SiteChange(leave=("x",)), "consumer 'x' is not registered (registered: a, b); name one of these"),
        (SiteChange(crash=("x",)), "consumer 'x' is not registered"),
        (SiteChange(leave=("a",), crash=("a",)), "consumer 'a' cannot both leave and crash; name it once"),
        (SiteChange(strategy="best"), "there is no strategy 'best'; choose one of"),
        (SiteChange(parameters={"measure": "lag"}), "parameters are given without a strategy"),
        (SiteChange(strategy="range", parameters={"measure": "lag"}), "strategy 'range' takes no parameters"),
        (
            SiteChange(partitions=3),
            "topic 'orders' has 4 partitions, and Kafka never takes one away; give a number from 4",
        ),
        (SiteChange(partitions=100_001), "give a number from 4 to 100000"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(change: SiteChange, said: str) -> None:
    with pytest.raises(Refused) as refused:
        changed(site(stable("a", "b")), change, STRATEGIES)
    assert said in str(refused.value)
