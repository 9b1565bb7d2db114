"""What Kafka changes under a running cluster: more partitions, a recreated topic, a log-in."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from coordinator_tasks.core.errors import KafkaUnavailable, NodeMissing
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor, StartRule
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.wiring import Settings, open_coordinator
from tests.fakes.cluster import PERSON
from tests.integration.agent_site import Site, wait_for
from tests.integration.kafka_topics import produce
from tests.integration.real_site import LIMIT_S, QUICK, Managed
from tests.sasl_kafka import SaslKafka

pytestmark = [pytest.mark.integration, pytest.mark.partitions(2)]
ALL = range(4)
LOOP = Actor("loop", "test")


@pytest.fixture
def managed(site: Site) -> Iterator[Managed]:
    made = Managed(site, start=StartRule.LATEST)
    yield made
    made.close()


def admin(site: Site) -> AdminClient:
    return AdminClient({"bootstrap.servers": site.kafka, "log_level": "1"})


def step(managed: Managed) -> TopicReport:
    with open_coordinator(replace(managed.site.settings, policy=QUICK)) as c:
        topics.refresh_partitions(c)
        (report,) = transitions.step(c, [managed.site.topic], LOOP)
    return report


def test_new_partitions_become_nodes_are_assigned_and_start_at_their_beginning_whatever_the_start_rule(
    managed: Managed,
) -> None:
    site = managed.site
    site.produce(5)
    managed.join("a")
    with managed.looping():
        managed.stable("a")
    before = {p: managed.node().since[p] for p in range(2)}
    site.produce(5, start=5)
    wait_for(lambda: all(managed.ledger.offsets(p) == [5, 6, 7, 8, 9] for p in range(2)), "latest begins at the end")
    client = admin(site)
    client.create_partitions([NewPartitions(site.topic, 4)])[site.topic].result(20)
    wait_for(lambda: site.admin.describe([site.topic])[site.topic].partition_count == 4, "Kafka has more", LIMIT_S)  # type: ignore[union-attr]
    site.partitions = 4
    for partition in ALL:  # a new producer: the old one does not know of the new partitions yet
        produce(site.kafka, site.topic, [str(number).encode() for number in (10, 11, 12)], partition)
    managed.join("b")
    with managed.looping():
        managed.stable("ab")
        wait_for(lambda: all(managed.ledger.offsets(p) == [0, 1, 2] for p in (2, 3)), "new ones from 0", LIMIT_S)
    listed = [name for name in site.zk.children(site.paths.topic(site.topic)) if name.isdigit()]
    assert sorted(listed) == ["0", "1", "2", "3"]
    assert managed.node().initial_partitions == 2
    assert {
        p: managed.node().since[p] for p in range(2) if managed.node().assignments[p] == "a"
    }.items() <= before.items()
    assert all(managed.ledger.offsets(p) == list(range(5, 13)) for p in range(2)), "nothing twice, nothing left out"


def test_a_consumer_that_slept_while_its_topic_was_recreated_stops_and_commits_nothing_that_counts_for_the_new_one(
    managed: Managed, tmp_path: Path
) -> None:
    site, file = managed.site, tmp_path / "rows.jsonl"
    process = site.plain_process("a", file)

    def values() -> list[int]:
        return [int(json.loads(line)["value"]) for line in file.read_text().splitlines()] if file.exists() else []

    try:
        with managed.looping():
            managed.stable("a")
        site.produce(20)
        wait_for(lambda: len(values()) == 40, "everything is consumed", LIMIT_S)
        wait_for(lambda: all(one.offset == 20 for one in site.committed().values()), "and committed", LIMIT_S)
        process.send_signal(signal.SIGSTOP)
        client = admin(site)
        client.delete_topics([site.topic])[site.topic].result(20)
        wait_for(lambda: site.admin.describe([site.topic])[site.topic] is None, "Kafka has lost it", LIMIT_S)
        client.create_topics([NewTopic(site.topic, 2)])[site.topic].result(20)
        wait_for(lambda: site.admin.describe([site.topic])[site.topic] is not None, "Kafka has a new one", LIMIT_S)
        for partition in range(2):  # the old position lies within the new log
            produce(site.kafka, site.topic, [str(number).encode() for number in range(1000, 1040)], partition)
        process.send_signal(signal.SIGCONT)
        described = site.admin.describe([site.topic])[site.topic]
        assert described is not None
        expected = f"topic id {described.topic_id}, held is {managed.node().topic_id}"

        def stopped() -> bool:
            try:
                return not site.runs("a") and expected in str(site.topic_status("a").reports)
            except (NodeMissing, OSError):
                return process.poll() == 1

        wait_for(stopped, "it stops and says why, or has met an offset that is not there", LIMIT_S)
        seen = len(values())
        for partition in range(2):
            produce(site.kafka, site.topic, [b"2000"] * 10, partition)
        assert step(managed).outcome is TopicOutcome.HELD
        assert len(values()) == seen, "nothing more is read"
        foreign = {one.topic_id for one in site.committed().values()} - {managed.node().topic_id}
        assert not foreign, "what it committed before it knew names the old topic, so that nobody starts there"
    finally:
        process.kill()
        process.wait()


def test_a_log_in_leaves_no_secret_and_a_wrong_password_is_one_line(site: Site, kafka: SaslKafka) -> None:
    right, wrong = (with_login(site.settings, kafka, password) for password in ("alice-secret", "guessed"))
    with open_coordinator(wrong) as c, pytest.raises(KafkaUnavailable) as refusal:
        topics.add_topic(c, site.topic, site.group, actor=PERSON)
    assert "refuses the log-in" in str(refusal.value)
    assert "check security.protocol, user, password" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "guessed" not in str(refusal.value)
    site.settings = right
    managed = Managed(site)
    try:
        site.produce(20)
        managed.join("a")
        with managed.looping():
            managed.stable("a")
            managed.consumed(20)
            wait_for(lambda: all(one.offset == 20 for one in site.committed().values()), "committed", LIMIT_S)
            stranger = managed.join("b", wrong)
            wait_for(lambda: "refuses the log-in" in str(stranger.reports), "the consumer says so", LIMIT_S)
            assert all("\n" not in text and "guessed" not in text for text in stranger.reports)
        assert managed.node().bootstrap_servers == kafka.sasl_bootstrap_servers
        tree = [site.paths.base]
        for path in tree:
            tree += [f"{path}/{child}" for child in site.zk.children(path)]
            assert b"alice" not in site.zk.get(path).data, path
    finally:
        managed.close()


def with_login(settings: Settings, kafka: SaslKafka, password: str) -> Settings:
    return replace(settings, kafka={**kafka.login(password), "log_level": "1"})
