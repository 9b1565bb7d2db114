"""Every group strategy as a property: valid, independent of order; the optimum against brute force, stable, monotone."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st

from benchmarks.group_assignors.group_strategies import GROUP_ASSIGNORS
from benchmarks.group_assignors.layout import claims_of, layout_of
from benchmarks.group_assignors.optimum import GroupBalanced, Proof, solve
from coordinator_tasks.core.assignors import rocketmq
from coordinator_tasks.core.assignors.group import Group, GroupMember, kafka_order
from tests.unit.benchmarks.groups import TOPICS, after, best, given, groups, loads, moves, partitions

COMPLETE = sorted(GROUP_ASSIGNORS.keys() - {"cooperative-sticky"})
JOINER = "cz"
V = TypeVar("V")


@settings(max_examples=150)
@over(groups())
def test_no_assignment_has_a_better_balance_or_with_it_fewer_moves(group: Group) -> None:
    answer = given(GroupBalanced().assign(group))
    if group.members:
        assert (loads(group, answer), moves(group, answer)) == best(group)
    assert solve(group).moves == moves(group, answer)


@pytest.mark.parametrize("claimed", [7, -1], ids=["beyond the last", "below the first"])
def test_a_claim_on_a_partition_that_is_not_there_counts_for_nothing(claimed: int) -> None:
    topic = frozenset({"ta"})
    members = {"ca": GroupMember(topic, {"ta": [claimed]}), "cb": GroupMember(topic, {"ta": [0, 1]})}
    assert GroupBalanced().assign(Group({"ta": 2}, members)) == {"ca": {"ta": [1]}, "cb": {"ta": [0]}}


@pytest.mark.parametrize("strategy", COMPLETE)
@settings(max_examples=50)
@over(group=groups())
def test_every_partition_goes_once_and_to_a_live_subscriber(strategy: str, group: Group) -> None:
    answer = GROUP_ASSIGNORS[strategy].assign(group)
    listed = [(t, p) for topics in answer.values() for t, found in topics.items() for p in found]
    assert sorted(listed) == sorted(partitions(group))
    assert answer.keys() == group.members.keys()
    for member, topics in answer.items():
        assert topics.keys() <= group.members[member].topics
        assert all(found == sorted(found) for found in topics.values())


@pytest.mark.parametrize("strategy", sorted(GROUP_ASSIGNORS))
@settings(max_examples=50)
@over(group=groups(), rng=st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(strategy: str, group: Group, rng: Random) -> None:
    def shuffled(mapping: Mapping[str, V]) -> dict[str, V]:
        return dict(rng.sample(list(mapping.items()), len(mapping)))

    other = {
        m: GroupMember(v.topics, {t: rng.sample(p, len(p)) for t, p in shuffled(v.owned).items()}, v.generation, v.rack)
        for m, v in shuffled(group.members).items()
    }
    turned = Group(shuffled(group.topics), other, shuffled(group.racks))
    assert GROUP_ASSIGNORS[strategy].assign(turned) == GROUP_ASSIGNORS[strategy].assign(group)


@settings(max_examples=100)
@over(group=groups())
def test_cooperative_sticky_withholds_what_another_member_claims_and_ends_in_the_optimum(group: Group) -> None:
    """After each round everybody has given up what it was not given. One round settles the claims, two make a move."""
    strategy = GROUP_ASSIGNORS["cooperative-sticky"]
    first = strategy.assign(group)
    assert len(given(first)) == sum(len(listed) for topics in first.values() for listed in topics.values())
    for (topic, partition), member in given(first).items():
        assert topic in group.members[member].topics
        assert not any(partition in v.owned.get(topic, ()) for m, v in group.members.items() if m != member)
    second = strategy.assign(after(group, first))
    if group.members:
        level, fewest = best(group)
        assert loads(group, given(second)) == level
        # What several claim is taken from all of them first, and then nobody had it.
        owners = Counter((t, p) for member in group.members.values() for t, ps in member.owned.items() for p in ps)
        assert fewest <= moves(group, given(second)) <= fewest + sum(n > 1 for n in owners.values())
    assert strategy.assign(after(group, second)) == second


@settings(max_examples=60)
@over(group=groups(), topics=st.frozensets(st.sampled_from(TOPICS), min_size=1))
def test_with_mixed_subscriptions_a_joiner_relieves_and_its_leave_burdens(group: Group, topics: frozenset[str]) -> None:
    """Largest first, no load of the others grows by a join; what only the joiner subscribes to is not theirs."""
    before = GroupBalanced().assign(group)
    bigger = Group(group.topics, {**after(group, before).members, JOINER: GroupMember(topics)})
    joined = given(GroupBalanced().assign(bigger))
    others = {p: m for p, m in joined.items() if m != JOINER}
    assert all(new <= old for new, old in zip(loads(group, others), loads(group, given(before)), strict=True))


def test_a_claim_of_the_newest_generation_is_believed_where_it_costs_nothing() -> None:
    both = frozenset({"t"})
    old, new = GroupMember(both, {"t": [0]}, 1), GroupMember(both, {"t": [0]}, 2)
    for members in ({"a": old, "b": new}, {"a": new, "b": old}):
        answer = GroupBalanced().assign(Group({"t": 2}, members))
        assert answer["a" if members["a"] is new else "b"] == {"t": [0]}
    mixed = {"a": old, "b": new, "c": GroupMember(frozenset({"u"}))}
    assert GroupBalanced().assign(Group({"t": 2, "u": 1}, mixed))["b"] == {"t": [0]}


def test_nothing_is_passed_on_by_way_of_somebody_where_one_move_is_enough() -> None:
    both = frozenset({"t", "u"})
    members = {
        "a": GroupMember(both, {"u": [1, 2]}),
        "b": GroupMember(both, {"t": [0], "u": [0]}),
        "c": GroupMember(frozenset({"t"})),
    }
    answer = GroupBalanced().assign(Group({"t": 1, "u": 3}, members))
    assert answer == {"a": {"u": [1, 2]}, "b": {"u": [0]}, "c": {"t": [0]}}


def test_the_proof_says_why_nothing_is_better() -> None:
    t, both = frozenset({"t"}), frozenset({"t", "u"})
    assert solve(Group({"t": 3}, {"a": GroupMember(t), "b": GroupMember(t)})).proof is Proof.CLOSED_FORM
    assert solve(Group({"t": 3, "u": 3}, {"a": GroupMember(t), "b": GroupMember(both)})).proof is Proof.BOUND
    assert solve(Group({"t": 1, "u": 5}, {"a": GroupMember(t), "b": GroupMember(both)})).proof is Proof.BOUND
    lopsided = {"a": GroupMember(both, {"t": [0, 1, 2], "u": [0, 1]}), "b": GroupMember(t)}
    assert solve(Group({"t": 3, "u": 2}, lopsided)).proof is Proof.BOUND
    crowded = {"a": GroupMember(t, {"t": [0, 1]}), "b": GroupMember(t, {"t": [2]}), "c": GroupMember(both, {"t": [3]})}
    assert solve(Group({"t": 4, "u": 9}, crowded)).proof is Proof.SEARCH


@pytest.mark.parametrize("racks", [[["r2"], ["r1"]], [["r2"], ["r1"], []]], ids=["not listed", "listed as none"])
def test_a_partition_whose_racks_are_unknown_comes_after_those_that_are_near(racks: list[list[str]]) -> None:
    topics = frozenset({"t"})
    members = {"a": GroupMember(topics, rack="r1"), "b": GroupMember(topics, rack="r2")}
    answer = GROUP_ASSIGNORS["range"].assign(Group({"t": 3}, members, {"t": racks}))
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


def test_claims_that_nobody_may_keep_do_not_count() -> None:
    topics = frozenset({"t"})
    members = {
        "a": GroupMember(topics, {"t": [0, 0, 7, -1], "gone": [0], "u": [0]}),
        "b": GroupMember(topics, {"t": [1, 2]}),
    }
    group = Group({"t": 3, "u": 1}, members)
    layout = layout_of(group)
    assert layout.topics == ("t",)
    assert claims_of(group, layout).owner.tolist() == [0, 1, 1]


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
        answer = rocketmq.MachineRoomNearby(rocketmq.average).assign(Group({"t": 7}, members, racks))
        # r3 is divided among all three, and so is what has no room: its one partition goes to the first.
        assert answer == {"a": {"t": [0, 1, 3, 6]}, "b": {"t": [2, 4]}, "c": {"t": [5]}}
