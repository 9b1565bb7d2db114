"""Metrics in a site's StatsD: a process sends Airflow's metrics like a task, and a socket of the test receives the metrics."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coordinator_plugin import hook, stats
from coordinator_plugin.upkeep import ReconcileOperator

from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import Move, MoveKind, Pause, Pauses, State, TopicStatus, Unmoved
from coordinator_tasks.service.plan.transitions import TopicReport
from tests.airflow_process import said_by_airflow
from tests.statsd_server import StatsdServer
from tests.unit.plugins.coordinator_plugin.stage import DAGS
from tests.world.site import stable_site

pytestmark = pytest.mark.rest

ROOT = Path(__file__).parents[4]
SINCE_S = 90


def one_turn() -> None:
    """One run of `reconcile`, and the metrics of the tasks of `rebalance`: a lags behind in orders.eu, and payments has no owner."""
    site = stable_site("a", names=("orders.eu",))

    def lags(topic: TopicStatus) -> TopicStatus:
        late = {p: replace(one, lag_records=100 * p, rate=10.0) for p, one in topic.running.items() if p}
        return replace(topic, running={**topic.running, **late})

    site.tells("a", lags)
    site.add_topic("payments")
    setattr(hook.CoordinatorHook, "open", lambda _: nullcontext(site.coordinator))  # noqa: B010 - in a process of its own
    began_at = datetime.now(UTC)
    before = began_at - timedelta(seconds=SINCE_S)
    ti = SimpleNamespace(get_dr_count=lambda *_, **__: 0, get_dag=lambda _: SimpleNamespace(is_paused=False))
    run = SimpleNamespace(start_date=began_at, logical_date=began_at, run_type="scheduled")
    context: Any = {"ti": ti, "prev_start_date_success": before, "dag_run": run}
    ReconcileOperator(task_id="look", dag_ids=DAGS).execute(context)
    moves = (Move(0, "a", "b", MoveKind.HANDOFF), Move(1, "a", "b", MoveKind.HANDOFF))
    ended = TopicReport("orders.eu", State.STARTING, State.STABLE, TopicOutcome.WRITTEN, "", moves)
    stats.tell_reports("shop", [ended])
    found = Pauses((Pause(0, wait_s=0.023, records=4),), unmoved=Unmoved(2, 0.012, 3, "a", 0.01))
    stats.pauses_told("shop")("orders.eu", found)


SEND = f"""
from airflow.sdk.configuration import conf
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
legacy = conf.getboolean("metrics", "legacy_names_on")
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=legacy)
from {__name__} import {one_turn.__name__} as turn
turn()
print("{{}}")
"""


TOLD = {
    "topic.partitions {orders}": "4|g",
    "topic.state {orders} state=Stable": "1|g",
    "topic.lag {orders}": "600|g",
    "topic.lag_seconds {orders}": "30.0|g",
    "topic.lag_unknown_partitions {orders}": "1|g",
    "topic.unowned_partitions {payments}": "4|g",
    "group.status group=g": "1|g",
    "consumers presence=live": "1|g",
    "consumer.incarnation consumer=a": "1|g",
    "moves {orders} kind=handoff": "2|c",
    "rebalances {orders}": "1|c",
    "pause {orders}": "23.000000|ms",
    "pause_records {orders}": "4|c",
    "unmoved_stall {orders}": "12.000000|ms",
}
"""Name and tags → value and kind, as in StatsD."""
NAMED = {"orders": "topic=orders.eu", "payments": "topic=payments"}


def plain(said: str) -> str:
    """The name of plain StatsD, followed by the values of the tags."""
    name, *tags = said.split()
    values = [tag.partition("=")[2].replace(".", "__") for tag in ("cluster=shop", *tags)]
    return ".".join((f"airflow.coordinator.{name}", *values))


def tagged(said: str) -> str:
    """The same with the tags of InfluxDB."""
    name, *tags = said.split()
    return ",".join((f"airflow.coordinator.{name}", "cluster=shop", *tags))


@pytest.mark.parametrize(("influx", "written"), [("False", plain), ("True", tagged)], ids=["plain", "tags"])
def test_a_statsd_server_gets_every_kind_of_figure(influx: str, written: Any, tmp_path: Path) -> None:
    statsd = StatsdServer()
    site = {"STATSD_ON": "True", "STATSD_PORT": str(statsd.port), "STATSD_INFLUXDB_ENABLED": influx}
    metrics = {f"AIRFLOW__METRICS__{name}": value for name, value in site.items()}
    said_by_airflow(SEND, home=tmp_path, path=f"{ROOT}:{ROOT / 'plugins'}", **metrics)
    statsd.close()
    found = statsd.sent
    wanted = {written(name.format(**NAMED)): [value] for name, value in TOLD.items()}
    assert {name: found.get(name) for name in wanted} == wanted
    (lasted,) = found[written("unowned_partition_seconds topic=payments")]
    lasting, kind = lasted.split("|")
    assert kind == "c"
    assert 4 * SINCE_S <= int(lasting) < 4 * (SINCE_S + 60)
    assert written("unowned_partition_seconds topic=orders.eu") not in found
    assert written("topic.lag topic=payments") not in found, "nobody says it"
