"""The log of a consumer has each change once: a report, its end, gained and lost partitions."""

import logging

import pytest

from spark_apps.agent.process.journal import EVERY_S, Journal, TopicAccount
from spark_apps.agent.reports import Problem
from spark_apps.records.batches import Range
from tests.unit.spark_apps.agent.ownership.stage import stage_with


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_it_says_what_is_new_and_what_is_over(caplog: pytest.LogCaptureFixture) -> None:
    gone = (Problem("no ZooKeeper", frozenset({"zookeeper"})),)
    slow = (Problem("slow", frozenset({"tasks"})),)
    looks = [
        {"": TopicAccount(gone), "orders": TopicAccount((), frozenset({0, 1}), 3)},
        {"": TopicAccount(gone), "orders": TopicAccount(slow, frozenset({0, 1}), 3)},
        {"": TopicAccount(), "orders": TopicAccount(slow, frozenset({1, 2}), 4)},
    ]
    standing = iter(looks)
    journal = Journal(lambda: next(standing))
    for number in range(len(looks)):
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


def test_an_outage_whose_error_changes_is_not_over(caplog: pytest.LogCaptureFixture) -> None:
    stage = stage_with(2, 10)
    failing, epoch = stage.ownership.failing, stage.ownership.holdings.held[0].token.epoch
    journal = Journal(lambda: {"t": TopicAccount(stage.ownership.problems())})
    both = [Range(0, 0, 5, epoch), Range(1, 0, 5, epoch)]
    for number, why in enumerate(("connection refused", "the database is starting up")):
        failing.fail(both, f"SinkUnavailable: {why}")
        stage.ownership.reports.add("sink", why)
        journal.look(number * EVERY_S)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4
