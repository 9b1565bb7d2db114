"""What the doctor says of a group's members and of how long offsets are kept."""

from typing import Any, cast

import pytest

from coordinator_tasks.core.errors import CoordinatorError, KafkaUnavailable, NoAccess
from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.doctor import CheckResult, DoctorFinding, kafka
from coordinator_tasks.wiring import Settings

SETTINGS = Settings("shop", "zk:2181", {"bootstrap.servers": "broker:9092"})


def groups(monkeypatch: pytest.MonkeyPatch, answer: object) -> list[DoctorFinding]:
    class Admin:
        def __init__(self, *_: object) -> None: ...

        def group_members(self, _group: str) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setattr(kafka, "ConfluentKafkaAdmin", Admin)
    return list(kafka._groups(SETTINGS, ["g"]))


def test_another_client_of_a_group_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = groups(monkeypatch, ())
    assert (one.check, one.result) == ("Kafka: members of group g", CheckResult.OK)
    (one,) = groups(monkeypatch, ("tool at 10.0.0.7",))
    assert one.result is CheckResult.FAILED
    assert one.says.startswith("tool at 10.0.0.7 subscribes with it")
    (one,) = groups(monkeypatch, KafkaUnavailable("no answer"))
    assert (one.result, one.says) == (CheckResult.FAILED, "no answer")
    assert groups(monkeypatch, NoAccess("denied")) == [], "the right is a check of its own"


@pytest.mark.parametrize(
    ("kept_s", "result", "says"),
    [
        (7 * 24 * 3600.0, CheckResult.OK, "for 168 h"),
        (None, CheckResult.OK, "not told"),
        (5 * 3600.0, CheckResult.WARNING, "begins at its start rule"),
        (3600.0, CheckResult.FAILED, "once an hour"),
    ],
)
def test_offsets_have_to_outlive_an_idle_topic(kept_s: float | None, result: CheckResult, says: str) -> None:
    (one,) = retention(kept_s)
    assert one.result is result
    assert says in one.says
    assert bool(one.mend) is (result is not CheckResult.OK)


def retention(
    kept_s: float | None, down: dict[str, CoordinatorError] | None = None, **idle: float
) -> list[DoctorFinding]:
    class Rights:
        def offsets_kept_s(self, problems: dict[str, CoordinatorError]) -> float | None:
            problems |= down or {}
            return kept_s

    return list(kafka._retention(cast(Any, Rights()), idle))


def test_a_broker_without_its_retention_of_offsets_is_a_finding_beside_the_others() -> None:
    down: dict[str, CoordinatorError] = {"down:9092": KafkaUnavailable("no answer; try again")}
    first, then = retention(7 * 24 * 3600.0, down)
    assert (first.check, first.result) == ("Kafka: expiry of offsets of down:9092", CheckResult.FAILED)
    assert (then.check, then.result) == ("Kafka: expiry of offsets", CheckResult.OK)
    assert [one.check for one in retention(None, down)] == [first.check]


def test_an_unowned_topic_is_named_before_its_offsets_expire() -> None:
    day_s = 86_400.0
    (_,) = retention(7 * day_s, orders=day_s)
    _, one = retention(7 * day_s, orders=6.5 * day_s, bills=8 * day_s, parcels=3 * day_s)
    assert one.result is CheckResult.WARNING
    assert one.says.endswith("expire at the latest: bills by now, orders in 12.0 h")
    assert "start a consumer" in one.mend
    assert len(retention(None, orders=6.5 * day_s)) == 1


def test_a_topic_that_kafka_does_not_describe_is_a_finding_and_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rights:
        def __init__(self, *_: object) -> None: ...

        def brokers(self) -> tuple[str, ...]:
            return ("broker:9092",)

        def has_topic(self, topic: str) -> bool:
            if topic == "orders":
                raise KafkaUnavailable("no answer; try again")
            return topic == "parcels"

        def has(self, *_: object) -> bool:
            return True

        def topic_id(self, _topic: str) -> str:
            return "new-id"

        def offsets_kept_s(self, _: object) -> float | None:
            return None

    monkeypatch.setattr(kafka, "KafkaRights", Rights)
    monkeypatch.setattr(kafka, "kafka_versions", lambda *_: {"broker:9092": "4.3"})
    monkeypatch.setattr(kafka, "_groups", lambda *_: [])
    found = {one.check: one for one in kafka.examine(SETTINGS, Side.COORDINATOR, {"orders": "g", "bills": "g"})}
    assert (found["topic orders"].result, found["topic orders"].says) == (CheckResult.FAILED, "no answer")
    (recreated,) = [
        one
        for one in kafka.examine(SETTINGS, Side.COORDINATOR, {"parcels": "g"}, ids={"parcels": "old-id"})
        if one.check == "topic parcels"
    ]
    assert "was recreated in Kafka (id new-id, managed is old-id)" in recreated.says
    (rights,) = [
        one for one in kafka.examine(SETTINGS, Side.COORDINATOR, {}, known=False) if one.check == "Kafka rights"
    ]
    assert rights.says == "not checked: ZooKeeper does not say which topics are managed"
    assert found["topic bills"].says == "Kafka has no such topic"
    assert found["Kafka: expiry of offsets"].result is CheckResult.OK
