"""The agent over ZooKeeper in memory: registration, reading, releasing, leaving."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.adapters.discovery import ZooKeeperRegistry, claim_incarnation, read_claim
from coordinator_tasks.core.codecs.codec import decode_release, encode_node, encode_release
from coordinator_tasks.core.codecs.member_codec import decode_directive, decode_leave, decode_member, encode_directive
from coordinator_tasks.core.errors import DiscoveryUnavailable, IdInUse
from coordinator_tasks.core.model import (
    Committed,
    Directive,
    Draining,
    DrainKind,
    DrainOwner,
    Ending,
    Handoff,
    Isolation,
    Member,
    PlannedRestart,
    Release,
    Token,
    TopicNode,
)
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.ports import Create, Delete, Operation, SetData, Stat
from spark_apps.agent.process.agent import Agent
from spark_apps.agent.settings import Identity
from spark_apps.agent.zookeeper import view
from spark_apps.records.batches import Range
from tests.fakes.clock import FakeClock
from tests.fakes.kafka import FakeKafka, perform_due
from tests.fakes.topics import FakeTopics
from tests.fakes.zookeeper import FakeZooKeeperServer, paths_read

PATHS = Paths("c")


class Stage:
    """Consumer `a` and topic `t` with four partitions."""

    def __init__(self, topics: tuple[str, ...] = (), separate: bool = False) -> None:
        self.clock = FakeClock()
        self.server = FakeZooKeeperServer(self.clock)
        self.site = self.server.connect()
        for folder in PATHS.folders():
            self.site.ensure(folder)
        self.kafka = FakeKafka()
        self.kafka.create_topic("t", 4)
        self.offsets = self.kafka.offsets("g")
        self.zk = self.server.connect()
        self.incarnation = claim_incarnation(self.zk, PATHS, "a", 1)
        self.topics = FakeTopics(Identity("a", "c", self.incarnation), self.clock)
        member = Member("a", self.incarnation, "http://127.0.0.1:1", "boot", topics=topics)
        registry = ZooKeeperRegistry(self.zk, PATHS, self.clock)
        self.agent = Agent(
            self.zk, registry, self.clock, member, "c", topics=self.topics, wake=self.wake, separate=separate
        )
        self.woken = 0
        self.node = TopicNode("h:1", "g", 0, "g1", "id-1", incarnations={"a": 1, "b": 1}, initial_partitions=4)

    def wake(self) -> None:
        self.woken += 1

    def write(self, **changes: object) -> None:
        self.node = replace(self.node, epoch=self.node.epoch + 1, **changes)  # type: ignore[arg-type]
        path = PATHS.topic("t")
        if self.site.find(path) is None:
            self.site.transact([Create(path, encode_node(self.node))])
            self.site.transact([Create(PATHS.partition("t", p)) for p in range(4)])
        else:
            self.site.transact([SetData(path, encode_node(self.node))])

    def own(self, *partitions: int) -> None:
        epoch = self.node.epoch + 1
        self.write(assignments=dict.fromkeys(partitions, "a"), since=dict.fromkeys(partitions, epoch), handoff={})

    def give(self, *partitions: int) -> None:
        left = {p: c for p, c in self.node.assignments.items() if p not in partitions}
        entries = {p: Handoff("a", "b", self.node.epoch + 1) for p in partitions}
        self.write(assignments=left, since={p: self.node.since[p] for p in left}, handoff=entries)

    def step(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        for _ in range(3):
            self.agent.step()
            for ownership in self.topics.ownerships.values():
                perform_due(ownership, self.offsets)

    def run(self, *partitions: int) -> None:
        """Own these partitions, and take them up."""
        self.own(*partitions)
        self.step()

    def steps(self, count: int, seconds: float) -> None:
        for _ in range(count):
            self.step(seconds)

    def stored_directive(self) -> Directive:
        path = PATHS.directive("a")
        return decode_directive(path, self.site.get(path).data, "a", 0)

    def directive(self, directive: Directive) -> None:
        path = PATHS.directive("a")
        operation = Create if self.site.find(path) is None else SetData
        self.site.transact([operation(path, encode_directive(directive))])

    def release(self, partition: int) -> Release | None:
        path = PATHS.partition("t", partition)
        return decode_release(path, self.site.get(path).data)

    @property
    def health(self) -> str:
        return self.agent.status().health

    @property
    def runs(self) -> set[int]:
        status = self.agent.status().topics.get("t")
        return set() if status is None else set(status.running)

    def reported(self, text: str) -> bool:
        status = self.agent.status()
        said = [*status.reports, *(one for topic in status.topics.values() for one in topic.reports)]
        return any(text in one for one in said)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_nothing_is_read_before_the_registration(stage: Stage) -> None:
    stage.own(0)
    other = Member("a", 9, "http://127.0.0.1:2", "boot")
    ZooKeeperRegistry(stage.site, PATHS, stage.clock).register(other)
    with pytest.raises(IdInUse, match="is in use"):
        stage.agent.step()
    assert stage.runs == set()


def test_it_registers_when_the_queries_of_the_topics_that_are_there_read(stage: Stage) -> None:
    stage.topics.acquiring = False
    stage.run(0)
    assert stage.site.find(PATHS.member("a")) is None
    assert stage.topics.ownerships["t"].holdings.accepted is None, (
        "a node that was read before the registration is not acted on"
    )
    stage.topics.ownerships["t"].open()
    stage.step()
    assert stage.site.find(PATHS.member("a")) is not None
    assert stage.runs == {0}


def test_a_topic_that_it_does_not_register_for_is_neither_read_nor_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(("other",))
    stage.own(1)
    read = paths_read(stage.zk, monkeypatch)
    stage.step()
    assert stage.site.find(PATHS.member("a")) is not None
    woken = stage.woken
    stage.own(1, 2)
    stage.steps(3, 1.0)
    assert (stage.topics.names(), stage.woken) == ((), woken), "the coordinator plans no such topic to it"
    assert PATHS.topic("t") not in read
    stage.site.transact([Create(PATHS.topic("other"), encode_node(stage.node))])
    stage.step()
    assert stage.topics.names() == ("other",)


def test_the_polls_of_all_topics_share_a_budget_of_bytes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.own(0)
    stage.site.transact([Create(PATHS.topic("s"), encode_node(stage.node))])
    monkeypatch.setattr(view, "POLLED_BYTES_S", len(encode_node(stage.node)) / 10)
    stage.step()
    read = paths_read(stage.zk, monkeypatch)
    stage.steps(60, 1.0)
    counts = [read.count(PATHS.topic(topic)) for topic in ("s", "t")]
    assert all(2 <= count <= 3 for count in counts), "two nodes of ten seconds each are read every twenty seconds"


def test_a_removed_topic_gets_a_query_only_where_it_was_planned_or_when_it_is_added_again(stage: Stage) -> None:
    stage.write(removed=True, incarnations={})
    stage.step()
    assert stage.site.find(PATHS.member("a")) is not None
    assert stage.topics.names() == ()
    stage.write(removed=False)
    stage.step()
    assert stage.topics.names() == ("t",)


def test_a_query_that_fails_before_the_registration_ends_the_consumer_unregistered(stage: Stage) -> None:
    stage.topics.acquiring = False
    stage.run(0)
    stage.topics.broken = "topic t: the query has ended"
    stage.step()
    assert stage.agent.finished
    assert stage.agent.failure == "topic t: the query has ended"
    assert stage.site.find(PATHS.member("a")) is None


def test_an_unreadable_topic_blocks_no_other_query_and_no_registration(stage: Stage) -> None:
    stage.topics.acquiring = False
    stage.site.transact([Create(PATHS.topic("a"), b"{")])
    stage.run(0)
    assert stage.topics.names() == ("t",)
    stage.topics.ownerships["t"].open()
    stage.step()
    assert stage.site.find(PATHS.member("a")) is not None


def test_a_topic_that_appears_is_picked_up_and_one_without_a_pipeline_is_named(stage: Stage) -> None:
    stage.step()
    stage.own(0, 1)
    stage.site.transact([Create(PATHS.topic("unwanted"), encode_node(stage.node))])
    stage.step()
    assert stage.runs == {0, 1}
    assert stage.reported("no pipeline matches unwanted")


def test_a_node_that_can_be_no_topics_is_named_and_keeps_no_topic_waiting(stage: Stage) -> None:
    stage.site.transact([Create(f"{PATHS.assignments}/!first of all")])
    stage.run(0, 1)
    assert stage.runs == {0, 1}
    assert stage.reported("'!first of all' can be no topic's and is left out")
    stage.site.transact([Delete(f"{PATHS.assignments}/!first of all")])
    stage.step(2)
    assert not stage.reported("can be no topic's")


def test_a_release_makes_no_partition_of_a_topic_whose_nodes_were_lost(stage: Stage) -> None:
    stage.run(0)
    stage.site.transact([Delete(PATHS.partition("t", 0))])
    stage.give(0)
    stage.step()
    assert stage.site.find(PATHS.partition("t", 0)) is None
    assert stage.reported("assignments/t/0 has vanished; the release waits for it")
    stage.site.transact([Create(PATHS.partition("t", 0))])
    stage.step(1.0)
    assert stage.release(0) is not None
    assert not stage.reported("has vanished")


def test_a_release_whose_answer_was_lost_is_compared_before_it_is_written_again(stage: Stage) -> None:
    stage.run(0)
    stage.give(0)
    stage.zk.lose_next_write(applied=True)
    stage.step()
    stage.step(1.0)
    assert stage.release(0) is not None
    assert stage.site.get(PATHS.partition("t", 0)).stat.version == 1


def test_a_large_node_is_polled_seldom_and_its_watch_heard_at_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.run(0)
    raw = encode_node(replace(stage.node, epoch=2, assignments={0: "a", 1: "a"}, since={0: 1, 1: 2}))
    monkeypatch.setattr(view, "POLLED_BYTES_S", len(raw) / 30)
    stage.run(0)
    stage.server.overwrite(PATHS.topic("t"), raw.replace(b'"epoch":2', b'"epoch":3'))
    stage.steps(25, 1.0)
    assert stage.runs == {0}, "nobody was told of it"
    stage.steps(6, 1.0)
    assert stage.runs == {0, 1}
    stage.node = replace(stage.node, epoch=3)
    stage.run(2)
    assert stage.runs == {2}


def test_a_taker_sees_the_release_by_its_watch(stage: Stage) -> None:
    stage.write(handoff={2: Handoff("b", "a", 1)})
    stage.step()
    assert stage.runs == set()
    release = Release(1, "b", 1, 0, "g1", Token(0, 1, "g1"))
    stage.site.transact([SetData(PATHS.partition("t", 2), encode_release(release))])
    stage.step()
    assert stage.runs == {2}


def test_a_vanished_or_unreadable_topic_node_means_hold(stage: Stage) -> None:
    stage.run(0)
    stage.site.transact([SetData(PATHS.topic("t"), b"{nonsense")])
    stage.step()
    assert stage.runs == {0}
    assert stage.reported("is not JSON")
    stage.own(0, 1)
    stage.step(1.0)
    assert stage.runs == {0, 1}


def test_nothing_is_begun_of_a_topic_node_that_was_deleted(stage: Stage) -> None:
    stage.run(0)
    stage.write(handoff={1: Handoff("b", "a", 2)})
    stage.step()
    release = Release(2, "b", 1, 0, "g1", Token(1, 1, "g1"))
    stage.site.transact([SetData(PATHS.partition("t", 1), encode_release(release))])
    stage.site.transact([*(Delete(PATHS.partition("t", p)) for p in range(4)), Delete(PATHS.topic("t"))])
    stage.step()
    assert stage.runs == {0}
    assert stage.reported("assignments/t has vanished; held as it is")
    stage.site.transact([Create(PATHS.topic("t"), b"")])
    stage.step(1.0)
    assert stage.runs == {0}
    assert stage.reported("assignments/t has vanished; held as it is"), "added again after a loss, and not planned yet"
    assert not stage.reported("by hand")


def test_a_topic_node_that_was_never_written_is_not_reported_and_one_that_was_emptied_is(stage: Stage) -> None:
    path = PATHS.topic("t")
    stage.site.transact([Create(path, b""), *(Create(PATHS.partition("t", p)) for p in range(4))])
    stage.step(1.0)
    assert not stage.reported("JSON"), "it is not planned yet"
    stage.site.transact([SetData(path, b"")])
    stage.step(1.0)
    assert stage.reported("is not JSON")
    stage.own(0)
    stage.step(1.0)
    assert stage.runs == {0}
    assert not stage.reported("JSON")


def test_until_it_has_registered_it_is_starting_and_not_up(stage: Stage) -> None:
    """A rollout on Kubernetes continues with the next pod when this pod is up."""
    assert stage.health == "starting"
    stage.topics.acquiring = False
    stage.write()
    stage.agent.step()
    assert stage.site.find(PATHS.member("a")) is None, "the query of the topic does not read yet"
    assert stage.health == "starting"
    stage.clock.advance(20.0)
    stage.agent.step()
    assert stage.site.find(PATHS.member("a")) is not None
    assert stage.health == "ok"


def test_without_zookeeper_it_goes_on_and_registers_again_in_the_next_session(stage: Stage) -> None:
    stage.run(0)
    assert stage.agent.figures().registered
    stage.zk.suspend()
    stage.step(2.0)
    assert stage.runs == {0}
    assert stage.agent.status().health == "detached"
    assert not stage.agent.figures().registered
    assert stage.reported("going on with what is known")
    stage.own(0, 1)
    stage.zk.expire()
    assert stage.site.find(PATHS.member("a")) is None
    stage.zk.resume()
    assert stage.agent.status().health == "detached", "not before it is registered again"
    stage.step(2.0)
    assert stage.site.find(PATHS.member("a")) is not None
    assert stage.runs == {0, 1}
    assert stage.agent.status().health == "ok"


def test_whose_id_another_process_has_taken_ends_once_it_holds_nothing(stage: Stage) -> None:
    stage.run(0)
    stage.zk.expire()
    stage.zk.resume()
    ZooKeeperRegistry(stage.site, PATHS, stage.clock).register(Member("a", 9, "http://127.0.0.1:2", "boot"))
    newer = Committed(0, Token(9, 1, "g1"), "b", "c", "id-1")
    stage.offsets.commit("t", {0: newer})
    stage.step(1.0)
    stage.step()
    assert stage.agent.finished
    assert "is in use" in stage.agent.failure
    claim = read_claim(stage.site, PATHS, "a")
    assert (claim.incarnation, claim.ended) == (9, {stage.incarnation: Ending.LEFT})
    assert stage.site.find(PATHS.member("a")) is not None, "the other one stays registered"


def test_a_process_keeps_its_number_over_its_sessions(stage: Stage) -> None:
    stage.own(0)
    for _ in range(3):
        stage.step(2.0)
        path = PATHS.member("a")
        assert decode_member(path, stage.site.get(path).data).incarnation == stage.incarnation
        stage.zk.expire()
        stage.zk.resume()
    stage.step(2.0)
    assert read_claim(stage.site, PATHS, "a").incarnation == stage.incarnation
    assert stage.runs == {0}


def test_an_isolated_consumer_stops_all_stays_registered_and_acts_until_it_is_readmitted(stage: Stage) -> None:
    stage.run(0, 1)
    stage.directive(Directive("a", Isolation("ann", "test", 0.0)))
    stage.step()
    assert stage.runs == set()
    stage.give(0)
    stage.step()
    assert stage.agent.status().topics["t"].acted_epoch == 2
    assert stage.release(0) is None
    assert stage.site.find(PATHS.member("a")) is not None
    stage.directive(Directive("a"))
    stage.step()
    assert stage.runs == {1}
    assert stage.release(0) is not None


@pytest.mark.parametrize("written_anew", [False, True])
def test_a_grant_before_an_isolation_that_zookeeper_lost_waits_for_the_node(stage: Stage, written_anew: bool) -> None:
    stage.run(0, 1)
    stage.directive(Directive("a", Isolation("ann", "test", 0.0)))
    stage.step()
    lost = [PATHS.directive("a"), *(PATHS.partition("t", p) for p in range(4)), PATHS.topic("t")]
    stage.site.transact([Delete(path) for path in lost])
    if written_anew:
        stage.directive(Directive("a"))
    stage.step(2.0)
    assert stage.runs == set(), "somebody else may have it, by a node that was lost"
    stage.own(1)
    stage.step(2.0)
    assert stage.runs == {1}


def test_a_topics_node_that_is_read_again_gives_back_what_an_isolation_ended_that_zookeeper_lost(stage: Stage) -> None:
    stage.run(0, 1)
    stage.directive(Directive("a", Isolation("ann", "test", 0.0)))
    stage.step()
    stage.site.transact([Delete(PATHS.directive("a"))])
    stage.step(2.0)
    stage.step(2.0)
    assert stage.runs == {0, 1}, "an older tree is one that people and consumers go on with"


def test_an_isolation_of_an_earlier_incarnation_is_not_ours(stage: Stage) -> None:
    stage.own(0)
    stage.directive(Directive("a", Isolation("ann", "test", 0.0, incarnation=99)))
    stage.step()
    assert stage.runs == {0}


def test_a_leave_marks_itself_draining_hands_off_and_says_by_number_that_it_is_over(stage: Stage) -> None:
    stage.run(0, 1)
    stage.agent.leave()
    stage.step(1.0)
    assert stage.stored_directive().draining.incarnation == 1
    assert stage.runs == {0, 1}, "it keeps its partitions until they are taken"
    assert stage.health == "leaving"
    stage.give(0, 1)
    stage.step()
    stage.step(0.2)
    assert stage.release(1) is not None
    assert stage.agent.finished
    assert stage.topics.halted
    assert stage.site.find(PATHS.member("a")) is None
    assert read_claim(stage.site, PATHS, "a").ended == {1: Ending.LEFT}


def restart(now: float, *, incarnation: int = 1, moves: bool = False, within_s: float = 600.0) -> Directive:
    return Directive("a", restart=PlannedRestart("ada", "kernel", now, now + within_s, incarnation, moves))


ITSELF = DrainOwner(DrainKind.ITSELF)


@pytest.mark.parametrize("former", [None, Draining("a", "asked to end", 1.0, 7, owner=ITSELF)], ids=["first", "again"])
def test_before_a_planned_restart_it_commits_and_ends_without_a_hand_off(stage: Stage, former: Draining | None) -> None:
    """Also where the leave of a former process still stands in its directive."""
    stage.own(0, 1)
    asked = replace(restart(stage.clock.now()), draining=former)
    stage.directive(asked)
    stage.step()
    stage.agent.leave()
    stage.step(0.2)
    stage.step(0.2)
    assert stage.agent.finished
    assert stage.offsets.committed("t", [0])[0].offset == 0
    assert stage.release(0) is None
    found = stage.stored_directive()
    assert (found.draining, found.restart) == (former, asked.restart)
    assert read_claim(stage.site, PATHS, "a").ended == {1: Ending.LEFT}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"moves": True}, id="its partitions move meanwhile"),
        pytest.param({"incarnation": 2}, id="of another process"),
        pytest.param({"within_s": 0.5}, id="it has run out"),
    ],
)
def test_a_restart_that_keeps_nothing_for_it_changes_no_leave(stage: Stage, asked: dict[str, Any]) -> None:
    stage.own(0)
    stage.directive(restart(stage.clock.now(), **asked))
    stage.step(1.0)
    stage.agent.leave()
    stage.step(0.2)
    assert stage.runs == {0}
    found = stage.stored_directive()
    assert found.draining is not None
    assert found.restart is not None, "the mark keeps what a person has asked for"


def test_a_mark_that_is_overtaken_is_made_beside_the_other_write(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.run(0)
    transact = stage.zk.transact

    def overtaken(operations: Sequence[Operation]) -> list[str | Stat | None]:
        monkeypatch.setattr(stage.zk, "transact", transact)
        stage.directive(Directive("a", Isolation("ada", "an earlier life", 1.0, incarnation=99)))
        return transact(operations)

    monkeypatch.setattr(stage.zk, "transact", overtaken)
    stage.agent.leave()
    stage.step(0.1)
    found = stage.stored_directive()
    assert (found.isolation.incarnation, found.draining.incarnation) == (99, 1)


def test_a_mark_that_cannot_be_made_is_tried_again_in_time_and_not_at_once(stage: Stage) -> None:
    """An unreadable directive is not written over; retries without a pause would take ZooKeeper's time."""
    stage.run(0)
    stage.site.transact([Create(PATHS.directive("a"), b"{")])
    stage.agent.leave()
    stage.step(1.0)
    stage.woken = 0
    stage.step()
    assert stage.woken == 0
    assert not stage.agent.finished
    stage.steps(31, 1.0)
    assert stage.agent.finished, "its deadline ends it all the same"
    assert stage.site.get(PATHS.directive("a")).data == b"{"


