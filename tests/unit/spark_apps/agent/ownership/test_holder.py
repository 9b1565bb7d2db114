"""The rules of ownership, one by one, on a broker in memory and a clock that stands still."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

import pytest

from coordinator_tasks.core.model import Committed, Handoff, Release, Seek, StartRule, Token, TopicNode
from coordinator_tasks.core.protocol.holding import Reading
from spark_apps.agent.ownership.first import FirstOffsets
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import Commit, Failed, FetchedOffsets, ListOffsets, OffsetFetch, perform
from spark_apps.agent.settings import Identity, Pacing, Timing
from spark_apps.records.batches import SMALL_RECORDS, BatchOffset, Range, plan_tasks
from spark_apps.records.options import LATEST, Starting, parse_options
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeGroupOffsets, FakeKafka, perform_due

TIMING = Timing(guard_s=2.0)
GENERATION = "g1"


class Stage:
    """Consumer `a` of incarnation 5 and topic `t` with four partitions of 100 records."""

    def __init__(self, consumer: str = "a", incarnation: int = 5, kafka: FakeKafka | None = None) -> None:
        self.clock = FakeClock()
        self.kafka = kafka or FakeKafka()
        if kafka is None:
            self.kafka.create_topic("t", 4)
            for partition in range(4):
                self.kafka.append("t", partition, 100)
        self.offsets = self.kafka.offsets("g")
        self.ownership = TopicOwnership("t", Identity(consumer, "c", incarnation), self.clock, TIMING)
        self.batch = 0
        self.node = TopicNode(
            "host:9092", "g", 0, GENERATION, "id-1", incarnations={"a": 5, "b": 6}, initial_partitions=4
        )

    def read(self, **changes: object) -> Reading:
        self.node = replace(self.node, epoch=self.node.epoch + 1, **changes)  # type: ignore[arg-type]
        reading = self.ownership.grants.on_node(self.node)
        self.tick()
        return reading

    def own(self, *partitions: int, epoch: int | None = None, guarded: frozenset[int] = frozenset()) -> None:
        since = self.node.epoch + 1 if epoch is None else epoch
        self.read(
            assignments=dict.fromkeys(partitions, "a"),
            since=dict.fromkeys(partitions, since),
            handoff={},
            guarded=guarded,
        )

    def tick(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        perform_due(self.ownership, self.offsets)

    def wait(self, seconds: float) -> None:
        """Time passes, and the agent looks often."""
        for _ in range(round(seconds / 0.1)):
            self.tick(0.1)

    def hand_out(self, partition: int, end: int) -> None:
        self.batch += 1
        held = self.ownership.holdings.ready()[partition]
        self.ownership.batches.hand_out(self.batch, (Range(partition, held.position, end, held.token.epoch),))

    def cover(self) -> None:
        self.ownership.batches.cover(self.batch)
        self.tick()

    def committed(self, partition: int) -> Committed:
        return self.offsets.committed("t", [partition])[partition]

    def commit(self, partition: int, offset: int, token: Token, topic_id: str = "id-1", owner: str = "z") -> None:
        self.offsets.commit("t", {partition: Committed(offset, token, owner, "c", topic_id)})

    @property
    def running(self) -> dict[int, bool]:
        return {p: one.closing for p, one in self.ownership.status().running.items()}

    def reported(self, text: str) -> bool:
        return any(text in one for one in self.ownership.reports.all())


@pytest.fixture
def stage() -> Stage:
    return Stage()


def give(stage: Stage, *partitions: int) -> None:
    """Partitions leave a for b by a hand-off."""
    left = {p: c for p, c in stage.node.assignments.items() if p not in partitions}
    epoch = stage.node.epoch + 1
    stage.read(
        assignments=left,
        since={p: stage.node.since[p] for p in left},
        handoff={p: Handoff("a", "b", epoch) for p in partitions},
    )


def take(stage: Stage, partition: int) -> None:
    stage.read(assignments={}, since={}, handoff={partition: Handoff("b", "a", stage.node.epoch + 1)})


def release_of(stage: Stage, partition: int, offset: int, token: Token) -> Release:
    return Release(stage.node.handoff[partition].epoch, "b", 6, offset, GENERATION, token)


# Acquisition ---------------------------------------------------------------------------------------------------------


def test_a_new_group_starts_also_where_every_request_takes_half_a_second(stage: Stage) -> None:
    stage.ownership.grants.on_node(replace(stage.node, epoch=1, assignments={1: "a"}, since={1: 1}))
    for _ in range(6):
        work = stage.ownership.requests.work()
        assert work is not None
        result = perform(stage.offsets, "t", work)
        stage.clock.advance(0.5)
        stage.ownership.requests.answer(result)
    assert stage.committed(1).offset == 0
    assert 1 in stage.ownership.holdings.ready()


def test_the_start_is_committed_under_the_new_token_before_anything_is_read(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=8)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={1: "a"}, since={1: 9}))
    while (work := stage.ownership.requests.work()) is not None:
        assert not stage.ownership.holdings.ready()
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
        if isinstance(work, Commit):
            break
    assert stage.committed(1) == Committed(0, Token(9, 5, GENERATION), "a", "c", "id-1")
    assert stage.ownership.holdings.ready().keys() == {1}


def start_of(stage: Stage) -> Commit:
    """Everything is answered up to the commit of a start, which is not."""
    while not isinstance(work := stage.ownership.requests.work(), Commit):
        assert work is not None
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return work


@pytest.mark.parametrize(
    "late", [Token(1, 5, GENERATION), Token(0, 4, GENERATION), None], ids=["own", "older", "foreign"]
)
def test_a_late_commit_does_not_set_a_start_back_whose_outcome_is_unknown(stage: Stage, late: Token | None) -> None:
    stage.commit(0, 100, Token(1, 5, GENERATION), owner="a")
    stage.node = replace(stage.node, epoch=8)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={0: "a"}, since={0: 9}))
    work = start_of(stage)
    perform(stage.offsets, "t", work)
    stage.ownership.requests.answer(Failed("no answer within 2 s"))
    assert stage.committed(0).offset == 100
    stage.offsets.commit("t", {0: Committed(83, late, "a", "c", "id-1" if late else "")})
    stage.tick(TIMING.fresh_s + 1)
    assert stage.committed(0) == Committed(100, Token(9, 5, GENERATION), "a", "c", "id-1")
    assert stage.ownership.holdings.ready()[0].position == 100


@pytest.mark.parametrize(
    "standing",
    [Committed(100, Token(1, 6, GENERATION), "z", "c", "id-1"), Committed(100, None)],
    ids=["an owner's", "foreign"],
)
def test_a_newer_commit_that_comes_to_light_sets_a_start_back_all_the_same(stage: Stage, standing: Committed) -> None:
    stage.offsets.commit("t", {0: standing})
    stage.node = replace(stage.node, epoch=8)
    stage.ownership.grants.on_node(replace(stage.node, epoch=9, assignments={0: "a"}, since={0: 9}))
    start_of(stage)
    stage.ownership.requests.answer(Failed("no answer within 2 s"))
    stage.commit(0, 60, Token(2, 7, GENERATION))
    stage.tick(TIMING.fresh_s + 1)
    assert stage.ownership.holdings.ready()[0].position == 60


def late_commit(stage: Stage, timely: bool = False) -> None:
    """It processes up to 50, and sleeps while that commit is on its way; another takes the partition over meanwhile."""
    stage.own(0, 1)
    stage.hand_out(0, 50)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(TIMING.commit_s)
    work = start_of(stage)
    assert work.offsets[0].offset == 50
    stage.commit(0, 40, Token(2, 6, GENERATION))
    stage.clock.advance(TIMING.fresh_s + (0 if timely else 1))
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    stage.hand_out(0, 70)
    stage.cover()


def test_after_a_commit_that_came_late_nothing_is_committed_until_a_newer_owner_could_write_its_own_again(
    stage: Stage,
) -> None:
    late_commit(stage)
    stage.wait(TIMING.cool_down_s - 0.1)
    assert stage.committed(0).offset == 50
    stage.commit(0, 45, Token(2, 6, GENERATION))
    stage.wait(1.0)
    assert stage.committed(0).offset == 45
    assert 0 not in stage.running
    assert stage.reported("was taken by z")


@pytest.mark.parametrize("failed", [False, True])
def test_what_passes_after_a_commit_that_came_late_is_committed_when_nobody_has_taken_the_partition(
    stage: Stage, failed: bool
) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 50)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(TIMING.commit_s)
    work = start_of(stage)
    stage.clock.advance(TIMING.fresh_s + 1)
    stage.ownership.requests.answer(Failed("no answer") if failed else perform(stage.offsets, "t", work))
    stage.hand_out(0, 70)
    stage.cover()
    stage.wait(TIMING.cool_down_s - 0.1)
    assert stage.committed(0).offset == (0 if failed else 50)
    assert stage.ownership.requests.next_at() - stage.clock.monotonic() == pytest.approx(0.1, abs=1e-6)
    stage.tick(0.11)
    assert stage.committed(0).offset == 70


def test_nothing_is_planned_on_a_look_that_no_commit_could_be_made_on(stage: Stage) -> None:
    planner, start = BatchPlanner(stage.ownership, stage.clock), BatchOffset("t")
    stage.own(0)
    stage.clock.advance(TIMING.fresh_s + 0.1)
    assert planner.offer(start) is None
    stage.commit(0, 40, Token(2, 6, GENERATION))
    stage.tick()
    assert planner.offer(start) is None
    assert stage.reported("was taken by z")
    assert stage.running == {}


def test_whoever_is_still_the_owner_plans_on_after_the_look(stage: Stage) -> None:
    planner, start = BatchPlanner(stage.ownership, stage.clock), BatchOffset("t")
    stage.own(0)
    stage.clock.advance(TIMING.fresh_s)
    assert stage.ownership.batches.readable().keys() == {0}
    stage.clock.advance(0.1)
    assert planner.offer(start) is None
    assert stage.ownership.holdings.ready().keys() == {0}, "it is held all the same"
    stage.tick()
    batch = planner.offer(start)
    assert batch is not None
    assert batch.ranges == {0: Range(0, 0, 100, 1)}


def test_after_a_commit_that_came_late_nothing_is_handed_out_until_a_newer_owner_could_write_its_own_again(
    stage: Stage,
) -> None:
    late_commit(stage)
    assert stage.ownership.batches.readable().keys() == {1}, (
        "no commit of partition 1 was late, and it was looked at just now"
    )
    stage.wait(TIMING.cool_down_s - 0.1)
    assert 0 not in stage.ownership.batches.readable()
    stage.wait(TIMING.look_s + 0.2)
    assert stage.ownership.batches.readable().keys() == {0, 1}


def test_an_older_entry_is_written_over_at_once_also_after_a_commit_that_came_late(stage: Stage) -> None:
    late_commit(stage)
    stage.commit(0, 60, Token(0, 4, GENERATION))
    stage.tick(TIMING.look_s)
    stage.tick()
    assert stage.committed(0) == Committed(70, Token(1, 5, GENERATION), "a", "c", "id-1")


def test_after_a_commit_in_time_the_next_one_waits_for_nothing(stage: Stage) -> None:
    late_commit(stage, timely=True)
    stage.wait(0.1)
    assert stage.committed(0).offset == 70


def test_a_hand_off_after_a_commit_that_came_late_waits_for_that_alone(stage: Stage) -> None:
    late_commit(stage)
    give(stage, 0)
    assert stage.ownership.status().running[0].closing
    stage.wait(TIMING.cool_down_s + 0.1)
    assert stage.committed(0).offset == 70
    assert 0 not in stage.running


def test_a_look_that_began_before_the_grant_says_nothing_of_it(stage: Stage) -> None:
    stage.own(0, 1)
    stage.clock.advance(1.0)
    fetch = stage.ownership.requests.work()
    assert isinstance(fetch, OffsetFetch)
    result = perform(stage.offsets, "t", fetch)
    stage.ownership.grants.on_node(replace(stage.node, epoch=7, assignments={0: "a", 1: "a"}, since={0: 1, 1: 7}))
    stage.commit(1, 50, Token(3, 6, GENERATION))
    stage.ownership.requests.answer(result)
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 50


@pytest.mark.parametrize(
    ("rule", "initial", "offset"),
    [
        pytest.param(StartRule.EARLIEST, 4, 0, id="earliest starts at the beginning"),
        pytest.param(StartRule.LATEST, 4, 100, id="latest starts at the end"),
        pytest.param(StartRule.LATEST, 1, 0, id="a partition that appeared later starts at its beginning anyhow"),
    ],
)
def test_without_a_committed_offset_the_start_rule_decides(
    stage: Stage, rule: StartRule, initial: int, offset: int
) -> None:
    stage.node = replace(stage.node, start=rule, initial_partitions=initial)
    stage.own(2)
    assert stage.committed(2).offset == offset


@pytest.mark.parametrize(
    ("starting", "offset"),
    [
        pytest.param(Starting(every=LATEST), 110, id="latest"),
        pytest.param(Starting(offsets={2: 7}), 7, id="an offset"),
        pytest.param(Starting(offsets={0: 7}), 0, id="an offset of another partition"),
        pytest.param(Starting(every_ms=5000), 100, id="one time for all"),
        pytest.param(Starting(timestamps_ms={2: 5000}), 100, id="a time"),
        pytest.param(Starting(timestamps_ms={0: 5000}), 0, id="a time of another partition"),
        pytest.param(Starting(every_ms=5001, else_latest=True), 110, id="no record so late, the end then"),
    ],
)
def test_the_options_of_the_source_go_before_the_start_rule(stage: Stage, starting: Starting, offset: int) -> None:
    stage.kafka.append("t", 2, 10, at_ms=5000)
    stage.ownership.open(FirstOffsets(starting))
    stage.own(2)
    assert stage.committed(2).offset == offset


def test_the_options_of_the_source_are_for_the_partitions_that_were_there_at_first(stage: Stage) -> None:
    stage.kafka.append("t", 2, 10, at_ms=5000)
    stage.node = replace(stage.node, initial_partitions=2)
    stage.ownership.open(FirstOffsets(Starting(every_ms=5000)))
    stage.own(1, 2)
    assert stage.committed(2).offset == 0, "a partition that appeared later starts at its beginning anyhow"
    assert stage.reported("partition 1 has no record")


def test_a_time_after_the_last_record_is_an_error_that_names_the_partition_and_starts_nothing(stage: Stage) -> None:
    stage.ownership.open(FirstOffsets(Starting(every_ms=1_700_000_000_000)))
    stage.own(2)
    stage.wait(1)
    assert stage.running == {}
    assert stage.reported("partition 2 has no record at or after 2023-11-14T22:13:20+00:00")


def test_rule_none_is_an_error_that_names_the_partition_and_starts_nothing(stage: Stage) -> None:
    stage.node = replace(stage.node, start=StartRule.NONE)
    stage.own(2)
    stage.wait(1)
    assert stage.running == {}
    assert stage.reported("partition 2 has no committed offset")


def test_a_commit_of_another_topic_id_is_ignored_and_reported(stage: Stage) -> None:
    stage.commit(2, 70, Token(90, 6, GENERATION), topic_id="id-0")
    stage.own(2)
    assert stage.committed(2).offset == 0
    assert stage.reported("another topic id")


def test_a_topic_that_was_created_anew_is_left_alone_and_reported(stage: Stage) -> None:
    stage.own(0)
    stage.kafka.create_topic("t", 4)
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.offsets.committed("t", [0]) == {}
    assert stage.reported("created anew in Kafka (topic id id-2, held is id-1)")


def test_a_topic_that_was_created_anew_is_noticed_although_a_commit_reached_the_new_one_first(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.kafka.create_topic("t", 4)
    stage.wait(0.1)
    stage.cover()
    assert stage.committed(0).topic_id == "id-1", "on a fresh look: nobody acts on it, since it names its topic id"
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.reported("created anew in Kafka (topic id id-2, held is id-1)")


def test_a_large_topics_id_is_asked_for_less_often_but_always_when_a_holding_begins(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    topic_id = stage.offsets.topic_id

    def counted(topic: str) -> str:
        asked.append(topic)
        return topic_id(topic)

    monkeypatch.setattr(type(stage.offsets), "topic_id", lambda _, topic: counted(topic))
    stage.node = replace(stage.node, initial_partitions=5000)
    stage.own(0)
    assert len(asked) == 1
    stage.wait(4.5)
    assert len(asked) == 1
    stage.own(0, 1)
    assert len(asked) == 2
    stage.wait(6.0)
    assert len(asked) == 3
    stage.kafka.create_topic("t", 4)
    stage.wait(6.0)
    assert stage.running == {}
    assert stage.reported("created anew in Kafka")


def asked_ends(stage: Stage, seconds: float) -> list[tuple[int, ...]]:
    """The partitions of each question for the logs' ends in this time."""
    found = []
    for _ in range(round(seconds / 0.01)):
        stage.clock.advance(0.01)
        stage.ownership.requests.want_ends()
        while (work := stage.ownership.requests.work()) is not None:
            if isinstance(work, ListOffsets):
                found.append(work.partitions)
            stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return found


