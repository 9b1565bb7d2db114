"""What a benchmark found, for people and as JSON."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def report(result: dict[str, Any], show: Callable[[dict[str, Any]], None], file: Path | None) -> None:
    """Show it; with `file` (the option `--json`) it is written there first."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_text(result))
    show(result)


def _text(result: Mapping[str, Any]) -> str:
    """JSON with a line for each field, and for each element of a list of objects: small, and `diff` shows what differs."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {_lines(it)}" for name, it in result.items()) + "\n}\n"


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return "[\n" + ",\n".join(f"    {json.dumps(one)}" for one in value) + "\n  ]"
    return json.dumps(value)
