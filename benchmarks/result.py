"""Findings of a benchmark, for people, as JSON and as Markdown."""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any


def options(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option `--json`; the first line of a module's docstring is the description."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--json", type=output)
    return parser


def report(result: dict[str, Any], show: Callable[[dict[str, Any]], str | None], file: Path | None) -> None:
    """Show the result, as the text that `show` returns if any; with `file` (the option `--json`) write it there first."""
    if file is not None:
        file.write_text(_text(result))
    if text := show(result):
        print(text)


def output(text: str) -> Path:
    """Parse an option with an output file: its folder is made, and an unwritable file is refused at once."""
    file = Path(text)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        problem = "it is a folder" if file.is_dir() else ""
    except OSError as found:
        problem = found.strerror or str(found)
    if not problem and not os.access(file if file.exists() else file.parent, os.W_OK):
        problem = "permission denied"
    if problem:
        raise argparse.ArgumentTypeError(f"{text} cannot be written: {problem}; name another file")
    return file


def of_process(what: str, *arguments: str, **how: Any) -> Any:
    """Return the JSON in the last line of a Python process of its own. Raises `SystemExit` if the process fails."""
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=False, **how)
    if done.returncode != 0:
        sys.exit(f"{what} failed; its last words are above")
    return json.loads(done.stdout.splitlines()[-1])


def whole(text: str) -> int:
    """Parse an option with a count."""
    if not re.fullmatch(r"0*[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a whole number of at least 1")
    return int(text)


def wholes(text: str) -> tuple[int, ...]:
    """Parse several counts, separated by commas."""
    return tuple(whole(one) for one in text.split(","))


def grid(titles: Sequence[str], rows: Iterable[Sequence[str]], texts: Sequence[str] = ()) -> str:
    """Return Markdown; the first column and the columns in `texts` are left-aligned, figures right-aligned."""
    sides = ("---" if place == 0 or title in texts else "--:" for place, title in enumerate(titles))
    head, *body = (f"| {' | '.join(cells)} |" for cells in (titles, *rows))
    return "\n".join([head, f"|{'|'.join(sides)}|", *body])


def ranged(values: Sequence[float], number: Callable[[float], str] = "{:,.0f}".format) -> str:
    """Return median, least and most."""
    return f"{number(median(values))} ({number(min(values))}–{number(max(values))})"


def verdict(*targets: tuple[bool, str]) -> str:
    """Return the cell of a row's targets: each with whether it is met."""
    return "; ".join(f"{'met' if met else '**missed**'}: {target}" for met, target in targets) or "–"


def _text(result: Mapping[str, Any]) -> str:
    """JSON with a line for each field, and for each element of a list of objects: small, and `diff` shows what differs."""
    return "{\n" + ",\n".join(f"  {json.dumps(name)}: {_lines(it)}" for name, it in result.items()) + "\n}\n"


def _lines(value: Any) -> str:
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return "[\n" + ",\n".join(f"    {json.dumps(one)}" for one in value) + "\n  ]"
    return json.dumps(value)
