"""Every row of the state machine's table, as a sentence: stored state, observation, write."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.machine.decision import Decision, Step, TopicOutcome
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.model import Ending, Move, MoveKind, Seek, State, TopicConfig, TopicDescription
from tests.world.scene import CONFIG, TOPIC, Scene, stable


def ab(**more: object) -> Scene:
    """a and b share four partitions, two each."""
    return stable("a", "b", **more)  # type: ignore[arg-type]


def joining(consumer: str = "c", scene: Scene | None = None) -> Scene:
    """The given topic (default: of a and b) with one more consumer, and the plan for it written: Closing."""
    scene = scene or ab()
    scene.joins(consumer).step(Step.PLAN)
    assert scene.state.state is State.CLOSING
    return scene


def only_move(decision: Decision) -> Move:
    assert len(decision.record.moves) == 1, decision.record.moves
    return decision.record.moves[0]


def kinds(decision: Decision) -> set[MoveKind]:
    return {move.kind for move in decision.record.moves}


# Initial -------------------------------------------------------------------------------------------------------------


def test_the_first_plan_assigns_everything_and_waits_for_the_starts() -> None:
    scene = Scene().joins("a", "b")
    decision = scene.step()
    assert decision.state.state is State.STARTING
    assert scene.node.epoch == 1
    assert scene.node.generation == "f00dfeed0badcafe"
    assert scene.counts() == {"a": 2, "b": 2}
    assert set(scene.node.since.values()) == {1}
    assert decision.state.to_start == {c: tuple(ps) for c, ps in scene.owned.items()}
    assert decision.state.epochs == dict.fromkeys(range(4), 1)
    assert decision.state.targets == {"a": 1, "b": 1}
    assert decision.state.cause == "first plan"
    assert kinds(decision) == {MoveKind.START}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(Scene, "no live consumer", id="nobody is registered"),
        pytest.param(lambda: Scene().joins("a").is_isolated("a"), "no live consumer", id="the only one is isolated"),
        pytest.param(lambda: Scene().joins("a").drains("a"), "no live consumer", id="the only one drains"),
        pytest.param(
            lambda: Scene().joins("a", topics=("other",)), "no live consumer", id="the only one wants other topics"
        ),
        pytest.param(lambda: Scene(committed=None).joins("a"), "brokers", id="Kafka does not say what is committed"),
        pytest.param(lambda: Scene(partitions=0).joins("a"), "", id="no partition is listed"),
    ],
)
def test_nothing_is_planned_while(make: Callable[[], Scene], why: str) -> None:
    decision = make().decide()
    assert decision.outcome is TopicOutcome.WAITING
    assert why in decision.reason


# Starting ------------------------------------------------------------------------------------------------------------


def starting() -> Scene:
    scene = Scene().joins("a", "b")
    scene.step()
    return scene


def test_starting_becomes_stable_with_the_last_start_and_leaves_the_node_alone() -> None:
    scene = starting().acts("a", "b")
    decision = scene.step(Step.SETTLE)
    assert decision.node is None
    assert decision.state.state is State.STABLE
    assert decision.state.to_start == decision.state.epochs == {}
    assert decision.record.confirmed == {c: tuple(ps) for c, ps in scene.owned.items()}
    assert decision.record.epoch == 1


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda s: s.dies("b", Ending.REFUSED), id="gone"),
        pytest.param(lambda s: s.is_isolated("b"), id="isolated"),
    ],
)
@pytest.mark.parametrize("step", list(Step))
def test_a_starting_consumer_that_is_lost_is_replaced_at_once(lose: Callable[[Scene], Scene], step: Step) -> None:
    scene = starting()
    lose(scene)
    decision = scene.step(step)
    assert decision.state.state is State.STARTING
    assert scene.counts() == {"a": 4}
    assert scene.node.guarded == frozenset({1, 3}) or len(scene.node.guarded) == 2
    assert decision.relies_on == {"b"}
    assert decision.state.targets == {"a": 1}


# Stable: joined, left, draining, isolated ----------------------------------------------------------------------------


def test_a_join_moves_the_fewest_partitions_each_by_a_hand_off() -> None:
    scene = stable("a", "b", partitions=12)
    before = dict(scene.node.assignments)
    decision = scene.joins("c").step()
    assert kinds(decision) == {MoveKind.HANDOFF}
    assert len(scene.node.handoff) == 4
    assert {h.taker for h in scene.node.handoff.values()} == {"c"}
    assert all(before[p] == h.giver for p, h in scene.node.handoff.items())
    assert scene.counts() == {"a": 4, "b": 4}
    assert decision.state.state is State.CLOSING
    assert decision.state.to_start == {"c": tuple(scene.node.handoff)}
    assert {p for ps in decision.state.to_close.values() for p in ps} == set(scene.node.handoff)
    assert decision.state.cause == "joined: c"
    untouched = {p: c for p, c in before.items() if p not in scene.node.handoff}
    assert dict(scene.node.assignments) == untouched
    assert all(scene.node.since[p] == 1 for p in untouched)
    scene.settles()
    assert scene.counts() == {"a": 4, "b": 4, "c": 4}


def test_the_last_consumer_that_is_drained_keeps_everything_until_another_is_there() -> None:
    scene = stable("a").drains("a").settles()
    assert scene.counts() == {"a": 4}
    assert (
        scene.decide().reason
        == "a drains and keeps partitions 0, 1, 2, 3: no other consumer is there that may take them"
    )
    decision = scene.joins("b").step()
    assert kinds(decision) == {MoveKind.HANDOFF}
    scene.settles()
    assert scene.counts() == {"b": 4}


@pytest.mark.parametrize("drained", [True, False], ids=["also drained by a person", "not drained"])
def test_the_last_consumer_that_was_asked_to_end_closes_everything_and_that_is_held(drained: bool) -> None:
    scene = stable("a")
    scene = scene.drains("a", leaving=1) if drained else scene.drains("a", incarnation=1)
    assert kinds(scene.step()) == {MoveKind.STOP}
    scene.settles()
    assert scene.owned == {}
    assert (scene.decide().outcome, scene.decide().reason) == (
        TopicOutcome.HELD,
        "no live consumer is there to take partitions",
    )
    scene.joins("b").settles()
    assert scene.counts() == {"b": 4}


@pytest.mark.parametrize("asked_while_away", [True, False])
def test_a_drained_consumer_that_was_away_gives_everything_away_when_back(asked_while_away: bool) -> None:
    """A consumer left out of the plan is no target before and after: no other cause of a further plan."""
    scene = ab().vanishes("b", answers=True)
    if asked_while_away:
        scene.settles()
    scene.drains("b").settles()
    assert scene.counts() == {"a": 2, "b": 2}, "nothing is taken from who is away and answers"
    scene.joins("b")
    decision = scene.step()
    assert decision.record.cause == "draining: b (by ann)"
    assert kinds(decision) == {MoveKind.HANDOFF}
    scene.settles()
    assert scene.counts() == {"a": 4}


def test_a_giver_or_taker_that_is_lost_is_relied_on_though_nothing_is_assigned_to_it() -> None:
    scene = joining()
    assert "c" not in scene.node.assignments.values()
    assert scene.dies("c").step().relies_on == {"c"}
    scene = stable("a", "b").drains("b")
    scene.step()
    assert {entry.giver for entry in scene.node.handoff.values()} == {"b"}
    assert "b" not in scene.node.assignments.values()
    assert scene.dies("b").step().relies_on == {"b"}


@pytest.mark.parametrize(("how", "guarded"), [(Ending.LEFT, False), (Ending.REAPED, False), (Ending.REFUSED, True)])
def test_partitions_are_guarded_if_their_former_owner_may_still_run(how: Ending, guarded: bool) -> None:
    scene = ab()
    lost = set(scene.owned["b"])
    scene.dies("b", how).step()
    assert scene.node.guarded == (lost if guarded else frozenset())


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda s: s.vanishes("a").is_isolated("a"), id="isolated"),
        pytest.param(lambda s: s.dies("a", Ending.REFUSED), id="gone"),
    ],
)
def test_a_partition_without_an_owner_stays_guarded_until_a_start(lose: Callable[[Scene], Scene]) -> None:
    scene = stable("a")
    lose(scene).step()
    assert scene.owned == {}
    scene.later(60).joins("b").step()
    assert scene.owned == {"b": [0, 1, 2, 3]}
    assert scene.node.guarded == {0, 1, 2, 3}
    scene.acts("b").step(Step.SETTLE)
    scene.joins("c").step(Step.PLAN)
    assert scene.node.guarded == frozenset()


def test_all_consumers_gone_leaves_nothing_assigned_until_the_first_joiner_gets_everything_at_once() -> None:
    scene = ab().dies("a").dies("b")
    decision = scene.step()
    assert scene.owned == {}
    assert (decision.state.state, decision.record.moves, decision.state.targets) == (State.STABLE, (), {})
    rest = scene.decide()
    assert rest.outcome is TopicOutcome.HELD
    assert "no live consumer" in rest.reason
    decision = scene.joins("c", at=scene.now).step()
    assert decision.state.state is State.STARTING
    assert scene.counts() == {"c": 4}
    assert decision.state.targets == {"c": 1}
    assert decision.state.cause == "consumers to take partitions: c"
    assert scene.settles().counts() == {"c": 4}


def test_a_surplus_consumer_that_is_isolated_is_no_longer_counted_with() -> None:
    scene = stable("a", "b", partitions=1)
    surplus = next(c for c in ("a", "b") if c not in scene.owned)
    decision = scene.is_isolated(surplus).step()
    assert decision.state.targets == dict.fromkeys(scene.owned, 1)
    assert decision.reason == f"no longer a target: {surplus}"


@pytest.mark.parametrize("released", [True, False], ids=["released", "not released"])
def test_a_hand_off_of_a_topic_that_was_recreated_since_hands_over_no_offset(released: bool) -> None:
    scene = joining()
    (partition,) = scene.node.handoff
    if released:
        scene.releases_entry(partition)
    scene.node = replace(scene.node, seeks={partition: Seek(70, 1)})
    scene.config = replace(scene.config, topic_id="id-2")
    scene.description = TopicDescription(TOPIC, "id-2", 4)
    decision = scene.step(Step.START)
    assert decision.reason == "the topic was recreated in Kafka: id id-2, was id-1"
    assert (scene.node.handoff, scene.node.seeks, scene.node.topic_id) == ({}, {}, "id-2")
    assert only_move(decision).kind is (MoveKind.START if released else MoveKind.BARRIER)
    assert scene.node.since.get(partition) == (scene.node.epoch if released else None)


def test_an_owner_that_does_not_start_is_told_again_a_limited_number_of_times() -> None:
    scene = ab().dies("b")
    scene.step()
    policy, told = Policy(), 0
    scene.acts("a", runs=()).later(policy.stuck_after_s / 2 - 0.1)
    assert scene.decide().outcome is TopicOutcome.WAITING, "it has its time to start"
    while (
        decision := scene.acts("a", runs=()).later(policy.stuck_after_s / 2).decide()
    ).outcome is TopicOutcome.WRITTEN:
        assert kinds(scene.write(decision)) == {MoveKind.RESTART}
        assert decision.reason == "not running what it holds: a"
        told += 1
    assert told == policy.max_restarts
    assert (decision.outcome, set(decision.blockers)) == (TopicOutcome.WAITING, {"a"})
    assert scene.state.state is State.STARTING


def test_a_partition_that_kafka_no_longer_has_is_closed_at_once_without_a_plan() -> None:
    scene = stable("a", "b", partitions=3)
    scene.partitions = 2
    scene.description = TopicDescription(TOPIC, "id-1", 2)
    decision = scene.step(Step.START)
    assert decision.reason == "no longer in Kafka: partition 2"
    assert kinds(decision) == {MoveKind.STOP}
    scene.settles()
    assert scene.state.state is State.STABLE
    assert scene.owned == {"a": [0], "b": [1]}


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "unknown to the brokers"])
def test_a_partition_that_may_be_there_is_not_closed(frozen: bool) -> None:
    scene = stable("a", "b", partitions=3)
    scene.partitions = 2
    scene.config = replace(scene.config, frozen=frozen)
    scene.description = TopicDescription(TOPIC, "id-1", 2) if frozen else None
    scene.settles()
    assert {p for ps in scene.owned.values() for p in ps} == {0, 1, 2}


# Stable: what else asks for a plan -----------------------------------------------------------------------------------


def changed(**fields: object) -> Callable[[Scene], None]:
    def change(scene: Scene) -> None:
        scene.config = replace(scene.config, **fields)  # type: ignore[arg-type]

    return change


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(changed(properties={"max.poll.records": "7"}), "configuration", id="a consumer property"),
        pytest.param(changed(paused=frozenset({1})), "paused: partition 1", id="a paused partition"),
        pytest.param(changed(bootstrap_servers="other:9092"), "configuration", id="the brokers' address"),
    ],
)
def test_a_changed_configuration_reaches_the_node_without_moves(change: Callable[[Scene], None], text: str) -> None:
    scene = ab()
    before = scene.node
    change(scene)
    decision = scene.step()
    assert text in decision.state.cause
    assert decision.state.state is State.STABLE
    assert scene.node.assignments == before.assignments
    assert scene.node.since == before.since
    assert scene.node.epoch == before.epoch + 1
    assert (scene.node.paused, scene.node.properties, scene.node.bootstrap_servers) == (
        scene.config.paused,
        scene.config.properties,
        scene.config.bootstrap_servers,
    )
    scene.acts("a", "b")
    assert scene.decide().outcome is TopicOutcome.UNCHANGED


def test_frozen_means_no_plan_for_joins_but_owners_for_what_has_none() -> None:
    scene = ab()
    scene.config = replace(scene.config, frozen=True)
    scene.settles()
    before = dict(scene.node.assignments)
    scene.joins("c")
    assert scene.decide().outcome is TopicOutcome.UNCHANGED
    scene.dies("b").settles()
    assert sum(scene.counts().values()) == 4
    assert "b" not in scene.counts()
    assert all(scene.node.assignments[p] == "a" for p, c in before.items() if c == "a")
    scene.config = replace(scene.config, frozen=False)
    scene.settles()
    assert scene.counts() == {"a": 2, "c": 2}


def test_a_removed_topic_is_closed_everywhere_and_marked() -> None:
    scene = ab()
    scene.config = replace(scene.config, removed=True)
    decision = scene.step()
    assert scene.node.removed
    assert decision.state.state is State.CLOSING
    assert kinds(decision) == {MoveKind.STOP}
    assert scene.node.assignments == {}
    scene.settles()
    assert scene.state.state is State.STABLE
    rests = scene.decide()
    assert (rests.outcome, rests.reason) == (
        TopicOutcome.UNCHANGED,
        "the topic was removed, and nobody runs anything of it",
    )
    scene.joins("c")
    assert scene.decide().outcome is TopicOutcome.UNCHANGED, "nobody is given a partition of it"


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda s: s.dies("b").step(), id="by the loss of a consumer"),
        pytest.param(lambda s: s.acts("a", "b").step(Step.START), id="by a confirmed close"),
    ],
)
def test_a_removed_topic_is_closed_also_if_another_write_has_marked_it(write: Callable[[Scene], Decision]) -> None:
    scene = joining()
    scene.config = replace(scene.config, removed=True)
    write(scene)
    assert scene.node.removed
    scene.settles()
    assert scene.owned == {}
    assert scene.state.state is State.STABLE


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda s: s.dies("b"), id="a loss"),
        pytest.param(lambda s: setattr(s, "partitions", 6), id="new partitions"),
    ],
)
def test_what_was_placed_at_once_is_followed_by_no_plan_without_moves(event: Callable[[Scene], object]) -> None:
    scene = ab()
    event(scene)
    cause = scene.step().reason
    assert scene.decide().outcome is TopicOutcome.WAITING
    scene.acts(*scene.members)
    assert scene.step().reason == cause, "the cause stays that of the move"
    assert scene.decide().outcome is TopicOutcome.UNCHANGED


def test_a_removed_topic_in_the_middle_of_a_hand_off_is_closed_at_both() -> None:
    scene = joining()
    partition, entry = next(iter(scene.node.handoff.items()))
    scene.config = replace(scene.config, removed=True)
    decision = scene.step()
    assert all(partition in decision.state.to_close[c] for c in (entry.giver, entry.taker))


@pytest.mark.parametrize(
    ("config", "description", "missing"),
    [
        pytest.param(CONFIG, TopicDescription(TOPIC, "id-2", 4), False, id="recreated"),
        pytest.param(CONFIG, None, True, id="no longer in Kafka"),
    ],
)
def test_another_kafka_topic_is_held(config: TopicConfig, description: TopicDescription | None, missing: bool) -> None:
    scene = ab()
    scene.config, scene.description, scene.missing = config, description, missing
    scene.dies("b")
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.HELD
    assert "remove" in decision.reason
    scene.config = replace(scene.config, removed=True)
    assert scene.decide().outcome is TopicOutcome.WRITTEN, "it can still be removed"


def test_brokers_that_do_not_answer_change_nothing_for_a_running_topic() -> None:
    scene = ab()
    scene.description, scene.committed = None, None
    assert scene.decide().outcome is TopicOutcome.UNCHANGED
    scene.dies("b").settles()
    assert scene.counts() == {"a": 4}


# Settling ------------------------------------------------------------------------------------------------------------


def test_a_join_waits_until_membership_has_been_still() -> None:
    scene = ab(policy=Policy(settle_s=1.0, settle_max_s=5.0))
    scene.joins("c", at=scene.now - 0.25)
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.WAITING
    assert decision.wake_in_s == pytest.approx(0.75)
    assert "joined: c" in decision.reason
    assert scene.later(0.74).decide().outcome is TopicOutcome.WAITING
    assert scene.later(0.01).decide().outcome is TopicOutcome.WRITTEN


def test_every_further_join_starts_the_waiting_anew_but_not_beyond_its_limit() -> None:
    scene = ab(policy=Policy(settle_s=1.0, settle_max_s=3.0))
    began = scene.now
    scene.joins("c", at=began)
    for number in range(5):
        scene.later(0.5).joins(f"d{number}", at=scene.now)
        decision = scene.decide()
        assert decision.outcome is TopicOutcome.WAITING, number
        assert decision.wake_in_s == pytest.approx(min(1.0, began + 3.0 - scene.now))
    assert scene.later(0.5).decide().outcome is TopicOutcome.WRITTEN


# A consumer that does not run what it holds --------------------------------------------------------------------------


def test_after_enough_restarts_a_person_is_asked() -> None:
    scene = ab(policy=Policy(max_restarts=3))
    for expected in (1, 2, 3):
        scene.acts("b", runs=[])
        decision = scene.step()
        assert decision.state.restarts == {"b": expected}
        scene.acts("a", "b").step()
    scene.acts("b", runs=[])
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.HELD
    assert list(decision.blockers) == ["b"]
    assert "3 times" in decision.reason


# Closing -------------------------------------------------------------------------------------------------------------


def test_a_rebalance_keeps_its_name_and_beginning_until_stable() -> None:
    scene = joining()
    name, began = scene.state.rebalance, scene.state.began_at
    first = scene.last
    assert name == f"{first.record.epoch}-f00dfeed"
    scene.later(2).acts("a", "b").step()
    assert scene.state.rebalance == name
    scene.later(3).acts("c")
    decision = scene.step()
    assert (decision.record.rebalance, decision.record.rebalance_s, decision.record.lasted_s) == (name, 5.0, 3.0)
    assert scene.state.began_at == began
    scene.later(4).drains("c").step()
    assert scene.state.rebalance != name
    assert scene.state.began_at == scene.now


def barrier(partitions: int = 4) -> Scene:
    """a and b were handing over to c when c was asked to drain: giver and taker may both run the partitions."""
    scene = joining(scene=stable("a", "b", partitions=partitions))
    flight = dict(scene.node.handoff)
    scene.joins("d").drains("c").step()
    assert scene.node.handoff.keys().isdisjoint(flight)
    assert all({h.giver, "c"} == {c for c, ps in scene.state.to_close.items() if p in ps} for p, h in flight.items())
    return scene


def test_a_barrier_is_passed_only_when_every_possible_owner_has_closed() -> None:
    scene = barrier()
    partition = scene.state.to_close["c"][0]
    owners = sorted(c for c, ps in scene.state.to_close.items() if partition in ps)
    scene.acts(owners[0])
    decision = scene.decide(Step.START)
    assert decision.outcome is TopicOutcome.WAITING or (decision.node and partition not in decision.node.assignments)
    scene.acts(*owners).step(Step.START)
    assert scene.node.assignments[partition] in ("a", "b", "d")
    assert scene.node.since[partition] == scene.node.epoch, "nobody's older token reaches as far as this start"


def test_a_leaving_consumer_keeps_its_partitions_while_an_absent_consumer_may_come_back() -> None:
    scene = stable("a", "b").vanishes("b").drains("a", incarnation=1)
    before = scene.owned
    assert scene.settles().owned == before
    scene.is_isolated("b")
    assert "a" not in scene.settles().owned
