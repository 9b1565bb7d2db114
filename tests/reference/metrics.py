"""Every metric with its kind, its labels and its text, taken from what is exposed; Airflow's, from what the plugin sends."""

import ast
import re
from collections.abc import Iterator, Mapping

import yaml
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from coordinator_tasks.cli import metrics_text
from coordinator_tasks.core.fleet.growth import GrowthDecision, GrowthKind
from coordinator_tasks.core.measure.lag import LagStatus
from coordinator_tasks.core.model import StateSize
from coordinator_tasks.service.watch.overview import ConsumerOverview
from coordinator_tasks.service.watch.survey import PartitionLag, Survey, TopicEvents
from coordinator_tasks.service.watch.topic_metrics import TopicFigures, TopicLag
from spark_apps.agent.interface import metrics as consumer_metrics
from spark_apps.agent.ownership.figures import ConsumerFigures, PartitionFigures
from spark_apps.agent.ownership.figures import OwnedFigures as OwnedTopic
from tests.reference.form import ROOT, page, table
from tests.reference.settings import texts

SENDERS = {"_gauge": "gauge", "_count": "counter", "_timing": "timing"}
OF_LAG = {"topic.lag": "records", "topic.lag_seconds": "seconds", "topic.lag_unknown_partitions": "unknown"}
ELSEWHERE = {"consumer.incarnation": "coordinator_incarnation", "group.status": "burrow_kafka_consumer_status"}
"""Airflow's name → the coordinator's, where it is another one."""
HEAD = ("metric", "kind", "labels", "what")


def metrics() -> str:
    return page(
        "Metrics",
        "Set-up, bounds and alerts: [metrics and alerts](../metrics.md).\n",
        "## A consumer\n\nAt `/metrics` of the interface. `kafka_...` are names of Kafka Lag Exporter, `messaging_...` of OpenTelemetry.\n",
        table(HEAD, list(_rows(of_consumer()))),
        "## The coordinator\n\nAt `/metrics` of `coordinator metrics`. [Burrow's status](../metrics.md#burrows-status), and how the "
        "[lag in seconds](../metrics.md#lag-in-seconds) is estimated.\n",
        table(HEAD, list(_rows(of_coordinator()))),
        "## Airflow's metrics\n\nSent by the tasks of `rebalance` and `reconcile`. [How tags are written](../metrics.md#airflows-metrics), and "
        "what is not sent.\n",
        table(("metric", "kind", "tags", "what"), list(_sent())),
        "## Alerts\n\nThe expressions are in `docs/monitoring/alerts.yml`. `topic`, `value` and the like stand for the values of the alert.\n",
        table(("alert", "severity", "when", "what to do"), list(_alerts())),
    )


def _alerts() -> Iterator[tuple[str, ...]]:
    """The rules of Prometheus: name, severity, summary with the seconds for which an expression has to hold, and remedy."""
    groups = yaml.safe_load((ROOT / "docs" / "monitoring" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in (one for group in groups for one in group["rules"]):
        holds = f", for {rule['for']}" if "for" in rule else ""
        notes = {
            name: re.sub(r"`?\{\{ \$(?:labels\.)?(\w+).*?\}\}`?", r"`\1`", text)
            for name, text in rule["annotations"].items()
        }
        mend = notes["description"].strip().replace(" `topic`", " TOPIC`")
        yield f"`{rule['alert']}`", rule["labels"]["severity"], f"{notes['summary']}{holds}", mend


def families(raw: bytes) -> dict[str, Metric]:
    """By the name with which it is exposed."""
    found = text_string_to_metric_families(raw.decode())
    return {one.name + ("_total" if one.type == "counter" else ""): one for one in found}


def of_consumer() -> dict[str, Metric]:
    partition = PartitionFigures(1, 2, 1, 0.1, StateSize(1, 1, 1))
    topic = OwnedTopic("g", 1, 1, {0: partition}, batch_buckets=tuple((str(n), 0) for n in range(15)))
    return families(consumer_metrics.exposed(ConsumerFigures("a", "shop", 1, "ok", True, 0, {"orders": topic})))


def of_coordinator() -> dict[str, Metric]:
    found = Survey(
        cluster="shop",
        topics=(TopicFigures("orders", "g"),),
        consumers=(ConsumerOverview("a", "live"),),
        wanted=1,
        happened={"orders": TopicEvents()},
        oldest_unowned_s={},
        lags=(PartitionLag("g", "orders", 0, "a", 1, 2, 1, 0.5, LagStatus.OK, told=False),),
        groups={"g": LagStatus.OK},
        unknown={},
        desired={"app": GrowthDecision(GrowthKind.SHRINK, 5.0, 3, 2)},
    )
    return families(metrics_text.exposed(found, "shop", 0.0, 0.0))


def _rows(found: Mapping[str, Metric]) -> Iterator[tuple[str, ...]]:
    for name, one in found.items():
        labels = dict.fromkeys(label for sample in one.samples for label in sample.labels if label != "le")
        yield f"`{name}`", one.type, _listed(labels), one.documentation


def _listed(names: Mapping[str, None]) -> str:
    return ", ".join(f"`{one}`" for one in names)


# Airflow's ------------------------------------------------------------------------------------------------------------


def _sent() -> Iterator[tuple[str, ...]]:
    exposed = of_coordinator()
    for name, (kind, tags) in sorted(calls().items()):
        yield f"`coordinator.{name}`", kind, _listed({"cluster": None, **tags}), _meaning(name, exposed)


def calls() -> dict[str, tuple[str, dict[str, None]]]:
    """Metric → its kind and its tags, read from the source: Airflow is not imported for it."""
    tree = ast.parse((ROOT / "plugins" / "coordinator_plugin" / "stats.py").read_text())
    found = {}
    for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)):
        keys = [
            ast.literal_eval(key) for one in ast.walk(function) if isinstance(one, ast.Dict) for key in one.keys if key
        ]
        for one in ast.walk(function):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in SENDERS:
                tags = dict.fromkeys(str(given.arg) for given in one.keywords)
                first = one.args[0]
                names = [first.value] if isinstance(first, ast.Constant) else [f"topic.{key}" for key in keys]
                found.update({str(name): (SENDERS[one.func.id], tags) for name in names})
    return found


def _meaning(name: str, exposed: Mapping[str, Metric]) -> str:
    if name in OF_LAG:
        return texts(TopicLag)[OF_LAG[name]].rstrip(".")
    same = ELSEWHERE.get(name, "coordinator_" + name.replace(".", "_"))
    return next(exposed[one].documentation for one in (same, f"{same}_seconds", f"{same}_total") if one in exposed)
