"""The files for Prometheus and Grafana: accepted by Prometheus' own checker; each alert fires in the right cases only."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from coordinator_tasks.devstack.embedded.host import prometheus_program
from tests.reference.metrics import of_consumer, of_coordinator

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "monitoring"
PROMTOOL = prometheus_program("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)
STEPS = 60
"""Of a minute each."""


def of(metric: str, values: str, **labels: str) -> dict[str, str]:
    """A series of the cluster `shop`, in promtool's notation."""
    told = ",".join(f'{name}="{value}"' for name, value in {"cluster_name": "shop", **labels}.items())
    return {f"{metric}{{{told}}}": values}


def of_topic(metric: str, values: str, **labels: str) -> dict[str, str]:
    return of(f"coordinator_{metric}", values, topic="t", **labels)


def of_consumer_topic(metric: str, values: str) -> dict[str, str]:
    return of(f"coordinator_consumer_{metric}", values, consumer_id="a", topic="t")


def found(kind: str, values: str) -> dict[str, str]:
    return of("coordinator_audit_findings", values, kind=kind)


def present(presence: str, values: str) -> dict[str, str]:
    return of("coordinator_consumers", values, presence=presence)


WANTED = of("coordinator_consumers_wanted", "3x60")
GROUP = 'cluster="shop",consumer_group="g"'
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "CoordinatorUnseen": (of("coordinator_survey_up", "0x60"), of("coordinator_survey_up", "1x60")),
    "CoordinatorTopicUnowned": (
        of_topic("topic_unowned_oldest_seconds", "0+60x60"),
        of_topic("topic_unowned_oldest_seconds", "50x60"),
    ),
    "CoordinatorTopicStuck": (
        of_topic("topic_not_stable_seconds", "0+60x60"),
        of_topic("topic_not_stable_seconds", "100x60"),
    ),
    "CoordinatorTopicFlaps": (
        of_topic("unasked_rebalances_total", "0+1x60"),
        of_topic("rebalances_total", "0+1x60") | of_topic("unasked_rebalances_total", "0x50 1x10"),
    ),
    "CoordinatorTopicUnreadable": (of_topic("topic_unreadable", "1x60"), of_topic("topic_unreadable", "0x60")),
    "CoordinatorConsumerAbsent": (present("absent", "1x60"), present("live", "3x60")),
    "CoordinatorConsumersMissing": (
        WANTED | present("live", "1x60") | present("draining", "1x60") | present("gone", "5x60"),
        WANTED | present("live", "3x60"),
    ),
    "CoordinatorConsumerUnhealthy": (
        of("coordinator_consumer_healthy", "0x60", consumer_id="a"),
        of("coordinator_consumer_healthy", "1x60", consumer_id="a"),
    ),
    "CoordinatorCommitsFenced": (
        of_consumer_topic("fences_total", "0x57 1 1 1"),
        of_consumer_topic("fences_total", "1x60"),
    ),
    "CoordinatorDeadLetters": (
        of_consumer_topic("dead_letters_total", "0x57 1 1 1"),
        of_consumer_topic("dead_letters_total", "1x60"),
    ),
    "CoordinatorOwnershipDisputed": (
        found("intruder", "0x59 1"),
        found("two_owners", "0x60")
        | found("intruder", "0x60")
        | found("stale", "1x58 0x2")
        | found("no_owner", "3x60"),
    ),
    "CoordinatorPartitionsNotRun": (found("no_owner", "0x57 1x3"), found("no_owner", "0x58 1x2")),
    "CoordinatorConsumersOld": (found("old_code", "2x60"), found("old_code", "0x40 2x20")),
    "CoordinatorAuditBlind": (of("coordinator_audit_left_out", "1x60"), of("coordinator_audit_left_out", "0x60")),
    "CoordinatorPausesLong": (
        of_topic("pause_seconds_bucket", "0x60", le="1.0")
        | of_topic("pause_seconds_bucket", "0+1x60", le="2.0")
        | of_topic("pause_seconds_bucket", "0+1x60", le="+Inf"),
        of_topic("pause_seconds_bucket", "0+1x60", le="0.02") | of_topic("pause_seconds_bucket", "0+1x60", le="+Inf"),
    ),
    "KafkaGroupStopped": (
        {f'burrow_kafka_topic_partition_status{{{GROUP},topic="t",partition="0"}}': "4x60"},
        {f'burrow_kafka_topic_partition_status{{{GROUP},topic="t",partition="0"}}': "2x60"},
    ),
    "KafkaGroupFallsBehind": (
        {f"burrow_kafka_consumer_status{{{GROUP}}}": "2x60"},
        {f"burrow_kafka_consumer_status{{{GROUP}}}": "1x60"},
    ),
}
"""Alert → series with which the alert fires, and series with which it is silent."""


