"""What a pipeline and its site may say about bad records, and what is refused before a query starts."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_tasks.core.errors import CoordinatorError, InvalidName, Refused
from coordinator_tasks.core.model import KafkaRecord
from spark_apps.dead_letters import DeadLettersRefused, OnError, Stage
from spark_apps.dead_letters.recovery import Site
from spark_apps.dead_letters.topic import sender
from spark_apps.delivery import SinkUnavailable
from spark_apps.delivery.database import Database, blames_record
from spark_apps.pipelines import AtLeastOnce, ExactlyOnce, outputs
from spark_apps.state import ProcessorFailed
from tests.letters_bench import letter

RUNNER: Any = SimpleNamespace(topic="orders", group="g", isolation="")


class Access:
    """Kafka with the topic `dead` of three partitions."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, KafkaRecord]] = []

    def partition_count(self, topic: str) -> int:
        return {"dead": 3}.get(topic, 0)

    def read(self, *_: object) -> Mapping[tuple[int, int], KafkaRecord]:
        return {}

    def send(self, topic: str, records: Sequence[tuple[int, KafkaRecord]]) -> None:
        assert topic == "dead"
        self.sent += records


def test_a_site_overrides_what_the_code_says() -> None:
    code = OnError("dead-letter", share=0.5, per_minute=7, topic="dead", problem_column="problem")
    assert code.overridden({}) == code
    assert code.overridden({"database": "sqlite:///x"}).database == "sqlite:///x"
    site = {"onError": "skip", "onErrorShare": "0.2", "onErrorPerMinute": "3", "onErrorTopic": "other"}
    assert code.overridden(site) == OnError("skip", 0.2, 3, "other", problem_column="problem")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"onError": "dead"}, "onError is 'dead'; give stop, skip, dead-letter"),
        ({"onErrorShare": "some"}, "onErrorShare is 'some', which is no number"),
        ({"onErrorShare": "nan"}, "onErrorShare is nan; give a number from 0 to 1"),
        ({"onErrorShare": "1.5"}, "onErrorShare is 1.5; give a number from 0 to 1"),
        ({"onErrorPerMinute": "-1"}, "onErrorPerMinute is -1; give a whole number"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(DeadLettersRefused, match=says):
        OnError("dead-letter").overridden(settings)
    with pytest.raises(InvalidName):
        OnError(topic="a b")


def refusal(output: object, site: Site) -> str:
    with pytest.raises(DeadLettersRefused) as caught:
        outputs._recovery(RUNNER, output, site)
    return str(caught.value)


def test_what_cannot_be_done_is_refused_at_the_start() -> None:
    rows: Any = SimpleNamespace(columns=["partition", "text"])
    whole: Any = SimpleNamespace(columns=["partition", "offset", "text"])
    letters, site = OnError("dead-letter"), Site(access=lambda _: Access())
    other: Any = SimpleNamespace()
    assert "have no column 'offset' (they have partition, text)" in refusal(
        ExactlyOnce(rows, other, on_error=letters), site
    )
    assert "has no DatabaseSink, so its dead letters have no table" in refusal(
        ExactlyOnce(whole, other, on_error=letters), site
    )
    problem = OnError(problem_column="wrong")
    assert "have no column 'wrong' for OnError(problem_column=...)" in refusal(
        ExactlyOnce(whole, other, on_error=problem), site
    )
    plain = AtLeastOnce(whole, lambda *_: None, letters)
    assert "has no DatabaseSink, so its dead letters have no table; name a database" in refusal(plain, site)
    missing = AtLeastOnce(whole, lambda *_: None, OnError("dead-letter", topic="none"))
    assert (
        refusal(missing, site) == "topic none for dead letters is not in Kafka; create the topic, or correct its name"
    )
    own = AtLeastOnce(whole, lambda *_: None, OnError("dead-letter", topic="orders"))
    assert "topic orders cannot take its own dead letters" in refusal(own, site)
    assert "this process has none" in refusal(missing, Site())
    assert outputs._recovery(RUNNER, ExactlyOnce(rows, other), site) is None


def test_a_letter_in_a_topic_has_the_headers_of_kafka_connect_and_of_share_groups() -> None:
    access = Access()
    sender(access, "dead", "orders", "billing")([letter("orders", 4, 7)])
    ((partition, record),) = access.sent
    headers = dict(record.headers)
    assert (partition, record.key, record.value) == (1, b"k\xff", b"not \x1b[31m json")
    assert (headers["trace"], headers["empty"]) == (b"1", None)
    for prefix in ("__connect.errors.", "__dlq.errors."):
        assert [headers[prefix + name] for name in ("topic", "partition", "offset")] == [b"orders", b"4", b"7"]
    assert headers["__connect.errors.connector.name"] == headers["__dlq.errors.group"] == b"billing"
    assert headers["__connect.errors.exception.class.name"] == b"ValueError"
    assert headers["__dlq.errors.message"] == headers["__connect.errors.exception.message"]
    assert (headers["__dlq.errors.delivery.count"], headers["__coordinator.errors.release"]) == (b"1", b"1.2.3")
    assert [letter("orders", 0, 0).stage, headers["__connect.errors.stage"]] == [Stage.STORE, b"TASK_PUT"]


@pytest.mark.parametrize(
    ("error", "blamed"),
    [
        (ValueError("x"), True),
        (ProcessorFailed("x"), True),
        (Refused("a fraction"), True),
        (DeadLettersRefused("x"), False),
        (SinkUnavailable("x"), False),
        (CoordinatorError("x"), False),
        (ConnectionResetError(), False),
        (MemoryError(), False),
    ],
)
def test_only_an_error_that_a_records_content_may_cause_is_a_records_fault(error: Exception, blamed: bool) -> None:
    assert blames_record(error) is blamed
    assert Database("sqlite:///build/none.sqlite").blames_record(error) is blamed