def test_a_consumer_that_a_person_drains_leaves_once_it_holds_nothing(stage: Stage) -> None:
    stage.run(0)
    stage.directive(Directive("a", draining=Draining("ada", "a new host", 1.0)))
    stage.step(60.0)
    assert not stage.agent.finished, "no deadline cuts the hand-off short"
    stage.give(0)
    stage.step()
    assert stage.release(0) is not None
    assert not stage.agent.finished, "the coordinator still counts on its confirmation"
    stage.write(assignments={0: "b"}, since={0: stage.node.epoch}, handoff={}, incarnations={"b": 1})
    stage.step()
    assert stage.agent.finished
    assert read_claim(stage.site, PATHS, "a").ended == {1: Ending.LEFT}


def test_past_its_deadline_a_leave_commits_and_ends_without_a_release(stage: Stage) -> None:
    stage.run(0)
    stage.agent.leave()
    stage.steps(31, 1.0)
    assert stage.agent.finished
    assert stage.release(0) is None
    assert stage.offsets.committed("t", [0])[0].offset == 0
    assert read_claim(stage.site, PATHS, "a").ended == {1: Ending.LEFT}


def test_a_consumer_asleep_past_its_deadline_still_waits_for_the_last_batch(stage: Stage) -> None:
    stage.kafka.append("t", 0, 10)
    stage.run(0)
    held = stage.topics.ownerships["t"].holdings.ready()[0]
    held.hand_out(5, 0.0)
    stage.agent.leave()
    stage.step()
    stage.step(36.0)
    assert not stage.topics.halted, "half of what is left of its time"
    held.cover(5, stage.clock.monotonic())
    stage.step()
    assert stage.agent.finished
    assert stage.offsets.committed("t", [0])[0].offset == 5
    assert read_claim(stage.site, PATHS, "a").ended == {1: Ending.LEFT}


