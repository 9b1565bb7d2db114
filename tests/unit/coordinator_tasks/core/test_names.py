from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_tasks.core.errors import InvalidName
from coordinator_tasks.core.names import (
    Paths,
    check_app,
    check_cluster,
    check_consumer,
    check_topic,
    is_address,
    is_consumer,
    is_topic,
    partition_of,
    partitions_of,
)

PATHS = Paths("shop")


@pytest.mark.parametrize("name", ["a", "A-1", "consumer_7.eu", "9", "a" * 64])
@pytest.mark.parametrize("check", [check_consumer, check_cluster, check_app])
def test_these_are_ids(check: Callable[[object], str], name: str) -> None:
    assert check(name) == name
    assert is_consumer(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "-a", ".a", "a b", "a\n", "a\x00", "ä", "a" * 65, None, 7, b"a"]
)
@pytest.mark.parametrize("check", [check_consumer, check_cluster, check_app])
def test_invalid_names_are_refused_in_one_line(check: Callable[[object], str], name: object) -> None:
    with pytest.raises(InvalidName) as raised:
        check(name)
    assert "\n" not in str(raised.value)
    assert not isinstance(name, str) or not is_consumer(name)


@pytest.mark.parametrize("name", ["orders", "_private", "-x", "a.b", "__consumer_offsets", "x" * 249, "..."])
def test_these_are_topics(name: str) -> None:
    assert check_topic(name) == name
    assert is_topic(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "x" * 250, "a\n"])
def test_these_are_no_topics(name: str) -> None:
    with pytest.raises(InvalidName):
        check_topic(name)
    assert not is_topic(name)


def test_the_paths_are_the_contracts() -> None:
    assert PATHS.topic("orders") == "/consumers/shop/assignments/orders"
    assert PATHS.partition("orders", 45) == "/consumers/shop/assignments/orders/45"
    assert PATHS.state("orders") == "/consumers/shop/state/orders"
    assert PATHS.member("a") == "/consumers/shop/members/a"
    assert PATHS.id("a") == "/consumers/shop/ids/a"
    assert PATHS.directive("a") == "/consumers/shop/directives/a"
    assert PATHS.fleet("etl") == "/consumers/shop/fleet/etl"
    assert PATHS.config("orders") == "/consumers/shop/config/orders"
    assert PATHS.record("orders", 7) == "/consumers/shop/history/orders/0000000007"
    assert all(folder.startswith("/consumers/shop/") for folder in PATHS.folders())


@given(st.text(max_size=80))
def test_no_name_leaves_its_folder(name: str) -> None:
    for make in (PATHS.topic, PATHS.member, PATHS.fleet, lambda n: Paths(n).base):
        try:
            path = make(name)
        except InvalidName:
            continue
        assert path.rpartition("/")[2] == name
        assert name not in (".", "..")


@pytest.mark.parametrize(("child", "partition"), [("0", 0), ("45", 45), ("2147483647", 2147483647)])
def test_these_children_are_partitions(child: str, partition: int) -> None:
    assert partition_of(child) == partition
    assert partitions_of(["7", child]) == [7, partition]


@pytest.mark.parametrize("child", ["", "00", "01", "-1", "+1", "1.0", "x", "1 ", "²", "12345678901"])
def test_these_children_are_not(child: str) -> None:
    assert partition_of(child) is None
    assert partitions_of(["7", child]) is None


@pytest.mark.parametrize(
    "text",
    [
        *("http://127.0.0.1:99999", "http://xn--zzzzzz--:80", "http://h", "http://h:0", "http://h:80/behind", ""),
        *("http://user@h:80", "http://h:80?x", "http://h:80#x", "ftp://h:80", "file:///etc/passwd", "http://[::1:80"),
        *("http://[zz]:80", "http://h ost:80", "http://hö:80", "//h:80"),
    ],
)
def test_these_are_no_addresses_of_an_interface(text: str) -> None:
    assert not is_address(text)
