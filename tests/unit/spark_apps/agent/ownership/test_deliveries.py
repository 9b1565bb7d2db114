"""The three deliveries and the calls of the application, rule by rule, on brokers and a sink in memory."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Seek, StateOnReset, Token
from spark_apps.agent.ownership.listening import Happening, Telling
from spark_apps.agent.ownership.phases import Phase
from spark_apps.agent.ownership.planner import BatchPlanner
from spark_apps.agent.ownership.work import Failed, SinkClaim, perform
from spark_apps.agent.settings import Terms
from spark_apps.delivery import SinkEntry, SinkStep, SinkUnavailable, Writer
from spark_apps.records.batches import BatchOffset, Range
from tests.unit.spark_apps.agent.ownership.stage import OLD, Stage, asked, give, planner_of


class MemorySink:
    """Positions in memory; away while `down`."""

    def __init__(self) -> None:
        self.positions: dict[int, SinkEntry] = {}
        self.down = False
        self.silent: set[int] = set()
        self.partition_counts: list[int] = []
        self.states: dict[int, StateOnReset] = {}
        self.first_epochs: dict[int, int] = {}

    def claim(self, writer: Writer, tokens: Mapping[int, Token], forget: Mapping[int, int]) -> dict[int, SinkEntry]:
        assert (writer.cluster, writer.topic, writer.topic_id) == ("c", "t", "id-1")
        self.partition_counts.append(writer.partition_count)
        self.states |= writer.states
        if self.down:
            raise SinkUnavailable("the sink is away")
        for partition, token in tokens.items():
            found = self.positions.get(partition)
            if found is None or not found.refuses(token, writer.consumer):
                kept = found is not None and found.token.epoch >= forget.get(partition, 0)
                self.positions[partition] = SinkEntry(token, writer.consumer, found.offset if found and kept else None)
        return {
            p: replace(self.positions[p], first_epoch=self.first_epochs.get(p)) for p in tokens if p not in self.silent
        }

    def write(self, writer: Writer, steps: Mapping[int, SinkStep], rows: pa.Table) -> dict[int, SinkEntry]:
        raise NotImplementedError


class Play(Stage):
    """A stage with another delivery of the topic."""

    def __init__(self, terms: Terms) -> None:
        super().__init__()
        self.sink = MemorySink()
        self.ownership.agree(terms)

    def tell(self, wanted: Mapping[int, int] | None = None) -> Telling | None:
        """The application's thread: take the pending calls, and answer."""
        telling = self.ownership.listening.telling()
        if telling is not None:
            self.ownership.listening.told(telling, wanted or {})
            self.tick()
        return telling


@pytest.fixture
def once() -> Play:
    return Play(Terms(claims=True))


# Exactly once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_sink", [0, 10, 60], ids=["at its beginning", "behind the group", "ahead of the group"])
def test_the_position_of_the_sink_wins_over_kafkas(once: Play, in_sink: int) -> None:
    once.sink.positions[2] = SinkEntry(OLD, "z", in_sink)
    once.commit(2, 30, OLD)
    once.own(2)
    assert once.ownership.holdings.ready()[2].position == in_sink
    assert once.committed(2).offset == in_sink
    assert once.sink.positions[2] == SinkEntry(once.ownership.holdings.ready()[2].token, "a", in_sink)


def test_the_sink_learns_of_added_partitions_within_a_second(once: Play) -> None:
    once.own(2)
    before = once.ownership.writer.partition_count
    once.kafka.add_partitions("t", 2)
    once.wait(1.0)
    once.own(2, 3)
    assert (once.ownership.writer.partition_count, once.sink.partition_counts) == (before + 2, [before, before + 2])


def test_the_partitions_of_a_topic_that_was_created_again_are_not_those_of_the_former_topic(once: Play) -> None:
    once.own(2)
    once.kafka.create_topic("t", 9)
    once.wait(1.0)
    assert once.ownership.writer.partition_count == 0


def test_a_partition_that_a_person_has_sent_elsewhere_begins_there_and_only_once(once: Play) -> None:
    once.sink.positions[2] = SinkEntry(OLD, "z", 40)
    once.commit(2, 40, OLD)
    once.node = replace(once.node, seeks={2: Seek(7, 2)}, epoch=1)
    once.own(2)
    held = once.ownership.holdings.ready()[2]
    assert (held.position, once.committed(2).offset) == (7, 7)
    once.sink.positions[2] = SinkEntry(held.token, "a", 9)
    once.own(2)
    assert once.ownership.holdings.ready()[2].position == 9