def test_a_dead_query_makes_the_consumer_leave_with_its_reason(stage: Stage) -> None:
    stage.run(0)
    stage.topics.broken = "topic t: the query has ended: boom"
    stage.step(0.1)
    assert stage.agent.finished
    assert "boom" in stage.agent.failure
    assert stage.agent.status().health.startswith("failed")
    assert not stage.agent.status().topics["t"].query_alive
    assert stage.site.find(PATHS.member("a")) is None
    claim = read_claim(stage.site, PATHS, "a")
    assert claim.ended == {1: Ending.LEFT}, "its commits are over"
    assert claim.reasons == {1: "topic t: the query has ended: boom"}


def test_a_consumer_that_fails_at_a_partition_says_so_and_is_not_stalled_while_it_waits(stage: Stage) -> None:
    stage.kafka.append("t", 0, 10)
    stage.run(0)
    for number in range(1, 30):
        batch(stage, number)
        stage.topics.edit("t", lambda h: h.batches.fail([0], "ValueError: bad record"))
        stage.steps(10, 2.5)
    said = "partition 0 waits between offsets 0 and 10: ValueError: bad record (failed 29 times; tried again)"
    assert stage.health == f"failing: topic t: {said}"
    assert said in stage.agent.status().topics["t"].reports
    assert (stage.agent.failure, stage.agent.figures().topics["t"].failing) == ("", 1)
    batch(stage, 30)
    stage.steps(160, 2.0)
    assert "no progress for 300 s in partitions [0]" in stage.agent.failure, "a sink that hangs is noticed as ever"


