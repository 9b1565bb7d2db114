"""The properties that a topic may have are taken by Kafka's client, and nothing else gets into a topic."""

import json
from dataclasses import replace

import pytest
from confluent_kafka import Consumer

from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.fleet.fetch_properties import CHOICES, JAVA_NAMES, NUMBERS, checked, usable
from coordinator_tasks.core.machine.decision import TopicOutcome
from coordinator_tasks.core.model import TopicNode
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from spark_apps import plain
from tests.world.site import LOOP, stable_site

NODE = TopicNode("h:9092", "g", 9, "gen", "id", assignments={0: "a"}, since={0: 3}, incarnations={"a": 1})
NODE_FIELDS = [*sorted(json.loads(codec.encode_node(NODE))), "seeks", "properties"]
FOREIGN = [
    *NODE_FIELDS,
    "sasl.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "enable.ssl.certificate.verification",
    "plugin.library.paths",
    "ssl.ca.location",
    "security.protocol",
    "debug",
    "max.poll.records",
    "Fetch.Min.Bytes",
    "fetch.min.bytes ",
    "",
    "x" * 5_000,
    "a\nb",
]


def accepts(settings: dict[str, object]) -> None:
    Consumer({"bootstrap.servers": "127.0.0.1:1", "log_level": "0", **settings}).close()


@pytest.mark.parametrize("place", [0, 1], ids=["the least", "the greatest"])
def test_kafkas_client_takes_every_property_alone_and_all_together(place: int) -> None:
    values = {**{n: str(bounds[place]) for n, bounds in NUMBERS.items()}, **{n: c[-place] for n, c in CHOICES.items()}}
    for name, value in values.items():
        accepts({**plain.DEFAULTS, "group.id": "g", name: value})
    accepts({**plain.DEFAULTS, "group.id": "g", **values})


@pytest.mark.parametrize("name", FOREIGN)
def test_any_other_property_is_refused_in_one_line_without_its_value(name: str) -> None:
    with pytest.raises(Refused, match="is no property of a topic") as found:
        checked({"fetch.min.bytes": "1", name: "hunter2"})
    assert "hunter2" not in str(found.value)
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 500


@pytest.mark.parametrize(
    "value", ["", "-1", "0", "1.5", "1e3", "٣", "9" * 5_000, "100000001", " 1", "1_0", "0x1", "{{ 1 }}"]
)
def test_a_value_that_the_client_would_not_take_is_refused_with_the_range(value: str) -> None:
    with pytest.raises(Refused, match="give a whole number from 1 to 100000000") as found:
        checked({"fetch.min.bytes": value})
    assert len(str(found.value)) < 200


def test_the_java_clients_names_become_librdkafkas() -> None:
    given = {"fetch.max.wait.ms": "7", "max.partition.fetch.bytes": "8"}
    assert checked(given) == usable(given) == {"fetch.message.max.bytes": "8", "fetch.wait.max.ms": "7"}
    assert set(JAVA_NAMES.values()) <= NUMBERS.keys()


def test_what_an_older_release_let_into_a_configuration_takes_over_no_topic() -> None:
    site = stable_site("a", "b")
    path = site.paths.config("orders")
    body = json.loads(site.zk.get(path).data)
    body["properties"] = {"group.id": "7", "sasl.password": "hunter2", "fetch.min.bytes": "2"}
    site.server.overwrite(path, json.dumps(body).encode())
    site.settles()
    config, node, records = topics.configuration(site.coordinator, "orders"), site.node(), len(site.history())
    assert node.group_id == config.group_id == "g"
    assert b"hunter2" not in site.zk.get(site.paths.topic("orders")).data
    site.clock.advance(60)
    for _ in range(5):
        site.everybody_acts()
        assert transitions.step(site.coordinator, ["orders"], LOOP)[0].outcome is TopicOutcome.UNCHANGED
    assert (site.node(), len(site.history())) == (node, records), "it was written again and again"
    topics.change_config(site.coordinator, "orders", lambda one: replace(one, frozen=True))
    assert json.loads(site.zk.get(path).data)["properties"] == {"fetch.min.bytes": "2"}
