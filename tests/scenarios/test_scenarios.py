"""The protocol told as stories: `# prose`, `> command`, and `| what comes of it`, which is checked.

A changed behaviour shows as a diff of these files: run with `UPDATE_SCENARIOS=1` to rewrite them, then review it.
The commands are the `do_` methods of `stage.Stage`.
"""

import os
from pathlib import Path

import pytest

from tests.scenarios.stage import Stage

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))


def play(text: str) -> str:
    """The file with the output that its commands give now."""
    stage = Stage()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("|"):
            continue
        lines.append(line)
        if line.startswith(">"):
            lines += [f"| {output}" for output in stage.run(line[1:])]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    told = path.read_text(encoding="utf-8")
    played = play(told)
    if os.environ.get("UPDATE_SCENARIOS"):
        path.write_text(played, encoding="utf-8")
    else:
        assert played == told, "run with UPDATE_SCENARIOS=1 and review the diff"