def test_a_consumer_whose_topic_no_query_ever_reads_leaves(stage: Stage) -> None:
    stage.topics.acquiring = False
    stage.own(0, 1)
    for _ in range(30):
        stage.step(10.0)
        stage.write()  # a new epoch does not begin the wait anew
    assert stage.agent.failure == ""
    stage.topics.edit("t", lambda h: h.query_failed("the query could not be started: no such table"))
    stage.steps(30, 5.0)
    assert stage.agent.failure == "", "what fails is told, and tried again"
    stage.topics.edit("t", lambda h: h.open())
    stage.step(400.0)
    assert stage.agent.failure == ""
    stage.topics.edit("t", lambda h: setattr(h.grants, "opened", False))
    stage.steps(32, 10.0)
    assert stage.agent.failure == "topic t: no query has read partitions [0, 1] for 300 s"


def test_a_consumer_none_of_whose_queries_starts_does_not_register_and_says_why(stage: Stage) -> None:
    stage.topics.acquiring = False
    stage.write()
    stage.step()
    stage.topics.edit("t", lambda h: h.query_failed("the query could not be started: no such table"))
    stage.steps(30, 1.0)
    assert stage.site.find(PATHS.member("a")) is None
    why = "topic t: the topic is not read: the query could not be started: no such table (failed 1 time; it is tried again)"
    assert stage.health == f"failing: {why}"
    stage.topics.edit("t", lambda h: h.open())
    stage.step()
    assert stage.site.find(PATHS.member("a")) is not None


