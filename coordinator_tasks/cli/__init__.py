"""The coordinator for a person at a terminal: `python -m coordinator_tasks`, or the installed `coordinator`.

The commands make the same service calls as Airflow, with the settings of `coordinator_tasks.settings`. Every error is
one line: code, problem, reason and remedy. Exit codes: 0 done; 1 a person must look, because a topic is held, left out
or has partitions without an owner; 2 the request or the settings are wrong; 3 a server does not answer; 4 stored data
is unreadable; 5 a concurrent change, so repeat the command; 130 interrupted; 141 the output has no reader.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from coordinator_tasks import logs
from coordinator_tasks.cli import (
    audits,
    consumers,
    dead_letters,
    metrics,
    offsets,
    rebalances,
    rights,
    snapshots,
    state_files,
    states,
    topics,
    version,
)
from coordinator_tasks.cli.base import HELD_EXIT, Opener
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import CoordinatorError, LookAgain, Malformed, Refused, Unavailable, in_one_line

EXITS: Mapping[type[CoordinatorError], int] = {Refused: 2, Unavailable: 3, Malformed: 4, LookAgain: 5}

USAGE_CODE, USAGE_EXIT = "KPC-002", 2
"""Code and exit code of a wrong command line, the only error that is no `CoordinatorError`."""
INTERRUPTED_EXIT, UNREAD_EXIT = 130, 141
"""As in a shell: ended by SIGINT, and ended by SIGPIPE."""


class Spelled(TyperGroup):
    """Commands that also accept the name of their form in Airflow, with `_` in place of `-`."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or super().get_command(ctx, cmd_name.replace("_", "-"))


app = typer.Typer(
    cls=Spelled,
    name="coordinator",
    epilog="Settings: environment variables COORDINATOR_..., or the file that COORDINATOR_SETTINGS names.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
MISTYPED: Any = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))
"""typer's error for a wrong command line. Its base class has another name and module in each version of typer."""

for part in (topics, rebalances, snapshots, state_files, consumers, audits, rights, metrics, version):
    app.add_typer(part.commands)
app.add_typer(offsets.commands, name="offsets", rich_help_panel="Topics and partitions")
app.add_typer(dead_letters.commands, name="dead-letters", rich_help_panel="Topics and partitions")
app.add_typer(states.commands, name="state", rich_help_panel="Topics and partitions")


@app.callback()
def options(
    release: Annotated[
        bool, typer.Option("--version", help="Show the release.", callback=version.print_release, is_eager=True)
    ] = False,
) -> None:
    """Show, plan and change which consumer reads which Kafka partition."""


def main(arguments: Sequence[str] | None = None, opener: Opener | None = None) -> NoReturn:
    """Run one command and exit. `opener` replaces the settings, for tests."""
    _open_closed_streams()
    logs.set_up(os.environ.get("COORDINATOR_LOG_FORMAT", ""), level=logging.WARNING, times=False)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    code = _run(arguments, opener)
    for stream in (sys.stdout, sys.stderr):
        try:
            # At its exit the interpreter would report a closed pipe and change the exit code.
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        except OSError:
            pass  # the disk is full, for example; the interpreter reports the error at the exit
    sys.exit(code)


def _open_closed_streams() -> None:
    """Open standard streams that were closed at the start. Otherwise prints to standard error reach standard output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the process ends


def _run(arguments: Sequence[str] | None, opener: Opener | None) -> int:
    """Run one command. Return the exit code."""
    try:
        code: object = app(args=arguments, obj=opener, standalone_mode=False)
    except CoordinatorError as error:
        _say(error.told)
        return next((number for kind, number in EXITS.items() if isinstance(error, kind)), HELD_EXIT)
    except MISTYPED as error:
        _say(f"{USAGE_CODE}: {in_one_line(error.format_message()).rstrip('.')}; --help shows how")
        return USAGE_EXIT
    except typer.Abort:
        waiting.stop()
        with suppress(BrokenPipeError):
            print("nothing was changed", file=sys.stderr)
        return INTERRUPTED_EXIT
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT
    except SystemExit as ended:
        # If the reader of the output (such as head) has enough, typer would exit with the code of a held topic.
        if isinstance(ended.__context__, BrokenPipeError):
            return UNREAD_EXIT
        raise
    return code if isinstance(code, int) else 0


def _say(text: str) -> None:
    waiting.stop()
    with suppress(BrokenPipeError):
        logs.say_error(text)
