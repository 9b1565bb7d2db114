"""What an executor's Kafka client is given."""

import pytest

from coordinator_tasks.core.errors import BadSettings
from spark_apps.records import reader
from spark_apps.records.batches import Range
from spark_apps.records.reader import Job, client_settings
from spark_apps.records.settings_file import FILE_VARIABLE, SECRET_VARIABLE


@pytest.fixture(autouse=True)
def nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (FILE_VARIABLE, SECRET_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("protocol", ["SASL_SSL", "sasl_plaintext"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"])
def test_a_log_in_by_password_without_one_is_refused_at_once(protocol: str, mechanism: str) -> None:
    kafka = {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.username": "alice"}
    with pytest.raises(BadSettings, match=f"log-in by {mechanism.upper()}, and the executors have no sasl.password"):
        client_settings(kafka, "")


@pytest.mark.parametrize(
    "kafka",
    [
        {},
        {"security.protocol": "SSL"},
        {"security.protocol": "PLAINTEXT", "sasl.mechanism": "PLAIN"},
        {"security.protocol": "SASL_SSL"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
    ],
)
def test_other_log_ins_need_no_password(kafka: dict[str, str]) -> None:
    assert client_settings(kafka, "").items() >= kafka.items()


@pytest.mark.parametrize("fast", [True, False])
def test_a_setting_that_the_client_refuses_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, fast: bool
) -> None:
    monkeypatch.setattr(reader, "unfit", lambda: "" if fast else "another library")
    job = Job("t", (Range(0, 0, 5, 1),), {"bootstrap.servers": "127.0.0.1:1", "nonsense": "1"})
    with pytest.raises(BadSettings, match=r"the Kafka settings are not usable: .*nonsense.*; correct them"):
        next(reader.read(job))
