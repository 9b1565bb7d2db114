"""The record at the end of a rebalance is completed with the pauses: by any process, any number of times, with one effect."""

import itertools
from collections.abc import Callable, Container
from dataclasses import replace

import pytest

from coordinator_tasks.core.codecs.codec import decode_release, encode_release
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import (
    Ago,
    Answer,
    ConsumerStatus,
    Ending,
    LastPass,
    Member,
    Pauses,
    Stall,
    State,
    Taken,
    TopicStatus,
)
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.plan import pauses
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.service.run import upkeep
from coordinator_tasks.service.run.loop import _Measures
from tests.stored_pauses import stored_pauses
from tests.world.site import Site, stable_site

TAKEN = Taken(5, 1.0, 0.01, 0.02)


def told(
    site: Site,
    consumer: str,
    taken: Taken | None,
    stalls: dict[int, Stall] | None = None,
    of: Container[int] = range(100),
) -> None:
    """From now on this consumer reports the take-up times of its partitions among these, and the stalls of the kept partitions."""

    def said(one: TopicStatus) -> TopicStatus:
        running = {p: replace(each, taken=taken if p in of else None) for p, each in one.running.items()}
        return replace(one, running=running, stalls=stalls or {})

    site.tells(consumer, said)


def pauses_of(site: Site) -> Pauses | None:
    return site.history()[-1].pauses


def version(site: Site) -> int:
    record = site.history()[-1]
    return site.zk.get(site.paths.record("orders", record.sequence)).stat.version


@pytest.fixture
def site() -> Site:
    """Consumer c has joined a and b and has one partition of four; no report of the move yet."""
    made = stable_site("a", "b")
    made.clock.advance(100)
    made.starts("c")
    made.settles()
    made.clock.advance(3)
    return made


def moved(site: Site) -> int:
    (move,) = next(record.moves for record in reversed(site.history()) if record.moves)
    return move.partition


def time_release(site: Site, ago: Ago) -> None:
    """The giver's release with times; ZooKeeper stamps the release now."""
    path = site.paths.partition("orders", moved(site))
    release = decode_release(path, site.zk.get(path).data)
    assert release is not None
    site.zk.transact([SetData(path, encode_release(replace(release, ago=ago)))])


def test_what_nobody_has_said_yet_is_missing_and_comes_later(site: Site) -> None:
    assert pauses.complete(site.coordinator, ["orders"]) == ("orders",)
    assert pauses_of(site) == Pauses((), 1)
    before = version(site)
    assert pauses.complete(site.coordinator, ["orders"]) == ("orders",)
    assert version(site) == before, "there is nothing new to write"
    planned_at = next(record.at for record in reversed(site.history()) if record.moves)
    time_release(site, Ago(site.clock.now() - planned_at, 0.25, None))
    site.clock.advance(2)
    told(site, "c", TAKEN)
    assert pauses.complete(site.coordinator, ["orders"]) == ()
    found = pauses_of(site)
    (one,) = found.measured
    assert (one.partition, one.records, one.least, found.missing) == (moved(site), 5, False, 0)
    assert one.wait_s == pytest.approx(1.25, abs=0.01)
    assert one.released_at == pytest.approx(site.clock.now() - 2)
    assert one.first_at == pytest.approx(site.clock.now() - 1, abs=0.01)
    assert stored_pauses(site.coordinator, "orders") == found.measured
    assert [one.pauses for one in history.rebalances(site.coordinator, ["orders"], 2)] == [found, None]


def test_what_is_new_is_told_once(site: Site) -> None:
    heard: list[Pauses] = []

    def hear(topic: str, found: Pauses) -> None:
        assert topic == "orders"
        heard.append(found)

    stayed = next(p for p in range(4) if p != moved(site))
    told(site, "a", None, {site.node().epoch: Stall(0.004, stayed, 1)})
    for _ in range(2):
        pauses.complete(site.coordinator, ["orders"], hear)
    told(site, "c", TAKEN)
    for _ in range(2):
        pauses.complete(site.coordinator, ["orders"], hear)
    assert [(len(one.measured), one.unmoved.longest_s if one.unmoved is not None else None) for one in heard] == [
        (0, 0.004),
        (1, None),
    ]


