"""What KEDA does with a trigger of `docs/kubernetes/scaled-object.yaml`, as its own source has it (pkg/scalers/prometheus_scaler.go)."""

import json
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

MANIFEST = Path(__file__).parents[2] / "docs" / "kubernetes" / "scaled-object.yaml"
EXAMPLE = {"cluster_name": "main", "fleet": "billing"}
"""The labels in the manifest's query."""


def trigger() -> dict[str, Any]:
    """The manifest's only one."""
    (found,) = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))["spec"]["triggers"]
    assert found["type"] == "prometheus"
    return dict(found)


def query(**labels: str) -> str:
    """The manifest's, with these labels in place of its own."""
    text = str(trigger()["metadata"]["query"])
    for name, value in labels.items():
        written = f'{name}="{EXAMPLE[name]}"'
        assert written in text
        text = text.replace(written, f'{name}="{value}"')
    return text


def number(server: str, asked: str) -> float | None:
    """The metric for the horizontal pod autoscaler; `None` = an error, with which the number of pods stays."""
    with urllib.request.urlopen(f"{server}/api/v1/query?query={urllib.parse.quote_plus(asked)}", timeout=10) as answer:
        found = json.loads(answer.read())["data"]["result"]
    if not found:
        return None if trigger()["metadata"].get("ignoreNullValues") == "false" else 0.0
    (one,) = found
    return float(one["value"][1])
