"""Rules at their edges: the last counting value, the first value beyond, and the half of a condition that the tests by
subject do not need."""

import json
from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs import history_codec, member_codec
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.machine import causes, machine
from coordinator_tasks.core.machine.deciding import Deciding
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import (
    FORMATS,
    PACKED,
    PROPERTIES,
    SEEKS,
    Actor,
    Explanation,
    Member,
    Split,
    State,
    StateOnReset,
    TopicState,
)
from coordinator_tasks.core.text.json_fields import MAX_BYTES, MAX_NUMBER, Fields
from coordinator_tasks.core.text.partition_text import MAX_PARTITIONS, numbers
from tests.world.scene import CONFIG, NOW, Scene, stable

PATH = "/consumers/c/state/t"


# What is read ---------------------------------------------------------------------------------------------------------


def test_the_longest_data_and_the_largest_number_are_read() -> None:
    padded = b'{"version":1}'.ljust(MAX_BYTES)
    assert Fields.parse(PATH, padded, 1).number("n", MAX_NUMBER) == MAX_NUMBER


def test_a_list_of_texts_or_of_moves_is_no_list_with_something_else_in_it() -> None:
    member = json.loads(member_codec.encode_member(Member("a", 1, "http://a:1", "boot")))
    with pytest.raises(Malformed, match="not a list of strings"):
        member_codec.decode_member(PATH, json.dumps({**member, "topics": ["t", 1]}).encode())
    data = json.loads(history_codec.encode_record(stable("a").last.record))
    with pytest.raises(Malformed, match="not a list of objects"):
        history_codec.decode_record(PATH, json.dumps({**data, "moves": [1]}).encode(), 0)


def test_the_widest_range_of_partitions_is_read() -> None:
    assert len(numbers(f"0-{MAX_PARTITIONS}")) == MAX_PARTITIONS + 1
    with pytest.raises(ValueError, match="no range"):
        numbers(f"0-{MAX_PARTITIONS + 1}")


# What asks for a plan -------------------------------------------------------------------------------------------------


def test_a_frozen_topic_that_was_changed_says_what_was_changed() -> None:
    scene = stable("a", "b")
    scene.config = replace(scene.config, frozen=True)
    scene.settles()
    for changed, cause in (
        ({"paused": frozenset({1})}, "paused: partition 1"),
        ({"properties": {"max.poll.records": "7"}}, "configuration changed"),
    ):
        scene.config = replace(scene.config, **changed)  # type: ignore[arg-type]
        decision = scene.step()
        assert decision.state.cause == cause


def test_a_plan_goes_on_only_when_everything_of_it_so_far_is_done() -> None:
    scene = stable("a", "b").joins("c")
    scene.step()
    view, world = scene.view(), scene.world()
    draft = Deciding(view, world, scene.policy, Actor("loop", "test")).draft
    unfinished = replace(scene.state, planned="")
    assert causes.of_plan(view, world, draft, unfinished, dict(scene.state.targets)) is None


def test_an_event_as_far_ahead_as_a_plan_waits_at_most_is_waited_for() -> None:
    scene = Scene()
    limit_s = scene.policy.settle_max_s
    due = causes.Due("joined: a", (NOW + limit_s,))
    assert causes.settling(due, scene.world(), scene.policy) == limit_s
    assert causes.settling(replace(due, events_at=(NOW + limit_s + 0.1,)), scene.world(), scene.policy) == 0.0


# What is stored -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("live", [False, True])
def test_a_state_node_that_says_initial_is_as_good_as_none(live: bool) -> None:
    scene = Scene()
    scene.state = TopicState(State.INITIAL)
    if not live:
        assert scene.decide().outcome is TopicOutcome.WAITING
        return
    scene.joins("a").step()
    assert scene.state.state is State.STARTING


def test_no_offset_is_reset_in_what_is_stored_against_the_rules() -> None:
    scene = stable("a")
    scene.node = replace(scene.node, since=dict.fromkeys(scene.node.since, scene.node.epoch + 1))
    plan = Explanation("manual", "", "asked for", ())
    decision = machine.seek(scene.view(), scene.world(), scene.policy, Actor("command", "ann"), {0: 1}, plan)
    assert decision.outcome is TopicOutcome.HELD
    assert "breaks the rule" in decision.reason


def test_a_record_counts_its_moves_by_kind() -> None:
    scene = Scene().joins("a")
    first = scene.step().record
    assert first.counts == {"assigned": 4, "handoff": 0, "closing": 0, "start": 4}
    handed = scene.settles().joins("b").step().record
    assert handed.counts == {"assigned": 2, "handoff": 2, "closing": 2}


# Where partitions go --------------------------------------------------------------------------------------------------


def test_during_an_upgrade_what_is_on_its_way_is_not_explained_as_kept() -> None:
    scene = stable("a", config=replace(CONFIG, split=Split("shop", ("b",)))).joins("b").settles()
    scene.config = replace(scene.config, split=Split("shop", ("b",), frozenset({3})))
    assert scene.step().outcome is TopicOutcome.WRITTEN
    found = machine.explain(scene.view(), scene.world(), scene.policy)
    assert [(one.text, one.partitions) for one in found.stays] == [
        ("a keeps it, as the upgrade of shop asks in this step", (0, 1, 2)),
        ("b has it and it is not touched: it is on its way, or nobody can take it from b now", (3,)),
    ]


@pytest.mark.parametrize(("state", "given"), [(None, True), (StateOnReset.RESET, False)])
def test_a_newcomer_that_would_pass_over_the_state_of_a_seek_gets_nothing(
    state: StateOnReset | None, given: bool
) -> None:
    scene = stable("a")
    plan, actor = Explanation("manual", "", "asked for", ()), Actor("command", "ann")
    scene.write(machine.seek(scene.view(), scene.world(), scene.policy, actor, {0: 1}, plan, state))
    scene.joins("older", formats=(SEEKS, PROPERTIES, PACKED)).joins("new")
    able = machine.able(scene.view(), scene.world(), scene.policy)
    assert able.keys() == {"a", "new", *(["older"] if given else [])}


def test_a_newcomer_that_cannot_read_the_properties_gets_nothing_and_an_owner_keeps_what_it_has() -> None:
    scene = stable("a", "old", config=replace(CONFIG, properties={"fetch.wait.max.ms": "7"}))
    scene.members["old"] = replace(scene.members["old"], formats=())
    assert scene.decide().outcome is not TopicOutcome.WRITTEN
    scene.joins("older", formats=()).joins("new")
    scene.settles()
    assert sorted(scene.owned) == ["a", "new", "old"]
    scene.members["older"] = replace(scene.members["older"], formats=FORMATS)
    scene.settles()
    assert sorted(scene.owned) == ["a", "new", "old", "older"]
