"""Lost or restored ZooKeeper: epochs never go back, and possibly running partitions count as owned."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator_tasks.core.machine import machine
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import (
    Committed,
    Explanation,
    MoveKind,
    Seek,
    State,
    Token,
    TopicDescription,
    TopicNode,
)
from coordinator_tasks.core.protocol.holding import Reading, accepts
from tests.fakes.cluster import PERSON
from tests.world.scene import TOPIC, Scene, running, stable


def committed(
    owner: str, epoch: int, *, incarnation: int = 1, generation: str = "g1", topic_id: str = "id-1"
) -> Committed:
    return Committed(50, Token(epoch, incarnation, generation), owner, "c", topic_id)


def lost(scene: Scene) -> Scene:
    """ZooKeeper has lost node and state; consumers have registered again and keep their accepted nodes."""
    scene.node = scene.state = None
    scene.fresh = "5eed5eed5eed5eed"
    return scene


def picture(scene: Scene) -> TopicNode:
    assert scene.node is not None
    return scene.node


def test_after_a_loss_what_runs_is_adopted_and_goes_on_undisturbed() -> None:
    scene = stable("a", "b")
    scene.joins("c").settles().drains("c").settles()
    before = picture(scene)
    decision = lost(scene).step()
    after = picture(scene)
    assert after.assignments == before.assignments
    assert after.since == before.since
    assert after.epoch == before.epoch + 1
    assert {m.kind for m in decision.record.moves} == {MoveKind.ADOPT}
    assert accepts(before, after) is Reading.ACT
    assert "lost" in decision.record.cause


@pytest.mark.parametrize("now", [None, TopicDescription(TOPIC, "id-2", 9)], ids=["deleted", "recreated, larger"])
def test_after_a_loss_a_removed_topic_stops_whatever_kafka_has_under_its_name(now: TopicDescription | None) -> None:
    scene = stable("a", "b")
    scene.config = replace(scene.config, removed=True)
    lost(scene).description = now
    assert scene.decide().outcome is TopicOutcome.WRITTEN
    assert not scene.settles().owned


def test_after_a_loss_every_registered_consumer_is_waited_for_and_named() -> None:
    scene = lost(stable("a", "b")).is_silent("b")
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.WAITING
    assert list(decision.blockers) == ["b"]
    assert "b is registered but does not answer" in decision.reason


def test_a_recovery_keeps_the_guards() -> None:
    scene = stable("a", "b", "c").vanishes("a").is_isolated("a")
    scene.step()
    guarded = picture(scene).guarded
    scene.acts("c").says("c", acted_epoch=picture(scene).epoch + 3)
    scene.fresh = "5eed5eed5eed5eed"
    assert "restored" in scene.step().reason
    assert picture(scene).guarded == guarded != frozenset()


def sought(scene: Scene, partition: int) -> Seek:
    """A person has sent this partition to another offset."""
    plan = Explanation("reset", "id-1", "reset of 1 partition")
    decision = scene.write(machine.seek(scene.view(), scene.world(), scene.policy, PERSON, {partition: 9}, plan))
    assert decision.outcome is TopicOutcome.WRITTEN
    return picture(scene).seeks[partition]


def recovers(scene: Scene) -> None:
    """Another consumer has acted on a later epoch than the stored epoch."""
    scene.fresh = "5eed5eed5eed5eed"
    scene.joins("z").acts("z").says("z", acted_epoch=picture(scene).epoch + 3)
    assert "restored" in scene.step().reason


def test_a_recovery_keeps_the_reset_of_a_partition_that_nobody_owns() -> None:
    scene = stable("a").dies("a")
    scene.step()
    assert picture(scene).assignments == {}
    seek = sought(scene, 0)
    recovers(scene)
    assert picture(scene).seeks == {0: seek}
    assert picture(scene).assignments[0] == "z"


def test_a_recovery_keeps_a_reset_not_begun_and_lets_the_reset_begin() -> None:
    scene = stable("a")
    seek = sought(scene, 0)
    recovers(scene)
    assert picture(scene).seeks == {0: seek}
    assert (picture(scene).assignments[0], picture(scene).since[0]) == ("a", picture(scene).epoch)


def test_a_recovery_lets_who_runs_on_from_before_a_reset_begin_it() -> None:
    scene = stable("a").dies("a")
    scene.step()
    seek = sought(scene, 0)
    scene.joins("z").acts("z").says("z", acted_epoch=picture(scene).epoch + 3, running=running({0: 1}), held={0: 1})
    scene.step()
    assert (picture(scene).seeks, picture(scene).assignments[0]) == ({0: seek}, "z")
    assert picture(scene).since[0] == picture(scene).epoch


@pytest.mark.parametrize("confirmed", [True, False], ids=["confirmed", "not confirmed yet"])
def test_a_recovery_does_not_repeat_a_reset_that_its_owner_has_begun(confirmed: bool) -> None:
    scene = stable("a")
    sought(scene, 0)
    scene.acts("a")
    if confirmed:
        scene.settles()
    since = picture(scene).since
    recovers(scene)
    assert (picture(scene).seeks, picture(scene).since) == ({}, since)


def test_a_recovery_of_a_state_that_was_lost_keeps_a_reset_that_waits() -> None:
    scene = stable("a")
    seek = sought(scene, 0)
    before, scene.state = picture(scene), None
    scene.fresh = "5eed5eed5eed5eed"
    assert "the topic's state was lost" in scene.step().reason
    after = picture(scene)
    assert (after.seeks, after.assignments, after.epoch) == ({0: seek}, before.assignments, before.epoch + 1)


def test_what_is_about_to_close_begins_a_new_holding() -> None:
    scene = stable("a", "b")
    closing, staying = scene.owned["a"][0], scene.owned["b"][0]
    said = scene.world().status("a")
    runs = said.topics[TOPIC].running
    scene.says("a", running={**runs, closing: replace(runs[closing], closing=True)})
    lost(scene).step()
    assert picture(scene).since[closing] == picture(scene).epoch
    assert picture(scene).since[staying] < picture(scene).epoch


def test_what_runs_nowhere_begins_a_new_holding_even_if_its_former_epoch_is_unknown() -> None:
    scene = stable("a", "b")
    given = {p: 2**40 for p, owner in picture(scene).assignments.items() if owner == "b"}
    scene.says("b", held=given, running={})
    lost(scene).step()
    assert {picture(scene).since[p] for p in given} == {picture(scene).epoch}


def test_an_owner_under_a_newer_holding_than_the_stored_one_shows_a_restore() -> None:
    scene = stable("a", "b").joins("c").settles()
    partition = scene.owned["b"][0]
    scene.node = replace(scene.node, since={**scene.node.since, partition: scene.node.since[partition] - 1})
    decision = scene.decide()
    assert f"b runs partition {partition} since" in decision.reason


def test_an_unknown_generation_leads_to_a_new_one_that_covers_both() -> None:
    scene = stable("a", "b")
    before = picture(scene)
    scene.says("a", generation="other", acted_epoch=9)
    decision = scene.step()
    after = picture(scene)
    assert "acts on generation other" in decision.reason
    assert after.supersedes == {before.generation: before.epoch, "other": 9}
    assert after.epoch == 10
    assert scene.decide().outcome is TopicOutcome.WAITING, "covered now"


def test_a_commit_alone_shows_that_zookeeper_was_restored() -> None:
    scene = stable("a", "b")
    scene.committed = {0: committed("x", 7)}
    decision = scene.step()
    assert decision.reason.startswith(
        "ZooKeeper was restored, or a foreign client commits with the group: x, which is not registered, committed partition 0 "
        "under epoch 7, stored is 1"
    )
    assert picture(scene).epoch == 8


@pytest.mark.parametrize("same_life", [True, False], ids=["the node's generation", "another one"])
def test_the_last_committer_that_is_silent_is_a_possible_owner_after_a_restore(same_life: bool) -> None:
    scene = stable("a", "b")
    partition = scene.owned["a"][0]
    generation = picture(scene).generation if same_life else "g1"
    scene.committed = {partition: committed("x", 7, incarnation=3, generation=generation)}
    scene.step()
    assert partition in scene.state.to_close["x"]
    assert picture(scene).incarnations["x"] == 3
    scene.acts("a", "b")
    decision = scene.decide()
    assert decision.node is None or partition not in decision.node.assignments, "x may still run it"
    scene.is_isolated("x").settles()
    assert sum(scene.counts().values()) == 4


def test_after_a_loss_the_last_committer_owns_what_nobody_runs() -> None:
    scene = Scene().joins("b")
    scene.committed = {0: committed("a", 4, incarnation=2), 1: committed("b", 5, incarnation=9)}
    scene.step()
    assert picture(scene).assignments[0] == "a"
    assert picture(scene).incarnations["a"] == 2
    assert picture(scene).epoch == 6


def test_an_owner_by_the_node_alone_starts_under_a_token_that_nobody_has_reached() -> None:
    # In the snapshot a holds the partition since 1; a lost consumer committed under 7: a token of 1 would be fenced forever.
    scene = stable("a", "b")
    partition = scene.owned["a"][0]
    scene.joins("c")
    scene.committed = {partition: committed("c", 7)}
    scene.says("a", held={}, running={})
    scene.step()
    assert picture(scene).assignments[partition] == "a"
    assert picture(scene).since[partition] == picture(scene).epoch == 8


def test_a_survivor_that_nobody_knew_of_does_not_bar_a_start_for_ever() -> None:
    # Nothing was committed after the loss, and the id belongs to a new process: the first plan began at its epoch.
    scene = Scene().joins("a", incarnation=2).joins("b")
    scene.step()
    partition = scene.owned["b"][0]
    scene.committed = {partition: committed("a", 1, generation="01de401de401de40")}
    decision = scene.step()
    assert f"a committed partition {partition} at epoch 1 of generation 01de401de401de40" in decision.reason
    assert set(scene.state.to_close) == {"a", "b"}, "either may run it: the barrier"
    scene.settles()
    assert scene.state.state is State.STABLE
    assert picture(scene).since[partition] > 1
    assert scene.decide().outcome is TopicOutcome.UNCHANGED, "an entry that bars nobody is no evidence"


def test_a_commit_of_a_life_that_the_node_covers_bars_nobody() -> None:
    scene = stable("a", "b")
    entries = {p: committed(c, 1, generation=picture(scene).generation) for c, ps in scene.owned.items() for p in ps}
    lost(scene).step()
    scene.committed = entries
    scene.settles()
    assert {picture(scene).since[p] for p in entries} == {1}, "what runs has gone on under its old token"
    assert scene.decide().outcome is TopicOutcome.UNCHANGED


def test_what_a_consumer_may_yet_start_counts_as_run() -> None:
    scene = stable("a", "b")
    before = picture(scene).assignments
    scene.says("a", running={}).joins("c")  # c would get the unowned partitions
    lost(scene).step()
    assert picture(scene).assignments == before


def test_who_was_to_close_a_partition_and_is_absent_may_run_it_all_the_same() -> None:
    scene = stable("a").drains("a", incarnation=1)
    scene.step()
    assert (scene.owned, set(scene.state.to_close if scene.state is not None else ())) == ({}, {"a"})
    scene.vanishes("a").joins("b").acts("b").says("b", generation="other", acted_epoch=9)
    assert "ZooKeeper was lost" in scene.step().reason
    assert set(scene.owned) == {"a"}


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param(lambda s: replace_partitions(s, 2), id="half of the partition nodes are there"),
        pytest.param(lambda s: setattr(s, "description", None), id="the brokers do not say how many there are"),
    ],
)
def test_a_recovery_waits_for_the_whole_list_of_partitions(listed: Callable[[Scene], None]) -> None:
    # A later listed partition would have no owner in the new node, and be given away while running.
    scene = lost(stable("a", "b"))
    listed(scene)
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.WAITING
    assert "partition" in decision.reason


def replace_partitions(scene: Scene, count: int) -> None:
    scene.partitions = count


@pytest.mark.parametrize("late", ["giver", "taker"])
def test_an_end_of_a_hand_off_that_answered_before_it_read_the_node_may_run_the_partition(late: str) -> None:
    scene = stable("a", "b")
    acted = dict(scene.answers)
    scene.joins("c")
    acted["c"] = scene.answers["c"]
    scene.step()
    ((partition, entry),) = picture(scene).handoff.items()
    scene.acts("a", "b", "c")
    who = entry.giver if late == "giver" else entry.taker
    scene.answers[who] = acted[who]
    scene.state = None
    scene.step()
    assert scene.state is not None
    assert {c for c, ps in scene.state.to_close.items() if partition in ps} == {entry.giver, entry.taker}


def test_isolated_consumers_see_a_node_that_covers_their_acted_epoch() -> None:
    # Without the node, isolated consumers confirm nothing, so readmission would be impossible.
    scene = stable("a", "b").is_isolated("a").is_isolated("b").settles()
    for consumer in ("a", "b"):
        scene.says(consumer, generation="01de401de401de40", acted_epoch=7)
    decision = scene.step()
    assert "acts on generation 01de401de401de40" in decision.reason
    assert picture(scene).supersedes["01de401de401de40"] == 7
    assert picture(scene).epoch == 8
    assert scene.state.state is State.STABLE
    assert scene.owned == {}


@pytest.mark.parametrize("gives", [True, False], ids=["it gives", "it keeps"])
def test_an_epoch_that_was_given_out_twice_is_recovered_from(gives: bool) -> None:
    # Restored, and planned on without an answer of `a`: the epochs of `a` and of the store are equal now.
    scene = stable("a", "b")
    partition = scene.owned["a"][0]
    before, held = picture(scene), {p: picture(scene).since[p] for p in scene.owned["a"]}
    if gives:
        del held[partition]
        scene.says("a", held=held, running={})
    else:
        scene.says("a", held={**held, scene.owned["b"][0]: before.epoch})
    decision = scene.step()
    assert "a has acted on another epoch" in decision.reason
    assert accepts(replace(before, assignments={}), picture(scene)) is Reading.ACT
    scene.acts("a", "b").settles()
    assert scene.state.state is State.STABLE


def test_what_its_node_has_given_it_again_does_not_keep_its_old_token() -> None:
    scene = stable("a", "b")
    partition = scene.owned["a"][0]
    held = {p: picture(scene).since[p] for p in scene.owned["a"]}
    lost(scene).says("a", held={**held, partition: 7}).step()
    assert picture(scene).since[partition] == picture(scene).epoch == 8


# Answers and commits that cannot be true ---------------------------------------------------------------------------


def rounds(scene: Scene, lie: Callable[[], object], count: int = 40, every_s: float = 5.0) -> int:
    """All consumers act, one consumer lies, and the coordinator writes; return the number of writes of the node."""
    written = 0
    for _ in range(count):
        scene.acts(*scene.members)
        lie()
        scene.fresh = f"fresh-{scene.now:.0f}"
        decision = scene.decide()
        if decision.outcome is TopicOutcome.WRITTEN:
            scene.write(decision)
            written += decision.node is not None
        scene.later(every_s)
    return written


def _foreign(scene: Scene) -> Callable[[], object]:
    return lambda: scene.says("b", generation="foreign")


def _twice(scene: Scene) -> Callable[[], object]:
    return lambda: scene.says("b", held={99: 1})


def _ahead(scene: Scene) -> Callable[[], object]:
    return lambda: scene.says("b", acted_epoch=picture(scene).epoch + 7)


@pytest.mark.parametrize("lie", [_foreign, _twice, _ahead], ids=["foreign generation", "other holdings", "ahead"])
def test_a_consumer_that_contradicts_every_node_is_soon_named(lie: Callable[[Scene], Callable[[], object]]) -> None:
    scene = stable("a", "b")
    assert rounds(scene, lie(scene)) <= scene.policy.flap_registrations + 2
    scene.acts("a", "b")
    lie(scene)()
    before, decision = picture(scene), scene.decide()
    assert decision.outcome is not TopicOutcome.WRITTEN
    assert "the answers of b have led to 4 recoveries of topic orders, and are no longer believed" in decision.reason
    scene.joins("c")
    assert rounds(scene, lie(scene)) <= 3
    assert scene.owned["b"] == [p for p, c in before.assignments.items() if c == "b"]
    assert scene.counts().keys() == {"a", "b", "c"}


def test_a_consumer_that_contradicts_now_and_then_is_followed_within_limits() -> None:
    scene, turns = stable("a", "b"), iter(range(1_000))
    lie = _foreign(scene)
    before = picture(scene).epoch
    rounds(scene, lambda: lie() if next(turns) % 4 == 0 else None, count=100)
    assert picture(scene).epoch - before <= 2 * scene.policy.flap_registrations + 2


def test_a_consumer_is_believed_again_once_it_agrees_and_that_is_long_ago() -> None:
    scene = stable("a", "b")
    rounds(scene, _foreign(scene))
    scene.later(scene.policy.flap_window_s)
    scene.settles()
    assert not scene.decide().left_out
    assert sorted(scene.counts()) == ["a", "b"]
    scene.says("b", acted_epoch=picture(scene).epoch + 1)
    assert "ZooKeeper was restored" in scene.step().reason


FAR_AHEAD = [2**33, 2**40, 2**53 - 1]


@pytest.mark.parametrize("epoch", FAR_AHEAD)
@pytest.mark.parametrize("field", ["acted_epoch", "held", "running"])
def test_an_answer_with_an_impossible_epoch_raises_no_epoch_and_delays_nobody(field: str, epoch: int) -> None:
    scene = stable("a", "b")
    before = picture(scene)
    value = {"acted_epoch": epoch, "held": {0: epoch}, "running": running({0: epoch})}[field]
    scene.says("b", **{field: value})
    decision = scene.decide()
    assert (
        f"b answers with epoch {epoch} of topic orders, which it cannot have reached (stored is 1)"
        in decision.left_out[0]
    )
    scene.joins("c")
    assert rounds(scene, lambda: scene.says("b", **{field: value})) <= 2 + scene.policy.max_restarts
    assert picture(scene).epoch <= before.epoch + 2 + scene.policy.max_restarts
    assert scene.owned["b"] == [p for p, c in before.assignments.items() if c == "b"]
    assert scene.counts()["c"] == 1


@pytest.mark.parametrize("epoch", FAR_AHEAD)
def test_after_a_loss_an_impossible_answer_keeps_its_partitions_and_raises_no_epoch(epoch: int) -> None:
    scene = stable("a", "b")
    before = picture(scene)
    scene.says("b", acted_epoch=epoch, held={p: epoch for p, c in before.assignments.items() if c == "b"})
    lost(scene).step()
    assert picture(scene).assignments == before.assignments
    assert picture(scene).epoch == before.epoch + 1
    assert accepts(replace(before, epoch=epoch), picture(scene)) is Reading.FOREIGN or epoch > picture(scene).epoch


@pytest.mark.parametrize("epoch", FAR_AHEAD)
def test_a_commit_under_an_epoch_that_cannot_be_is_named_and_left_out(epoch: int) -> None:
    scene = stable("a", "b")
    scene.committed = {0: committed("zzz", epoch)}
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.UNCHANGED
    assert f"partition 0 was committed under epoch {epoch} by zzz" in decision.reason
    lost(scene).step()
    assert picture(scene).epoch == 2
    assert set(scene.owned) == {"a", "b"}


def test_the_largest_epoch_is_held_and_no_other_is_written_after_it() -> None:
    scene = stable("a", "b")
    scene.node = replace(picture(scene), epoch=2**53 - 1)
    scene.joins("c")
    decision = scene.decide()
    assert decision.outcome is TopicOutcome.HELD
    assert "epoch 9007199254740991 of topic orders is the largest there is" in decision.reason
