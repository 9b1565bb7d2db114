"""Settings from Airflow's connections."""

import json
from collections.abc import Callable

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from coordinator_plugin import hook
from coordinator_plugin.upkeep import AutoscaleOperator

from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.settings import settings_of


def test_every_secret_of_the_connections_reaches_the_settings_and_none_is_shown() -> None:
    zookeeper = Connection(
        conn_id="zk", conn_type="generic", host="zk1,zk2:2182", port=2181, login="u", password="p1",
        extra=json.dumps({"chroot": "/apps", "status_token": "t0", "policy": {"settle_s": 2}}),
    )  # fmt: skip
    kafka = Connection(
        conn_id="k", conn_type="kafka", host="b1,b2", port=9093, login="alice", password="p2",
        extra=json.dumps({"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem", "enable.ssl.certificate.verification": False}),
    )  # fmt: skip
    plain = {**hook.zookeeper_settings(zookeeper), "cluster": "main", "kafka": hook.kafka_settings(kafka)}
    settings = settings_of(plain)
    assert settings.zookeeper == "zk1:2181,zk2:2182/apps"
    assert (settings.zookeeper_access.user, settings.zookeeper_access.password) == ("u", "p1")
    assert settings.policy.settle_s == 2
    assert settings.status_token == "t0"
    assert settings.kafka == {
        "bootstrap.servers": "b1:9093,b2:9093",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "enable.ssl.certificate.verification": "false",
        "sasl.username": "alice",
        "sasl.password": "p2",
    }
    assert not any(secret in repr(settings) for secret in ("p1", "p2", "t0"))


def test_a_setting_of_a_connection_that_is_null_is_as_if_it_were_not_there() -> None:
    zookeeper = Connection(
        conn_id="zk", conn_type="generic", host="zk1", login="u", password="p1",
        extra=json.dumps({"chroot": None, "status_token": None, "zookeeper_access": {"user": None}, "policy": None}),
    )  # fmt: skip
    kafka = Connection(
        conn_id="k", conn_type="kafka", host="b1", login="alice", password="p2",
        extra=json.dumps({"bootstrap.servers": None, "security.protocol": "SASL_SSL", "sasl.username": None}),
    )  # fmt: skip
    plain = {**hook.zookeeper_settings(zookeeper), "cluster": "main", "kafka": hook.kafka_settings(kafka)}
    settings = settings_of(plain)
    assert (settings.zookeeper, settings.zookeeper_access.user, settings.status_token) == ("zk1:2181", "u", "")
    assert (settings.kafka["bootstrap.servers"], settings.kafka["sasl.username"]) == ("b1:9092", "alice")


def test_a_connection_does_not_say_what_may_be_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("allowed", "databases", "registries"):
        zookeeper = Connection(conn_id="zk", conn_type="generic", host="zk1", extra=json.dumps({name: {"x": "*"}}))
        with pytest.raises(Refused, match=f"remove `{name}` from its extra, and set COORDINATOR_{name.upper()}"):
            hook.zookeeper_settings(zookeeper)
    good = {
        "zookeeper_default": Connection(conn_id="zk", conn_type="generic", host="zk1"),
        "kafka_default": Connection(conn_id="k", conn_type="generic", host="b1"),
    }
    monkeypatch.setattr(hook.CoordinatorHook, "get_connection", lambda _, conn_id: good[conn_id])
    monkeypatch.setenv("COORDINATOR_ALLOWED_APPLICATIONS", "/opt/shop/*.py")
    assert settings_of(hook.CoordinatorHook().plain_settings()).allowed == AllowedLaunches("/opt/shop/*.py")


def test_a_connection_without_a_host_is_refused_by_its_id() -> None:
    with pytest.raises(Refused, match="'zk' has no host"):
        hook.zookeeper_settings(Connection(conn_id="zk", conn_type="generic"))
    with pytest.raises(Refused, match="'k' has no host"):
        hook.kafka_settings(Connection(conn_id="k", conn_type="kafka"))


@pytest.mark.parametrize(
    "extra",
    [
        '{"fence": "transactional",}',
        "null",
        '["secret-text"]',
        "[" * 100_000,
        '{"a.b": "secret-text", "a.b": 1}',
        '{"a.b": "\\ud800"}',
    ],
    ids=["comma", "null", "list", "deep", "twice", "half a character"],
)
@pytest.mark.parametrize("read", [hook.zookeeper_settings, hook.kafka_settings])
def test_an_extra_that_is_no_object_is_refused_not_ignored(read: Callable[[Connection], object], extra: str) -> None:
    """Settings of TLS and of the fence would be left out. Airflow's pages refuse such an extra, Airflow's variables do not."""
    with pytest.raises(Refused, match="the extra of the connection 'zk' is no JSON object") as refused:
        read(Connection(conn_id="zk", conn_type="generic", host="zk1", extra=extra))
    assert "secret-text" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("::1", "[::1]:2182"),
        ("[::1]", "[::1]:2182"),
        ("[::1]:2183", "[::1]:2183"),
        ("zk1,[fd00::2]/shop", "zk1:2182,[fd00::2]:2182/shop"),
    ],
)
def test_an_address_of_ipv6_gets_the_port_of_the_connection(host: str, address: str) -> None:
    """Airflow removes the brackets when reading a connection from a URI."""
    connection = Connection(conn_id="zk", conn_type="generic", host=host, port=2182)
    assert hook.zookeeper_settings(connection)["zookeeper"] == address


@pytest.mark.parametrize(
    ("read", "extra", "says"),
    [
        (
            hook.kafka_settings,
            {"security.protocol": {"secret-text": 1}},
            r"security\.protocol' as dict; write a single",
        ),
        (hook.zookeeper_settings, {"chroot": ["secret-text"]}, "chroot' as list; write a single value"),
        *(
            (hook.zookeeper_settings, {group: wrong}, f"{group}' as {type(wrong).__name__}")
            for group in ("zookeeper_access", "policy", "parameters", "strategies")
            for wrong in ("secret-text", ["secret-text"], 7)
        ),
    ],
)
def test_an_extra_of_the_wrong_kind_is_refused_without_its_value(
    read: Callable[[Connection], object], extra: dict[str, object], says: str
) -> None:
    with pytest.raises(Refused, match=f"'zk' gives '{says}") as refused:
        read(Connection(conn_id="zk", conn_type="generic", host="zk1", extra=json.dumps(extra)))
    assert "secret-text" not in str(refused.value)


def test_a_task_of_a_cluster_without_connections_fails_and_says_what_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(conn_id: str) -> Connection:
        raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")

    monkeypatch.setattr(hook.CoordinatorHook, "get_connection", staticmethod(none))
    with pytest.raises(
        AirflowFailException, match=r"cluster main is not configured .* no connection 'zookeeper_default': add"
    ):
        AutoscaleOperator(task_id="look", cluster="main").execute({})
