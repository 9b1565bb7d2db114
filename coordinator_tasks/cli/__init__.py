"""The coordinator for a person at a terminal: `python -m coordinator_tasks`, or `coordinator` where it is installed.

It makes the same service calls as Airflow, with the settings of `coordinator_tasks.settings`. Every error is one line:
its code, what, why and what to do next. Exit codes: 0 done; 1 a topic is held or has partitions without an owner, a
person must look at it; 2 the request or the settings are wrong; 3 a neighbour does not answer; 4 stored data is
unreadable; 5 somebody else was faster, repeat.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn

import typer

from coordinator_tasks import logs
from coordinator_tasks.cli import audits, consumers, metrics, offsets, rebalances, rights, snapshots, topics, version
from coordinator_tasks.cli.base import HELD_EXIT, Opener
from coordinator_tasks.cli.progress import waiting
from coordinator_tasks.core.errors import CoordinatorError, LookAgain, Malformed, Refused, Unavailable, in_one_line
from coordinator_tasks.tables import visible

EXITS: Mapping[type[CoordinatorError], int] = {Refused: 2, Unavailable: 3, Malformed: 4, LookAgain: 5}

USAGE_CODE, USAGE_EXIT = "KPC-002", 2
"""Of a command line that no command understands: the only error that is not one of `CoordinatorError`."""
app = typer.Typer(
    name="coordinator",
    epilog="Settings: environment variables COORDINATOR_..., or the file that COORDINATOR_SETTINGS names.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
MISTYPED: Any = next(kind for kind in reversed(typer.BadParameter.__mro__) if hasattr(kind, "format_message"))
"""What typer raises for a wrong command line: its common base has another name and place in each version of typer."""

for part in (topics, rebalances, snapshots, consumers, audits, rights, metrics, version):
    app.add_typer(part.commands)
app.add_typer(offsets.commands, name="offsets", rich_help_panel="Topics and partitions")


@app.callback()
def options(
    release: Annotated[
        bool, typer.Option("--version", help="Show the release.", callback=version.print_release, is_eager=True)
    ] = False,
) -> None:
    """Who reads which Kafka partition: look at it, plan it, change it."""


def main(arguments: Sequence[str] | None = None, opener: Opener | None = None) -> NoReturn:
    """Run one command and exit. `opener` replaces the settings, for tests."""
    logs.set_up(os.environ.get("COORDINATOR_LOG_FORMAT", ""), level=logging.WARNING, times=False)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    code: object = 0
    try:
        code = app(args=arguments, obj=opener, standalone_mode=False)
    except CoordinatorError as error:
        _say(error.told)
        code = next((number for kind, number in EXITS.items() if isinstance(error, kind)), HELD_EXIT)
    except MISTYPED as error:
        _say(f"{USAGE_CODE}: {in_one_line(error.format_message()).rstrip('.')}; --help shows how")
        code = USAGE_EXIT
    except typer.Abort:
        waiting.stop()
        print("nothing was changed", file=sys.stderr)
        code = 130
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader, such as head, has enough
        sys.stderr.close()
    sys.exit(code if isinstance(code, int) else 0)


def _say(text: str) -> None:
    waiting.stop()
    logs.say_error(visible(text))
