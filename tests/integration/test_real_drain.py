"""The last consumer is drained, and asked to end: real servers, the plain loop, a plain consumer, the command line."""

import json
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from coordinator_tasks.cli import main
from coordinator_tasks.core.codecs.member_codec import decode_claim
from coordinator_tasks.core.model import Ending
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Consumer, Managed

pytestmark = pytest.mark.integration
ALL = range(4)


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers))
    yield made
    made.close()


def command(c: Coordinator, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments, lambda: nullcontext(c))
    return int(str(ended.value.code))


def reason(c: Coordinator, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of `topics`, and what it says of the topic now."""
    capsys.readouterr()
    code = command(c, "topics", "--json")
    (topic,) = json.loads(capsys.readouterr().out)
    return code, topic["reason"]


def has_left(managed: Managed, consumer: Consumer) -> bool:
    path = managed.site.paths.id(consumer.name)
    claim = decode_claim(path, managed.site.zk.get(path).data, consumer.name, 0)
    return consumer.code == 0 and claim.ended.get(consumer.incarnation) is Ending.LEFT


def test_the_last_consumer_that_is_drained_goes_on_until_another_has_everything(
    managed: Managed, capsys: pytest.CaptureFixture[str]
) -> None:
    one = managed.join("a")
    with managed.looping(), open_coordinator(managed.site.settings) as c:
        managed.stable("a")
        traffic = Traffic(managed.site)
        managed.ledger.grown(ALL, "records flow")
        assert command(c, "drain", "a", "--why", "a new host") == 0
        keeps = "a drains and keeps partitions 0, 1, 2, 3: no other consumer is there that may take them"
        wait_for(lambda: reason(c, capsys) == (0, keeps), "it keeps everything, and that is said", LIMIT_S)
        managed.ledger.grown(ALL, "it goes on reading", by=300)
        assert managed.node().assignments == dict.fromkeys(ALL, "a")
        assert one.code is None
        managed.join("b")
        managed.stable("b")
        wait_for(lambda: has_left(managed, one), "a leaves by itself", LIMIT_S)
        sent = traffic.close()
        managed.consumed(sent)
    managed.judge(sent)


def test_the_last_consumer_that_is_asked_to_end_leaves_and_what_nobody_owns_is_shown(
    managed: Managed, capsys: pytest.CaptureFixture[str]
) -> None:
    one = managed.join("a")
    with managed.looping(), open_coordinator(managed.site.settings) as c:
        managed.stable("a")
        one.consumer.leave(60.0)
        took = wait_for(lambda: has_left(managed, one), "a leaves", 30.0)
        assert took < 30.0, "its close is planned: it does not wait for the end of its time"
        held = (1, "no live consumer is there to take partitions")
        wait_for(lambda: reason(c, capsys) == held, "what nobody owns is shown", LIMIT_S)
        assert command(c, "status") == 1
        managed.join("b")
        managed.stable("b")
        assert command(c, "status") == 0
