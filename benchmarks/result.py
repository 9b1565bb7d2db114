"""What a benchmark found, for people and as JSON."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def report(result: dict[str, Any], show: Callable[[dict[str, Any]], None], file: Path | None) -> None:
    """Show it; with `file` (the option `--json`) it is written there first."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result, indent=2) + "\n")
    show(result)