def test_the_ends_of_many_partitions_are_asked_for_less_often_but_those_of_a_new_one_at_once() -> None:
    kafka = FakeKafka()
    kafka.create_topic("t", 401)
    stage = Stage(kafka=kafka)
    stage.node = replace(stage.node, initial_partitions=401)
    stage.own(*range(400))
    assert len(asked_ends(stage, 1.95)) == 10  # at once, and every 0.2 s
    stage.node = replace(stage.node, epoch=stage.node.epoch + 1)
    changed = replace(
        stage.node, assignments=dict.fromkeys(range(401), "a"), since={**stage.node.since, 400: stage.node.epoch}
    )
    stage.ownership.grants.on_node(changed)
    assert asked_ends(stage, 0.01) == [(400,)]


def test_a_release_from_before_the_topic_was_created_anew_starts_nothing_in_the_new_one(stage: Stage) -> None:
    take(stage, 0)
    stage.ownership.grants.on_releases({0: release_of(stage, 0, 40, Token(0, 6, GENERATION))})
    stage.kafka.create_topic("t", 4)
    stage.kafka.append("t", 0, 100)
    stage.node = replace(stage.node, topic_id="id-2")
    stage.offsets = stage.kafka.offsets("h")
    stage.own(0)
    stage.wait(1.0)
    assert stage.ownership.holdings.ready()[0].position == 0
    assert stage.committed(0).offset == 0


