"""Releases beside each other: a coordinator of one and consumers of the other, replaced in both orders while records flow."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from tests.clusters.two_releases import LAST, ROOT, Rolling, unpack
from tests.integration.agent_site import Site, wait_for

pytestmark = [pytest.mark.clusters, pytest.mark.timeout(900)]
CONSUMERS = ("a", "b")
HANDOFF_S = 3.0
"""More than a hand-off ever takes on a machine that is shared; a session's end or a time-out takes longer."""
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the last release."""
    return unpack(LAST, tmp_path_factory.mktemp("older"))


@pytest.fixture
def rolling(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, tmp_path: Path) -> Iterator[Rolling]:
    made = Rolling(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=12), tmp_path)
    yield made
    made.close()


def begin(rolling: Rolling, coordinator: Path, consumers: Path) -> None:
    rolling.done(coordinator, "add-topic", rolling.site.topic, "--group", rolling.site.group)
    rolling.start(coordinator, "run")
    for name in CONSUMERS:
        rolling.start(consumers, name)
    rolling.shared_by(*CONSUMERS)


def measured(rolling: Rolling, record: Record, name: str, steps: Callable[[], None]) -> float:
    """The longest stall of any partition while these steps are done."""
    began = time.time()
    steps()
    stall_s = rolling.longest_stall_s(began, time.time())
    record(f"{name}_longest_stall_ms", round(stall_s * 1000))
    return stall_s


def roll(rolling: Rolling, release: Path, record: Record, name: str, *, coordinator_first: bool) -> None:
    """Replace everything, one process after the other; each stall is that of a hand-off."""

    def consumers() -> None:
        for one in CONSUMERS:
            rolling.replace(release, one)

    parts = [("coordinator", lambda: rolling.replace(release, "run")), ("consumers", consumers)]
    for part, steps in parts if coordinator_first else reversed(parts):
        stall_s = measured(rolling, record, f"{name}_{part}", steps)
        assert stall_s < HANDOFF_S, f"{name}: {part}"


@pytest.mark.parametrize("coordinator_first", [True, False], ids=["coordinator first", "consumers first"])
def test_an_upgrade_and_a_downgrade_lose_nothing_and_stop_nothing(
    rolling: Rolling, older: Path, record_property: Record, coordinator_first: bool
) -> None:
    with rolling.records():
        begin(rolling, older, older)
        for name in CONSUMERS:  # what replacing a consumer costs without any change of release
            measured(rolling, record_property, f"same_release_{name}", lambda name=name: rolling.replace(older, name))
        roll(rolling, ROOT, record_property, "upgrade", coordinator_first=coordinator_first)
        roll(rolling, older, record_property, "downgrade", coordinator_first=coordinator_first)


def test_coordinators_of_both_releases_beside_each_other_lose_nothing(
    rolling: Rolling, older: Path, record_property: Record
) -> None:
    with rolling.records():
        begin(rolling, older, older)
        rolling.start(ROOT, "run-too")
        stall_s = measured(rolling, record_property, "both", lambda: rolling.replace(ROOT, "a"))
        assert stall_s < HANDOFF_S
        stall_s = measured(rolling, record_property, "both_again", lambda: rolling.replace(older, "a"))
        assert stall_s < HANDOFF_S


def test_what_an_older_consumer_cannot_read_is_refused_until_it_is_gone(rolling: Rolling, older: Path) -> None:
    topic = rolling.site.topic
    ask = ("reset-offsets", topic, "--to", "earliest", "--partition", "0", "--why", "try", "--yes")
    begin(rolling, ROOT, older)
    refused = rolling.command(ROOT, *ask)
    assert refused.returncode == 2
    assert "consumer a runs 0.1.0, which cannot read" in refused.stderr
    for name in CONSUMERS:
        rolling.replace(ROOT, name)
    rolling.done(ROOT, *ask)


def test_a_downgrade_keeps_a_topic_with_properties_where_it_is_and_says_why(rolling: Rolling, older: Path) -> None:
    """An older consumer gets nothing of it, an older coordinator holds it, and those who own it read on."""
    topic, said = rolling.site.topic, "field 'properties' is {'fetch.min.bytes': '1'}, not a string"
    rolling.done(ROOT, "add-topic", topic, "--group", rolling.site.group, "--property", "fetch.min.bytes=1")
    rolling.start(ROOT, "run")
    with rolling.records():
        for name in CONSUMERS:
            rolling.start(ROOT, name)
        rolling.shared_by(*CONSUMERS)
        rolling.end("a")
        rolling.start(older, "a")
        wait_for(lambda: said in rolling.done(ROOT, "status"), "the older consumer says why", 60)
        rolling.shared_by("b")
        assert "every partition is where it should be" in rolling.done(ROOT, "topics")
        rolling.end("run")
        held = rolling.command(older, "step")
        assert (held.returncode, said in held.stdout) == (1, True)
        rolling.shared_by("b")
        rolling.start(ROOT, "run")
        rolling.done(ROOT, "remove-topic", topic, "--yes")
        wait_for(lambda: b'"removed":true' in rolling.node(), "its consumers are told to stop", 60)
        rolling.done(ROOT, "add-topic", topic, "--group", rolling.site.group)
        rolling.shared_by(*CONSUMERS)
        rolling.replace(older, "run")
