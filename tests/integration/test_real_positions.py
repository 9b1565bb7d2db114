"""Partitions that a person pauses, resumes and sends elsewhere, on real servers and under traffic."""

from collections.abc import Iterator

import pytest

from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.wiring import open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import Traffic, wait_for
from tests.integration.kafka_topics import expire
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = pytest.mark.integration


@pytest.fixture
def managed(managed: Managed) -> Iterator[Managed]:
    managed.join("a")
    managed.join("b")
    with managed.looping():
        managed.stable("ab")
        yield managed


@pytest.fixture
def coordinator(managed: Managed) -> Iterator[Coordinator]:
    with open_coordinator(managed.site.settings) as c:
        yield c


def seen_by_all(managed: Managed) -> bool:
    """Whether every consumer acts by the present plan; a pause is Stable before its owner has read it."""
    topic, epoch = managed.site.topic, managed.node().epoch
    return all(one.status.topics[topic].acted_epoch == epoch for one in managed.consumers.values())


def test_a_paused_partition_stands_still_with_its_owner_while_the_others_go_on(
    managed: Managed, coordinator: Coordinator
) -> None:
    topic, ledger = managed.site.topic, managed.ledger
    traffic = Traffic(managed.site)
    ledger.grown(range(4), "all are read")
    before = managed.node().assignments
    positions.set_paused(coordinator, topic, [1], paused=True, actor=PERSON)
    wait_for(lambda: managed.node().paused == {1} and managed.state().value == "Stable", "it is paused", LIMIT_S)
    owner = managed.consumers[before[1]]
    wait_for(lambda: seen_by_all(managed), "its owner has seen it", LIMIT_S)
    ledger.grown([0, 2, 3], "what was under way is done")
    stopped = len(ledger.offsets(1))
    ledger.grown([0, 2, 3], "the others go on")
    assert len(ledger.offsets(1)) == stopped
    assert managed.node().assignments == before
    assert owner.status.topics[topic].running[1].started
    positions.set_paused(coordinator, topic, [], paused=False, actor=PERSON)
    ledger.grown([1], "it is read again")
    sent = traffic.close()
    managed.consumed(sent)
    managed.judge(sent)


def test_a_partition_is_sent_back_by_its_owner_alone_and_the_history_says_how_to_undo_it(
    managed: Managed, coordinator: Coordinator
) -> None:
    site, topic, ledger = managed.site, managed.site.topic, managed.ledger
    site.produce(60)
    managed.consumed(60)
    wait_for(lambda: all(one.offset == 60 for one in site.committed().values()), "all is committed", LIMIT_S)
    tokens = {p: one.token for p, one in site.committed().items()}
    assert [one.text for one in positions.preview(coordinator, topic, "5", [0])] == [
        "partition 0 continues at 5, was at 60: 55 offsets are read again"
    ]
    positions.reset(coordinator, topic, "5", [0], why="wrong prices", actor=PERSON)
    wait_for(lambda: ledger.offsets(0) == [*range(60), *range(5, 60)], "it is read again", LIMIT_S)
    wait_for(lambda: managed.state().value == "Stable", "Stable", LIMIT_S)
    site.produce(10, start=60)
    wait_for(lambda: all(one.offset == 70 for one in site.committed().values()), "all go on", LIMIT_S)
    again = site.committed()
    assert again[0].token is not None
    assert tokens[0] is not None
    assert again[0].token.epoch > tokens[0].epoch
    assert {p: again[p].token for p in (1, 2, 3)} == {p: tokens[p] for p in (1, 2, 3)}, "the others were not touched"
    assert all(ledger.offsets(p) == list(range(70)) for p in (1, 2, 3))
    plans = [record.plan for record in managed.history() if record.cause.startswith("reset offsets")]
    assert [one.moves[0].text for one in plans if one is not None] == [
        "partition 0 continues at 5, was at 60: 55 offsets are read again"
    ]


def test_records_that_retention_took_stop_their_partition_until_a_person_sends_it_on(
    managed: Managed, coordinator: Coordinator
) -> None:
    site, topic, ledger = managed.site, managed.site.topic, managed.ledger
    site.produce(10)
    managed.consumed(10)
    wait_for(lambda: all(one.offset == 10 for one in site.committed().values()), "all is committed", LIMIT_S)
    for consumer in managed.consumers.values():
        consumer.close()
    site.produce(40, start=10)
    expire(site.kafka, topic, 0, 30)
    again = managed.join("a")
    says = "partition 0: offsets 10 to 29 are gone, the log begins at 30: stopped; reset its offsets"
    wait_for(lambda: any(says in one for one in again.reports), "it is said", LIMIT_S)
    wait_for(lambda: [len(ledger.offsets(p)) for p in range(4)] == [10, 50, 50, 50], "the others go on", LIMIT_S)
    assert site.committed()[0].offset == 10
    positions.reset(coordinator, topic, "earliest", [0], why="lost", actor=PERSON)
    wait_for(lambda: ledger.offsets(0) == [*range(10), *range(30, 50)], "it goes on", LIMIT_S)
    managed.stable("a")
