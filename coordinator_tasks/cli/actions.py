"""The actions as commands. Their parameters become arguments and options."""

import inspect
import sys
from typing import Annotated, Any

import typer

from coordinator_tasks import show
from coordinator_tasks.cli.base import HELD_EXIT, Format, Json, Output, actor, listed, opened, say_how_to_execute
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.name_values import name_values
from coordinator_tasks.service.actions.action import Action, Given, check_names
from coordinator_tasks.service.actions.parameters import REQUIRED, CommandOption
from coordinator_tasks.service.coordinator import Coordinator


def add(commands: typer.Typer, action: Action, panel: str = "") -> None:
    """Add the action's command, named by the last of its words. `panel`: the heading in `--help`."""
    asked = {one.name: one.option for one in action.parameters if one.option is not None}
    # Help lists required parameters first.
    options = dict(sorted(asked.items(), key=lambda item: item[1].default is not REQUIRED))

    def command(
        context: typer.Context,
        *,
        how: Format,
        json: bool,
        dry_run: bool = False,
        execute: bool = True,
        yes: bool = False,
        by: str = "",
        **given: Any,
    ) -> None:
        with opened(context) as c:
            for name, option in options.items():
                if option.pairs:
                    given[name] = name_values(given[name] or (), option.flag)
            if action.destructive and not (yes or dry_run):
                _ask(action, c, given, context.info_name or "")
            who = actor(by)
            done = action.would(c, given, who) if dry_run or not execute else action.run(c, given, who, dry_run=False)
            rows = show.ACTION_ROWS.get(action.name, show.rows)
            listed(done.found, how, json, lambda _: done.text, rows)
        if not execute:
            say_how_to_execute()
        elif dry_run:
            print("dry run: nothing was changed", file=sys.stderr)
        if done.partial:
            raise typer.Exit(HELD_EXIT)

    signature = {
        "context": inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        **{name: _parameter(name, option) for name, option in options.items()},
        "how": inspect.Parameter("how", inspect.Parameter.KEYWORD_ONLY, default=Format.TABLE, annotation=Output),
        "json": inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json),
    }
    command.__annotations__ = {name: one.annotation for name, one in signature.items()}
    command.__signature__ = inspect.Signature(list(signature.values()))  # type: ignore[attr-defined]
    commands.command(action.words.split()[-1], help=action.help, rich_help_panel=panel or None)(command)


def _ask(action: Action, c: Coordinator, given: Given, command: str) -> None:
    """Raise `Abort` if a person at a terminal declines, and `Refused` if a script lacks --yes."""
    check_names(given)
    lines = [*action.before(c, given), *action.preview(c, given).lines]
    if not sys.stdin.isatty():
        raise Refused(f"{action.destructive}; give --yes to do it in a script, or --dry-run to see it first")
    waiting.stop()
    for line in lines:
        print(line, file=sys.stderr)
    typer.confirm(f"{action.words}: {action.destructive}. Do it?", abort=True, err=True)
    waiting.start(command)


def _parameter(name: str, option: CommandOption) -> inspect.Parameter:
    how: dict[str, Any] = {"help": option.help, "show_default": option.default not in (None, "")}
    if option.minimum is not None:
        how["min"] = option.minimum
    if option.words:
        how["callback"] = _given
    info = typer.Option(option.flag, **how) if option.flag else typer.Argument(**how)
    default = inspect.Parameter.empty if option.default is REQUIRED else option.default
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[option.type, info]
    )


def _given(why: str) -> str:
    """Return the reason. Raises `Refused` if it is blank."""
    if not why.strip():
        raise Refused("--why is empty; give the reason in a few words")
    return why
