"""The coordinator's metrics for Prometheus: names, bounds, permitted clients, the effect of a failed look."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from coordinator_tasks.cli import metrics, metrics_text
from coordinator_tasks.cli.metrics import MetricsPage, keep_looking, serving
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.fleet.growth import GrowthDecision, GrowthKind
from coordinator_tasks.core.measure.lag import LagStatus
from coordinator_tasks.core.model import Silence, State
from coordinator_tasks.service.fleets import autoscale
from coordinator_tasks.service.nodes import directives
from coordinator_tasks.service.watch.overview import ConsumerOverview
from coordinator_tasks.service.watch.survey import PartitionLag, Survey
from coordinator_tasks.service.watch.topic_metrics import TopicFigures
from coordinator_tasks.status_tokens import StatusTokens
from tests.fakes.cluster import PERSON
from tests.unit.coordinator_tasks.service.fleets.test_autoscale import BUSY, fleet_site
from tests.unit.spark_apps.agent.interface.test_metrics import values
from tests.world.site import Site, stable_site

NOTHING = Survey("shop", (), (), 0, {}, {}, (), {}, {})


def text(found: Survey | None = NOTHING) -> bytes:
    return metrics_text.exposed(found, "shop", 5.0, 0.1)


def lag(partition: int, *, told: bool = False, lag_s: float | None = 2.0) -> PartitionLag:
    return PartitionLag("g", "orders", partition, "a", 90, 100, 10, lag_s, LagStatus.STOP, told)


@contextmanager
def served(token: str = "", page: MetricsPage | None = None, listen: str = "127.0.0.1:0") -> Iterator[str]:
    with serving(page or MetricsPage("shop"), listen, StatusTokens(token)) as address:
        yield address.removeprefix("http://")


def ask(address: str, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def look(site: Site) -> MetricsPage:
    """One look of the command."""
    page, stop = MetricsPage(site.name), threading.Event()
    stop.set()
    keep_looking(site.coordinator, page, 10.0, stop)
    return page


# The text ------------------------------------------------------------------------------------------------------------


def test_a_stable_topic_is_in_one_state_and_has_empty_histograms() -> None:
    raw = look(stable_site("a", "b")).metrics
    assert values(raw, "coordinator_survey_up") == [1]
    assert {state: values(raw, "coordinator_topic_state", topic="orders", state=state) for state in State} == {
        state: [float(state is State.STABLE)] for state in State
    }
    assert values(raw, "coordinator_topic_partitions") == [4]
    assert values(raw, "coordinator_topic_unowned_partitions") == [0]
    assert values(raw, "coordinator_pause_seconds_bucket", le="0.001") == [0]
    assert values(raw, "coordinator_pause_seconds_count") == [0]
    assert values(raw, "coordinator_moves_total", kind="handoff") == [0], "a rate needs a first value"
    assert values(raw, "coordinator_consumers", presence="live") == [2]
    assert values(raw, "coordinator_consumers", presence="absent") == [0], "who is back is seen to be back"
    assert values(raw, "coordinator_assigned_partitions", consumer_id="a") == [2]


def test_a_consumer_away_for_an_announced_restart_is_expected_and_not_absent() -> None:
    site = stable_site("a", "b")
    directives.expect_restart(site.coordinator, "b", 600.0, moves=False, by="me", why="new kernel")
    site.dies("b", None)
    raw = look(site).metrics
    assert {p: values(raw, "coordinator_consumers", presence=p) for p in ("live", "absent", "expected")} == {
        "live": [1],
        "absent": [0],
        "expected": [1],
    }


def test_a_partition_whose_owner_tells_its_lag_has_only_burrows_series_here() -> None:
    found = replace(NOTHING, lags=(lag(0), lag(1, told=True)), groups={"g": LagStatus.ERR})
    raw = text(found)
    assert values(raw, "burrow_kafka_topic_partition_status", cluster="shop", consumer_group="g") == [4, 4]
    assert values(raw, "burrow_kafka_consumer_status") == [3]
    assert values(raw, "burrow_kafka_consumer_lag_total") == [20]
    assert values(raw, "kafka_consumergroup_group_lag", cluster_name="shop", consumer_id="a", partition="0") == [10]
    assert values(raw, "kafka_consumergroup_group_lag", partition="1") == []
    assert values(raw, "kafka_consumergroup_group_lag_seconds") == [2]


def test_the_lags_are_summed_up_in_one_pass_however_many_groups_there_are() -> None:
    passes: list[str] = []

    class Lags(tuple[PartitionLag, ...]):
        def __iter__(self) -> Iterator[PartitionLag]:
            passes.append("one")
            return super().__iter__()

    groups = [f"g{number:02}" for number in range(20)]
    lags = Lags(replace(lag(0), group=group, lag=number) for number, group in enumerate(groups))
    raw = text(replace(NOTHING, lags=lags, groups=dict.fromkeys(groups, LagStatus.OK)))
    totals = values(raw, "burrow_kafka_consumer_lag_total")
    assert (totals, passes) == (list(range(20)), ["one"])


def test_a_group_that_kafka_does_not_tell_of_is_unknown() -> None:
    raw = text(replace(NOTHING, unknown={"g": "the brokers do not answer"}))
    assert values(raw, "burrow_kafka_consumer_status", consumer_group="g") == [0]
    raw = text(replace(NOTHING, unknown={"g": "the brokers do not answer"}, groups={"g": LagStatus.OK}))
    assert values(raw, "burrow_kafka_consumer_status", consumer_group="g") == [0], "a former status is none of now"
    assert values(raw, "burrow_kafka_consumer_lag_total") == []


def test_what_the_growth_policy_finds_right_is_a_metric_in_shadow_mode_too() -> None:
    site = fleet_site(BUSY)
    assert values(look(site).metrics, "coordinator_fleet_consumers_desired") == [], "nobody has looked yet"
    list(autoscale.look(site.coordinator, (), PERSON))
    raw = look(site).metrics
    assert values(raw, "coordinator_fleet_consumers_desired", fleet="billing") == [6]
    assert values(raw, "coordinator_fleet_desired_timestamp_seconds", fleet="billing") == [site.clock.now()]
    assert values(raw, "coordinator_consumers_wanted") == [2], "it only says it"


def test_the_number_of_series_is_bounded_and_what_is_left_out_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_TOPICS", "MAX_CONSUMERS", "MAX_FLEETS", "MAX_GROUPS"):
        monkeypatch.setattr(metrics_text, name, 2)
    found = replace(
        NOTHING,
        topics=tuple(TopicFigures(f"t{number}") for number in range(5)),
        consumers=tuple(ConsumerOverview(f"c{number}", "live") for number in range(4)),
        lags=tuple(lag(number) for number in range(3)),
        desired={f"f{number}": GrowthDecision(GrowthKind.HOLD, 5.0, 2, 3) for number in range(6)},
        groups={f"g{number}": LagStatus.OK for number in range(6, 0, -1)},
        unknown={"g1": "the brokers do not answer", "g0": "the brokers do not answer"},
    )
    raw = metrics_text.exposed(found, "shop", 0.0, 0.0, partitions=2)
    assert values(raw, "burrow_kafka_consumer_status") == [0, 0], "the first ones by name: g0 and g1"
    assert values(raw, "burrow_kafka_consumer_lag_total") == []
    assert len(values(raw, "coordinator_topic_epoch")) == 2
    assert len(values(raw, "coordinator_incarnation")) == 2
    assert len(values(raw, "burrow_kafka_topic_partition_status")) == 2
    left_out = {
        kind: values(raw, "coordinator_series_left_out", kind=kind)
        for kind in ("topic", "consumer", "fleet", "group", "partition")
    }
    assert left_out == {"topic": [3], "consumer": [2], "fleet": [4], "group": [5], "partition": [1]}
    assert values(raw, "coordinator_consumers", presence="live") == [4], "the sums count all of them"


def test_findings_of_the_audit_are_counted_by_kind_and_a_kind_without_any_is_zero() -> None:
    site = stable_site("a", "b")
    site.kafka.members["g"] = ("tool at 10.0.0.7",)
    site.kafka.stored["g", "orders", 0] = (3, "")
    raw = look(site).metrics
    kinds = ("two_owners", "no_owner", "intruder", "stale", "old_code", "no_word")
    counts = {kind: values(raw, "coordinator_audit_findings", cluster_name="shop", kind=kind) for kind in kinds}
    assert counts == {kind: [{"intruder": 2, "old_code": 2}.get(kind, 0)] for kind in kinds}
    assert len(values(raw, "coordinator_audit_findings")) == len(kinds), "topics add no series"
    assert values(raw, "coordinator_audit_left_out") == [0]
    assert values(raw, "coordinator_audit_timestamp_seconds") == [site.clock.now()]


# The look ------------------------------------------------------------------------------------------------------------


def test_a_failed_look_shows_nothing_old(caplog: pytest.LogCaptureFixture) -> None:
    site = stable_site("a")
    page = look(site)
    site.zk.suspend()
    stop = threading.Event()
    stop.set()
    keep_looking(site.coordinator, page, 10.0, stop)
    assert values(page.metrics, "coordinator_survey_up") == [0]
    assert values(page.metrics, "coordinator_topic_epoch") == []
    assert "the metrics are not known now" in caplog.text


def test_with_an_authority_prometheus_is_sent_to_no_plain_http() -> None:
    site = stable_site("a")
    site.coordinator = replace(site.coordinator, https_only=True)
    assert json.loads(look(site).targets) == []


@pytest.mark.parametrize("why", ["isolated", "https"])
def test_a_consumer_that_lives_is_a_target_until_it_is_silent_or_its_certificate_is_refused(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    site = stable_site("a", "b")
    if why == "https":
        site.coordinator = replace(site.coordinator, https_only=True)
        monkeypatch.setattr(metrics, "is_plain", lambda _: False)
    else:
        directives.isolate(site.coordinator, "b", by="ada", why="wrong results")
        site.settles()
    assert len(json.loads(look(site).targets)) == 2
    site.processes["b"].silence = Silence.BROKEN if why == "https" else Silence.SILENT
    (target,) = json.loads(look(site).targets)
    assert target["targets"] == [site.processes["a"].member.address.removeprefix("http://")]


# The server ----------------------------------------------------------------------------------------------------------


def test_a_token_is_asked_for_where_there_is_one() -> None:
    with served("secret") as address:
        assert ask(address, "/metrics")[0] == 401
        assert ask(address, "/targets", Authorization="Bearer wrong")[0] == 401
        assert ask(address, "/metrics", Authorization="Bearer secret")[0] == 200


def test_a_web_page_gets_no_answer() -> None:
    with served() as address:
        assert ask(address, "/metrics", Origin="http://127.0.0.1")[0] == 403
        assert ask(address, "/metrics", Host="rebound.example:9308")[0] == 403
        assert ask(address, "/metrics", Host="localhost:9308")[0] == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "9308", "host:", ":1", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_address_that_is_open_or_wrong_is_refused(listen: str) -> None:
    with pytest.raises(Refused), served(listen=listen):
        pass


def test_an_address_in_use_is_refused_with_a_sentence() -> None:
    with served() as address, pytest.raises(Refused, match="choose another address"), served(listen=address):
        pass
