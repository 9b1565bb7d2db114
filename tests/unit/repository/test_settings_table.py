"""Every setting has a text below the field, for the page, and is set by its name in the environment."""

import re
from typing import Any

import pytest

from coordinator_tasks.settings import settings_from_environment
from tests.reference.settings import OF_MAPPINGS, Setting, every_setting

LEAST = {
    "COORDINATOR_CLUSTER": "main",
    "COORDINATOR_ZOOKEEPER": "zk:2181",
    "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
}
LISTS = ("budget.hours", "budget.approvers")
ACCOUNTS = ("zookeeper_access.consumers", "zookeeper_access.coordinator")


OTHERS = {
    "discovery": "file:/registry",
    **dict.fromkeys(ACCOUNTS, "sasl:other;x509:CN=another,O=site"),
    "budget.hours": "22:00-05:30;12:00-13:00",
    "fence": "transactional",
    "status_http": "allowed",
    "log_url": "https://logs/{consumer}",
    "log_format": "json",
}


def other(name: str, default: str) -> str:
    """Another value than the default."""
    if name in OTHERS:
        return OTHERS[name]
    if default in ("true", "false"):
        return "true" if default == "false" else "false"
    return "7" if default.isdigit() else "other"


@pytest.mark.parametrize("one", every_setting(), ids=lambda one: str(one.name))
def test_the_environment_sets_it(one: Setting) -> None:
    name, variable = one.name, one.variable
    value = other(name, one.default)
    found: Any = settings_from_environment({**LEAST, re.sub("<.+>", "X_Y", variable): value})
    for part in name.split("."):
        found = getattr(found, part)
    if name in OF_MAPPINGS:
        found = found.get("x_y") or found.get("x.y")
    if name in (*ACCOUNTS, *LISTS):
        found = ";".join(found)
    as_written = f"{found:g}" if isinstance(found, float) else str(found)
    assert (as_written.lower() if isinstance(found, bool) else as_written) == value
