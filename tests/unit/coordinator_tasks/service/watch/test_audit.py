"""The audit of a whole cluster: two looks; an unreadable part hides no other part."""

from dataclasses import replace

import pytest

from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import Answer, ConsumerStatus
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.nodes.topics import add_topic
from coordinator_tasks.service.watch import audit as service
from coordinator_tasks.service.watch.audit import Audit, audit
from tests.fakes.cluster import PERSON
from tests.fakes.kafka import FakeKafka
from tests.world.site import Site, stable_site

OWN = {"KPC-080", "KPC-081", "KPC-082", "KPC-083", "KPC-085"}


@pytest.fixture
def site() -> Site:
    return stable_site("a", "b")


def found(result: Audit) -> list[tuple[str, tuple[int, ...], str]]:
    """Without releases, which the consumers of these tests do not report."""
    return [(one.code, one.partitions, one.who) for one in result.findings if one.code in OWN]


def test_an_isolated_consumer_that_lives_on_is_found_beside_the_new_owner(site: Site) -> None:
    taken = tuple(sorted(site.owned("a")))
    process = site.processes["a"]
    last = process.answer(process.member)
    directives.isolate(site.coordinator, "a", by="ada", why="wrong results")
    site.processes.pop("a")
    site.settles()
    site.statuses.answers["a"] = last
    result = audit(site.coordinator, always=False)
    assert ("KPC-080", taken, "a, b") in found(result)
    assert result.alarms


def test_a_silent_kafka_is_not_waited_for_in_each_of_many_groups(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def silent(_: FakeKafka, group: str) -> tuple[str, ...]:
        asked.append(group)
        site.clock.sleep(10.0)
        raise KafkaUnavailable("Kafka does not answer within 10 s; check that it runs")

    for number in range(15):
        site.kafka.create_topic(f"topic-{number:02d}", 1)
        add_topic(site.coordinator, f"topic-{number:02d}", f"group-{number:02d}", actor=PERSON)
    monkeypatch.setattr(FakeKafka, "group_members", silent)
    problems = [one for one in audit(site.coordinator, always=False).problems if one.startswith("the members of")]
    assert len(asked) == 2 * 3, "of two looks: reconcile ended at its limit of five minutes, and started no run"
    assert "the members of 13 further groups are not audited: Kafka does not answer" in problems


def test_a_kafka_that_is_away_is_asked_once_in_a_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a broker down, an audit of two topics of two groups took 93 s: every request had a separate time limit."""
    site.kafka.create_topic("clicks", 1)
    add_topic(site.coordinator, "clicks", "clicks", actor=PERSON)
    site.kafka.down = True
    waited = FakeKafka._answer

    def slow(kafka: FakeKafka) -> None:
        site.clock.sleep(10.0)
        waited(kafka)

    monkeypatch.setattr(FakeKafka, "_answer", slow)
    began_s = site.clock.monotonic()
    result = audit(site.coordinator, always=False)
    assert site.clock.monotonic() - began_s <= 2 * 10.0 + result.between_s
    assert any("Kafka does not answer" in problem for problem in result.problems)


def test_a_doubt_of_the_first_look_is_asked_about_again_and_may_end(site: Site) -> None:
    process = site.processes["a"]
    answers = iter([_without(process.answer(process.member)), process.answer(process.member)])
    site.statuses.answers["a"] = lambda _: next(answers)
    result = audit(site.coordinator, always=False)
    assert (found(result), result.between_s) == ([], service.BETWEEN_S)


def _without(answer: Answer) -> Answer:
    """The consumer runs nothing."""
    assert isinstance(answer, ConsumerStatus)
    return replace(answer, topics={name: replace(one, running={}) for name, one in answer.topics.items()})


def test_an_intruder_in_one_topic_is_found_beside_an_unreadable_one_and_a_broken_consumer(site: Site) -> None:
    site.add_topic("clicks", 2)
    site.settles()
    site.zk.transact([SetData(site.paths.topic("clicks"), b"{")])
    site.statuses.answers["b"] = lambda _: ConsumerStatus("b", site.name, 99, "boot", "ok")
    first = min(site.owned("a"))
    site.kafka.stored["g", "orders", first] = (3, "")
    result = audit(site.coordinator)
    assert ("KPC-082", (first,), "") in found(result)
    assert ("KPC-085", tuple(sorted(site.owned("b"))), "b") in found(result)
    assert [problem.split(":")[0] for problem in result.problems] == ["clicks is not audited"]


def test_without_kafka_the_rest_is_audited_and_that_is_said(site: Site) -> None:
    site.kafka.down = True
    result = audit(site.coordinator)
    assert found(result) == []
    assert result.committers == ()
    assert len(result.problems) == 2
    assert all("Kafka does not answer" in problem for problem in result.problems)
