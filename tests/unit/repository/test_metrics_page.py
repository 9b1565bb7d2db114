"""Every metric has a text for the reference; the bounds and buckets that the page on metrics says are those of the code."""

import re
from pathlib import Path

from coordinator_plugin import stats
from prometheus_client.metrics_core import Metric

from coordinator_tasks.cli import metrics_text
from coordinator_tasks.core.measure.buckets import PAUSE_S
from spark_apps.agent.interface import metrics
from tests.reference.metrics import calls, of_consumer, of_coordinator

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def series(found: dict[str, Metric]) -> dict[str, int]:
    """Name → number of series."""
    return {name: len(family.samples) for name, family in found.items()}


def test_every_metric_has_a_text_and_airflows_are_all_found() -> None:
    for found in (of_consumer(), of_coordinator()):
        assert {name for name, one in found.items() if not one.documentation} == set()
    text = Path(stats.__file__).read_text(encoding="utf-8")
    sent = set(re.findall(r'_(?:gauge|count|timing)\(\s*"([\w.]+)"', text))
    sent |= {f"topic.{name}" for name in re.findall(r'^        "(\w+)":', text, re.MULTILINE)}
    assert len(sent) > 15
    assert calls().keys() == sent


def test_the_bounds_are_those_of_the_code() -> None:
    rows = PAGE.split("\n## How many series\n", 1)[1]
    for bound in (
        f"{metrics.MAX_TOPICS} topics, {metrics.MAX_PARTITIONS:,} partitions |",
        f"{metrics_text.MAX_TOPICS:,} topics, {metrics_text.MAX_CONSUMERS:,} consumers, {metrics_text.MAX_FLEETS:,} fleets, "
        f"{metrics_text.MAX_GROUPS:,} groups, {metrics_text.MAX_PARTITIONS:,} partitions |",
        f"| Airflow | {stats.MAX_TOPICS:,} topics, {stats.MAX_CONSUMERS:,} consumers, {stats.MAX_FLEETS:,} fleets, "
        f"{stats.MAX_TOPICS:,} groups |",
    ):
        assert bound in rows, bound


def test_the_number_of_series_is_what_it_says() -> None:
    consumer, coordinator = series(of_consumer()), series(of_coordinator())
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
    assert 85 <= of_topics <= 100


def test_the_buckets_are_those_of_the_code() -> None:
    below = [f"{1000 * bound:,.0f}" for bound in PAUSE_S if bound <= 1]
    assert f"{', '.join(below[:-1])} and {below[-1]} ms" in " ".join(PAGE.split())
