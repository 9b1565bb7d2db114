"""Strategies of whole groups where Kafka's vectors say nothing: unknown racks, the order of Java, and RocketMQ's rules."""

import hashlib

import pytest

from coordinator_tasks.core.assignors import rocketmq
from coordinator_tasks.core.assignors.group import Group, GroupMember, kafka_order
from coordinator_tasks.core.assignors.range_assignor import client_range


@pytest.mark.parametrize("racks", [[["r2"], ["r1"]], [["r2"], ["r1"], []]], ids=["not listed", "listed as none"])
def test_a_partition_whose_racks_are_unknown_comes_after_those_that_are_near(racks: list[list[str]]) -> None:
    topics = frozenset({"t"})
    members = {"a": GroupMember(topics, rack="r1"), "b": GroupMember(topics, rack="r2")}
    answer = client_range(Group({"t": 3}, members, {"t": racks}))
    assert answer == {"a": {"t": [1, 2]}, "b": {"t": [0]}}


def test_static_members_come_first_and_in_the_order_of_java() -> None:
    topics = frozenset({"t"})
    members = {
        "a": GroupMember(topics),
        "z": GroupMember(topics, instance="i2"),
        "y": GroupMember(topics, instance="i9"),
    }
    assert kafka_order(members) == ["z", "y", "a"]
    beyond, private = "\U00010000", "\uf000"
    assert kafka_order({private: GroupMember(topics), beyond: GroupMember(topics)}) == [beyond, private]


class TestRocketMQ:
    """By the rules of `AllocateMessageQueue...`, on 5 partitions and 2 members, and rooms."""

    def test_average_gives_ranges(self) -> None:
        assert list(rocketmq.average("t", range(5), ["a", "b"])) == ["a", "a", "a", "b", "b"]

    def test_average_by_circle_gives_turns(self) -> None:
        assert list(rocketmq.average_by_circle("t", range(5), ["a", "b"])) == ["a", "b", "a", "b", "a"]

    def test_consistent_hash_uses_rocketmqs_ring(self) -> None:
        assert rocketmq._hash("a-0") == int(hashlib.md5(b"a-0").hexdigest()[:8], 16)
        assert len(set(rocketmq.consistent_hash("t", range(200), ["a", "b", "c"]))) == 3

    def test_rooms_are_served_by_their_own_and_by_all_where_nobody_lives(self) -> None:
        topics = frozenset({"t"})
        members = {"a": GroupMember(topics, rack="r1"), "b": GroupMember(topics, rack="r2"), "c": GroupMember(topics)}
        racks = {"t": [["r1", "r2"], ["r1"], ["r2"], ["r3"], ["r3"], ["r3"], []]}
        answer = rocketmq.machine_room(Group({"t": 7}, members, racks))
        # r3 is divided among all three; the single partition without a room goes to the first.
        assert answer == {"a": {"t": [0, 1, 3, 6]}, "b": {"t": [2, 4]}, "c": {"t": [5]}}
