"""Pausing partitions and resetting offsets: request, write, record."""

import json
from collections.abc import Collection
from dataclasses import replace
from functools import partial

import pytest
from coordinator_plugin import changes

from coordinator_tasks.core.codecs.codec import encode_node
from coordinator_tasks.core.errors import BadOffsets, KafkaUnavailable, LookAgain, Refused
from coordinator_tasks.core.model import (
    PACKED,
    PROPERTIES,
    SEEKS,
    Actor,
    Explanation,
    MoveKind,
    Seek,
    State,
    StateOnReset,
    StateSize,
)
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.core.protocol.znodes import put
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.nodes.topics import add_topic, configuration, remove_topic
from coordinator_tasks.service.offsets import offset_undo, positions
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON
from tests.world.shop import Shop, open_shop

DAG_TASK = Actor("airflow", "ada", "reset_offsets", "run-1", "reset_offsets", 1)


@pytest.fixture
def shop() -> Shop:
    return open_shop()


@pytest.mark.parametrize(
    ("to", "targets"),
    [
        ("earliest", [10, 10, 10]),
        ("Latest", [100, 100, 100]),
        ("42", [42, 42, 42]),
        ("101", [100, 100, 100]),
        ("5", [10, 10, 10]),
        ("current", [80, 90, 100]),
        ("1970-01-01T00:00:02Z", [60, 60, 60]),
        ("1970-01-01T01:00:10+01:00", [100, 100, 100]),
    ],
    ids=[
        *("the first that is there", "the end", "an offset", "an offset beyond the log", "an offset that has expired"),
        *("where they are, or the end", "a time", "a time after the last record"),
    ],
)
def test_a_preview_says_where_partitions_are_and_go_and_writes_nothing(shop: Shop, to: str, targets: list[int]) -> None:
    before = shop.server.zxid
    found = positions.preview(shop.coordinator, "orders", to)
    assert [(one.before, one.target) for one in found] == list(zip([80, 90, None], targets, strict=True))
    assert shop.server.zxid == before


def test_a_partition_without_a_leader_keeps_no_other_from_a_reset(shop: Shop) -> None:
    shop.kafka.leaderless = {1}
    assert len(positions.preview(shop.coordinator, "orders", "earliest", [0, 2])) == 2
    with pytest.raises(KafkaUnavailable, match=r"partition 1 of topic 'orders' has no leader; .*name other partitions"):
        positions.preview(shop.coordinator, "orders", "earliest")


def test_a_shift_counts_from_the_committed_offset_and_stops_at_the_ends_of_the_log(shop: Shop) -> None:
    shifted = {to: positions.preview(shop.coordinator, "orders", to, [0, 1]) for to in ("-20", "+15", "-100")}
    assert {to: [one.target for one in found] for to, found in shifted.items()} == {
        "-20": [60, 70],
        "+15": [95, 100],
        "-100": [10, 10],
    }
    assert [one.asked for one in shifted["+15"]] == [None, 105]


def test_a_duration_goes_back_from_now(shop: Shop) -> None:
    now_s = shop.clock.now()
    shop.kafka.append("orders", 0, 5, at_ms=int((now_s - 3600) * 1000))
    found = {to: positions.preview(shop.coordinator, "orders", to, [0])[0].target for to in ("PT1H", "PT59M59.9S")}
    assert found == {"PT1H": 100, "PT59M59.9S": 105}


def test_offsets_are_given_for_each_partition_and_the_history_keeps_them_as_numbers(shop: Shop) -> None:
    positions.reset(shop.coordinator, "orders", {0: 20, 2: 500}, why="", actor=PERSON)
    assert {p: seek.offset for p, seek in shop.node.seeks.items()} == {0: 20, 2: 100}
    record = history.records(shop.coordinator, "orders")[0]
    assert record.cause == "reset offsets of 2 partitions to given offsets (by ada)"
    assert (record.plan.was_at, record.plan.undoes) == ({0: 80}, "")


def test_the_offsets_of_a_file_are_shown_first_and_then_reset(shop: Shop) -> None:
    lines = partial(ACTIONS["import_offsets"].lines, shop.coordinator, {"offsets": "orders,0,20\n", "why": "x"}, PERSON)
    would = "orders: partition 0 would continue at 20, was at 80: 60 offsets would be read again"
    assert lines(dry_run=True) == [would]
    assert not shop.node.seeks
    assert lines(dry_run=False) == [would.replace("would continue", "continues").replace("would be", "are")]
    assert shop.node.seeks[0].offset == 20


