"""The commands that show the installed release and its packages."""

import typer

from coordinator_tasks import __version__
from coordinator_tasks.cli.base import LOOK, Format, Json, Output, listed
from coordinator_tasks.installed import Installed, installed
from coordinator_tasks.tables import Table

commands = typer.Typer()


@commands.command(rich_help_panel=LOOK)
def version(how: Output = Format.TABLE, json: Json = False) -> None:
    """Show the release, Python, the packages, and the stored formats read and written."""
    listed(installed(), how, json, _text)


def print_release(asked: bool) -> None:
    """Handle the option `--version`: print a line and exit."""
    if asked:
        print(f"coordinator {__version__}")
        raise typer.Exit


def _text(found: Installed) -> Table:
    formats = f"format {found.format}; topic nodes also with {' and '.join(found.fields)}"
    rows = [("coordinator", found.coordinator), ("Python", found.python), *sorted(found.packages.items())]
    return Table(("installed", "version"), [*rows, ("stored data", formats)], "")
