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

# Firing alerts by series (in promtool's notation), with the distinguishing label; and silent series.
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "CoordinatorUnseen": (
        {'coordinator_survey_up{cluster_name="shop"}': "0x60"},
        {'coordinator_survey_up{cluster_name="shop"}': "1x60"},
    ),
    "CoordinatorTopicUnowned": (
        {'coordinator_topic_unowned_oldest_seconds{cluster_name="shop",topic="t"}': "0+60x60"},
        {'coordinator_topic_unowned_oldest_seconds{cluster_name="shop",topic="t"}': "50x60"},
    ),
    "CoordinatorTopicStuck": (
        {'coordinator_topic_not_stable_seconds{cluster_name="shop",topic="t"}': "0+60x60"},
        {'coordinator_topic_not_stable_seconds{cluster_name="shop",topic="t"}': "100x60"},
    ),
    "CoordinatorTopicFlaps": (
        {'coordinator_unasked_rebalances_total{cluster_name="shop",topic="t"}': "0+1x60"},
        {
            'coordinator_rebalances_total{cluster_name="shop",topic="t"}': "0+1x60",
            'coordinator_unasked_rebalances_total{cluster_name="shop",topic="t"}': "0x50 1x10",
        },
    ),
    "CoordinatorTopicUnreadable": (
        {'coordinator_topic_unreadable{cluster_name="shop",topic="t"}': "1x60"},
        {'coordinator_topic_unreadable{cluster_name="shop",topic="t"}': "0x60"},
    ),
    "CoordinatorConsumerAbsent": (
        {'coordinator_consumers{cluster_name="shop",presence="absent"}': "1x60"},
        {'coordinator_consumers{cluster_name="shop",presence="live"}': "3x60"},
    ),
    "CoordinatorConsumersMissing": (
        {
            'coordinator_consumers_wanted{cluster_name="shop"}': "3x60",
            'coordinator_consumers{cluster_name="shop",presence="live"}': "1x60",
            'coordinator_consumers{cluster_name="shop",presence="draining"}': "1x60",
            'coordinator_consumers{cluster_name="shop",presence="gone"}': "5x60",
        },
        {
            'coordinator_consumers_wanted{cluster_name="shop"}': "3x60",
            'coordinator_consumers{cluster_name="shop",presence="live"}': "3x60",
        },
    ),
    "CoordinatorConsumerUnhealthy": (
        {'coordinator_consumer_healthy{cluster_name="shop",consumer_id="a"}': "0x60"},
        {'coordinator_consumer_healthy{cluster_name="shop",consumer_id="a"}': "1x60"},
    ),
    "CoordinatorCommitsFenced": (
        {'coordinator_consumer_fences_total{cluster_name="shop",consumer_id="a",topic="t"}': "0x57 1 1 1"},
        {'coordinator_consumer_fences_total{cluster_name="shop",consumer_id="a",topic="t"}': "1x60"},
    ),
    "CoordinatorDeadLetters": (
        {'coordinator_consumer_dead_letters_total{cluster_name="shop",consumer_id="a",topic="t"}': "0x57 1 1 1"},
        {'coordinator_consumer_dead_letters_total{cluster_name="shop",consumer_id="a",topic="t"}': "1x60"},
    ),
    "CoordinatorOwnershipDisputed": (
        {'coordinator_audit_findings{cluster_name="shop",kind="intruder"}': "0x59 1"},
        {
            f'coordinator_audit_findings{{cluster_name="shop",kind="{kind}"}}': value
            for kind, value in {
                "two_owners": "0x60",
                "intruder": "0x60",
                "stale": "1x58 0x2",
                "no_owner": "3x60",
                "old_code": "3x60",
                "no_word": "3x60",
            }.items()
        },
    ),
    "CoordinatorPartitionsNotRun": (
        {'coordinator_audit_findings{cluster_name="shop",kind="no_owner"}': "0x57 1x3"},
        {'coordinator_audit_findings{cluster_name="shop",kind="no_owner"}': "0x58 1x2"},
    ),
    "CoordinatorConsumersOld": (
        {'coordinator_audit_findings{cluster_name="shop",kind="old_code"}': "2x60"},
        {'coordinator_audit_findings{cluster_name="shop",kind="old_code"}': "0x40 2x20"},
    ),
    "CoordinatorAuditBlind": (
        {'coordinator_audit_left_out{cluster_name="shop"}': "1x60"},
        {'coordinator_audit_left_out{cluster_name="shop"}': "0x60"},
    ),
    "CoordinatorPausesLong": (
        {
            'coordinator_pause_seconds_bucket{cluster_name="shop",topic="t",le="1.0"}': "0x60",
            'coordinator_pause_seconds_bucket{cluster_name="shop",topic="t",le="2.0"}': "0+1x60",
            'coordinator_pause_seconds_bucket{cluster_name="shop",topic="t",le="+Inf"}': "0+1x60",
        },
        {
            'coordinator_pause_seconds_bucket{cluster_name="shop",topic="t",le="0.02"}': "0+1x60",
            'coordinator_pause_seconds_bucket{cluster_name="shop",topic="t",le="+Inf"}': "0+1x60",
        },
    ),
    "KafkaGroupStopped": (
        {'burrow_kafka_topic_partition_status{cluster="shop",consumer_group="g",topic="t",partition="0"}': "4x60"},
        {'burrow_kafka_topic_partition_status{cluster="shop",consumer_group="g",topic="t",partition="0"}': "2x60"},
    ),
    "KafkaGroupFallsBehind": (
        {'burrow_kafka_consumer_status{cluster="shop",consumer_group="g"}': "2x60"},
        {'burrow_kafka_consumer_status{cluster="shop",consumer_group="g"}': "1x60"},
    ),
}