def test_what_a_person_wants_with_the_state_reaches_the_sink(once: Play) -> None:
    once.node = replace(once.node, seeks={1: Seek(7, 2), 2: Seek(7, 2, StateOnReset.RESET)}, epoch=1)
    once.own(1, 2)
    assert once.sink.states == {2: StateOnReset.RESET}


@pytest.mark.parametrize(
    ("first_epoch", "kept", "begins"),
    [(2, True, False), (1, True, True), (2, False, True), (None, True, True)],
    ids=["another database", "claimed here before, nothing written", "the former owner kept no state", "no state"],
)
def test_a_partition_with_state_elsewhere_is_not_read(first_epoch: int | None, kept: bool, begins: bool) -> None:
    play = Play(Terms(claims=True, keeps_state=True))
    play.commit(2, 30, OLD, keeps_state=kept)
    if first_epoch is not None:
        play.sink.first_epochs[2] = first_epoch
    play.own(2)
    assert (2 in play.ownership.holdings.ready()) == begins
    assert begins != play.reported("z has kept state up to offset 30, and this consumer's database has no state")
    assert play.committed(2).keeps_state == (begins or kept)
    if not begins:
        play.node = replace(play.node, seeks={2: Seek(30, play.node.epoch + 1, StateOnReset.RESET)})
        play.own(2)
        assert play.ownership.holdings.ready()[2].position == 30


def test_a_position_that_the_log_no_longer_has_stops_the_partition_whatever_the_options_say(once: Play) -> None:
    once.sink.positions[2] = SinkEntry(OLD, "z", 40)
    once.kafka.expire("t", 2, 60)
    once.ownership.open(fail_on_data_loss=False)
    once.own(2)
    once.wait(1)
    assert once.ownership.holdings.ready() == {}
    assert once.reported("offsets 40 to 59 are gone, the log begins at 60: stopped; reset its offsets")


def test_nothing_is_read_or_committed_while_the_sink_is_away_and_the_fence_is_looked_at(once: Play) -> None:
    once.sink.down = True
    once.own(2)
    once.wait(3)
    assert once.ownership.holdings.ready() == {}
    assert once.offsets.committed("t", [2]) == {}
    assert once.reported("the sink is away")
    once.commit(2, 5, Token(99, 1, "g1"), owner="b")
    once.wait(1)
    assert once.reported("was taken by b")
    assert once.ownership.grants.idle
    once.sink.down = False
    once.own(3)
    once.wait(1)
    assert once.ownership.holdings.ready().keys() == {3}
    assert not once.reported("the sink is away")


def test_the_status_says_which_partitions_wait_for_a_sink_that_is_away(once: Play) -> None:
    once.sink.down = True
    once.own(2)
    once.wait(3)
    (found,) = once.ownership.status().failures
    assert (found.partitions, found.why, found.away) == ((2,), "the sink is away", True)
    assert found.tries > 1
    assert 0 < found.for_s <= 3
    once.sink.down = False
    once.wait(1)
    assert once.ownership.status().failures == ()


@pytest.mark.parametrize(("why", "away"), [("SinkUnavailable: no answer", True), ("KeyError: 'x'", False)])
def test_a_batch_that_fails_says_whether_the_sink_is_away(once: Play, why: str, away: bool) -> None:
    once.own(2)
    held = once.ownership.holdings.ready()[2]
    once.ownership.batches.hand_out(1, [Range(2, held.position, held.position + 1, held.token.epoch)])
    once.ownership.batches.fail([2], why)
    assert [(one.why, one.away) for one in once.ownership.failing.told()] == [(why, away)]
    once.ownership.failing.reading_failed(why)
    assert {one.away for one in once.ownership.failing.told()} == {away}


def test_a_good_partition_of_a_failed_batch_is_not_reported_at_an_offset(once: Play) -> None:
    once.own(1, 2)
    failing, token = once.ownership.failing, once.ownership.holdings.held[1].token
    failing.fail([Range(1, 0, 9, token.epoch), Range(2, 0, 9, token.epoch)], "ValueError: bad")
    (both,) = failing.told()
    assert both.partitions == (1, 2)
    failing.fail([Range(1, 0, 1, token.epoch)], "ValueError: bad")
    assert [failure.partitions for failure in failing.told()] == [(2,), (1,)]
    untried, bad = failing.sentences()
    assert untried.startswith("partition 2 waits, not yet tried by itself: ValueError: bad")
    assert bad.startswith("partition 1 waits at offset 0: ValueError: bad")


def test_a_claim_that_the_sink_refuses_ends_the_holding_and_is_not_repeated(once: Play) -> None:
    newer = SinkEntry(Token(77, 3, "g0"), "b", 40)
    once.sink.positions[2] = newer
    once.own(1, 2)
    assert once.ownership.holdings.ready().keys() == {1}
    assert once.reported("partition 2 stands in the sink under b (epoch 77, incarnation 3): stopped")
    assert once.sink.positions[2] == newer
    assert once.offsets.committed("t", [2]) == {}
    once.wait(2)
    assert 2 not in once.running


