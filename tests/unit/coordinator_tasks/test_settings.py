import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.settings import (
    Settings,
    for_consumers,
    plain_settings,
    settings_from_environment,
    settings_of,
)

LEAST = {
    "COORDINATOR_CLUSTER": "shop",
    "COORDINATOR_ZOOKEEPER": "zk:2181/root",
    "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
}
FILE: dict[str, Any] = {"cluster": "shop", "zookeeper": "zk:1", "kafka": {"bootstrap.servers": "b:1"}}


def settings_file(tmp_path: Path, data: Any, mode: int = 0o600) -> str:
    path = tmp_path / "settings.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    path.chmod(mode)
    return str(path)


def test_the_least_that_is_needed() -> None:
    assert settings_from_environment(LEAST) == Settings("shop", "zk:2181/root", {"bootstrap.servers": "kafka:9092"})


def test_everything_from_the_environment_and_no_secret_is_shown() -> None:
    settings = settings_from_environment(
        {
            **LEAST,
            "COORDINATOR_KAFKA_SASL_PASSWORD": "hush-1",
            "COORDINATOR_DISCOVERY": "file:/srv/registry",
            "COORDINATOR_STATUS_TOKEN": "hush-2",
            "COORDINATOR_FENCE": "transactional",
            "COORDINATOR_SESSION_TIMEOUT_S": "6",
            "COORDINATOR_ZOOKEEPER_USER": "u",
            "COORDINATOR_ZOOKEEPER_PASSWORD": "hush-3",
            "COORDINATOR_ZOOKEEPER_OPEN_NODES": "true",
            "COORDINATOR_POLICY_SETTLE_S": "0.5",
            "COORDINATOR_POLICY_HOLD_ABSENT": "yes",
            "COORDINATOR_POLICY_MAX_RESTARTS": "7",
            "UNRELATED": "x",
        }
    )
    assert settings.kafka == {"bootstrap.servers": "kafka:9092", "sasl.password": "hush-1"}
    assert settings.zookeeper_access == ZooKeeperAccess("u", "hush-3", open_nodes=True)
    assert settings.policy == Policy(settle_s=0.5, hold_absent=True, max_restarts=7)
    assert (settings.discovery, settings.status_token) == ("file:/srv/registry", "hush-2")
    assert (settings.session_timeout_s, settings.fence) == (6.0, "transactional")
    assert "hush" not in repr(settings)


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    data = {
        "cluster": "mall",
        "zookeeper": "a:1",
        "kafka": {"bootstrap.servers": "b:2", "sasl.password": "p"},
        "policy": {"settle_s": 2},
    }
    settings = settings_from_environment(
        {
            "COORDINATOR_SETTINGS": settings_file(tmp_path, data),
            "COORDINATOR_CLUSTER": "shop",
            "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": "c:3",
        }
    )
    assert (settings.cluster, settings.zookeeper) == ("shop", "a:1")
    assert settings.kafka == {"bootstrap.servers": "c:3", "sasl.password": "p"}
    assert settings.policy.settle_s == 2.0


