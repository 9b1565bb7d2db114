"""Actor and request: the record of each action, in the action's transaction."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Actor
from coordinator_tasks.core.names import is_topic
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.nodes import action_log, history
from coordinator_tasks.service.run import upkeep
from tests.fakes.cluster import PERSON
from tests.world.shop import Shop, open_shop

AIRFLOW = Actor("airflow", "ada", "pause", "run-1", "pause", 1)


@pytest.fixture
def shop() -> Shop:
    return open_shop()


def done(shop: Shop, action: str, actor: Actor = PERSON, **given: Any) -> None:
    ACTIONS[action].run(shop.coordinator, given, actor, dry_run=False)


@pytest.mark.parametrize(
    ("action", "given", "about", "changes"),
    [
        ("pause", {"topic": "orders", "partitions": [1]}, "orders", {"config/orders paused": ("[]", "[1]")}),
        (
            "set_fleet",
            {"app": "billing", "application": "app.py", "consumers": ["b-1"]},
            "billing",
            {
                "fleet/billing version": ("", "1"),
                "fleet/billing application": ("", '"app.py"'),
                "fleet/billing consumers": ("", '["b-1"]'),
                "fleet/billing arguments": ("", "[]"),
                "fleet/billing conf": ("", "{}"),
            },
        ),
    ],
    ids=["a change of a node", "a new node"],
)
def test_an_action_records_actor_reason_and_former_value(
    shop: Shop, action: str, given: Mapping[str, Any], about: str, changes: Mapping[str, tuple[str, str]]
) -> None:
    done(shop, action, AIRFLOW, why="agreed with kim", **given)
    (found,) = action_log.asked(shop.coordinator)
    assert (found.action, found.about, found.actor, found.at) == (action, about, AIRFLOW, shop.clock.now())
    assert found.why == "agreed with kim"
    assert {f"{one.node} {one.field}": (one.before, one.after) for one in found.changes} == changes
    done(shop, action, AIRFLOW, **given)
    assert len(action_log.asked(shop.coordinator)) == 1, "the same again changes nothing"


def test_a_directive_has_its_reason(shop: Shop) -> None:
    done(shop, "isolate", consumer="a", why="burning", for_s=0)
    (found,) = action_log.asked(shop.coordinator)
    assert (found.about, found.why, found.changes[1].field) == ("a", "burning", "isolated")
    assert json.loads(found.changes[1].after)["by"] == "ada"


def test_a_dry_run_and_a_refused_action_leave_no_record(shop: Shop) -> None:
    before = shop.server.zxid
    ACTIONS["pause"].run(shop.coordinator, {"topic": "orders"}, PERSON, dry_run=True)
    with pytest.raises(Refused):
        done(shop, "pause", topic="orders", partitions=[9])
    assert shop.server.zxid == before
    assert action_log.asked(shop.coordinator) == ()


def test_without_the_change_there_is_no_record_and_without_the_record_no_change(shop: Shop) -> None:
    writes: list[list[str]] = []
    shop.server.before_write = lambda _, operations: writes.append([one.path for one in operations])
    done(shop, "freeze", topic="orders")
    assert writes == [[shop.paths.config("orders"), f"{shop.paths.asked}/"]]


def test_the_records_are_pruned_and_are_no_history_of_a_topic(shop: Shop) -> None:
    done(shop, "freeze", topic="orders")
    done(shop, "unfreeze", topic="orders")
    assert not is_topic(shop.paths.asked.rpartition("/")[2])
    assert history.recorded(shop.coordinator) == ["orders"]
    assert history.prune_asked(shop.coordinator, keep=1) == 1
    assert [one.action for one in action_log.asked(shop.coordinator)] == ["unfreeze"]
    assert not list(upkeep.upkeep(shop.coordinator, ["orders"]).lines)