def test_a_partition_that_the_sink_leaves_out_is_asked_for_again_and_not_at_once(once: Play) -> None:
    once.sink.silent = {2}
    once.own(1, 2)
    assert once.ownership.holdings.ready().keys() == {1}
    assert once.ownership.requests.work() is None
    once.sink.silent = set()
    once.wait(2)
    assert once.ownership.holdings.ready().keys() == {1, 2}


def test_a_claim_of_a_holding_that_has_ended_meanwhile_says_nothing_of_the_next(once: Play) -> None:
    once.ownership.grants.on_node(replace(once.node, epoch=1, assignments={2: "a"}, since={2: 1}))
    result = perform(once.offsets, "t", asked(once, SinkClaim), once.sink)
    once.ownership.grants.on_node(replace(once.node, epoch=2))
    once.ownership.grants.on_node(replace(once.node, epoch=3, assignments={2: "a"}, since={2: 3}))
    once.ownership.requests.answer(result)
    (phase,) = [held.phase for held in once.ownership.holdings.held.values()]
    assert phase is Phase.CLAIMING


def test_what_the_sink_left_out_of_a_batch_is_neither_committed_nor_released(once: Play) -> None:
    once.own(1, 2)
    once.hand_out(2, 20)
    assert once.ownership.batches.adds() == {2: SinkStep(once.ownership.holdings.ready()[2].token, 0, 20)}
    once.ownership.batches.refuse({2: SinkEntry(Token(9, 6, "g1"), "b", 0)})
    give(once, 2)
    once.cover()
    assert once.committed(2).offset == 0
    assert once.ownership.releasing.outbox == {}
    assert once.running == {1: False}


def test_without_a_sink_a_claim_fails_and_raises_nothing(once: Play) -> None:
    once.ownership.grants.on_node(replace(once.node, epoch=1, assignments={2: "a"}, since={2: 1}))
    assert isinstance(perform(once.offsets, "t", asked(once, SinkClaim)), Failed)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ZeroDivisionError(), "the sink failed to take claims (ZeroDivisionError"),
        (SystemExit(), "the sink failed to take claims (SystemExit"),
        (Refused("the table is away"), "KPC-010: the table is away"),
    ],
    ids=["an error", "an exit", "an error with a code"],
)
def test_a_sink_of_the_applications_own_that_raises_anything_is_asked_again(
    once: Play, monkeypatch: pytest.MonkeyPatch, error: BaseException, told: str
) -> None:
    def broken(*_: object) -> dict[int, SinkEntry]:
        raise error

    with monkeypatch.context() as changed:
        changed.setattr(once.sink, "claim", broken)
        once.own(2)
    assert once.reported(told)
    once.wait(2)
    assert once.ownership.holdings.ready().keys() == {2}


# At most once --------------------------------------------------------------------------------------------------------


@pytest.fixture
def first() -> Play:
    return Play(Terms(commit_first=True))


def waiting(play: Play, *partitions: int) -> tuple[BatchPlanner, BatchOffset]:
    """A planner whose first batch, with all these partitions, waits for its commit, and the offset before the batch."""
    play.own(*partitions)
    play.tell()
    play.wait(1)
    planner = planner_of(play, batch_interval_s=0.0)
    start = planner.initial()
    assert planner.offer(start) is None
    return planner, start


def test_a_batch_is_offered_when_its_ends_are_committed_and_not_before(first: Play) -> None:
    planner, start = waiting(first, 1, 2)
    assert first.committed(1).offset == 0
    first.kafka.down = True
    first.wait(1)
    assert planner.offer(start) is None
    first.kafka.down = False
    first.wait(1)
    assert (first.committed(1).offset, first.committed(2).offset) == (100, 100)
    batch = planner.offer(start)
    assert {p: (one.start, one.end) for p, one in batch.ranges.items()} == {1: (0, 100), 2: (0, 100)}
    first.commit(2, 100, Token(99, 1, "g1"), owner="b")
    first.wait(1)
    assert planner.offer(start) == batch  # under way: never changed any more
    assert planner.offer(batch) is None
    first.kafka.append("t", 1, 10)
    first.wait(1)
    assert planner.offer(batch) is None
    first.wait(1)
    again = planner.offer(batch)
    assert {p: (one.start, one.end) for p, one in again.ranges.items()} == {1: (100, 110)}