def test_the_content_of_a_file_may_come_by_the_environment_and_is_never_shown() -> None:
    content = {"cluster": "mall", "zookeeper": "a:1", "kafka": {"bootstrap.servers": "b:2", "sasl.password": "p"}}
    given = {"COORDINATOR_SETTINGS_SECRET": json.dumps(content), "COORDINATOR_CLUSTER": "shop"}
    settings = settings_from_environment(given)
    assert (settings.cluster, settings.zookeeper, settings.kafka["sasl.password"]) == ("shop", "a:1", "p")
    for wrong, problem in (("{planted", "is not JSON"), ('["planted"]', "holds no JSON object")):
        with pytest.raises(Refused, match=f"COORDINATOR_SETTINGS_SECRET {problem}") as raised:
            settings_from_environment({"COORDINATOR_SETTINGS_SECRET": wrong})
        assert "planted" not in str(raised.value)


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(Refused, match=rf"settings.json belongs to the user with uid {own}, not to this one.*chown it"):
        settings_from_environment({"COORDINATOR_SETTINGS": settings_file(tmp_path, {})})


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(Refused, match=rf"may be read by others \(mode {mode:04o}\).*chmod 600"):
        settings_from_environment({"COORDINATOR_SETTINGS": settings_file(tmp_path, {}, mode)})


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("{", "is not JSON"),
        ("[]", "holds no JSON object"),
        ('{"kafka": {"security.protocol": "SSL"}, "kafka": {}}', "is not JSON: an object has 'kafka' twice"),
        ('{"status_token": "\\ud800"}', "is not JSON: .*surrogates not allowed"),
        ({"clutser": "x"}, "no field 'clutser'"),
        ({"kafka": "h:1"}, "'kafka' is no object"),
        ({"policy": {"settle": None}}, "policy has no field 'settle'"),
        ({"zookeeper_access": {"usr": 1}}, "zookeeper_access has no field 'usr'"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_place(tmp_path: Path, data: Any, problem: str) -> None:
    with pytest.raises(Refused, match=problem) as raised:
        settings_from_environment({**LEAST, "COORDINATOR_SETTINGS": settings_file(tmp_path, data)})
    assert "\n" not in str(raised.value)


def test_a_setting_that_is_null_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    data = {
        "kafka": {"bootstrap.servers": "b:2", "sasl.username": None},
        "zookeeper_access": {"user": None, "consumers": None},
        "policy": {"settle_s": None, "hold_absent": None},
        "allowed": None,
        "parameters": None,
        "status_token": None,
        "session_timeout_s": None,
    }
    given = {"COORDINATOR_SETTINGS": settings_file(tmp_path, {**data, "cluster": "mall", "zookeeper": "a:1"})}
    assert settings_from_environment(given) == Settings("mall", "a:1", {"bootstrap.servers": "b:2"})
    for name in ("cluster", "zookeeper", "kafka"):
        with pytest.raises(Refused, match=r"name is empty|address is set"):
            settings_of({**FILE, name: None})


@pytest.mark.parametrize("group", ["kafka", "parameters", "consumer_zookeeper"])
def test_a_list_with_something_else_than_texts_is_refused_without_its_value(group: str) -> None:
    given = {**FILE, group: {**FILE["kafka"], "names": ["secret", 2]}}
    with pytest.raises(
        Refused, match=rf"the setting {group}\.names is a list with something else than texts"
    ) as refused:
        settings_of(given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("status_token", {"status_token": ["secret"]}),
        ("zookeeper_access.password", {"zookeeper_access": {"user": "u", "password": {"secret": 1}}}),
        ("kafka.sasl.password", {"kafka": {"bootstrap.servers": "b:1", "sasl.password": "secret\0"}}),
        ("zookeeper_access.password", {"zookeeper_access": {"user": "u", "password": "secret\udcff"}}),
        ("session_timeout_s", {"session_timeout_s": [7]}),
    ],
)
def test_what_is_no_text_is_refused_without_its_value(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=rf"the setting {re.escape(name)} (is an? (list|object)|has a byte)") as refused:
        settings_of({**FILE, **given})
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match=r"/nowhere cannot be read.*check COORDINATOR_SETTINGS"):
        settings_from_environment({"COORDINATOR_SETTINGS": "/nowhere"})


def test_settings_are_read_back_from_what_is_written_for_a_consumer(tmp_path: Path) -> None:
    settings = settings_from_environment(
        {
            **LEAST,
            "COORDINATOR_STRATEGY": "weighted",
            "COORDINATOR_POLICY_SETTLE_S": "2",
            "COORDINATOR_DATABASES_SHOP": "x",
        }
    )
    assert settings.databases == {"shop": "x"}
    written = settings_file(tmp_path, plain_settings(settings))
    assert settings_from_environment({"COORDINATOR_SETTINGS": written}) == settings


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("POLICY_STRATEGIES", "x", "policy has no field 'strategies'"),
        ("CLUSTER", "a/b", "cannot be a cluster name"),
        ("ZOOKEEPER", "", "no ZooKeeper address is set.*COORDINATOR_ZOOKEEPER"),
        ("KAFKA_BOOTSTRAP_SERVERS", "", "no Kafka address is set"),
        ("DISCOVERY", "consul", "'consul' is no registry"),
        ("DISCOVERY", "file:", "'file:' is no registry"),
        ("FENCE", "barbed", "'barbed' is no fence; set `fence` to token or transactional"),
        ("SESSION_TIMEOUT_S", "soon", "session_timeout_s is 'soon', not a number"),
        ("ASK_TIMEOUT_S", "-1", "ask_timeout_s is '-1', not a number from 0 on"),
        ("POLICY_HOLD_ABSENT", "maybe", r"policy\.hold_absent is 'maybe', neither true nor false"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(name: str, value: str, problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        settings_from_environment({**LEAST, f"COORDINATOR_{name}": value})


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("s3cret\n", "the status token has a character that an HTTP header does not take"),
        ("s3cret\0", "the setting status_token has a byte that is not UTF-8, or a NUL"),
        ("s3crét", "the status token has a character"),
    ],
)
def test_a_token_that_no_header_takes_is_refused_without_showing_it(token: str, why: str) -> None:
    """The HTTP client would show the token in an error, and so in a person's question."""
    with pytest.raises(Refused, match=why) as raised:
        settings_from_environment({**LEAST, "COORDINATOR_STATUS_TOKEN": token})
    assert "s3" not in str(raised.value)


HASH = "digest:ada:" + 27 * "A" + "="


