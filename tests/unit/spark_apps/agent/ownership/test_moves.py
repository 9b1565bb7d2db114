"""What a move of many partitions costs: requests that are saved, and those that come together."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs.codec import encode_release
from coordinator_tasks.core.model import Handoff, Move, MoveKind, Release, State, Token
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, Delete, Node, SetData, Watcher
from coordinator_tasks.service.loop import BUSY_S, HANDOFF_S, QUIET_S, _pause_s
from coordinator_tasks.service.transitions import Outcome, TopicReport
from spark_apps.agent.ownership.topic_ownership import TopicOwnership
from spark_apps.agent.ownership.work import OffsetFetch, perform
from spark_apps.agent.settings import Identity
from spark_apps.agent.zookeeper.watches import Watches
from tests.unit.spark_apps.agent.ownership.test_holder import GENERATION, TIMING, Stage, give, release_of
from tests.unit.spark_apps.agent.process.test_agent import Stage as Site

PATHS = Paths("c")


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def site() -> Site:
    return Site()


def reads_of(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes of partitions that the consumer reads from now on."""
    found: list[str] = []
    real = site.zk.get_many

    def get_many(paths: Sequence[str], watches: Sequence[Watcher | None] = ()) -> list[Node | None]:
        found.extend(path.rsplit("/", 1)[1] for path in paths)
        return real(paths, watches)

    monkeypatch.setattr(site.zk, "get_many", get_many)
    return found


def release_for(epoch: int) -> Release:
    return Release(epoch, "b", 1, 0, "g1", Token(1, 1, "g1"))


# Releases ------------------------------------------------------------------------------------------------------------


def test_what_was_owned_at_a_poll_is_released_without_a_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.own(0, 1)
    site.step()
    site.step(1.0)
    read = reads_of(site, monkeypatch)
    site.give(0, 1)
    site.step()
    assert read == []
    assert site.release(0) == Release(2, "a", 1, 0, "g1", Token(1, 1, "g1"))


def test_what_somebody_wrote_since_is_read_again_and_a_newer_release_stays(site: Site) -> None:
    site.own(0, 1)
    site.step()
    site.step(1.0)
    newer = Release(90, "z", 1, 7, "g1", Token(80, 1, "g1"))
    site.site.transact([SetData(PATHS.partition("t", 1), encode_release(newer))])
    site.give(0, 1)
    site.step()
    assert site.release(0) == Release(2, "a", 1, 0, "g1", Token(1, 1, "g1"))
    assert site.release(1) == newer
    assert not site.topics.ownerships["t"].releasing.outbox


