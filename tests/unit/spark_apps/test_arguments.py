"""What a consumer is told on its command line about itself."""

import argparse
import socket
from dataclasses import replace
from typing import Any

import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.arguments import add_consumer_arguments, consumer_settings

LEAST = ("--consumer", "a", "--cluster", "c", "--zookeeper", "z:1", "--kafka", "k:1")


def given(*arguments: str, **environ: str) -> ConsumerSettings:
    parser = argparse.ArgumentParser()
    add_consumer_arguments(parser)
    return consumer_settings(parser.parse_args([*LEAST, *arguments]), environ)


def test_rack_capacity_and_free_attributes_go_into_the_registration() -> None:
    told = given("--rack", "r1", "--capacity", "2.5", "--attribute", "tier=gold", "--attribute", "note=a=b")
    assert (told.rack, told.capacity, told.attributes) == ("r1", 2.5, {"tier": "gold", "note": "a=b"})
    assert (given().rack, given().capacity, given().attributes) == ("", 1.0, {})
    assert given("--capacity", "0").capacity == 0


def test_an_attribute_that_is_given_two_values_is_refused() -> None:
    with pytest.raises(Refused, match="--attribute gives 'tier' twice; give it once"):
        given("--attribute", "tier=gold", "--attribute", "tier=silver")
    assert given("--attribute", "code=7", "--attribute", "code=7").attributes == {"code": "7"}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("--capacity", "-1", "'-1' is no capacity; give a number from 0 on"),
        ("--capacity", "nan", "'nan' is no capacity"),
        ("--capacity", "inf", "'inf' is no capacity"),
        ("--capacity", "much", "'much' is no capacity"),
        ("--attribute", "gold", "'gold' is no attribute; give name=value, such as tier=gold"),
        ("--attribute", "=gold", "'=gold' is no attribute"),
    ],
)
def test_a_wrong_value_is_refused(name: str, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        given(f"{name}={value}")
    assert said in capsys.readouterr().err


def test_the_interface_listens_where_it_is_told_to() -> None:
    for listen, host, port in (
        ("0.0.0.0:0", "0.0.0.0", 0),
        ("[::1]:65535", "::1", 65535),
        ("db-host:80", "db-host", 80),
    ):
        told = given("--listen", listen)
        assert (told.host, told.port) == (host, port)
    assert (given().host, given().port) == ("127.0.0.1", 0)


@pytest.mark.parametrize(
    "listen", ["0.0.0.0", ":80", "80", "", "[]:80", "h:", "h:80a", "h:-1", "h:65536", "h:\u0663", "h:" + "9" * 5_000]
)
def test_an_address_without_a_host_or_a_port_is_refused(listen: str) -> None:
    """It is not taken for loopback, on which no other host could ask."""
    with pytest.raises(Refused, match=r"is no address to listen at; give --listen host:port, such as 0\.0\.0\.0:0"):
        given(f"--listen={listen}")


TIMES = ("start-timeout", "close-timeout", "max-poll-interval", "stop-timeout", "slow-batch", "batch-interval")


@pytest.mark.parametrize("value", ["nan", "-1", "inf", "1e300", "soon"])
@pytest.mark.parametrize("name", TIMES)
def test_a_time_that_nobody_can_wait_is_refused(name: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is later than `nan`: a consumer with that never left."""
    with pytest.raises(SystemExit):
        given(f"--{name}={value}")
    assert f"'{value}' is no time; give a number of seconds from 0 on, such as 30" in capsys.readouterr().err


def test_a_time_may_be_none_and_a_part_of_a_second() -> None:
    told = given(*(f"--{name}={number / 2}" for number, name in enumerate(TIMES)))
    limits = told.agent_timing
    assert (told.start_timeout_s, limits.close_timeout_s, limits.stalled_s) == (0, 0.5, 1)
    assert (limits.stop_s, limits.slow_batch_s, told.pacing.batch_interval_s) == (1.5, 2, 2.5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"advertised": "http://127.0.0.1:99999"}, "'http://127.0.0.1:99999' is no address of a consumer's interface"),
        ({"advertised": "proxy:80"}, "'proxy:80' is no address"),
        ({"capacity": 1e300}, "1e.300 is no capacity"),
    ],
)
def test_nothing_is_registered_that_could_not_be_read(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused, match=said):
        replace(given(), **changes)
    assert replace(given(), advertised="https://[::1]:8443").advertised == "https://[::1]:8443"


def resolves(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]
    monkeypatch.setattr(socket, "gethostname", lambda: "driver-pod")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_a_pod_is_asked_by_its_address_which_needs_no_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves(monkeypatch, "10.88.0.7")
    told = given("--listen", "0.0.0.0:0", "--advertise", "address")
    assert (told.own_name, told.advertised) == ("10.88.0.7", "")


def test_a_container_of_yarn_is_asked_by_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves(monkeypatch, "10.88.0.7")
    assert given("--advertise", "host", NM_HOST="node-3.example").own_name == "node-3.example"
    assert given("--advertise", "host").own_name == "driver-pod"
    assert given().own_name == given("--advertise", "http://proxy:80").own_name == ""


def test_an_address_that_no_other_host_can_ask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    resolves(monkeypatch, "127.0.1.1")
    with pytest.raises(
        Refused, match=r"driver-pod resolves to 127\.0\.1\.1, which other hosts cannot reach; give --advertise"
    ):
        given("--advertise", "address")

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(
        Refused, match=r"has no IPv4 address .no such name.; give --advertise \S+, or --listen \[::\]:0"
    ):
        given("--advertise", "address")
