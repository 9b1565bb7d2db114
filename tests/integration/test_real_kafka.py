"""A topic that is recreated in Kafka under a running cluster."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from coordinator_tasks.core.errors import NodeMissing
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.plan.transitions import TopicReport
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, wait_for
from tests.integration.kafka_topics import produce
from tests.integration.real_site import LIMIT_S, QUICK, Managed

pytestmark = [pytest.mark.integration, pytest.mark.partitions(2)]
LOOP = Actor("loop", "test")


def admin(site: Site) -> AdminClient:
    return AdminClient({"bootstrap.servers": site.kafka, "log_level": "1"})


def step(managed: Managed) -> TopicReport:
    with open_coordinator(replace(managed.site.settings, policy=QUICK)) as c:
        topics.refresh_partitions(c)
        (report,) = transitions.step(c, [managed.site.topic], LOOP)
    return report


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
