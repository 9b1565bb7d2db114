"""Kill -9 at every point of a batch, for each way to deliver: what is in the table is compared with the log."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from spark_apps.delivery import Delivery
from tests.faults.deliveries import KEPT, POINTS, Counts, Walk
from tests.faults.roles import fork_server
from tests.integration.agent_site import Site

pytestmark = pytest.mark.integration
ON_POSTGRES = "{} on PostgreSQL"
WALKED_THERE = (Delivery.EXACTLY_ONCE, Delivery.AT_LEAST_ONCE)


@pytest.fixture(scope="module")
def counts(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    kafka: EmbeddedKafka,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[tuple[str, str], Counts]]:
    """By walk and table. All walks side by side: each has a cluster, a topic and tables of its own."""
    forks, folder, processes = fork_server(), tmp_path_factory.mktemp("deliveries"), threading.Lock()
    walks = {str(one): (one, f"sqlite:///{folder}/{one}.sqlite") for one in POINTS}
    server = request.getfixturevalue("postgres").url
    walks |= {ON_POSTGRES.format(one): (one, server) for one in WALKED_THERE}
    sites = {name: Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=2) for name in walks}

    def walk(name: str) -> dict[str, Counts]:
        delivery, url = walks[name]
        (folder / name).mkdir()
        return Walk(sites[name], forks, folder / name, delivery, url, processes).run(POINTS[delivery])

    with ThreadPoolExecutor(len(walks)) as threads:
        by_walk = dict(zip(walks, threads.map(walk, walks), strict=True))
    yield {(name, table): one for name, tables in by_walk.items() for table, one in tables.items()}
    for site in sites.values():
        site.close()


def test_exactly_once_loses_nothing_and_doubles_nothing(counts: dict[tuple[str, str], Counts]) -> None:
    for name in (Delivery.EXACTLY_ONCE, ON_POSTGRES.format(Delivery.EXACTLY_ONCE)):
        one = counts[name, "seen"]
        assert (one.lost, one.doubled, one.invented) == ([], [], []), name


def test_at_most_once_doubles_nothing_and_loses_what_was_committed_and_not_delivered(
    counts: dict[tuple[str, str], Counts],
) -> None:
    one = counts[Delivery.AT_MOST_ONCE, "seen"]
    assert (one.doubled, one.invented) == ([], [])
    assert one.lost  # a death between the commit and the sink: the walk has been where it hurts


@pytest.mark.parametrize("name", [Delivery.AT_LEAST_ONCE, ON_POSTGRES.format(Delivery.AT_LEAST_ONCE)])
def test_at_least_once_loses_nothing_and_doubles_what_was_delivered_and_not_committed_but_not_where_rows_have_their_key(
    counts: dict[tuple[str, str], Counts], name: str
) -> None:
    one = counts[name, "seen"]
    assert (one.lost, one.invented) == ([], [])
    assert one.doubled  # a death between the sink and the commit
    keyed = counts[name, KEPT.table]
    assert (keyed.lost, keyed.doubled, keyed.invented) == ([], [], [])