def test_the_upkeep_completes_what_a_dead_task_has_left(site: Site) -> None:
    told(site, "c", TAKEN)
    assert pauses_of(site) is None
    assert list(upkeep.upkeep(site.coordinator, ["orders"]).lines) == []
    found = pauses_of(site)
    assert found.missing == 0


def between_writes(site: Site, act: Callable[[], object]) -> None:
    """Act after the write that measures ZooKeeper's time, and before the write of the pauses."""
    site.server.before_next(act, lambda zk, writes: zk is site.zk and getattr(writes[0], "version", 0) == 1)


def test_two_at_once_write_it_once(site: Site) -> None:
    told(site, "c", TAKEN)
    other = replace(site.coordinator, zk=site.server.connect())
    between_writes(site, lambda: pauses.complete(other, ["orders"]))
    assert pauses.complete(site.coordinator, ["orders"]) == ("orders",)
    found = pauses_of(site)
    assert found.missing == 0
    assert pauses.complete(site.coordinator, ["orders"]) == ()


@pytest.mark.parametrize("known", [False, True], ids=["unknown", "known"])
def test_a_giver_that_died_leaves_the_least_that_records_waited_and_its_last_commit_the_most(
    site: Site, known: bool
) -> None:
    """The last records passed 2.5 s after the read of the present node; the taker's first record passes later."""
    told(site, "c", TAKEN)
    pauses.complete(site.coordinator, ["orders"])
    record = next(one for one in site.history() if one.epoch == site.node().epoch)
    read_at = site.zk.get(site.paths.record("orders", record.sequence)).stat.created_at
    site.dies("a", Ending.REAPED)
    site.settles()
    last_pass = LastPass(record.epoch, 2.5, 0.5) if known else None
    for consumer in "bc":
        told(site, consumer, Taken(5, 0.5, 0.01, last_pass=last_pass))
    assert pauses.complete(site.coordinator, ["orders"]) == ()
    found = pauses_of(site)
    assert found.measured
    for one in found.measured:
        assert one.least
        assert one.last_at is None
        assert one.wait_s
        if known:
            assert one.first_at is not None
            assert one.most_s == pytest.approx(one.first_at - read_at - 2.5, abs=0.01)
            assert one.usual_s == 0.5


@pytest.mark.parametrize(("known_s", "usual_s"), [(0.5, 0.5), (None, 30.0)], ids=["a known one", "none known"])
def test_a_quiet_partition_is_measured_by_the_usual_stall_of_others(known_s: float | None, usual_s: float) -> None:
    site = stable_site("a", "b", "c", partitions=6)
    before = site.node()
    site.dies("a", Ending.REAPED)
    site.settles()
    stayed = min(p for p, consumer in before.assignments.items() if consumer == "b")
    stalls = {site.node().epoch: Stall(0.004, stayed, 1, 30.0)}
    for consumer, known in (("b", known_s), ("c", None)):
        told(site, consumer, Taken(5, 0.5, 0.01, last_pass=LastPass(before.epoch, 2.5, known)), stalls)
    site.clock.advance(3)
    assert pauses.complete(site.coordinator, ["orders"]) == ()
    found = pauses_of(site)
    assert [one.usual_s for one in found.measured] == [usual_s, usual_s]