def batch(stage: Stage, number: int, records: int = 10) -> None:
    """Hand out a batch of partition 0 without an end."""
    held = stage.topics.ownerships["t"].holdings.ready()[0]
    stage.kafka.append("t", 0, records)
    start = held.position
    stage.topics.edit("t", lambda h: h.batches.hand_out(number, [Range(0, start, start + records, held.token.epoch)]))


def usual_batches(stage: Stage) -> None:
    """Three batches of two seconds each."""
    stage.run(0)
    for number in (1, 2, 3):
        batch(stage, number)
        stage.step(2.0)
        stage.topics.edit("t", lambda h, number=number: h.batches.cover(number))
        stage.step()


def test_a_batch_that_takes_far_longer_than_usual_makes_the_consumer_unhealthy_and_says_why(stage: Stage) -> None:
    usual_batches(stage)
    batch(stage, 4)
    stage.step(29.0)
    assert stage.health == "ok"
    stage.step(2.0)
    assert stage.health == "stuck: topic t: a batch of 10 offsets has not ended for 31 s (2.0 s is usual)"
    (failure,) = stage.topics.ownerships["t"].status().failures
    assert (failure.partitions, failure.for_s) == ((0,), 31.0)
    assert failure.why == "a batch of 10 offsets has not ended for 31 s (2.0 s is usual)"
    stage.topics.edit("t", lambda h: h.batches.cover(4))
    assert stage.topics.ownerships["t"].status().failures == ()
    stage.step()
    assert stage.health == "ok"


