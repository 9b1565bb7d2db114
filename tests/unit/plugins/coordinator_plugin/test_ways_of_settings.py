"""The same odd addresses by each source of settings: each source reads the same address, or refuses without showing the address."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from airflow.sdk import Connection
from coordinator_plugin import hook

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.settings import Settings, settings_from_environment, settings_of
from spark_apps.arguments import add_consumer_arguments, consumer_settings

REFUSED = ""
ZOOKEEPER = {
    "zk1:2181": "zk1:2181",
    "zk1:2181/a/b/": "zk1:2181/a/b",
    " zk1:2181 , ,zk2:2182 /a ": "zk1:2181,zk2:2182/a",
    "[::1]:2181,[fd00::2]:2182/a": "[::1]:2181,[fd00::2]:2182/a",
    "zk1:2181/a b/käfka": "zk1:2181/a b/käfka",
    "zk1:2181/a%2Fb": REFUSED,
    "me:s3cret@zk1:2181/kafka": REFUSED,
    "zookeeper://zk1:2181/kafka": REFUSED,
    "zk1:2181?chroot=kafka": REFUSED,
    "": REFUSED,
    "/kafka": REFUSED,
    "zk1:2181//a": REFUSED,
    "zk1:2181/../a": REFUSED,
    "zk1:2181/zookeeper/a": REFUSED,
    "zk1:2181/a\nb": REFUSED,
    "zk1 zk2:2181": REFUSED,
    "zk1:99999": REFUSED,
    f"{'z' * 254}:2181": REFUSED,
    f"zk1:2181/{'a' * 1_001}": REFUSED,
    ",".join(["zk1:2181"] * 101): REFUSED,
}
KAFKA = {
    "b1:9092": "b1:9092",
    " b1:9092 ,,b2:9093 ": "b1:9092,b2:9093",
    "[::1]:9092": "[::1]:9092",
    "SASL_SSL://b1:9092": "SASL_SSL://b1:9092",
    "b1:9092/kafka": REFUSED,
    "me:s3cret@b1:9092": REFUSED,
    "b1%3A9092": REFUSED,
    "": REFUSED,
    "b\x001:9092": REFUSED,
}
Way = Callable[[str, str, Path], Settings]


def environment(zookeeper: str, kafka: str, _: Path) -> Settings:
    variables = {"CLUSTER": "c", "ZOOKEEPER": zookeeper, "KAFKA_BOOTSTRAP_SERVERS": kafka}
    return settings_from_environment({f"COORDINATOR_{name}": value for name, value in variables.items()})


def file(zookeeper: str, kafka: str, folder: Path) -> Settings:
    (folder / "settings.json").touch(mode=0o600)
    text = json.dumps({"cluster": "c", "zookeeper": zookeeper, "kafka": {"bootstrap.servers": kafka}})
    (folder / "settings.json").write_text(text)
    return settings_from_environment({"COORDINATOR_SETTINGS": str(folder / "settings.json")})


def command(zookeeper: str, kafka: str, _: Path) -> Settings:
    parser = argparse.ArgumentParser()
    add_consumer_arguments(parser)
    given = ["--consumer=a", "--cluster=c", f"--zookeeper={zookeeper}", f"--kafka={kafka}"]
    return consumer_settings(parser.parse_args(given), {}).site


def connection_json(zookeeper: str, kafka: str, _: Path) -> Settings:
    made = [json.dumps({"conn_type": "generic", "host": host}) for host in (zookeeper, kafka)]
    return by_connections(*(Connection.from_json(text, "x") for text in made))


def connection_uri(zookeeper: str, kafka: str, _: Path) -> Settings:
    hosts, slash, folder = zookeeper.partition("/")
    if "://" in zookeeper:
        hosts, slash, folder = zookeeper, "", ""
    path = f"{slash}{quote(folder)}"
    made = [f"generic://{quote(hosts, safe='')}{path}", f"generic://{quote(kafka, safe='')}"]
    return by_connections(*(Connection.from_uri(one, "x") for one in made))


def connection_extra(zookeeper: str, kafka: str, _: Path) -> Settings:
    hosts, slash, folder = zookeeper.partition("/")
    if "://" in zookeeper:
        hosts, slash, folder = zookeeper, "", ""
    brokers = json.dumps({"bootstrap.servers": kafka})
    return by_connections(
        Connection(conn_id="x", conn_type="generic", host=hosts, extra=json.dumps({"chroot": slash + folder})),
        Connection(conn_id="x", conn_type="generic", extra=brokers),
    )


def by_connections(zookeeper: Connection, kafka: Connection) -> Settings:
    plain = {**hook.zookeeper_settings(zookeeper), "cluster": "c", "kafka": hook.kafka_settings(kafka)}
    return settings_of(plain)


@pytest.mark.parametrize("way", [environment, file, command, connection_json, connection_uri, connection_extra])
def test_each_way_reads_the_same_address_or_refuses_it(way: Way, tmp_path: Path) -> None:
    wrong: dict[str, object] = {}
    for given, address in ZOOKEEPER.items():
        found = read(lambda text: way(text, "b1:9092", tmp_path).zookeeper, given)
        wrong |= {} if found == address else {given: found}
    for given, address in KAFKA.items():
        found = read(lambda text: way("zk1:2181", text, tmp_path).kafka["bootstrap.servers"], given)
        wrong |= {} if found == address else {given: found}
    assert wrong == {}


def read(way: Callable[[str], str], text: str) -> str:
    try:
        return way(text)
    except Refused as refused:
        says = str(refused)
        return says if "s3cret" in says or len(says) > 400 else REFUSED


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("zookeeper://zk1:2181/kafka", "zk1:2181/kafka"),
        ("zookeeper://me:p%40ss@zk1,zk2:2182/a/b/", "zk1:2182,zk2:2182/a/b"),
        ("zookeeper://[::1]:2181/kafka", "[::1]:2181/kafka"),
        ("zookeeper://zk1:2181/kafka?chroot=kafka", "zk1:2181/kafka"),
        ("zookeeper://zk1:2181/?chroot=%2Fkafka", "zk1:2181/kafka"),
    ],
)
def test_the_folder_of_a_uri_is_used(uri: str, address: str) -> None:
    assert by_connections(Connection.from_uri(uri, "zk"), Connection(conn_id="k", host="b1")).zookeeper == address


def test_two_folders_are_refused_and_so_is_one_of_kafka() -> None:
    with pytest.raises(Refused, match="'zk' names two folders"):
        hook.zookeeper_settings(Connection.from_uri("zookeeper://zk1:2181/kafka?chroot=other", "zk"))
    with pytest.raises(Refused, match="'k' has a schema"):
        hook.kafka_settings(Connection.from_uri("kafka://b1:9092/kafka", "k"))