def rules() -> dict[str, dict[str, object]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)


def firing(series: dict[str, str], alert: str, folder: Path, interval: str = "1m") -> bool:
    """Whether the alert fires after `STEPS` minutes: promtool passes for a silent alert."""
    up = {} if "coordinator_survey_up" in str(series) else {'coordinator_survey_up{cluster_name="shop"}': "1x60"}
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
        {'coordinator_consumers{cluster_name="shop",presence="gone",instance="a"}': "3x60"},
        {
            'coordinator_consumers_wanted{cluster_name="shop",instance="b"}': "3x60",
            'coordinator_consumers{cluster_name="shop",presence="live",instance="a"}': "2x60",
            'coordinator_consumers{cluster_name="shop",presence="live",instance="b"}': "2x60",
        },
    ],
    ids=["none of them runs", "two serve the metrics"],
)
def test_missing_consumers_are_told_also_when(there: dict[str, str], tmp_path: Path) -> None:
    wanted = {'coordinator_consumers_wanted{cluster_name="shop",instance="a"}': "3x60"}
    assert firing({**wanted, **there}, "CoordinatorConsumersMissing", tmp_path)


@needs_promtool
@pytest.mark.parametrize(("rebalances", "fires"), [(5, False), (6, True)])
def test_six_rebalances_that_nobody_asked_for_in_ten_minutes_are_flapping_and_five_are_not(
    rebalances: int, fires: bool, tmp_path: Path
) -> None:
    """Without a look of exactly ten minutes ago, Prometheus' increase exceeds the counted number."""
    values = f"0x230 {' '.join(map(str, range(1, rebalances + 1)))} {rebalances}x40"
    series = {'coordinator_unasked_rebalances_total{cluster_name="shop",topic="t"}': values}
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
        pytest.param("Topics not Stable", {'coordinator_topic_not_stable_seconds{cluster_name="shop",topic="t"}': "0x60"}, 0, id="all are"),
        pytest.param("Topics not Stable", {'coordinator_topic_not_stable_seconds{cluster_name="shop",topic="t"}': "9x60"}, 1, id="one is not"),
        pytest.param("Records a second", BUSY, 1, id="of the chosen cluster"),
        pytest.param("Rebalances", {'coordinator_rebalances_total{cluster_name="shop",topic="t"}': "3x58 0x2"}, None, id="begun anew"),
        pytest.param("Rebalances", {'coordinator_rebalances_total{cluster_name="shop",topic="t"}': "3x58 4x2"}, 1, id="one has ended"),
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