def test_several_topics_are_checked_before_the_first_one_is_reset(shop: Shop) -> None:
    shop.kafka.create_topic("clicks", 1)
    add_topic(shop.coordinator, "clicks", "g", actor=PERSON)
    before = shop.server.zxid
    wishes = [positions.WantedReset("orders", {0: 20}), positions.WantedReset("clicks", {0: 0})]
    with pytest.raises(Refused, match="topic clicks is not planned yet"):
        positions.reset_all(shop.coordinator, wishes, why="", actor=PERSON)
    assert shop.server.zxid == before


def test_when_a_later_topic_moves_it_is_said_which_ones_are_reset(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def reset(_: Coordinator, topic: str, *rest: object, **options: object) -> tuple[positions.Shift, ...]:
        if written:
            raise LookAgain(f"topic {topic} moves")
        written.append(topic)
        return (positions.Shift(0, 80, 20),)

    monkeypatch.setattr(positions, "reset", reset)
    wishes = [positions.WantedReset("orders", {0: 20}), positions.WantedReset("orders", {1: 20})]
    with pytest.raises(LookAgain, match="topic orders moves; orders: done, so ask again without it"):
        positions.reset_all(shop.coordinator, wishes, why="", actor=PERSON)


def test_a_shift_reads_as_a_sentence() -> None:
    assert positions.Shift(3, 80, 10).text == "partition 3 continues at 10, was at 80: 70 offsets are read again"
    assert positions.Shift(3, 10, 80).text == "partition 3 continues at 80, was at 10: 70 offsets are left out"
    assert positions.Shift(3, 10, 10).text == "partition 3 continues at 10, was at 10: no change"
    assert positions.Shift(3, None, 10).text == "partition 3 continues at 10, nothing was committed"
    beyond = "partition 3 continues at 10, was at 9: 1 offset is left out; 12 was asked for, the log ends at 10"
    assert positions.Shift(3, 9, 10, 12).text == beyond
    assert positions.Shift(3, 10, 10, 0).effect == "no change; 0 was asked for, the log begins at 10"


def test_a_reset_restarts_its_partitions_alone_and_the_history_keeps_where_they_were(shop: Shop) -> None:
    before = shop.node
    positions.reset(shop.coordinator, "orders", "earliest", [0], why="wrong prices", actor=PERSON)
    node = shop.node
    assert node.seeks == {0: Seek(10, before.epoch + 1)}
    assert node.since == {**before.since, 0: before.epoch + 1}
    assert (node.assignments, shop.state) == (before.assignments, State.STARTING)
    record = history.records(shop.coordinator, "orders")[0]
    assert record.cause == "reset offsets of 1 partition to earliest (by ada: wrong prices)"
    assert record.actor == PERSON
    assert [(move.partition, move.kind) for move in record.moves] == [(0, MoveKind.RESTART)]
    assert [one.text for one in record.plan.moves] == [
        "partition 0 continues at 10, was at 80: 70 offsets are read again"
    ]
    shop.settle()
    assert shop.state is State.STABLE


@pytest.mark.parametrize("said", StateOnReset)
def test_a_reset_of_a_partition_with_state_asks_what_happens_to_the_state(shop: Shop, said: StateOnReset) -> None:
    shop.states = {0: StateSize(12, 400), 1: StateSize(0, 0)}
    asks = r"partition 0 has state \(12 rows\); say with --state, or in the form's field State, .*: keep .* or reset"
    with pytest.raises(BadOffsets, match=asks):
        positions.preview(shop.coordinator, "orders", "earliest")
    with pytest.raises(BadOffsets, match=asks):
        positions.reset(shop.coordinator, "orders", "earliest", why="", actor=PERSON)
    assert positions.preview(shop.coordinator, "orders", "earliest", [1]), "a state without rows"
    positions.reset(shop.coordinator, "orders", "earliest", [0], said, why="again", actor=PERSON)
    assert shop.node.seeks == {0: Seek(10, shop.node.epoch, said)}
    cause = history.records(shop.coordinator, "orders")[0].cause
    assert (
        cause
        == f"reset offsets of 1 partition to earliest, state {'kept' if said == 'keep' else 'reset'} (by ada: again)"
    )
    shop.settle()
    with pytest.raises(BadOffsets, match=asks):
        offset_undo.preview(shop.coordinator, "orders")
    assert offset_undo.undo(shop.coordinator, "orders", "", said, why="", actor=PERSON).shifts


def test_a_consumer_of_an_earlier_release_would_pass_over_what_happens_to_the_state(shop: Shop) -> None:
    shop.join("older", formats=(SEEKS, PROPERTIES, PACKED))
    with pytest.raises(
        BadOffsets, match="consumer older runs an earlier release, which cannot read whether a reset keeps"
    ):
        positions.reset(shop.coordinator, "orders", "20", [0], StateOnReset.KEEP, why="", actor=PERSON)
    positions.reset(shop.coordinator, "orders", "20", [0], why="", actor=PERSON)


def test_a_seek_that_has_served_goes_with_the_next_write_and_asks_for_none(shop: Shop) -> None:
    positions.reset(shop.coordinator, "orders", "20", [0], why="", actor=PERSON)
    shop.settle()
    assert shop.node.seeks, "nobody writes for that alone"
    epoch = shop.node.epoch
    positions.set_paused(shop.coordinator, "orders", [2], paused=True, actor=PERSON)
    shop.settle()
    assert (shop.node.seeks, shop.node.epoch) == ({}, epoch + 1)


def test_a_seek_of_a_partition_without_an_owner_waits_for_one(shop: Shop) -> None:
    shop.statuses.answers.clear()
    node = replace(shop.node, assignments={}, since={}, incarnations={})
    draft_free = encode_node(node)
    path = shop.paths.topic("orders")
    shop.zk.transact([put(path, draft_free, shop.zk.get(path).stat.version)])
    shop.statuses.answers["a"] = shop.answer
    shop.kafka.stored.clear()
    plan = Explanation(positions.RESET, "", "reset offsets")
    transitions.seek(shop.coordinator, "orders", {1: 33}, plan, PERSON, done=lambda: False)
    assert shop.node.seeks[1].offset == 33
    shop.settle()
    assert shop.node.assignments[1] == "a"
    assert shop.node.since[1] >= shop.node.seeks[1].epoch


def test_while_a_partition_is_moved_its_offsets_are_not_reset(shop: Shop) -> None:
    shop.starts("b")
    shop.clock.advance(10.0)
    transitions.plan(shop.coordinator, ["orders"], PERSON)
    (moving,) = shop.node.handoff
    stays = sorted(shop.node.assignments)
    before = shop.server.zxid
    with pytest.raises(LookAgain, match=f"partition {moving} is being moved; ask again when topic orders is Stable"):
        positions.reset(shop.coordinator, "orders", "30", [], why="", actor=PERSON)
    assert shop.server.zxid == before
    positions.reset(shop.coordinator, "orders", "30", stays, why="", actor=PERSON)
    assert sorted(shop.node.seeks) == stays


def test_a_topic_that_is_removed_is_left_alone(shop: Shop) -> None:
    remove_topic(shop.coordinator, "orders", PERSON)
    with pytest.raises(Refused, match="cannot be reset: topic orders is removed"):
        positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=PERSON)