def test_a_liar_is_named_and_the_measure_of_others_stays(site: Site) -> None:
    site.starts("d")
    site.settles()
    site.clock.advance(3)
    told(site, "d", Taken(5, 1e6, 0.01, 0.02))
    told(site, "a", None, {site.node().epoch: Stall(0.004, 0, 1)})
    told(site, "b", None, {site.node().epoch: Stall(1e7, 1, 1)})
    assert pauses.complete(site.coordinator, ["orders"]) == ("orders",)
    found = pauses_of(site)
    assert (found.measured, found.missing) == ((), 1)
    assert found.left_out[0].startswith("d says that partition ")
    assert "s before its release" in found.left_out[0]
    assert found.left_out[1] == "b tells of a stall that is far longer than the rebalance"
    assert (found.unmoved.longest_s, found.unmoved.consumer) == (0.004, "a")


def test_only_what_has_ended_lately_is_measured(site: Site) -> None:
    told(site, "c", TAKEN)
    site.clock.advance(pauses.COMPLETE_S)
    assert pauses.complete(site.coordinator, ["orders"]) == ()
    assert pauses_of(site) is None


def test_a_record_that_cannot_be_read_stops_no_other_topic(site: Site) -> None:
    told(site, "c", TAKEN)
    site.add_topic("payments")
    path = site.paths.record("orders", site.history()[-1].sequence)
    site.server.overwrite(path, b"{")
    assert pauses.complete(site.coordinator, ["orders", "payments"]) == ()


def test_it_waits_for_first_records_only_so_long(site: Site) -> None:
    began = site.clock.monotonic()
    assert pauses.complete_within(site.coordinator, ["orders"], 2.0) == ("orders",)
    assert 2.0 <= site.clock.monotonic() - began < 3.0
    answer: Callable[[Member], Answer] = site.processes["c"].answer
    assert answer is not None
    told(site, "c", TAKEN)
    began = site.clock.monotonic()
    assert pauses.complete_within(site.coordinator, ["orders"], 2.0) == ()
    assert site.clock.monotonic() == began


@pytest.mark.parametrize("which", ["an older holding", "another life", "another generation"])
def test_what_is_said_of_something_else_is_no_pause(site: Site, which: str) -> None:
    told(site, "c", TAKEN)
    answer = site.statuses.answers["c"]
    assert callable(answer)

    def other(asked: Member) -> Answer:
        status = answer(asked)
        assert isinstance(status, ConsumerStatus)
        if which == "another life":
            return replace(status, incarnation=status.incarnation + 1)
        topic = status.topics["orders"]
        if which == "another generation":
            return replace(status, topics={"orders": replace(topic, generation="older")})
        running = {p: replace(one, token=replace(one.token, epoch=0)) for p, one in topic.running.items()}
        return replace(status, topics={"orders": replace(topic, running=running)})

    site.statuses.answers["c"] = other
    assert pauses.complete(site.coordinator, ["orders"]) == ("orders",)
    assert pauses_of(site) == Pauses((), 1)


def test_what_was_changed_between_the_writes_is_not_written_over(site: Site) -> None:
    told(site, "c", TAKEN)
    path = site.paths.record("orders", site.history()[-1].sequence)
    between_writes(site, lambda: site.server.connect().transact([SetData(path, b"{}")]))
    assert pauses.complete(site.coordinator, ["orders"]) == ("orders",)
    assert site.zk.get(path).data == b"{}"


def test_the_loop_looks_more_and_more_seldom_until_all_is_measured(site: Site) -> None:
    measures, asked = _Measures(), list[float]()
    ended = [TopicReport("orders", State.STARTING, State.STABLE, TopicOutcome.WRITTEN, "")]
    answer = site.processes["c"].answer

    def counted(member: Member) -> Answer:
        asked.append(site.clock.monotonic())
        return answer(member)

    site.statuses.answers["c"] = counted
    measures.do(site.coordinator, ended)
    for _ in range(60):
        site.clock.advance(0.125)
        measures.do(site.coordinator, [])
    assert [round(later - earlier, 3) for earlier, later in itertools.pairwise(asked)] == [0.25, 0.5, 1.0, 2.0]
    told(site, "c", TAKEN)
    site.clock.advance(4)
    measures.do(site.coordinator, [])
    assert measures.until == {}
    assert stored_pauses(site.coordinator, "orders")
