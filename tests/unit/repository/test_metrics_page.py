"""The page on metrics names every metric that is exposed, and no other; the bounds that it says are those of the code."""

import re
from pathlib import Path

from coordinator_plugin import stats
from prometheus_client.parser import text_string_to_metric_families

from coordinator_tasks.cli import metrics_text
from coordinator_tasks.core.buckets import PAUSE_S
from coordinator_tasks.core.growth import Decision, Kind
from coordinator_tasks.core.lag import LagStatus
from coordinator_tasks.service.figures import TopicFigures
from coordinator_tasks.service.overview import ConsumerOverview
from coordinator_tasks.service.survey import Happened, PartitionLag, Survey
from spark_apps.agent.interface import metrics
from spark_apps.agent.ownership.figures import ConsumerFigures, PartitionFigures
from spark_apps.agent.ownership.figures import TopicFigures as OwnedTopic

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n### {title}\n", 1)[1].split("\n## ")[0].split("\n### ")[0]


def named(title: str) -> set[str]:
    """The names in the first column of the section's table."""
    rows = re.findall(r"^\| (`[^|]+) \|", section(title), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}


def families(raw: bytes) -> dict[str, int]:
    """Name → number of series."""
    return {
        family.name + ("_total" if family.type == "counter" else ""): len(family.samples)
        for family in text_string_to_metric_families(raw.decode())
    }


def of_consumer() -> dict[str, int]:
    topic = OwnedTopic(
        "g", 1, 1, {0: PartitionFigures(1, 2, 1, 0.1)}, batch_buckets=tuple((str(n), 0) for n in range(15))
    )
    return families(metrics.exposed(ConsumerFigures("a", "shop", 1, "ok", 0, {"orders": topic})))


def of_coordinator() -> dict[str, int]:
    lag = PartitionLag("g", "orders", 0, "a", 1, 2, 1, 0.5, LagStatus.OK, told=False)
    found = Survey(
        cluster="shop",
        topics=(TopicFigures("orders", "g"),),
        consumers=(ConsumerOverview("a", "live"),),
        wanted=1,
        happened={"orders": Happened()},
        oldest_unowned_s={},
        lags=(lag,),
        groups={"g": LagStatus.OK},
        unknown={},
        desired={"app": Decision(Kind.SHRINK, 5.0, 3, 2)},
    )
    return families(metrics_text.exposed(found, "shop", 0.0, 0.0))


def test_it_names_what_a_consumer_exposes() -> None:
    assert named("A consumer") == set(of_consumer())


def test_it_names_what_the_coordinator_exposes() -> None:
    assert named("The coordinator") == set(of_coordinator())


def test_it_names_what_airflow_sends() -> None:
    text = Path(stats.__file__).read_text(encoding="utf-8")
    sent = set(re.findall(r'_(?:gauge|count|timing)\(\s*"([\w.]+)"', text))
    sent |= {f"topic.{name}" for name in re.findall(r'^        "(\w+)":', text, re.MULTILINE)}
    assert named("Airflow's metrics") == {f"coordinator.{name}" for name in sent}


def test_the_bounds_are_those_of_the_code() -> None:
    rows = PAGE.split("\n## How many series\n", 1)[1]
    for bound in (
        f"{metrics.MAX_TOPICS} topics, {metrics.MAX_PARTITIONS:,} partitions |",
        f"{metrics_text.MAX_TOPICS:,} topics, {metrics_text.MAX_CONSUMERS:,} consumers, {metrics_text.MAX_FLEETS:,} fleets, "
        f"{metrics_text.MAX_PARTITIONS:,} partitions |",
        f"| Airflow | {stats.MAX_TOPICS:,} topics, {stats.MAX_CONSUMERS:,} consumers, {stats.MAX_FLEETS:,} fleets |",
    ):
        assert bound in rows, bound


def test_the_number_of_series_is_what_it_says() -> None:
    consumer, coordinator = of_consumer(), of_coordinator()
    per_topic = sum(
        count
        for name, count in consumer.items()
        if name.startswith("messaging")
        or name
        in (
            "coordinator_consumer_sum_lag",
            "coordinator_consumer_max_lag_seconds",
            "coordinator_consumer_partitions",
            "coordinator_consumer_acted_epoch",
            "coordinator_consumer_fences_total",
        )
    )
    assert 20 <= per_topic <= 25
    of_topics = sum(
        count
        for name, count in coordinator.items()
        if re.match(r"coordinator_(topic|moves|pause|unmoved|unowned|rebal)", name)
    )
    assert 60 <= of_topics <= 75


def test_the_buckets_are_those_of_the_code() -> None:
    below = [f"{1000 * bound:,.0f}" for bound in PAUSE_S if bound <= 1]
    assert f"{', '.join(below[:-1])} and {below[-1]} ms" in " ".join(PAGE.split())
