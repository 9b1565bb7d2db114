"""Commits as transactions, on a real broker: whoever holds a partition now is the only one who can commit it."""

import time
import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest
from confluent_kafka import Consumer

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.adapters.kafka_transactions import TransactionalGroupOffsets
from coordinator_tasks.core.errors import CommitFenced
from coordinator_tasks.core.model import Committed, Token
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka

FIRST, SECOND, THIRD = Token(3, 1, "gen"), Token(5, 1, "gen"), Token(7, 2, "gen")
TOPIC = f"t-{uuid.uuid4().hex[:8]}"


class Group:
    """A group of its own, and as many owners as are asked for; `plain` writes without any fence.

    Kafka shows a transaction to whoever does not wait for it a moment after it was acknowledged: `committed` waits.
    """

    def __init__(self, kafka: EmbeddedKafka) -> None:
        # What is a consumer's own setting must not trouble a producer.
        self.settings = {"bootstrap.servers": kafka.bootstrap_servers, "fetch.wait.max.ms": "10", "log_level": "1"}
        self.name = f"g-{uuid.uuid4().hex[:8]}"
        self.plain = ConfluentGroupOffsets(self.settings, self.name)

    def owner(self) -> TransactionalGroupOffsets:
        return TransactionalGroupOffsets(self.settings, self.name, "shop")

    def committed(self, *partitions: int) -> Mapping[int, Committed]:
        return self.owner().committed(TOPIC, partitions)

    def offset(self, partition: int) -> int:
        return self.committed(partition)[partition].offset


@pytest.fixture
def group(kafka: EmbeddedKafka) -> Group:
    ConfluentKafkaAdmin({"bootstrap.servers": kafka.bootstrap_servers}).create_topic(TOPIC, 2)
    return Group(kafka)


def entry(offset: int, token: Token, owner: str = "a") -> Committed:
    return Committed(offset, token, owner, "shop", "id-1")


def hold(owner: TransactionalGroupOffsets, tokens: Mapping[int, Token]) -> None:
    """Hold these; the first transactions of a broker take some seconds to begin."""
    until = time.monotonic() + 30
    while unheld := owner.hold(TOPIC, "id-1", tokens):
        assert time.monotonic() < until, unheld
        time.sleep(0.05)


def test_commits_come_back_with_what_their_metadata_says(group: Group) -> None:
    owner = group.owner()
    hold(owner, {0: FIRST, 1: FIRST})
    for offset in (4, 9):
        owner.commit(TOPIC, {0: entry(offset, FIRST), 1: entry(offset + 1, FIRST)})
    assert group.committed(0, 1) == {0: entry(9, FIRST), 1: entry(10, FIRST)}
    assert owner.committed(TOPIC, [0]) == {0: entry(9, FIRST)}


def test_the_broker_refuses_the_owner_of_the_past_from_the_moment_another_holds_the_partition(group: Group) -> None:
    old, new = group.owner(), group.owner()
    hold(old, {0: FIRST, 1: FIRST})
    old.commit(TOPIC, {0: entry(5, FIRST), 1: entry(5, FIRST)})
    hold(new, {0: SECOND})
    with pytest.raises(CommitFenced, match="another consumer has taken the partition") as refused:
        old.commit(TOPIC, {0: entry(99, FIRST), 1: entry(6, FIRST)})
    assert refused.value.partitions == (0,)
    assert (group.offset(0), group.offset(1)) == (5, 6), "what nobody took is committed"
    new.commit(TOPIC, {0: entry(7, SECOND, "b")})
    with pytest.raises(CommitFenced):
        old.commit(TOPIC, {0: entry(99, FIRST)})
    assert group.committed(0) == {0: entry(7, SECOND, "b")}


def test_another_group_of_the_same_topic_takes_nothing(group: Group, kafka: EmbeddedKafka) -> None:
    one, other = group.owner(), Group(kafka).owner()
    hold(one, {0: FIRST})
    hold(other, {0: SECOND})
    one.commit(TOPIC, {0: entry(5, FIRST)})
    assert group.offset(0) == 5


def test_a_late_comer_of_the_past_takes_nothing_from_the_present_owner(group: Group) -> None:
    old, new = group.owner(), group.owner()
    hold(new, {0: SECOND})
    new.commit(TOPIC, {0: entry(7, SECOND)})
    hold(old, {0: FIRST})
    with pytest.raises(CommitFenced):
        old.commit(TOPIC, {0: entry(99, FIRST)})
    new.commit(TOPIC, {0: entry(8, SECOND)})
    assert group.offset(0) == 8


def test_a_partition_that_was_given_up_can_be_held_again_by_the_same_process(group: Group) -> None:
    owner, between = group.owner(), group.owner()
    hold(owner, {0: FIRST})
    owner.commit(TOPIC, {0: entry(5, FIRST)})
    hold(owner, {})
    hold(between, {0: SECOND})
    between.commit(TOPIC, {0: entry(6, SECOND)})
    hold(owner, {0: THIRD})
    owner.commit(TOPIC, {0: entry(7, THIRD)})
    assert group.offset(0) == 7
    with pytest.raises(CommitFenced):
        between.commit(TOPIC, {0: entry(9, SECOND)})


def test_an_entry_of_the_topics_former_life_keeps_nobody_from_holding_it(group: Group) -> None:
    owner = group.owner()
    group.plain.commit(TOPIC, {0: replace(entry(50, THIRD), topic_id="id-0")})
    hold(owner, {0: FIRST})
    owner.commit(TOPIC, {0: entry(1, FIRST)})
    assert group.offset(0) == 1


def test_who_is_fenced_hears_of_it_also_where_another_commit_fails(group: Group) -> None:
    old, new = group.owner(), group.owner()
    hold(old, {0: FIRST, 1: FIRST})
    hold(new, {0: SECOND})
    old._producers[TOPIC, 1][1].begin_transaction()  # so that the next one cannot begin
    with pytest.raises(CommitFenced) as refused:
        old.commit(TOPIC, {1: entry(5, FIRST), 0: entry(5, FIRST)})
    assert refused.value.partitions == (0,)


def test_a_commit_that_was_begun_and_never_ended_is_undone_by_the_next_owner(group: Group) -> None:
    old, new = group.owner(), group.owner()
    hold(old, {0: FIRST})
    old.commit(TOPIC, {0: entry(5, FIRST)})
    producer = old._producers[TOPIC, 0][1]
    producer.begin_transaction()
    old._send(producer, TOPIC, 0, entry(99, FIRST))
    hold(new, {0: SECOND})
    assert new.committed(TOPIC, [0]) == {0: entry(5, FIRST)}


def test_kafka_does_not_refuse_them_because_somebody_subscribes_in_the_group(group: Group) -> None:
    owner = group.owner()
    hold(owner, {0: FIRST})
    intruder = Consumer({"bootstrap.servers": group.settings["bootstrap.servers"], "group.id": group.name})
    intruder.subscribe([TOPIC])
    try:
        while not intruder.assignment():
            intruder.poll(0.1)
        owner.commit(TOPIC, {0: entry(5, FIRST)})
        assert group.committed(0) == {0: entry(5, FIRST)}
    finally:
        intruder.close()