def rules() -> dict[str, dict[str, object]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)


def firing(series: dict[str, str], alert: str, folder: Path, interval: str = "1m") -> bool:
    """Whether the alert fires after `STEPS` minutes: promtool passes for a silent alert."""
    up = {} if "coordinator_survey_up" in str(series) else of("coordinator_survey_up", "1x60")
    test = {
        "rule_files": [str(FOLDER / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": interval,
                "input_series": [{"series": name, "values": values} for name, values in {**up, **series}.items()],
                "alert_rule_test": [{"eval_time": f"{STEPS}m", "alertname": alert, "exp_alerts": []}],
            }
        ],
    }
    page = folder / "test.yml"
    page.write_text(yaml.safe_dump(test), encoding="utf-8")
    done = promtool("test", "rules", str(page))
    assert done.returncode in (0, 1), done.stderr
    assert done.returncode == 0 or f"alertname: {alert}" in done.stdout + done.stderr, done.stdout + done.stderr
    return done.returncode == 1


@needs_promtool
def test_prometheus_takes_the_rules_and_the_configuration() -> None:
    for kind, name in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        done = promtool("check", kind, str(FOLDER / name))
        assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should_and_only_then(alert: str, tmp_path: Path) -> None:
    wrong, right = CASES[alert]
    assert firing(wrong, alert, tmp_path)
    assert not firing(right, alert, tmp_path)


@needs_promtool
@pytest.mark.parametrize(
    "there",
    [
        of("coordinator_consumers", "3x60", presence="gone", instance="a"),
        of("coordinator_consumers_wanted", "3x60", instance="b")
        | of("coordinator_consumers", "2x60", presence="live", instance="a")
        | of("coordinator_consumers", "2x60", presence="live", instance="b"),
    ],
    ids=["none of them runs", "two serve the metrics"],
)
def test_missing_consumers_are_told_also_when(there: dict[str, str], tmp_path: Path) -> None:
    wanted = of("coordinator_consumers_wanted", "3x60", instance="a")
    assert firing({**wanted, **there}, "CoordinatorConsumersMissing", tmp_path)


@needs_promtool
@pytest.mark.parametrize(("values", "fires"), [("_x57 3 3 3", True), ("_x57 0 0 0", False), ("_x40 3x20", False)])
def test_dead_letters_before_the_first_scrape_of_a_new_consumer_are_told(
    values: str, fires: bool, tmp_path: Path
) -> None:
    """Prometheus' increase starts at the first sample."""
    assert firing(of_consumer_topic("dead_letters_total", values), "CoordinatorDeadLetters", tmp_path) == fires


@needs_promtool
@pytest.mark.parametrize(("rebalances", "fires"), [(5, False), (6, True)])
def test_six_rebalances_that_nobody_asked_for_in_ten_minutes_are_flapping_and_five_are_not(
    rebalances: int, fires: bool, tmp_path: Path
) -> None:
    """Without a look of exactly ten minutes ago, Prometheus' increase exceeds the counted number."""
    values = f"0x230 {' '.join(map(str, range(1, rebalances + 1)))} {rebalances}x40"
    series = of_topic("unasked_rebalances_total", values)
    assert firing(series, "CoordinatorTopicFlaps", tmp_path, "14s") is fires


@needs_promtool
def test_one_of_two_clusters_that_nobody_looks_at_any_more_is_told(tmp_path: Path) -> None:
    name = 'coordinator_survey_up{{cluster_name="{}",instance="{}"}}'.format
    both = {name("shop", "a"): "1x60", name("eu", "b"): "1x60"}
    assert firing({**both, name("eu", "b"): "1x30"}, "CoordinatorUnseen", tmp_path)
    assert not firing({**both, name("eu", "c"): "1x30"}, "CoordinatorUnseen", tmp_path)


