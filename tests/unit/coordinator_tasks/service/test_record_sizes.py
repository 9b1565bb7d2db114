"""The mean size of records: sampled partitions, stored values, use in plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from coordinator_tasks.adapters import kafka_samples
from coordinator_tasks.adapters.kafka_samples import ConfluentRecordSampler
from coordinator_tasks.core.assignors.weights import Measure, Totals, measured, totals
from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.core.model import ConsumerStatus, RunningPartition, Token, TopicStatus
from spark_apps.agent.interface.sampling import AT_ONCE, RECENT, SampledStatus

TOKEN = Token(1, 1, "g")


@dataclass
class Broker:
    """`means`: the result of a sample, by partition; no answer for other partitions, and a refusal of topics in `refused`."""

    means: dict[int, float] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    asked: list[tuple[str, dict[int, int]]] = field(default_factory=list)

    def mean_bytes(self, topic: str, offsets: Mapping[int, int]) -> Mapping[int, float]:
        self.asked.append((topic, dict(offsets)))
        if topic in self.refused:
            raise BadSettings("the Kafka settings are not usable; correct them")
        return {p: self.means[p] for p in offsets if p in self.means}


def running(rate: float | None = 2.0, lag: int | None = 100, record_bytes: float | None = None) -> RunningPartition:
    return RunningPartition(500, TOKEN, True, False, lag, rate, record_bytes)


def status(**partitions: RunningPartition) -> ConsumerStatus:
    """`p3=...` is partition 3."""
    topic = TopicStatus("g", 1, running={int(name[1:]): one for name, one in partitions.items()})
    return ConsumerStatus("a", "shop", 1, "boot", "ok", {"orders": topic})


def test_only_partitions_with_a_flow_are_sampled_shortly_before_the_end() -> None:
    broker = Broker({0: 150.0})
    said = status(p0=running(), p1=running(rate=0.0), p2=running(rate=None), p3=running(lag=None), p4=running(lag=0))
    sampled = SampledStatus(lambda: said, broker)
    assert sampled.status() == said
    sampled.sample()
    assert broker.asked == [("orders", {0: 600 - RECENT, 4: 500 - RECENT})]
    found = sampled.status().topics["orders"].running
    assert {p: one.record_bytes for p, one in found.items()} == {0: 150.0, 1: None, 2: None, 3: None, 4: None}


def test_headers_that_cannot_be_read_are_not_counted_and_end_no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    def headers() -> object:
        raise SystemError("returned a result with an exception set") from UnicodeDecodeError(
            "utf-8", b"caf\xe9", 3, 4, ""
        )

    known = {"partition": 0, "error": None, "key": None, "value": b"value", "timestamp": (1, 0)}
    message = SimpleNamespace(headers=headers, **{name: lambda one=one: one for name, one in known.items()})
    client = SimpleNamespace(assign=bool, consume=lambda *_: [message], close=lambda: None)
    monkeypatch.setattr(kafka_samples, "Consumer", lambda *_, **__: client)
    assert ConfluentRecordSampler({}, "g").mean_bytes("orders", {0: 0}) == {0: 5.0}


def test_a_topic_that_cannot_be_sampled_hides_no_other() -> None:
    broker = Broker({0: 5.0}, refused=("orders",))
    said = status(**{f"p{number}": running() for number in range(AT_ONCE)})
    both = replace(said, topics={**said.topics, "prices": TopicStatus("g", 1, running={0: running()})})
    sampled = SampledStatus(lambda: both, broker)
    for _ in range(2):
        sampled.sample()
    assert sampled.status().topics["prices"].running[0].record_bytes == 5.0


def test_settings_that_the_client_refuses_in_any_way_are_named() -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "stats_cb": "metrics"}
    with pytest.raises(BadSettings, match=r"the Kafka settings are not usable: .*stats_cb"):
        ConfluentRecordSampler(settings, "g").mean_bytes("orders", {0: 0})


def test_a_new_sample_counts_half_and_none_changes_nothing() -> None:
    broker = Broker({0: 100.0})
    sampled = SampledStatus(lambda: status(p0=running()), broker)
    for mean, expected in ((100.0, 100.0), (200.0, 150.0), (None, 150.0)):
        broker.means = {} if mean is None else {0: mean}
        sampled.sample()
        assert sampled.status().topics["orders"].running[0].record_bytes == expected


@pytest.mark.parametrize(
    ("one", "weight"),
    [(running(rate=3.0, record_bytes=200.0), 600.0), (running(rate=0.0), 0.0), (running(record_bytes=None), None)],
)
def test_bytes_per_second_are_the_rate_times_the_size(one: RunningPartition, weight: float | None) -> None:
    answers = {"a": status(p0=one, p1=running(rate=1.0, record_bytes=50.0))}
    carried = totals(answers, {})
    assert carried["a"].of(Measure.BYTES) == (weight or 0.0) + 50.0
    found = measured("orders", Measure.BYTES, [0, 1], {0: "a", 1: "a"}, answers, carried, {})
    assert found.partitions == ({1: 50.0} if weight is None else {0: weight, 1: 50.0})
    assert found.carried == {"a": 0.0}


def test_nobody_carries_less_than_nothing_of_other_topics_when_the_total_is_older() -> None:
    answers = {"a": status(p0=running(rate=1.0, record_bytes=50.0))}
    found = measured("orders", Measure.BYTES, [0], {0: "a"}, answers, {"a": Totals(bytes=30.0)}, {})
    assert found.carried == {"a": 0.0}
