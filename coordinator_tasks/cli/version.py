"""What is installed here: the release, the packages that it works with, and the stored formats that it reads and writes."""

import platform
from dataclasses import dataclass
from importlib import metadata

import typer

from coordinator_tasks import __version__
from coordinator_tasks.cli.base import Format, Json, Output, how_of, listed
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.model import FORMATS
from coordinator_tasks.tables import Table
from coordinator_tasks.wiring import librdkafka_version

PACKAGES = ("kazoo", "confluent-kafka", "pyspark", "pyspark-client", "apache-airflow")
commands = typer.Typer()


@dataclass(frozen=True, slots=True)
class Installed:
    """`packages`: name → version, of those that are here. `fields`: those of the topic node that 0.1.0 does not read."""

    coordinator: str
    python: str
    packages: dict[str, str]
    format: int
    fields: tuple[str, ...]


@commands.command()
def version(how: Output = Format.TABLE, json: Json = False) -> None:
    """Show the release, Python, the packages that it works with, and the stored formats that it reads and writes."""
    listed(installed(), how_of(how, json), _text)


def print_release(asked: bool) -> None:
    """The option `--version`: one line, and the end."""
    if asked:
        print(f"coordinator {__version__}")
        raise typer.Exit


def installed() -> Installed:
    """Asks the environment of this process; connects to nothing."""
    packages = {name: found for name in PACKAGES if (found := _version_of(name))}
    packages["librdkafka"] = librdkafka_version()
    return Installed(__version__, platform.python_version(), packages, VERSION, FORMATS)


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _text(found: Installed) -> Table:
    formats = f"format {found.format}; topic nodes also with {' and '.join(found.fields)}"
    rows = [("coordinator", found.coordinator), ("Python", found.python), *sorted(found.packages.items())]
    return Table(("installed", "version"), [*rows, ("stored data", formats)], "")