def test_a_task_that_is_tried_again_resets_once(shop: Shop) -> None:
    assert positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=DAG_TASK)
    shop.settle()
    again = replace(DAG_TASK, attempt=2)
    assert positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=again) == ()
    other = replace(DAG_TASK, run="run-2")
    assert positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=other)


def test_two_attempts_of_one_task_at_once_reset_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shifts, epoch = positions.shifts_to, shop.node.epoch

    def overtaken(c: Coordinator, topic: str, to: str, partitions: Collection[int]) -> tuple[positions.Shift, ...]:
        monkeypatch.setattr(positions, "shifts_to", shifts)
        assert positions.reset(c, topic, to, partitions, why="", actor=replace(DAG_TASK, attempt=2))
        return shifts(c, topic, to, partitions)

    monkeypatch.setattr(positions, "shifts_to", overtaken)
    assert positions.reset(shop.coordinator, "orders", "earliest", [0], why="", actor=DAG_TASK) == ()
    assert shop.node.epoch == epoch + 1


@pytest.mark.parametrize(
    ("to", "partitions", "says"),
    [
        ("yesterday", [], "'yesterday' is no position; give earliest, latest, current, an offset"),
        ("2026-11-21T08:15:00", [], "has no zone"),
        ("-3", [], "partition 2 of topic 'orders' cannot be shifted by -3: nothing is committed; name the other"),
        ("-", [0], "'-' is no position: a shift is a whole number"),
        ("+1.5", [0], "is no position: a shift is a whole number"),
        ("P1Y", [0], "is no position: a duration is written as PnDTnHnMnS"),
        ("P999999999D", [0], "'P999999999D before now' lies before 1970"),
        (str(2**63), [0], "an offset is a whole number from 0 to 9223372036854775807"),
        ("0001-01-01T00:00:00+01:00", [], "lies before 1970"),
        ("1969-12-31T23:59:59.999Z", [], "lies before 1970"),
        ("9" * 5_000, [], r"9\.\.\.' is no position"),
        ("earliest", [3], "has partitions 0 to 2; name some of these"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(shop: Shop, to: str, partitions: list[int], says: str) -> None:
    before = shop.server.zxid
    with pytest.raises(Refused, match=says) as found:
        positions.reset(shop.coordinator, "orders", to, partitions, why="", actor=PERSON)
    assert "\n" not in str(found.value)
    assert shop.server.zxid == before


def test_a_reset_is_an_event_for_airflow_and_changes_no_configuration(shop: Shop) -> None:
    before = changes.observe(shop.coordinator, changes.Scope.TOPICS, lambda: None)
    config = configuration(shop.coordinator, "orders")
    positions.reset(shop.coordinator, "orders", "20", [0], why="wrong prices", actor=PERSON)
    after = changes.observe(shop.coordinator, changes.Scope.TOPICS, lambda: None)
    assert changes.differences(before, after) == ["topic orders changed"]
    assert configuration(shop.coordinator, "orders") == config


def test_paused_partitions_stay_where_they_are_and_the_history_says_so(shop: Shop) -> None:
    before = shop.node
    assert positions.would_pause(shop.coordinator, "orders", [], paused=True) == (0, 1, 2)
    positions.set_paused(shop.coordinator, "orders", [0, 2], paused=True, actor=PERSON)
    shop.settle()
    assert (shop.node.paused, shop.node.assignments, shop.node.since) == (
        frozenset({0, 2}),
        before.assignments,
        before.since,
    )
    assert history.records(shop.coordinator, "orders")[0].cause == "paused: partitions 0, 2"
    assert positions.would_pause(shop.coordinator, "orders", [], paused=True) == (1,)
    positions.set_paused(shop.coordinator, "orders", [], paused=False, actor=PERSON)
    shop.settle()
    assert history.records(shop.coordinator, "orders")[0].cause == "resumed: partitions 0, 2"
    assert configuration(shop.coordinator, "orders").paused == frozenset()


# A consumer of an older release --------------------------------------------------------------------------------------


def as_0_1_0(shop: Shop, consumer: str) -> None:
    """The registration of 0.1.0, without formats."""
    path = shop.paths.member(consumer)
    found = shop.zk.get(path)
    body = {name: value for name, value in json.loads(found.data).items() if name != "formats"}
    shop.zk.transact([SetData(path, json.dumps(body).encode())])


def test_a_reset_that_a_live_consumer_could_not_read_is_refused_and_so_is_its_dry_run(shop: Shop) -> None:
    as_0_1_0(shop, "a")
    before, says = (
        shop.server.zxid,
        r"consumer a runs 0\.1\.0, which cannot read that a partition is sent elsewhere; start",
    )
    for ask in (partial(positions.reset, why="", actor=PERSON), positions.preview):
        with pytest.raises(Refused, match=says):
            ask(shop.coordinator, "orders", "50", [1])
    assert shop.server.zxid == before


def test_while_an_offset_waits_nobody_who_could_not_read_it_is_given_anything(shop: Shop) -> None:
    positions.reset(shop.coordinator, "orders", "50", [1], why="", actor=PERSON)
    shop.statuses.answers.clear()  # start not confirmed
    shop.join("b")
    as_0_1_0(shop, "b")
    shop.statuses.answers["b"] = shop.answer
    shop.settle()
    assert set(shop.node.assignments.values()) == {"a"}
    shop.statuses.answers["a"] = shop.answer
    shop.settle()
    assert not shop.node.seeks
    assert set(shop.node.assignments.values()) == {"a", "b"}