def test_nothing_that_was_read_counts_for_another_generation(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.own(0)
    site.step()
    site.step(1.0)
    read = reads_of(site, monkeypatch)
    site.write(generation="g2", supersedes={"g1": site.node.epoch})
    site.step(1.0)
    assert "0" in read


def test_nothing_that_was_read_counts_for_another_session(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.own(0)
    site.step()
    site.step(1.0)
    read = reads_of(site, monkeypatch)
    site.zk.expire()
    site.step(1.0)
    assert "0" in read


def test_a_release_that_has_come_leaves_no_watch_behind(site: Site) -> None:
    site.own()
    site.write(handoff={0: Handoff("b", "a", 2)}, assignments={})
    site.step()
    release = release_for(2)
    site.site.transact([SetData(PATHS.partition("t", 0), encode_release(release))])
    site.step()
    assert site.runs == {0}
    site.woken = 0
    site.site.transact([SetData(PATHS.partition("t", 0), encode_release(release))])
    assert site.woken == 0


def test_a_write_that_is_no_release_for_us_does_not_end_the_watching(site: Site) -> None:
    site.own()
    site.write(handoff={0: Handoff("b", "a", 2)}, assignments={})
    site.step()
    site.site.transact([SetData(PATHS.partition("t", 0), encode_release(release_for(1)))])
    site.step()
    site.site.transact([SetData(PATHS.partition("t", 0), encode_release(release_for(2)))])
    site.step()
    assert site.runs == {0}


def test_a_node_that_vanished_while_it_is_watched_is_found_when_it_is_back(site: Site) -> None:
    site.own()
    site.write(handoff={0: Handoff("b", "a", 2)}, assignments={})
    site.step()
    site.site.transact([Delete(PATHS.partition("t", 0))])
    site.step()
    assert site.reported("assignments/t/0 has vanished")
    site.site.transact([Create(PATHS.partition("t", 0), encode_release(release_for(2)))])
    site.step()
    assert site.runs == {0}


def test_releases_of_one_giver_are_taken_together_also_before_their_watches_have_fired(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.own()
    site.write(handoff={p: Handoff("b" if p < 2 else "z", "a", 2) for p in range(3)}, assignments={})
    site.step()
    read = reads_of(site, monkeypatch)
    real = Watches.take
    monkeypatch.setattr(Watches, "take", lambda self, path: real(self, path) and not path.endswith("/t/1"))
    both = [SetData(PATHS.partition("t", p), encode_release(release_for(2))) for p in range(2)]
    site.site.transact(both)
    site.agent.step()
    assert read == ["0", "1"]
    site.step()
    assert site.runs == {0, 1}


def test_releases_wait_for_those_that_only_want_their_commit(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.ownership.batches.cover(stage.batch)
    stage.kafka.down = True
    give(stage, 0, 1)
    assert (set(stage.ownership.releasing.outbox), set(stage.ownership.releasing.posted)) == ({1}, set())
    stage.kafka.down = False
    stage.tick(TIMING.retry_s)
    assert set(stage.ownership.releasing.posted) == {0, 1}


def test_releases_do_not_wait_long_for_a_commit(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    stage.ownership.batches.cover(stage.batch)
    stage.kafka.down = True
    give(stage, 0, 1)
    stage.tick(TIMING.together_s)
    assert set(stage.ownership.releasing.posted) == {1}


def test_releases_do_not_wait_for_a_batch(stage: Stage) -> None:
    stage.own(0, 1)
    stage.hand_out(0, 30)
    give(stage, 0, 1)
    assert set(stage.ownership.releasing.posted) == {1}


# The topic's id ------------------------------------------------------------------------------------------------------


def asks_id(stage: Stage) -> list[tuple[tuple[int, ...], bool]]:
    """Perform what is due: the partitions of each look, and whether it asks for the topic's id."""
    found = []
    while (work := stage.ownership.requests.work()) is not None:
        if isinstance(work, OffsetFetch):
            found.append((work.partitions, work.asks_id))
        stage.ownership.requests.answer(perform(stage.offsets, "t", work))
    return found


def await_release(stage: Stage, topic_id: str = "id-1") -> None:
    """Partition 0 comes to us as soon as `b` has released it."""
    entry = Handoff("b", "a", stage.node.epoch + 1)
    stage.node = replace(stage.node, epoch=entry.epoch, handoff={0: entry}, topic_id=topic_id)
    stage.ownership.grants.on_node(stage.node)


def released(stage: Stage) -> dict[int, Release]:
    return {0: release_of(stage, 0, 40, Token(1, 6, GENERATION))}


def test_a_taker_asks_for_the_topics_id_while_it_waits_and_not_again(stage: Stage) -> None:
    await_release(stage)
    assert stage.ownership.requests.next_at() <= stage.clock.monotonic()
    assert asks_id(stage) == [((), True)]
    assert asks_id(stage) == []
    stage.ownership.grants.on_releases(released(stage))
    assert asks_id(stage)[0] == ((0,), False)


def test_an_id_that_was_told_long_ago_is_asked_for_again(stage: Stage) -> None:
    await_release(stage)
    assert asks_id(stage) == [((), True)]
    stage.clock.advance(TIMING.id_fresh_s + 0.001)
    stage.ownership.grants.on_releases(released(stage))
    assert asks_id(stage)[0] == ((0,), True)


def test_a_taker_does_not_go_on_with_the_id_of_another_topic(stage: Stage) -> None:
    await_release(stage, topic_id="id-0")
    assert asks_id(stage) == [((), True)]
    stage.ownership.grants.on_releases(released(stage))
    assert asks_id(stage)[0] == ((0,), True)
    assert stage.reported("created anew in Kafka")


def test_whoever_starts_without_a_release_asks_for_the_id(stage: Stage) -> None:
    await_release(stage)
    assert asks_id(stage) == [((), True)]
    epoch = stage.node.epoch + 1
    stage.node = replace(stage.node, epoch=epoch, handoff={}, assignments={0: "a"}, since={0: epoch})
    stage.ownership.grants.on_node(stage.node)
    assert asks_id(stage)[0] == ((0,), True)


# Commits -------------------------------------------------------------------------------------------------------------


def test_who_holds_many_partitions_commits_less_often(stage: Stage) -> None:
    stage.own(0, 1)
    stage.ownership = TopicOwnership("t", Identity("a", "c", 5), stage.clock, replace(TIMING, commit_each_s=0.2))
    stage.ownership.grants.on_node(stage.node)
    stage.tick(1.0)
    stage.hand_out(0, 10)
    stage.cover()
    assert stage.ownership.requests.next_at() == stage.clock.monotonic() + 2 * 0.2
    assert stage.committed(0).offset == 0
    stage.tick(2 * 0.2)
    assert stage.committed(0).offset == 10


# The plain loop ------------------------------------------------------------------------------------------------------


def report(outcome: Outcome, *kinds: MoveKind) -> TopicReport:
    moves = tuple(Move(n, "a", "b", kind) for n, kind in enumerate(kinds))
    return TopicReport("t", State.STABLE, State.CLOSING, outcome, "", moves)


@pytest.mark.parametrize(
    ("reports", "pause_s"),
    [
        ([], QUIET_S),
        ([report(Outcome.UNCHANGED)], QUIET_S),
        ([report(Outcome.WRITTEN, MoveKind.HANDOFF, MoveKind.START)], HANDOFF_S),
        ([report(Outcome.WRITTEN, MoveKind.HANDOFF), report(Outcome.UNCHANGED)], HANDOFF_S),
        ([report(Outcome.WRITTEN, MoveKind.HANDOFF, MoveKind.BARRIER)], BUSY_S),
        ([report(Outcome.WRITTEN, MoveKind.HANDOFF), report(Outcome.WAITING)], BUSY_S),
        ([report(Outcome.WRITTEN)], BUSY_S),
        ([report(Outcome.OVERTAKEN, MoveKind.HANDOFF)], BUSY_S),
    ],
    ids=[
        "nothing is managed",
        "nothing is due",
        "a plan of hand-offs",
        "a plan, and a topic that is at rest",
        "a barrier waits for us",
        "another topic waits",
        "the end of a rebalance",
        "a plan that was not written",
    ],
)
def test_the_loop_looks_later_at_what_consumers_do_among_themselves(reports: list[TopicReport], pause_s: float) -> None:
    assert _pause_s(reports) == pause_s
