"""Kill -9 at every point of a batch, for each way to deliver: what is in the table is compared with the log."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps.delivery import Delivery
from tests.faults.deliveries import FEWER, POINTS, Counts, Walk
from tests.faults.roles import fork_server
from tests.integration.agent_site import Site

pytestmark = pytest.mark.integration
ON_POSTGRES = "exactly-once on PostgreSQL"


@pytest.fixture(scope="module")
def counts(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    kafka: EmbeddedKafka,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Counts]]:
    """All walks side by side: each has a cluster, a topic and a table of its own."""
    forks, folder = fork_server(), tmp_path_factory.mktemp("deliveries")
    walks = {str(one): (one, f"sqlite:///{folder}/{one}.sqlite", deaths) for one, deaths in POINTS.items()}
    walks[ON_POSTGRES] = (Delivery.EXACTLY_ONCE, request.getfixturevalue("postgres").url, FEWER)
    sites = {name: Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2) for name in walks}

    def walk(name: str) -> Counts:
        delivery, url, deaths = walks[name]
        (folder / name).mkdir()
        return Walk(sites[name], forks, folder / name, delivery, url).run(deaths)

    with ThreadPoolExecutor(len(walks)) as threads:
        found = dict(zip(walks, threads.map(walk, walks), strict=True))
    for name, one in found.items():
        lost, doubled, sent = len(one.lost), len(one.doubled), sum(one.sent.values())
        print(f"\n{name}: {len(walks[name][2])} deaths, {sent} records, {lost} lost, {doubled} doubled")
    yield found
    for site in sites.values():
        site.close()


def test_exactly_once_loses_nothing_and_doubles_nothing(counts: dict[str, Counts]) -> None:
    for name in (Delivery.EXACTLY_ONCE, ON_POSTGRES):
        one = counts[name]
        assert (one.lost, one.doubled, one.invented) == ([], [], []), name


def test_at_most_once_doubles_nothing_and_loses_what_was_committed_and_not_delivered(counts: dict[str, Counts]) -> None:
    one = counts[Delivery.AT_MOST_ONCE]
    assert (one.doubled, one.invented) == ([], [])
    assert one.lost  # a death between the commit and the sink: the walk has been where it hurts


def test_at_least_once_loses_nothing_and_doubles_what_was_delivered_and_not_committed(
    counts: dict[str, Counts],
) -> None:
    one = counts[Delivery.AT_LEAST_ONCE]
    assert (one.lost, one.invented) == ([], [])
    assert one.doubled  # a death between the sink and the commit
