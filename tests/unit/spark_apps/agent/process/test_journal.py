"""The log of a consumer says once what is new: a report, its end, and partitions that come and go."""

import logging

import pytest

from spark_apps.agent.process.journal import EVERY_S, Journal, TopicAccount


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


class Consumer:
    def __init__(self) -> None:
        self.stands: dict[str, TopicAccount] = {}
        self.asked = 0

    def standing(self) -> dict[str, TopicAccount]:
        self.asked += 1
        return self.stands


def test_it_says_what_is_new_and_what_is_over(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer()
    journal = Journal(consumer.standing)
    steps = [
        {"": TopicAccount(("no ZooKeeper",)), "orders": TopicAccount((), frozenset({0, 1}), 3)},
        {"": TopicAccount(("no ZooKeeper",)), "orders": TopicAccount(("slow",), frozenset({0, 1}), 3)},
        {"": TopicAccount(), "orders": TopicAccount(("slow",), frozenset({1, 2}), 4)},
    ]
    for number, stands in enumerate(steps):
        consumer.stands = stands
        journal.look(number * EVERY_S)
    assert [(record.levelname, record.message, getattr(record, "topic", "")) for record in caplog.records] == [
        ("WARNING", "no ZooKeeper", ""),
        ("INFO", "takes up partitions 0-1", "orders"),
        ("WARNING", "slow", "orders"),
        ("INFO", "over: no ZooKeeper", ""),
        ("INFO", "takes up partition 2", "orders"),
        ("INFO", "has given away or lost partition 0", "orders"),
    ]
    assert (journal.epoch_of("orders"), journal.epoch_of("other")) == (4, 0)