def test_what_is_taken_from_us_before_its_commit_is_left_out_of_the_batch(first: Play) -> None:
    planner, start = waiting(first, 1, 2)
    first.commit(2, 0, Token(99, 1, "g1"), owner="b")
    first.ownership.holdings.look_soon()
    first.wait(1)
    batch = planner.offer(start)
    assert batch.ranges.keys() == {1}
    assert first.running == {1: False}


def test_a_batch_of_which_nothing_is_left_is_none_and_its_number_is_used_again(first: Play) -> None:
    planner, start = waiting(first, 2)
    first.commit(2, 0, Token(99, 1, "g1"), owner="b")
    first.ownership.holdings.look_soon()
    first.wait(1)
    assert planner.offer(start) is None
    assert first.ownership.grants.idle
    first.own(1)
    first.wait(1)
    assert planner.offer(start) is None
    first.wait(1)
    batch = planner.offer(start)
    assert (batch.batch, batch.ranges.keys()) == (1, {1})


# The listener --------------------------------------------------------------------------------------------------------


@pytest.fixture
def heard() -> Play:
    return Play(Terms(listening=True))


def test_an_assigned_partition_begins_when_the_listener_has_been_told_and_where_it_wants(heard: Play) -> None:
    heard.commit(2, 30, OLD)
    heard.own(1, 2)
    heard.wait(2)
    assert heard.ownership.holdings.ready() == {}
    assert (heard.committed(2).offset, heard.running) == (30, {})
    telling = heard.tell({2: 17, 3: 5})
    assert (telling.happening, telling.offsets) == (Happening.ASSIGNED, {1: 0, 2: 30})
    assert {p: held.position for p, held in heard.ownership.holdings.ready().items()} == {1: 0, 2: 17}
    assert heard.committed(2).offset == 17
    assert heard.reported("gave an offset for partition 3, of which it was not told")
    assert heard.ownership.listening.telling() is None


@pytest.mark.parametrize("wanted", [-1, 2**63, "7", True, None])
def test_a_start_that_is_no_offset_is_left_out_and_reported(heard: Play, wanted: object) -> None:
    heard.own(2)
    heard.tell({2: wanted})  # type: ignore[dict-item]
    assert heard.ownership.holdings.ready()[2].position == 0
    assert heard.reported("partition 2: the listener's start")


def test_a_partition_is_revoked_after_its_last_batch_and_before_its_last_commit_and_release(heard: Play) -> None:
    heard.own(1, 2)
    heard.tell()
    heard.hand_out(2, 20)
    give(heard, 2)
    assert heard.ownership.listening.telling() is None  # the batch is still under way
    heard.cover()
    heard.wait(1)
    assert (heard.committed(2).offset, heard.ownership.releasing.outbox) == (0, {})
    telling = heard.tell()
    assert (telling.happening, telling.offsets) == (Happening.REVOKED, {2: 20})
    assert heard.committed(2).offset == 20
    assert heard.ownership.releasing.outbox[2].offset == 20
    assert heard.running == {1: False}


def test_a_fenced_partition_is_lost_and_so_is_all_of_an_isolated_consumer(heard: Play) -> None:
    heard.own(1, 2)
    heard.tell()
    heard.commit(2, 0, Token(99, 1, "g1"), owner="b")
    heard.wait(1)
    telling = heard.tell()
    assert (telling.happening, telling.offsets.keys()) == (Happening.LOST, {2})
    heard.ownership.grants.on_isolated(True)
    telling = heard.tell()
    assert (telling.happening, telling.offsets.keys()) == (Happening.LOST, {1})
    assert heard.ownership.grants.idle


def test_a_partition_that_is_taken_while_its_listener_is_told_is_revoked_without_a_start(heard: Play) -> None:
    heard.own(2)
    telling = heard.ownership.listening.telling()
    give(heard, 2)
    heard.ownership.listening.told(telling, {2: 50})
    heard.tick()
    revoked = heard.tell()
    assert (revoked.happening, revoked.offsets) == (Happening.REVOKED, {2: 0})
    assert heard.offsets.committed("t", [2]) == {}
    assert heard.ownership.listening.telling() is None


def test_a_holding_that_is_granted_anew_is_told_its_end_before_the_next_begins(heard: Play) -> None:
    heard.own(2)
    telling = heard.ownership.listening.telling()
    heard.own(2)
    heard.ownership.listening.told(telling, {2: 50})
    told = [heard.tell(), heard.tell(), heard.tell()]
    assert [one and (one.happening, one.offsets) for one in told] == [
        (Happening.REVOKED, {2: 0}),
        (Happening.ASSIGNED, {2: 0}),
        None,
    ]
    assert heard.ownership.holdings.ready().keys() == {2}
