"""A fleet that is redeployed under traffic on real servers; the test launches what is missing."""

import pytest

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.service.nodes import fleet
from coordinator_tasks.wiring import open_coordinator
from tests.integration.agent_site import Traffic, wait_for
from tests.integration.real_site import LIMIT_S, Managed, ran

pytestmark = pytest.mark.integration
FLEET = ("set-fleet", "billing", "--application", OWN_APPLICATIONS[0], "--consumer", "a1", "--consumer", "a2")


def test_each_consumer_of_a_redeployed_fleet_is_replaced_once_and_nothing_is_lost(
    managed: Managed,
) -> None:
    launched: list[str] = []
    with managed.looping(), open_coordinator(managed.site.settings) as c:

        def launch() -> None:
            for one in fleet.missing(c):
                managed.join(one.consumer)
                launched.append(one.consumer)

        ran(managed, *FLEET, "--code", "1.0")
        launch()
        managed.stable({"a1", "a2"})
        traffic = Traffic(managed.site)
        before = {name: member.incarnation for name, member in c.discovery.members().items()}
        ran(managed, *FLEET, "--code", "1.1")
        ran(managed, "redeploy", "billing", "--why", "version 1.1")

        def replaced() -> bool:
            launch()
            now = c.discovery.members()
            return now.keys() == before.keys() and all(now[one].incarnation > before[one] for one in before)

        wait_for(replaced, "all are replaced", LIMIT_S)
        managed.stable({"a1", "a2"})
        sent = traffic.close()
        managed.consumed(sent)
    assert launched == ["a1", "a2", "a1", "a2"], "one after the other"
    managed.judge(sent)
