"""The agent, where Kafka itself refuses the commits of former owners."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest

from coordinator_tasks.core.errors import CommitFenced
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.core.ports import GroupOffsets
from tests.unit.spark_apps.agent.ownership.stage import GENERATION, TIMING, Stage


@dataclass
class Broker:
    """Records all requests, refuses the commits of `lost` partitions, and does nothing for `troubled` partitions."""

    inner: GroupOffsets
    fences: bool = True
    lost: set[int] = field(default_factory=set)
    troubled: set[int] = field(default_factory=set)
    held: list[dict[int, Token]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def hold(self, topic: str, topic_id: str, tokens: Mapping[int, Token]) -> Mapping[int, str]:
        self.asked.append("hold")
        self.held.append(dict(tokens))
        return dict.fromkeys(self.troubled & tokens.keys(), "no coordinator")

    def committed(self, topic: str, partitions: Collection[int]) -> Mapping[int, Committed]:
        self.asked.append("committed")
        return self.inner.committed(topic, partitions)

    def commit(self, topic: str, offsets: Mapping[int, Committed]) -> Mapping[int, str]:
        self.asked.append("commit")
        fenced = tuple(sorted(self.lost & offsets.keys()))
        self.inner.commit(topic, {p: one for p, one in offsets.items() if p not in self.lost | self.troubled})
        if fenced:
            raise CommitFenced("Kafka refuses its commit", fenced)
        return dict.fromkeys(self.troubled & offsets.keys(), "no coordinator")

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


@pytest.fixture
def stage() -> Stage:
    made = Stage()
    made.offsets = Broker(made.offsets)  # type: ignore[assignment]
    return made


def broker(stage: Stage) -> Broker:
    assert isinstance(stage.offsets, Broker)
    return stage.offsets


def test_what_is_held_is_told_before_the_entry_is_read_that_a_new_holding_begins_with(stage: Stage) -> None:
    stage.own(0, 1)
    assert broker(stage).asked[:2] == ["hold", "committed"]
    assert broker(stage).held[0] == {p: Token(1, 5, GENERATION) for p in (0, 1)}


def test_a_guarded_start_waits_for_no_commit_that_the_broker_refuses(stage: Stage) -> None:
    stage.own(0, guarded=frozenset({0}))
    assert stage.ownership.holdings.ready().keys() == {0}


def test_a_commit_that_the_broker_refuses_ends_this_holding_and_no_other(stage: Stage) -> None:
    stage.own(0, 1)
    for partition in (0, 1):
        stage.hand_out(partition, 10)
        broker(stage).lost = {0}
        stage.cover()
    stage.wait(1.5)
    assert stage.running == {1: False}
    assert stage.reported("partition 0 stopped: Kafka refuses its commit")
    assert (stage.committed(0).offset, stage.committed(1).offset) == (0, 10)
    assert broker(stage).held[-1].keys() == {1}


def test_it_is_not_taken_up_again_under_the_same_grant_but_under_a_newer_one(stage: Stage) -> None:
    stage.own(0)
    stage.hand_out(0, 10)
    broker(stage).lost = {0}
    stage.cover()
    stage.read()
    stage.wait(1.0)
    assert stage.running == {}
    broker(stage).lost = set()
    stage.own(0)
    assert stage.running == {0: False}
    assert stage.committed(0).token == Token(stage.node.epoch, 5, GENERATION)


def test_a_partition_whose_transactions_cannot_begin_waits_and_no_other_one(stage: Stage) -> None:
    stage.own(0)
    broker(stage).troubled = {1}
    stage.read(assignments={0: "a", 1: "a"}, since={0: 1, 1: stage.node.epoch + 1})
    for _ in range(30):
        stage.tick(0.1)
        assert stage.ownership.batches.readable().keys() == {0}
    assert stage.reported("partition 1 cannot be committed: no coordinator")
    assert 1 not in stage.offsets.committed("t", [1])
    broker(stage).troubled = set()
    stage.wait(TIMING.guard_look_s + 0.1)
    assert stage.ownership.batches.readable().keys() == {0, 1}
    assert not stage.ownership.reports.all()


def test_a_partition_whose_commits_fail_stops_alone_and_delays_no_other(stage: Stage) -> None:
    stage.own(0, 1)
    broker(stage).troubled = {1}
    stage.process(1, 10)
    for end in range(1, 91):
        stage.process(0, end)
        stage.wait(1.5)
        assert stage.committed(0).offset == end
        assert 0 in stage.ownership.batches.readable()
    assert stage.running == {0: False, 1: True}
    assert stage.reported("partition 1 stopped: its commits failed for 120 s: no coordinator")
    broker(stage).troubled = set()
    stage.wait(1.0)
    assert (stage.running, stage.committed(1).offset) == ({0: False}, 10)
