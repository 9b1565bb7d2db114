"""A fleet that is scaled and redeployed by commands, on real servers and under traffic; the test launches what is missing."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coordinator_tasks import __version__
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.cli.base import user
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Site, Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed, ran

pytestmark = pytest.mark.integration


@pytest.fixture
def managed(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Iterator[Managed]:
    made = Managed(Site(zookeeper.connect_string, kafka.bootstrap_servers, partitions=4))
    with made.looping():
        yield made
    made.close()


@pytest.fixture
def c(managed: Managed) -> Iterator[Coordinator]:
    with open_coordinator(managed.site.settings) as coordinator:
        yield coordinator


def launched(managed: Managed, c: Coordinator) -> list[str]:
    """Do what a launcher does, with the attributes that the fleet's arguments name."""
    found = fleet.missing(c)
    for one in found:
        told = dict(zip(one.arguments[::2], one.arguments[1::2], strict=True))
        name, _, value = told.get("--attribute", "").partition("=")
        managed.join(one.consumer, attributes={name: value} if name else {})
    return [one.consumer for one in found]


def incarnations(c: Coordinator) -> dict[str, int]:
    return {name: member.incarnation for name, member in c.discovery.members().items()}


def test_a_fleet_is_scaled_and_redeployed_while_records_flow(managed: Managed, c: Coordinator) -> None:
    ran(managed, "set-fleet", "billing", "--application", OWN_APPLICATIONS[0], "--consumer", "a1", "--code", "1.0")
    launched(managed, c)
    refused = ran(managed, "redeploy", "billing", code=2)
    assert refused.startswith("error: KPC-019: a1 is the only live consumer")
    traffic = Traffic(managed.site)
    assert "a2 would join" in ran(managed, "scale", "billing", "2", "--dry-run")
    assert launched(managed, c) == [], "it was only shown"
    ran(managed, "scale", "billing", "2", "--why", "month end")
    assert launched(managed, c) == ["a2"]
    wait_for(lambda: owners(managed) == {"a1", "a2"} and stable(managed), "both own something", LIMIT_S)

    ran(managed, "set-fleet", "billing", "--application", OWN_APPLICATIONS[0], "--code", "1.1", *both())
    before = incarnations(c)
    ran(managed, "redeploy", "billing", "--why", "version 1.1")
    order: list[str] = []

    def replaced() -> bool:
        order.extend(launched(managed, c))
        now = incarnations(c)
        return now.keys() == before.keys() and all(now[one] > before[one] for one in before) and stable(managed)

    wait_for(replaced, "all are replaced", LIMIT_S)
    assert order == ["a1", "a2"], "one after the other"
    wait_for(lambda: owners(managed) == {"a1", "a2"} and stable(managed), "both own something", LIMIT_S)
    sent = traffic.close()
    managed.consumed(sent)
    managed.judge(sent)

    listed = {one["consumer"]: one for one in the_json(ran(managed, "status", "--json"))}
    assert {one: (listed[one]["release"], listed[one]["code"]) for one in listed} == {
        "a1": (__version__, "1.1"),
        "a2": (__version__, "1.1"),
    }
    asked = the_json(ran(managed, "history", "billing", "--actions", "--json"))
    assert [one["action"] for one in asked] == ["redeploy", "set_fleet", "scale", "set_fleet"]
    assert {one["actor"]["who"] for one in asked} == {user()}
    assert [one["why"] for one in asked] == ["version 1.1", "", "month end", ""]

    ran(managed, "scale", "billing", "1")
    wait_for(lambda: owners(managed) == {"a1"} and stable(managed), "a2 has given everything away", LIMIT_S)
    wait_for(lambda: incarnations(c).keys() == {"a1"}, "a2 has left", LIMIT_S)
    assert launched(managed, c) == []
    ran(managed, "undrain", "a2", "--fleet", "billing")
    assert launched(managed, c) == ["a2"]
    wait_for(lambda: owners(managed) == {"a1", "a2"} and stable(managed), "it is back", LIMIT_S)


def both() -> tuple[str, ...]:
    return ("--consumer", "a1", "--consumer", "a2")


def owners(managed: Managed) -> set[str]:
    return set(managed.node().assignments.values())


def stable(managed: Managed) -> bool:
    return managed.state().value == "Stable"


def the_json(text: str) -> Any:
    return json.loads(text)