def test_an_earlier_commit_of_our_own_that_comes_late_is_written_over(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.cover()
    stage.wait(0.2)
    stage.commit(0, 0, Token(1, 5, GENERATION), owner="a")
    stage.wait(1.0)
    assert stage.committed(0) == Committed(30, Token(1, 5, GENERATION), "a", "c", "id-1")


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed first", "learned from the node"])
def test_a_topic_created_anew_and_managed_again_is_run_also_under_the_old_holding(stage: Stage, noticed: bool) -> None:
    stage.own(0, epoch=1)
    stage.kafka.create_topic("t", 4)
    if noticed:
        stage.wait(1.0)
    stage.node = replace(stage.node, topic_id="id-2", group_id="h", generation="g2", supersedes={GENERATION: 9})
    stage.offsets = stage.kafka.offsets("h")
    stage.own(0, epoch=1)
    stage.wait(2.0)
    assert stage.running == {0: False}
    assert stage.committed(0).topic_id == "id-2"


def test_a_newer_token_at_acquisition_keeps_the_partition_closed(stage: Stage) -> None:
    stage.commit(2, 70, Token(90, 6, GENERATION))
    stage.own(2)
    assert stage.running == {}
    assert stage.committed(2).token == Token(90, 6, GENERATION)


def test_a_guarded_start_is_read_only_after_its_commit_stayed_our_own_for_the_commit_timeout(stage: Stage) -> None:
    stage.own(0, guarded=frozenset({0}))
    stage.wait(1.9)
    assert not stage.ownership.holdings.ready()
    stage.wait(0.7)
    assert stage.ownership.holdings.ready().keys() == {0}


def test_a_guard_lasts_longer_than_a_commit_may_be_on_its_way() -> None:
    assert Timing().guard_s > Timing().commit_timeout_s


@pytest.mark.parametrize(("survivors", "goes_on"), [(40, 40), (5, 10)], ids=["further", "an earlier one, late"])
def test_a_guarded_start_goes_on_from_what_a_survivor_commits_meanwhile_and_waits_anew(
    stage: Stage, survivors: int, goes_on: int
) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.node = replace(stage.node, epoch=8)
    stage.own(0, guarded=frozenset({0}))
    stage.wait(1.5)
    stage.commit(0, survivors, Token(1, 6, GENERATION))
    stage.wait(1.5)
    assert not stage.ownership.holdings.ready()
    assert stage.committed(0) == Committed(goes_on, Token(9, 5, GENERATION), "a", "c", "id-1")
    stage.wait(1.5)
    assert stage.ownership.holdings.ready()[0].position == goes_on


def test_another_incarnation_runs_and_releases_nothing() -> None:
    stage = Stage(incarnation=7)
    stage.own(0)
    give(stage, 0)
    assert stage.running == {}
    assert stage.ownership.releasing.outbox == {}


# Stopping and releasing ----------------------------------------------------------------------------------------------


def test_a_partition_runs_until_a_later_start_covers_its_batch_then_is_committed_closed_and_released(
    stage: Stage,
) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    give(stage, 0)
    assert stage.running == {0: True, 1: False}
    assert stage.ownership.releasing.outbox == {}
    assert stage.ownership.holdings.ready().keys() == {1}
    stage.ownership.batches.cover(stage.batch)
    assert stage.ownership.releasing.outbox == {}, "the commit comes before the release"
    stage.tick()
    assert stage.committed(0).offset == 30
    assert stage.running == {1: False}
    assert stage.ownership.releasing.outbox == {0: Release(2, "a", 5, 30, GENERATION, Token(1, 5, GENERATION))}


def test_a_release_waits_for_an_acknowledged_commit(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    give(stage, 0)
    stage.kafka.down = True
    stage.cover()
    stage.wait(3)
    assert stage.running == {0: True}
    assert stage.ownership.releasing.outbox == {}
    stage.kafka.down = False
    stage.wait(2)
    assert stage.ownership.releasing.outbox[0].offset == 30


def test_a_partition_that_has_no_batch_is_released_at_once(stage: Stage) -> None:
    stage.own(0)
    give(stage, 0)
    assert stage.ownership.releasing.outbox[0].offset == 0


def test_a_giver_that_does_not_run_the_partition_releases_it_with_the_committed_offset(stage: Stage) -> None:
    stage.commit(3, 60, Token(1, 6, GENERATION))
    stage.node = replace(stage.node, epoch=4)
    give(stage, 3)
    assert stage.ownership.releasing.outbox == {3: Release(5, "a", 5, 60, GENERATION, Token(1, 6, GENERATION))}


def test_a_giver_without_any_committed_offset_releases_where_it_would_have_started(stage: Stage) -> None:
    stage.node = replace(stage.node, start=StartRule.LATEST)
    give(stage, 3)
    assert stage.ownership.releasing.outbox[3].offset == 100


def test_an_isolated_consumer_stops_everything_and_releases_nothing(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.ownership.grants.on_isolated(True)
    give(stage, 0, 1)
    stage.cover()
    assert stage.running == {}
    assert stage.ownership.releasing.outbox == {}
    assert stage.ownership.status().acted_epoch == 2
    assert stage.committed(0).offset == 30


def test_what_a_lost_isolation_has_ended_begins_again_when_the_node_is_there_and_says_so(stage: Stage) -> None:
    stage.own(0)
    stage.ownership.grants.on_isolated(True)
    stage.tick()
    stage.ownership.grants.on_isolation_lost()
    stage.wait(1)
    assert stage.running == {}
    assert stage.ownership.grants.on_node(stage.node) is Reading.SAME
    stage.wait(1)
    assert stage.running == {0: False}


def test_what_is_granted_and_neither_ready_nor_closing_is_starting(stage: Stage) -> None:
    assert not stage.ownership.holdings.starting
    stage.node = replace(stage.node, epoch=1, assignments={0: "a"}, since={0: 1})
    stage.ownership.grants.on_node(stage.node)
    assert stage.ownership.holdings.starting
    stage.wait(1)
    assert not stage.ownership.holdings.starting
    stage.read(assignments={0: "a", 1: "a"}, since={0: 1, 1: 2})
    assert stage.running == {0: False, 1: False}
    assert not stage.ownership.holdings.starting


def test_a_start_that_is_taken_back_is_not_starting(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=1, assignments={0: "a"}, since={0: 1})
    stage.ownership.grants.on_node(stage.node)
    work = stage.ownership.requests.work()
    assert work is not None
    stage.ownership.grants.on_node(replace(stage.node, epoch=2, assignments={}, since={}))
    assert not stage.ownership.holdings.starting


def test_an_isolated_consumer_looks_before_its_last_commit_and_leaves_a_newer_owner_alone(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.commit(0, 50, Token(9, 6, GENERATION))
    stage.ownership.grants.on_isolated(True)
    stage.cover()
    assert stage.committed(0).offset == 50


def test_an_unwritten_release_is_dropped_when_the_next_plan_no_longer_asks_for_it(stage: Stage) -> None:
    stage.own(0)
    give(stage, 0)
    assert stage.ownership.releasing.outbox
    stage.own(0)
    assert stage.ownership.releasing.outbox == {}
    assert stage.ownership.holdings.ready().keys() == {0}


def test_an_unwritten_release_gives_way_to_that_of_a_newer_hand_off(stage: Stage) -> None:
    stage.own(0)
    give(stage, 0)
    older = stage.ownership.releasing.outbox[0].epoch
    give(stage, 0)
    assert stage.ownership.releasing.outbox[0].epoch == stage.node.epoch == older + 1


def test_a_written_release_is_not_written_again(stage: Stage) -> None:
    stage.own(0)
    give(stage, 0)
    stage.ownership.releasing.note(0, 2)
    stage.read()
    assert stage.ownership.releasing.outbox == {}


def test_a_holding_older_than_since_is_stopped_and_started_again_from_the_committed_position(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.own(0)
    assert stage.running == {0: True}
    stage.cover()
    stage.tick()
    held = stage.ownership.holdings.ready()[0]
    assert (held.position, held.token.epoch) == (30, 2)


def test_a_removed_topic_means_stop_and_commit(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.read(removed=True)
    stage.cover()
    assert stage.running == {}
    assert stage.committed(0).offset == 30


# Take-over -----------------------------------------------------------------------------------------------------------


def test_the_taker_starts_at_the_released_offset_under_the_epoch_of_the_entry(stage: Stage) -> None:
    stage.commit(1, 40, Token(0, 6, GENERATION))
    take(stage, 1)
    stage.wait(1)
    assert stage.running == {}
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(1, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 55
    assert stage.committed(1).token == Token(1, 5, GENERATION)


def test_the_taker_prefers_a_committed_position_with_a_token_as_new_as_the_release(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=4)
    stage.commit(1, 60, Token(3, 6, GENERATION))
    take(stage, 1)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(3, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == 60


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda r: replace(r, epoch=r.epoch - 1), id="of an older entry"),
        pytest.param(lambda r: replace(r, epoch=r.epoch + 1), id="of a newer entry"),
        pytest.param(lambda r: replace(r, by="z"), id="by another than the giver"),
        pytest.param(lambda r: replace(r, generation="g0"), id="of another generation"),
    ],
)
def test_a_release_that_is_not_the_entrys_own_starts_nothing(stage: Stage, spoil: Callable[[Release], Release]) -> None:
    stage.node = replace(stage.node, epoch=4)
    take(stage, 1)
    stage.ownership.grants.on_releases({1: spoil(release_of(stage, 1, 55, Token(1, 6, GENERATION)))})
    stage.tick()
    assert stage.running == {}
    assert 1 in stage.ownership.grants.awaited()


def test_nothing_restarts_when_the_hand_off_becomes_an_assignment(stage: Stage) -> None:
    take(stage, 1)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(0, 6, GENERATION))})
    stage.tick()
    stage.hand_out(1, 70)
    stage.own(1, epoch=1)
    assert stage.running == {1: False}


# Fencing -------------------------------------------------------------------------------------------------------------


def test_an_idle_owner_looks_at_least_once_a_second_and_stops_at_a_newer_token(stage: Stage) -> None:
    stage.own(0, 1)
    stage.commit(0, 20, Token(9, 6, GENERATION))
    stage.wait(1.0)
    assert stage.running == {1: False}
    assert stage.committed(0) == Committed(20, Token(9, 6, GENERATION), "z", "c", "id-1")
    assert stage.reported("partition 0 was taken by z")


def test_a_fenced_partition_neither_commits_nor_releases_and_its_grant_is_not_taken_up_again(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.commit(0, 20, Token(9, 6, GENERATION))
    stage.wait(1.0)
    assert stage.running == {0: True}, "its last batch is still under way"
    stage.cover()
    give(stage, 0)
    stage.wait(1.0)
    assert stage.running == {}
    assert stage.ownership.releasing.outbox == {}
    assert stage.committed(0).offset == 20


def test_an_entry_newer_than_the_fence_is_released_with_the_committed_offset_not_our_own(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.commit(0, 20, Token(9, 6, GENERATION))
    stage.wait(1.0)
    stage.node = replace(stage.node, epoch=11)
    give(stage, 0)
    stage.cover()
    assert stage.ownership.releasing.outbox[0].offset == 20


def test_a_newer_grant_lifts_the_fence(stage: Stage) -> None:
    stage.own(0)
    stage.commit(0, 20, Token(9, 6, GENERATION))
    stage.wait(1.0)
    stage.node = replace(stage.node, epoch=11)
    stage.own(0)
    assert stage.ownership.holdings.ready()[0].position == 20


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(Token(0, 6, GENERATION), id="an older token"),
        pytest.param(None, id="no token"),
        pytest.param(Token(2**40, 6, GENERATION), id="a token of an epoch that the topic cannot have reached"),
        pytest.param(Token(2**53 - 1, 6, GENERATION), id="the largest token"),
    ],
)
def test_an_overwritten_entry_is_reported_and_written_again(stage: Stage, token: Token | None) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.cover()
    stage.wait(0.2)
    if token is None:
        stage.kafka.stored["g", "t", 0] = (5, "somebody's own words")
    else:
        stage.commit(0, 5, token)
    stage.wait(1.2)
    assert stage.committed(0) == Committed(30, Token(1, 5, GENERATION), "a", "c", "id-1")
    assert stage.reported("overwritten")


def test_a_process_that_slept_looks_before_it_commits(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.clock.advance(60)
    stage.commit(0, 80, Token(9, 6, GENERATION))
    stage.cover()
    assert stage.committed(0).offset == 80
    assert stage.running == {}


def test_a_look_whose_answer_came_late_allows_no_last_commit(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    give(stage, 0)
    stage.clock.advance(TIMING.look_s)
    work = stage.ownership.requests.work()
    assert isinstance(work, OffsetFetch)
    answer = perform(stage.offsets, "t", work)
    stage.commit(0, 80, Token(9, 6, GENERATION))
    stage.clock.advance(TIMING.fresh_s + 0.1)
    stage.ownership.requests.answer(answer)
    stage.cover()
    assert stage.committed(0).offset == 80
    assert stage.running == {}


def test_a_topic_created_anew_during_a_look_shows_its_new_id(stage: Stage) -> None:
    stage.own(0)

    class Anew(FakeGroupOffsets):
        """The topic is created anew between the two requests of a fetch."""

        def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
            found = super().committed(topic, partitions)
            stage.kafka.create_topic(topic, 4)
            return found

        def topic_id(self, topic: str) -> str:
            found = super().topic_id(topic)
            stage.kafka.create_topic(topic, 4)
            return found

    fetched = perform(Anew(stage.kafka, "g"), "t", OffsetFetch((0,), 1, "id-1", {}, asks_id=True))
    assert isinstance(fetched, FetchedOffsets)
    assert fetched.entries[0].topic_id == "id-1"
    assert fetched.topic_id == "id-2"


# Commits -------------------------------------------------------------------------------------------------------------


def test_only_what_a_start_covers_is_committed_and_never_backwards(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.wait(0.5)
    assert stage.committed(0).offset == 0
    stage.cover()
    stage.wait(0.2)
    assert stage.committed(0).offset == 30
    stage.ownership.batches.cover(0)
    stage.wait(0.2)
    assert stage.committed(0).offset == 30


def test_what_passes_while_a_commit_is_on_its_way_is_committed_after_it(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(TIMING.commit_s)
    work = start_of(stage)
    assert work.offsets[0].offset == 30
    stage.hand_out(0, 50)
    stage.ownership.batches.cover(stage.batch)
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    stage.wait(TIMING.commit_s + 0.1)
    assert stage.committed(0).offset == 50


def test_a_batch_of_an_older_holding_covers_nothing_of_the_present_one(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.ownership.query_ended("died")
    stage.tick()
    assert stage.committed(0).offset == 0
    assert stage.running == {}


def test_idle_partitions_are_committed_again_before_kafka_forgets_them(stage: Stage) -> None:
    stage.own(0)
    stage.kafka.stored.clear()
    stage.tick(TIMING.recommit_s + 1)
    stage.wait(0.5)
    assert stage.committed(0).offset == 0


def test_a_group_with_subscribed_members_is_named_and_nothing_is_read(stage: Stage) -> None:
    stage.kafka.members["g"] = ("intruder",)
    stage.own(0)
    stage.wait(2)
    assert not stage.ownership.holdings.ready()
    assert stage.reported("intruder")
    stage.kafka.members.clear()
    stage.wait(2)
    assert stage.ownership.holdings.ready()
    assert not stage.reported("intruder")


def test_a_partition_whose_commits_fail_for_too_long_stops_and_says_so(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.kafka.members["g"] = ("intruder",)
    stage.cover()
    for _ in range(130):
        stage.tick(1.0)
    assert not stage.ownership.holdings.ready()
    assert stage.reported("partition 0 stopped: its commits failed")


def test_what_cannot_be_committed_as_kafka_is_away_stops_as_well_and_says_so(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.kafka.down = True
    stage.cover()
    for _ in range(round(TIMING.give_up_s) + 10):
        stage.tick(1.0)
    assert stage.ownership.holdings.ready().keys() == {1}, "of what waits for no commit nothing is at stake"
    assert stage.reported("partition 0 stopped: its commits failed for 120 s")
    stage.kafka.down = False
    stage.wait(2)
    assert stage.committed(0).offset == 30
    assert stage.ownership.status().running.keys() == {1}


def test_an_outage_that_ends_in_time_stops_nothing_then_or_later(stage: Stage) -> None:
    stage.own(0)
    for end in (30, 60):
        stage.hand_out(0, end)
        stage.kafka.down = True
        stage.cover()
        for _ in range(round(TIMING.give_up_s) - 10):
            stage.tick(1.0)
        stage.kafka.down = False
        stage.wait(2)
        assert stage.committed(0).offset == end
        assert stage.ownership.holdings.ready()


def test_a_commit_that_failed_is_not_sent_again_once_there_is_a_newer_one(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 30)
    stage.ownership.batches.cover(stage.batch)
    stage.clock.advance(0.1)
    first = stage.ownership.requests.work()
    assert isinstance(first, Commit)
    assert first.offsets[0].offset == 30
    stage.hand_out(0, 60)
    stage.ownership.batches.cover(stage.batch)
    stage.ownership.requests.answer(Failed("no answer"))
    sent = []
    for _ in range(20):
        stage.clock.advance(0.1)
        work = stage.ownership.requests.work()
        if isinstance(work, Commit):
            sent.append(work.offsets[0].offset)
        if work is not None:
            stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    assert sent == [60]
    assert stage.committed(0).offset == 60


# The accepted node --------------------------------------------------------------------------------------------------


def test_an_older_epoch_and_a_foreign_generation_are_kept_out_and_reported(stage: Stage) -> None:
    stage.node = replace(stage.node, epoch=5)
    stage.own(0)
    assert stage.ownership.grants.on_node(replace(stage.node, epoch=4, assignments={}, since={})) is Reading.OLDER
    assert stage.running == {0: False}
    foreign = replace(stage.node, epoch=50, generation="g2", assignments={}, since={})
    assert stage.ownership.grants.on_node(foreign) is Reading.FOREIGN
    assert stage.reported("kept")
    assert stage.ownership.grants.on_node(replace(foreign, supersedes={GENERATION: 6})) is Reading.ACT
    assert stage.running == {}


@pytest.mark.parametrize(
    "stray",
    [
        pytest.param(lambda stage: stage.ownership.grants.on_node(replace(stage.node, epoch=4)), id="older"),
        pytest.param(lambda stage: stage.ownership.grants.on_node(replace(stage.node, generation="g2")), id="foreign"),
        pytest.param(lambda stage: stage.ownership.grants.on_unreadable("it has vanished"), id="vanished"),
    ],
)
def test_while_another_node_stands_there_what_runs_goes_on_and_nothing_is_begun(
    stage: Stage, stray: Callable[[Stage], object]
) -> None:
    stage.node = replace(stage.node, epoch=5)
    stage.own(0)
    assignments, since, epoch = stage.node.assignments, stage.node.since, stage.node.epoch + 1
    stage.read(assignments=assignments, since=since, handoff={1: Handoff("b", "a", epoch)})
    stray(stage)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 55, Token(1, 6, GENERATION))})
    stage.wait(1)
    assert stage.running == {0: False}
    assert stage.ownership.grants.on_node(stage.node) is Reading.SAME
    stage.tick()
    assert stage.running == {0: False, 1: False}


def test_progress_stands_still_only_where_there_is_lag(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 100)
    stage.cover()
    for _ in range(10):
        stage.ownership.requests.want_ends()
        stage.tick(60)
    assert stage.ownership.batches.stalled(300) == ()
    stage.kafka.append("t", 0, 1)
    for _ in range(6):
        stage.ownership.requests.want_ends()
        stage.tick(60)
    assert stage.ownership.batches.stalled(300) == (0,)


# Seeks ---------------------------------------------------------------------------------------------------------------


def seek(stage: Stage, partition: int, offset: int) -> None:
    epoch = stage.node.epoch + 1
    stage.read(since={**stage.node.since, partition: epoch}, seeks={partition: Seek(offset, epoch)})


def test_a_seek_is_done_by_stopping_and_starting_anew_and_only_once(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 80)
    seek(stage, 0, 20)
    assert stage.running[0], "the batch under way comes first"
    assert stage.committed(0).offset == 0
    stage.cover()
    assert stage.committed(0) == Committed(20, Token(2, 5, GENERATION), "a", "c", "id-1")
    assert {p: h.position for p, h in stage.ownership.holdings.ready().items()} == {0: 20, 1: 0}
    stage.hand_out(0, 50)
    stage.cover()
    stage.tick(0.1)
    assert stage.committed(0).offset == 50
    stage.own(0, 1, epoch=9)
    assert stage.ownership.holdings.ready()[0].position == 50, "a later start goes on from what is committed"


def test_a_seek_counts_where_nothing_is_committed(stage: Stage) -> None:
    stage.read(assignments={2: "a"}, since={2: 3}, seeks={2: Seek(70, 3)})
    assert stage.committed(2).offset == 70


@pytest.mark.parametrize(("acquired", "begins"), [(6, 30), (7, 90)], ids=["before the seek", "after the seek"])
def test_a_taker_goes_on_at_the_seek_unless_its_giver_had_started_there(
    stage: Stage, acquired: int, begins: int
) -> None:
    stage.commit(1, 90, Token(acquired, 6, GENERATION))
    stage.node = replace(stage.node, epoch=8, seeks={1: Seek(30, 7)})
    take(stage, 1)
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 90, Token(acquired, 6, GENERATION))})
    stage.tick()
    assert stage.ownership.holdings.ready()[1].position == begins


def test_what_a_survivor_commits_from_before_a_seek_does_not_undo_it(stage: Stage) -> None:
    stage.commit(0, 60, Token(2, 6, GENERATION))
    stage.node = replace(stage.node, epoch=8, seeks={0: Seek(10, 5)})
    stage.own(0, guarded=frozenset({0}))
    stage.commit(0, 65, Token(2, 6, GENERATION))
    stage.wait(6.0)
    assert stage.committed(0).offset == 10
    assert stage.ownership.holdings.ready()[0].position == 10


# Positions that are not in the log ------------------------------------------------------------------------------------


def opened(stage: Stage, *, fails: bool) -> BatchPlanner:
    stage.ownership.open(fail_on_data_loss=fails)
    return planner_of(stage)


def measured(stage: Stage, planner: BatchPlanner, start: BatchOffset, seconds: float = 0.1) -> BatchOffset | None:
    """The next batch, with the log's bounds looked at after `seconds`."""
    planner.offer(start)
    stage.tick(seconds)
    return planner.offer(start)


@pytest.mark.parametrize(
    ("rule", "goes_on_at"), [(StartRule.EARLIEST, 40), (StartRule.LATEST, 100)], ids=["earliest", "latest"]
)
def test_a_committed_offset_that_retention_has_passed_is_reported_and_the_start_rule_decides(
    stage: Stage, rule: StartRule, goes_on_at: int
) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.kafka.expire("t", 0, 40)
    planner = opened(stage, fails=False)
    stage.node = replace(stage.node, epoch=4, start=rule)
    stage.own(0)
    measured(stage, planner, BatchOffset("t"))
    batch = measured(stage, planner, BatchOffset("t"))
    assert stage.committed(0).offset == goes_on_at
    assert (batch.ranges[0].start if batch is not None else 100) == goes_on_at
    assert stage.reported("partition 0: offsets 10 to 39 are gone, the log begins at 40: goes on at")


def test_a_look_before_the_new_start_is_committed_does_not_bring_back_the_lost_one(stage: Stage) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.kafka.expire("t", 0, 40)
    opened(stage, fails=False)
    stage.ownership.grants.on_node(replace(stage.node, epoch=4, assignments={0: "a"}, since={0: 4}))
    work = stage.ownership.requests.work()
    while work is not None and not isinstance(work, ListOffsets):
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
        work = stage.ownership.requests.work()
    assert work is not None
    stage.clock.advance(1.0)  # a broker that takes its time: the next look is due
    stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    stage.tick()
    assert stage.committed(0).offset == 40


@pytest.mark.parametrize(
    ("fails", "rule"), [(True, StartRule.EARLIEST), (False, StartRule.NONE)], ids=["failOnDataLoss", "rule none"]
)
def test_lost_records_stop_their_partition_alone_and_nothing_of_them_is_committed(
    stage: Stage, fails: bool, rule: StartRule
) -> None:
    stage.commit(0, 10, Token(1, 6, GENERATION))
    stage.commit(1, 10, Token(1, 6, GENERATION))
    stage.kafka.expire("t", 0, 40)
    planner = opened(stage, fails=fails)
    stage.node = replace(stage.node, epoch=4, start=rule)
    stage.own(0, 1)
    measured(stage, planner, BatchOffset("t"))
    stage.tick(1.0)
    assert stage.ownership.holdings.ready().keys() == {1}
    assert stage.committed(0).offset == 10
    assert stage.reported("offsets 10 to 39 are gone, the log begins at 40: stopped; reset its offsets")
    stage.kafka.expire("t", 0, 0)
    stage.own(0, 1)
    assert 0 in stage.ownership.holdings.ready(), "asked to start again, it tries again"


def test_a_position_behind_the_logs_end_is_believed_only_after_a_while(stage: Stage) -> None:
    stage.commit(0, 150, Token(1, 6, GENERATION))
    planner = opened(stage, fails=False)
    stage.node = replace(stage.node, epoch=4, start=StartRule.LATEST)
    stage.own(0)
    for _ in range(4):
        assert measured(stage, planner, BatchOffset("t"), 1.0) is None
    assert stage.committed(0).offset == 150
    for _ in range(3):
        measured(stage, planner, BatchOffset("t"), 1.0)
    stage.tick()
    assert stage.committed(0) == Committed(100, Token(5, 5, GENERATION), "a", "c", "id-1")
    assert stage.reported("its position 150 is behind the log's end 100")


def test_a_leader_that_knows_less_for_a_moment_changes_nothing(stage: Stage) -> None:
    stage.commit(0, 150, Token(1, 6, GENERATION))
    planner = opened(stage, fails=True)
    stage.node = replace(stage.node, epoch=4)
    stage.own(0)
    for _ in range(4):
        measured(stage, planner, BatchOffset("t"), 1.0)
    stage.kafka.append("t", 0, 60)
    for _ in range(8):
        measured(stage, planner, BatchOffset("t"), 1.0)
    assert stage.ownership.batches.outstanding is not None
    assert not stage.reported("behind the log's end")


def test_answers_that_come_late_say_nothing_of_what_was_read_meanwhile(stage: Stage) -> None:
    stage.own(0)
    for round_number in range(1, 9):
        stage.ownership.requests.want_ends()
        work = stage.ownership.requests.work()
        while work is not None and not isinstance(work, ListOffsets):
            stage.ownership.requests.answer(perform(stage.offsets, "t", work))
            work = stage.ownership.requests.work()
        assert work is not None
        end = perform(stage.offsets, "t", work)
        stage.kafka.append("t", 0, 10)  # the answer is on its way while these come, are read and pass
        stage.clock.advance(1.0)
        stage.hand_out(0, 100 + 10 * round_number)
        stage.ownership.batches.cover(stage.batch)
        stage.ownership.requests.answer(end)
    assert not stage.reported("behind the log's end")
    assert 0 in stage.ownership.holdings.ready()


def test_retention_that_catches_up_while_a_batch_is_read_is_said(stage: Stage) -> None:
    planner = opened(stage, fails=False)
    stage.own(0)
    batch = planner.offer(BatchOffset("t"))
    assert batch is not None
    stage.kafka.expire("t", 0, 30)
    stage.tick(11.0)
    measured(stage, planner, batch)
    stage.tick(11.0)
    assert stage.reported("partition 0: offsets 0 to 29 may have been gone before they were read")
    assert stage.committed(0).offset == 100


def test_retention_of_what_was_read_long_ago_is_no_loss(stage: Stage) -> None:
    planner = opened(stage, fails=False)
    stage.own(0)
    batch = planner.offer(BatchOffset("t"))
    assert batch is not None
    measured(stage, planner, batch, 11.0)
    stage.kafka.expire("t", 0, 100)
    measured(stage, planner, batch, 11.0)
    assert not stage.ownership.reports.all()


# Planning ------------------------------------------------------------------------------------------------------------


def planner_of(stage: Stage, **pacing: object) -> BatchPlanner:
    return BatchPlanner(stage.ownership, stage.clock, replace(Pacing(), **pacing))  # type: ignore[arg-type]


def test_a_batch_is_paced_but_a_started_partition_goes_at_once(stage: Stage) -> None:
    planner = planner_of(stage)
    stage.own(0)
    first = planner.offer(BatchOffset("t"))
    assert first is not None
    stage.kafka.append("t", 0, 5)
    stage.tick(0.1)
    planner.offer(first)
    stage.tick()
    assert planner.offer(first) is None
    stage.own(0, 1, epoch=1)
    second = planner.offer(first)
    assert second is not None
    assert 1 in second.ranges
    assert planner.offer(first) == second, "the same start gives the same batch until it has passed"


def test_a_stop_is_served_by_the_covering_start_alone(stage: Stage) -> None:
    planner = planner_of(stage)
    stage.own(0)
    batch = planner.offer(BatchOffset("t"))
    assert batch is not None
    give(stage, 0)
    assert planner.offer(batch) is None
    stage.tick()
    assert stage.ownership.releasing.outbox[0].offset == 100


def test_a_batch_is_bounded_in_proportion_to_what_waits(stage: Stage) -> None:
    stage.own(0, 1)
    batch = planner_of(stage, max_offsets=50).offer(BatchOffset("t"))
    assert batch is not None
    assert {p: one.size for p, one in batch.ranges.items()} == {0: 25, 1: 25}


def sizes_of(stage: Stage, planner: BatchPlanner, seconds: Callable[[int], float]) -> Iterator[dict[int, int]]:
    """What the batches read of each partition, where there is always more; one of n records takes `seconds` of n."""
    offset = BatchOffset("t")
    while True:
        for partition in range(4):
            stage.kafka.append("t", partition, 1_000_000)
        planner.ownership.requests.want_ends()
        stage.tick(0.1)
        batch = planner.offer(offset)
        assert batch is not None
        sizes = {p: one.size for p, one in batch.ranges.items()}
        yield sizes
        stage.tick(seconds(sum(sizes.values())))
        offset = batch


def test_a_backlog_keeps_no_partition_waiting_that_comes_to_us(stage: Stage) -> None:
    stage.own(0)
    batches = sizes_of(stage, planner_of(stage, batch_interval_s=0.0), lambda _: 10.0)
    assert next(batches) == {0: SMALL_RECORDS}, "the first batch with a partition is a small one"
    assert next(batches)[0] > 1_000_000
    before = next(batches)[0]
    stage.read(handoff={1: Handoff("b", "a", stage.node.epoch + 1)})
    awaiting = next(batches)
    assert awaiting == {0: int(before / 10.1 * 0.3)}
    stage.ownership.grants.on_releases({1: release_of(stage, 1, 0, Token(0, 6, GENERATION))})
    with_it = next(batches)
    assert with_it.keys() == {0, 1}
    assert sum(with_it.values()) < SMALL_RECORDS + 2
    assert next(batches)[1] > 1_000_000, "the newcomer is one of them now"


def test_a_partition_is_expected_from_its_grant_until_it_is_ready(stage: Stage) -> None:
    stage.own(0)
    assert not stage.ownership.holdings.expecting
    stage.own(0, 1, guarded=frozenset({1}))
    assert stage.ownership.holdings.expecting
    stage.wait(TIMING.guard_s + 0.5)
    assert not stage.ownership.holdings.expecting


def test_a_bounded_batch_grows_until_it_takes_as_long_as_it_may(stage: Stage) -> None:
    stage.own(0)
    stage.read(handoff={1: Handoff("b", "a", stage.node.epoch + 1)})
    # Any batch costs 0.2 s in all, and 100,000 records a second more.
    batches = sizes_of(stage, planner_of(stage, batch_interval_s=0.0), lambda size: 0.1 + size / 100_000)
    sizes = [next(batches)[0] for _ in range(28)]
    assert sizes[0] == SMALL_RECORDS
    assert sizes == sorted(sizes)
    assert 0.29 < 0.2 + sizes[-1] / 100_000 <= 0.3


def test_a_giver_that_hangs_slows_nobody_down_for_good(stage: Stage) -> None:
    stage.own(0)
    stage.read(handoff={1: Handoff("b", "a", stage.node.epoch + 1)})
    batches = sizes_of(stage, planner_of(stage, batch_interval_s=0.0), lambda _: 1.0)
    bounded = [next(batches)[0] for _ in range(9)]
    assert max(bounded) == SMALL_RECORDS
    assert next(batches)[0] == SMALL_RECORDS
    assert next(batches)[0] > 1_000_000


def configured(stage: Stage, **options: str) -> BatchPlanner:
    planner = planner_of(stage)
    planner.configure(parse_options({"subscribe": "t", **options}))
    return planner


def test_a_batch_waits_for_enough_records_or_for_its_time_and_is_not_stalled_meanwhile(stage: Stage) -> None:
    planner = configured(stage, minOffsetsPerTrigger="50", maxTriggerDelay="10m")
    stage.own(0)
    first = planner.offer(BatchOffset("t"))
    assert first is not None, "what was just started waits for nothing"
    stage.kafka.append("t", 0, 49)
    stage.tick(1.0)
    for _ in range(6):
        assert planner.offer(first) is None
        stage.tick(60.0)
        planner.offer(first)
        assert stage.ownership.batches.stalled(300) == ()
    stage.kafka.append("t", 0, 1)
    planner.offer(first)
    stage.tick(1.0)
    second = planner.offer(first)
    assert second is not None
    assert second.ranges[0].size == 50
    stage.kafka.append("t", 0, 1)
    planner.offer(second)
    stage.tick(599.0)
    assert planner.offer(second) is None
    stage.tick(2.0)
    assert planner.offer(second) is not None, "its time is over"


def test_a_partition_that_waits_for_more_records_is_released_at_once(stage: Stage) -> None:
    planner = configured(stage, minOffsetsPerTrigger="50")
    stage.own(0)
    first = planner.offer(BatchOffset("t"))
    assert first is not None
    stage.kafka.append("t", 0, 5)
    stage.tick(1.0)
    assert planner.offer(first) is None
    give(stage, 0)
    stage.tick()
    assert stage.ownership.releasing.outbox[0].offset == 100


def test_the_offset_carries_into_how_many_tasks_it_is_cut(stage: Stage) -> None:
    stage.own(0)
    batch = configured(stage, minPartitions="4").offer(BatchOffset("t"))
    assert batch is not None
    assert [task[0].size for task in plan_tasks(batch)] == [25, 25, 25, 25]


def test_until_now_is_what_was_there_when_each_partition_was_taken_up(stage: Stage) -> None:
    planner = planner_of(stage)
    planner.until_goal = True
    assert not stage.ownership.batches.caught_up, "nothing has been given to it yet"
    stage.own(0)
    first = planner.offer(BatchOffset("t"))
    assert first is not None
    stage.kafka.append("t", 0, 50)
    stage.tick(1.0)
    assert not stage.ownership.batches.caught_up
    planner.offer(first)
    stage.tick(1.0)
    assert planner.offer(first) is None, "what came later is another's"
    assert stage.ownership.batches.caught_up
    stage.own(0, 1, epoch=1)
    assert not stage.ownership.batches.caught_up, "it was given one more"
    second = planner.offer(first)
    assert second is not None
    assert {p: one.end for p, one in second.ranges.items()} == {1: 100}
    planner.offer(second)
    assert stage.ownership.batches.caught_up


def test_progress_reaches_from_what_has_passed_to_the_logs_end(stage: Stage) -> None:
    planner = planner_of(stage)
    assert planner.report() is None
    stage.own(0)
    batch = planner.offer(BatchOffset("t"))
    assert batch is not None
    reported = planner.report()
    assert reported is not None
    assert reported.ranges == {0: Range(0, 0, 100, 0)}
    planner.offer(batch)
    reported = planner.report()
    assert reported is not None
    assert reported.ranges[0].size == 0


def test_paused_partitions_are_held_and_count_as_started_but_are_not_read(stage: Stage) -> None:
    stage.read(assignments={0: "a"}, since={0: 1}, paused=frozenset({0}))
    assert planner_of(stage).offer(BatchOffset("t")) is None
    assert stage.ownership.status().running[0].started
