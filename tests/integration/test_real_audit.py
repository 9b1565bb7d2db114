"""The ownership audit on real servers: while partitions move, and with a foreign commit."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator_tasks.service.watch.audit import Audit, audit
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed

pytestmark = pytest.mark.integration


def alarms(found: Audit) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.code, one.partitions) for one in found.alarms]


def test_joins_and_drains_under_load_are_no_finding_and_an_intruder_is(managed: Managed) -> None:
    site = managed.site
    managed.join("a")
    with managed.looping(), open_coordinator(site.settings) as c:
        managed.stable("a")
        traffic = Traffic(site)
        managed.ledger.grown(range(site.partitions), "records flow")
        managed.join("b")
        moving = [audit(c, between_s=1.0, always=False) for _ in range(5)]
        owners = managed.stable("ab")
        quiet = audit(c)
        assert [alarms(one) for one in (*moving, quiet)] == [[]] * 6
        assert {one.who: one.partitions for one in quiet.committers} == {
            who: tuple(sorted(p for p, owner in owners.items() if owner == who)) for who in ("a", "b")
        }
        assert all(one.records > 0 for one in quiet.committers), "records flow between the two looks"

        intrude = AdminClient(dict(site.settings.kafka))
        found: list[tuple[str, tuple[int, ...]]] = []

        def seen() -> bool:
            place = TopicPartition(site.topic, 0, 1)
            for future in intrude.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(site.group, [place])]
            ).values():
                future.result(10)
            found[:] = alarms(audit(c, between_s=1.0, always=False))
            return bool(found)

        wait_for(seen, "the audit sees a commit without a token before its owner overwrites it", LIMIT_S)
        assert found == [("KPC-082", (0,))]
        sent = traffic.close()
        managed.consumed(sent)
    managed.judge(sent)
