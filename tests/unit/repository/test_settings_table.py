"""The page on operations names every setting with its name in the environment and its default."""

import re
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import pytest

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.budget import Budget
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.settings import _MADE_BY_WIRING, Settings, settings_from_environment

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"
LEAST = {
    "COORDINATOR_CLUSTER": "main",
    "COORDINATOR_ZOOKEEPER": "zk:2181",
    "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": "broker:9092",
}
GROUPS: dict[str, tuple[str, Any]] = {
    "zookeeper_access": ("ZOOKEEPER", ZooKeeperAccess),
    "policy": ("POLICY", Policy),
    "allowed": ("ALLOWED", AllowedLaunches),
    "budget": ("BUDGET", Budget),
}
OF_MAPPINGS = {
    "kafka": "KAFKA_<PROPERTY>",
    "parameters": "PARAMETER_<NAME>",
    "strategies": "STRATEGIES_<NAME>",
    "rules": "RULES_<NAME>",
    "consumer_zookeeper": "CONSUMER_ZOOKEEPER_<FIELD>",
    "consumer_kafka": "CONSUMER_KAFKA_<PROPERTY>",
}
LISTS = ("budget.hours", "budget.approvers")
ACCOUNTS = ("zookeeper_access.consumers", "zookeeper_access.coordinator")


def table() -> list[list[str]]:
    """Name, name in the environment and default of each row."""
    text = PAGE.read_text(encoding="utf-8").split("\n## Settings\n", 1)[1].split("\n## ")[0].split("\nOther names")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")[:3]] for line in lines[2:]]


def shown(one: Field[Any]) -> str:
    """A default as the page writes it."""
    made = one.default_factory() if one.default_factory is not MISSING else one.default
    if made is MISSING:
        return "–"
    if made in ("", {}, ()):
        return "empty"
    return str(made).lower() if isinstance(made, bool | str) else f"{made:.15g}"


def expected() -> list[list[str]]:
    found = []
    for one in fields(Settings):
        if one.name not in GROUPS:
            variable = OF_MAPPINGS.get(one.name, one.name.upper())
            found.append([one.name, f"COORDINATOR_{variable}", shown(one)])
            continue
        prefix, kind = GROUPS[one.name]
        for inner in fields(kind):
            if inner.name not in _MADE_BY_WIRING:
                variable = f"COORDINATOR_{prefix}_{inner.name.upper()}"
                found.append([f"{one.name}.{inner.name}", variable, shown(inner)])
    return found


def test_every_setting_stands_there_once_in_order_with_its_default() -> None:
    assert table() == expected()


def other(name: str, default: str) -> str:
    """A value that is not the default."""
    if name == "discovery":
        return "file:/registry"
    if name in ACCOUNTS:
        return "sasl:other;x509:CN=another,O=site"
    if name == "budget.hours":
        return "22:00-05:30;12:00-13:00"
    if name == "fence":
        return "transactional"
    if name == "log_url":
        return "https://logs/{consumer}"
    if name == "log_format":
        return "json"
    if default in ("true", "false"):
        return "true" if default == "false" else "false"
    return "7" if default.isdigit() else "other"


@pytest.mark.parametrize("row", table(), ids=lambda row: str(row[0]))
def test_the_environment_sets_it(row: list[str]) -> None:
    name, variable, default = row
    value = other(name, default)
    found: Any = settings_from_environment({**LEAST, re.sub("<.+>", "X_Y", variable): value})
    for part in name.split("."):
        found = getattr(found, part)
    if name in OF_MAPPINGS:
        found = found.get("x_y") or found.get("x.y")
    if name in (*ACCOUNTS, *LISTS):
        found = ";".join(found)
    as_written = f"{found:g}" if isinstance(found, float) else str(found)
    assert (as_written.lower() if isinstance(found, bool) else as_written) == value