def test_without_executors_the_consumer_is_unhealthy_and_goes_on(stage: Stage) -> None:
    stage.own(0)
    stage.topics.missing = "the application has had no executor for 12 s"
    stage.step()
    assert stage.health == "stuck: the application has had no executor for 12 s"
    assert stage.runs == {0}
    assert stage.agent.figures().registered
    stage.topics.missing = ""
    stage.step()
    assert stage.health == "ok"


def test_who_cannot_stop_a_partition_that_was_taken_away_leaves_with_the_reason(stage: Stage) -> None:
    usual_batches(stage)
    batch(stage, 4)
    stage.give(0)
    stage.steps(59, 2.0)
    assert (stage.agent.failure, stage.runs) == ("", {0}), "it still runs partition 0"
    stage.step(3.0)
    assert stage.agent.failure == (
        "topic t: partitions [0] were taken away and cannot stop: a batch of 10 offsets has not ended for 121 s "
        "(2.0 s is usual)"
    )
    assert stage.release(0) is None, "what did not pass the sink is not given on as if it had"


def test_a_posted_node_is_acted_on_as_a_read(stage: Stage) -> None:
    stage.run(0, 1)
    stage.zk.suspend()
    newer = replace(stage.node, epoch=2, assignments={1: "a"}, since={1: 1})
    assert stage.agent.posted("t", encode_node(newer))
    stage.step()
    assert stage.runs == {1}
    assert not stage.agent.posted("other", encode_node(newer))


