"""Metrics in Prometheus' text format, made for each request, without a global registry or other state."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
Labels = Mapping[str, str]


class Families:
    """The metrics of an answer, by name. The first value of a metric sets its labels and help text."""

    def __init__(self) -> None:
        self._found: dict[str, Metric] = {}

    def gauge(self, name: str, text: str, labels: Labels, value: float | None) -> None:
        """Add a present value. `None` means unknown, and adds no series."""
        family = self._found.get(name) or self._add(GaugeMetricFamily(name, text, labels=list(labels)))
        if value is not None:
            family.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]

    def counter(self, name: str, text: str, labels: Labels, value: float) -> None:
        """Add a value that only grows. `name` ends in `_total`."""
        family = self._found.get(name) or self._add(CounterMetricFamily(name, text, labels=list(labels)), name)
        family.add_metric(list(labels.values()), value)  # type: ignore[attr-defined]

    def histogram(self, name: str, text: str, labels: Labels, buckets: Iterable[tuple[str, int]], total: float) -> None:
        """Add a histogram: for each upper bound the number of values up to it, and the sum of all values."""
        family = self._found.get(name) or self._add(HistogramMetricFamily(name, text, labels=list(labels)))
        family.add_metric(list(labels.values()), list(buckets), total)  # type: ignore[attr-defined]

    def _add(self, family: Metric, name: str = "") -> Metric:
        self._found[name or family.name] = family
        return family

    def text(self) -> bytes:
        """Return all metrics, for `CONTENT_TYPE`."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Once(self._found.values()))
        return generate_latest(registry)


class _Once(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        yield from ()