def test_a_launched_consumer_gets_its_own_log_ins() -> None:
    ours = {"user": "ada", "password": "p", "consumers": ["sasl:eve", HASH]}
    given = {
        "cluster": "shop",
        "zookeeper": "zk:2181",
        "kafka": {"bootstrap.servers": "kafka:9092", "sasl.username": "ada", "sasl.password": "secret"},
        "zookeeper_access": ours,
        "consumer_zookeeper": {"user": "eve", "password": "q", "coordinator": [HASH]},
        "consumer_kafka": {"sasl.username": "eve", "sasl.password": "other"},
        "status_token": "t",
        "databases": {"shop": "postgresql://w:s3cret@db"},
        "registries": {},
    }
    found = settings_of(for_consumers(given))
    assert found.databases == {"shop": "postgresql://w:s3cret@db"}
    assert "s3cret" not in repr(found)
    assert "registries" not in for_consumers(given), "a consumer of 0.2.0 refuses it"
    assert found.zookeeper_access == ZooKeeperAccess("eve", "q", coordinator=(HASH,))
    assert found.kafka == {"bootstrap.servers": "kafka:9092", "sasl.username": "eve", "sasl.password": "other"}
    assert (found.status_token, found.consumer_zookeeper, found.consumer_kafka) == ("t", {}, {})
    assert "ada" not in json.dumps({**for_consumers(given), "zookeeper_access": ""})


def test_the_coordinators_account_goes_to_no_consumer() -> None:
    given = {
        "cluster": "shop",
        "zookeeper": "zk:2181",
        "kafka": {"bootstrap.servers": "kafka:9092"},
        "zookeeper_access": {"user": "ada", "password": "p", "consumers": HASH},
    }
    with pytest.raises(Refused, match="set consumer_zookeeper to what they log in with"):
        for_consumers(given)
    with pytest.raises(Refused, match="zookeeper_access has no field 'pasword'"):
        for_consumers({**given, "consumer_zookeeper": {"pasword": "q"}})


def test_a_file_of_settings_without_separate_accounts_is_read_by_an_older_release() -> None:
    written = plain_settings(settings_from_environment(LEAST))
    assert not {"consumer_zookeeper", "consumer_kafka"} & written.keys()
    assert not {"consumers", "coordinator"} & written["zookeeper_access"].keys()
    assert "history_bytes" not in written["policy"]
    given = {**FILE, "policy": {"history_bytes": 9, "settle_s": 2}}
    assert (settings_of(given).policy.history_bytes, for_consumers(given)["policy"]) == (9, {"settle_s": 2})


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ({"consumers": "eve"}, "consumers: 'eve' names no account; write digest:USER:HASH"),
        ({"coordinator": "digest:eve:sesame"}, "coordinator: 'digest:eve' names no account"),
        ({"consumers": "sasl:"}, "consumers: 'sasl:' names no account"),
        ({"consumers": "sasl:a", "coordinator": "sasl:b"}, "set one of them"),
    ],
)
def test_a_wrong_account_is_refused_without_what_may_be_a_password(access: dict[str, str], expected: str) -> None:
    environ = {f"COORDINATOR_ZOOKEEPER_{name.upper()}": value for name, value in access.items()}
    with pytest.raises(Refused, match=re.escape(expected)) as caught:
        settings_from_environment({**LEAST, **environ})
    assert "sesame" not in str(caught.value)


def test_names_of_accounts_need_a_log_in_that_closes_nodes() -> None:
    for access in (
        ZooKeeperAccess(consumers=("sasl:a",)),
        ZooKeeperAccess("u", "p", "", True, coordinator=("sasl:a",)),
    ):
        with pytest.raises(Refused, match="has no log-in that closes nodes"):
            access.client_options()


def test_the_address_of_drivers_logs_is_checked_and_goes_to_no_consumer() -> None:
    template = "https://logs.example.org/{consumer}?app={application_id}"
    settings = settings_from_environment({**LEAST, "COORDINATOR_LOG_URL": template})
    assert settings.log_url == template
    assert "log_url" not in plain_settings(settings)
    assert "log_url" not in for_consumers({**plain_settings(settings), "log_url": template})
    with pytest.raises(Refused, match=r"log_url is 'http://h/\{id}': there is no placeholder \{id}; the known ones"):
        settings_from_environment({**LEAST, "COORDINATOR_LOG_URL": "http://h/{id}"})


def test_with_an_authority_plain_http_is_refused_unless_it_is_allowed_and_no_consumer_is_told() -> None:
    assert not settings_from_environment(LEAST).https_only
    with_ca = {**LEAST, "COORDINATOR_STATUS_CA": "/ca.pem"}
    assert settings_from_environment(with_ca).https_only
    changing = settings_from_environment({**with_ca, "COORDINATOR_STATUS_HTTP": "allowed"})
    assert not changing.https_only
    assert "status_http" not in for_consumers({**plain_settings(changing), "status_http": "allowed"})
    with pytest.raises(Refused, match="set it to allowed, or leave it out"):
        settings_from_environment({**with_ca, "COORDINATOR_STATUS_HTTP": "true"})