@needs_promtool
def test_a_cluster_that_one_of_two_sees_is_seen(tmp_path: Path) -> None:
    name = 'coordinator_survey_up{{cluster_name="shop",instance="{}"}}'.format
    assert not firing({name("a"): "0x60", name("b"): "1x60"}, "CoordinatorUnseen", tmp_path)
    assert firing({name("a"): "0x60", name("b"): "0x60"}, "CoordinatorUnseen", tmp_path)


@needs_promtool
def test_a_cluster_whose_look_never_ends_is_told(tmp_path: Path) -> None:
    name = 'coordinator_survey_{}{{cluster_name="shop",instance="{}"}}'.format
    hangs = {name("up", "a"): "1x60", name("timestamp_seconds", "a"): "0x60"}
    assert firing(hangs, "CoordinatorUnseen", tmp_path)
    assert not firing({**hangs, name("timestamp_seconds", "b"): "0+60x60"}, "CoordinatorUnseen", tmp_path)


@needs_promtool
def test_a_cluster_that_nobody_has_ever_looked_at_is_told(tmp_path: Path) -> None:
    assert firing({'up{job="coordinator_survey_up"}': "0x60"}, "CoordinatorUnseen", tmp_path)


BUSY = {
    f'{name}{{{labels},instance="{cluster}",job="consumers"}}': value
    for cluster in ("shop", "eu")
    for name, labels, value in (
        ("coordinator_consumer_healthy", f'cluster_name="{cluster}",consumer_id="a"', "1x60"),
        (
            "messaging_client_consumed_messages_total",
            'messaging_client_id="a",messaging_destination_name="t"',
            "0+60x60",
        ),
    )
}


@needs_promtool
@pytest.mark.parametrize(
    ("title", "series", "value"),
    [
        pytest.param("Topics not Stable", {}, None, id="nothing is known"),
        pytest.param("Topics not Stable", of_topic("topic_not_stable_seconds", "0x60"), 0, id="all are"),
        pytest.param("Topics not Stable", of_topic("topic_not_stable_seconds", "9x60"), 1, id="one is not"),
        pytest.param("Records a second", BUSY, 1, id="of the chosen cluster"),
        pytest.param("Rebalances", of_topic("rebalances_total", "3x58 0x2"), None, id="begun anew"),
        pytest.param("Rebalances", of_topic("rebalances_total", "3x58 4x2"), 1, id="one has ended"),
    ],
)  # fmt: skip
def test_the_dashboard_shows(title: str, series: dict[str, str], value: float | None, tmp_path: Path) -> None:
    board = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    (query,) = [one["targets"][0]["expr"] for one in board["panels"] if one["title"] == title] + [
        one["expr"] for one in board["annotations"]["list"] if one["name"] == title
    ]
    for name, chosen in (("$cluster", "shop"), ("$topic", "t"), ("$__rate_interval", "5m")):
        query = query.replace(name, chosen)
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"sum({query})",
                "eval_time": f"{STEPS}m",
                "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
            }
        ],
    }
    page = tmp_path / "test.yml"
    page.write_text(yaml.safe_dump({"tests": [test]}), encoding="utf-8")
    done = promtool("test", "rules", str(page))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tried_and_says_what_to_do() -> None:
    assert rules().keys() == CASES.keys()
    for rule in rules().values():
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        assert annotations.keys() == {"summary", "description"}


def test_alerts_and_dashboard_name_only_what_is_exposed() -> None:
    known = of_consumer().keys() | of_coordinator().keys()
    text = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
    board = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [str(rule["expr"]) for rule in rules().values()] + [text.split("rules:")[0]]
    queries += [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    named = {name for query in queries for name in re.findall(r"\b((?:coordinator|kafka|burrow|messaging)_\w+)", query)}
    labels = {"messaging_destination_name", "messaging_client_id"}
    histograms = re.compile("_(?:bucket|sum|count)$")
    assert {histograms.sub("", name) for name in named - labels} <= known
    assert len(named) > 15