def test_a_late_post_keeps_no_hand_off_until_the_next_poll(stage: Stage) -> None:
    stage.own()
    stage.write(handoff={0: Handoff("b", "a", 2)})
    stage.step()
    assert stage.agent.posted("t", encode_node(replace(stage.node, epoch=1, handoff={})))
    release = Release(2, "b", 1, 0, "g1", Token(1, 1, "g1"))
    stage.site.transact([SetData(PATHS.partition("t", 0), encode_release(release))])
    stage.step()
    assert stage.runs == {0}
    assert not stage.reported("older than or foreign to")


def test_a_leaving_consumer_marks_its_incarnation_beside_a_persons_drain(stage: Stage) -> None:
    """A person's drain lasts over restarts, and moves partitions only; the end of a process is reported by the process alone."""
    asked = Draining("ada", "a new host", 1.0)
    stage.run(0)
    stage.directive(Directive("a", draining=asked))
    stage.step()
    stage.agent.leave()
    stage.step()
    path = PATHS.directive("a")
    marked = stage.site.get(path)
    assert decode_directive(path, marked.data, "a", 0).draining == replace(asked, leaving=1)
    stage.step()
    assert stage.site.get(path).stat.version == marked.stat.version, "it says so once"


@pytest.mark.parametrize("drained", [False, True], ids=["by itself", "drained by a person"])
def test_a_consumer_without_the_right_to_directives_announces_its_leave_in_its_own_node(drained: bool) -> None:
    stage = Stage(separate=True)
    stage.run(0)
    if drained:
        stage.directive(Directive("a", draining=Draining("ada", "a new host", 1.0)))
        stage.step()
    before = stage.site.find(PATHS.directive("a"))
    stage.agent.leave()
    stage.step()
    path = PATHS.leave("a")
    marked = stage.site.get(path)
    said = decode_leave(path, marked.data)
    assert (said.by, said.why, said.incarnation) == ("a", "asked to end", 1)
    stage.step()
    assert stage.site.get(path).stat.version == marked.stat.version, "it says so once"
    stage.zk.expire()
    stage.step()
    assert stage.site.get(path).stat.version == marked.stat.version + 1, "and again in a new session"
    assert stage.site.find(PATHS.directive("a")) == before
    stage.give(0)
    stage.step()
    stage.step(0.2)
    assert stage.agent.finished


