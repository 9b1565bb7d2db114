"""The commands, with the text of `--help`."""

from collections.abc import Iterator, Mapping
from enum import EnumType
from pathlib import Path
from typing import Any, get_args, get_origin

from typer.main import get_command

from coordinator_tasks.cli import app
from tests.reference.form import Row, common, own_table, page, table

HEAD = ("option", "value", "default", "meaning")
COMMON = "Common options"
ABOUT = """\
Type `.venv/bin/python -m coordinator_tasks COMMAND` in the repository, or `coordinator COMMAND` where the package is installed
(`pip install --no-deps .` beside the frozen requirements).

- **Output.** Every command except `run` and `metrics` has `--output table`, `json` or `csv`. In CSV, a plan has a row for each pair of giver and
  taker, an action a row with the fields of its JSON.
- **Dry run.** Every command that changes configuration has `--dry-run`, with the same answer and the same refusals, but no change.
  `offsets reset`, `offsets undo` and `import` only show the change unless `--execute` is given. For `step` and `approve` use `plan --dry-run`, for
  `zookeeper-rights` use `doctor`.
- **Questions.** `remove-topic` and `isolate` ask first, unless `--yes` is given. In a script without a terminal as standard input, they are
  refused without `--yes`. Commands with `--execute` do not ask.
- **Progress** of a command that takes longer than a second is shown on standard error of a terminal.
- **Completion.** `coordinator --install-completion` sets up the current shell (bash, zsh, fish or PowerShell); `--show-completion` prints
  the script.

An error begins with [its code](../errors.md), such as `KPC-012`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a topic is held, or something is left out of the answer: a person has to look |
| 2 | the request or the settings are wrong |
| 3 | a neighbour does not answer |
| 4 | stored data cannot be read |
| 5 | somebody else was faster: repeat |
| 130 | interrupted, or a question was answered with no |
| 141 | the output's reader, such as `head`, ended before the command |
"""


def commands() -> str:
    found = [(words, command, _rows(command)) for words, command in sorted(_commands(get_command(app)))]
    shared = common(rows for _, _, rows in found)
    parts = [
        ABOUT,
        f"## {COMMON}\n\nEach command below names its options from this list.\n",
        table(HEAD, list(shared.values())),
    ]
    for words, command, rows in found:
        usage = " ".join(
            [words, *(f"[{one.name}]" if not one.required else str(one.name) for one in _positional(command.params))]
        )
        parts.append(f"## {words}\n\n`{usage}`\n\n{(command.help or '').strip()}\n")
        if rows:
            parts.append(own_table(HEAD, rows, shared, COMMON))
    return page("Commands", *parts)


def _rows(command: Any) -> list[Row]:
    return [(_names(one), _kind(one), _default(one), _help(one)) for one in command.params if one.name != "help"]


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        words = f"{before}{name}"
        if hasattr(command, "commands"):
            yield from _commands(command, f"{words} ")
        elif not command.hidden:
            yield words, command


def _positional(params: list[Any]) -> list[Any]:
    return [one for one in params if one.param_type_name == "argument"]


def _names(param: Any) -> str:
    return ", ".join(f"`{name}`" for name in param.opts + param.secondary_opts)


def _kind(param: Any) -> str:
    """What its value is: a kind of value, or every value that it may have."""
    if getattr(param, "is_flag", False):
        return "–"
    kind = param.type_descriptor.annotation
    inner = (get_args(kind) or (kind,))[0]
    values = ", ".join(f"`{one.value}`" for one in list[Any](inner)) if isinstance(inner, EnumType) else KINDS[inner]
    return f"{values}, repeatable" if get_origin(kind) is list else values


KINDS: Mapping[Any, str] = {str: "text", int: "number", float: "number", bool: "–", Path: "path"}


def _default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default() if callable(param.default) else param.default
    return "–" if value in (None, "", False, (), []) else f"`{_plain(value)}`"


def _plain(value: Any) -> str:
    return str(getattr(value, "value", value))


def _help(param: Any) -> str:
    return str(getattr(param, "help", None) or "")