def test_without_the_registry_nobody_begins(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.own(0)

    def away(_registry: ZooKeeperRegistry, _member: Member) -> None:
        raise DiscoveryUnavailable("the registry is away")

    with monkeypatch.context() as patched:
        patched.setattr(ZooKeeperRegistry, "register", away)
        stage.step()
        assert stage.reported("the registry is away")
        assert stage.runs == set()
    stage.step()
    assert stage.runs == {0}


def test_hand_offs_that_have_begun_go_on_while_its_own_registration_cannot_be_read(stage: Stage) -> None:
    stage.run(0, 1)
    registered = stage.site.get(PATHS.member("a")).data
    stage.site.transact([SetData(PATHS.member("a"), b"{")])
    stage.step(5.1)
    assert stage.reported(f"{PATHS.member('a')}: is not JSON")
    assert stage.reported("hand-offs go on without it")
    stage.give(0)
    stage.step()
    assert stage.release(0) is not None
    assert stage.site.get(PATHS.member("a")).data == b"{", "what cannot be read is never overwritten"
    stage.site.transact([Delete(PATHS.member("a"))])
    stage.step(5.1)
    assert stage.site.get(PATHS.member("a")).data == registered
    assert not stage.reported("hand-offs go on without it")


def test_in_a_new_session_nothing_is_acted_on_while_its_own_registration_cannot_be_read(stage: Stage) -> None:
    stage.run(0)
    stage.zk.expire()
    stage.zk.resume()
    stage.site.transact([Create(PATHS.member("a"), b"{")])
    stage.own(0, 1)
    stage.step(5.1)
    assert stage.runs == {0}
    assert stage.health == "detached"


def test_a_read_in_a_session_without_registration_has_no_effect(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.own(0)
    register = ZooKeeperRegistry.register

    def registered(registry: ZooKeeperRegistry, member: Member) -> None:
        register(registry, member)
        stage.zk.expire()
        stage.zk.resume()

    monkeypatch.setattr(ZooKeeperRegistry, "register", registered)
    stage.step()
    assert stage.runs == set()
    monkeypatch.undo()
    stage.step(2.0)
    assert stage.runs == {0}
