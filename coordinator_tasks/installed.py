"""The installed software: our release, related packages, and the stored formats that this release supports."""

import platform
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

from coordinator_tasks import __version__
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.model import FORMATS
from coordinator_tasks.wiring import librdkafka_version

PACKAGES = ("kazoo", "confluent-kafka", "pyspark", "pyspark-client", "apache-airflow")


@dataclass(frozen=True, slots=True)
class Installed:
    """`packages`: name → installed version. `fields`: fields of a topic's node that older releases cannot read."""

    coordinator: str
    python: str
    packages: dict[str, str]
    format: int
    fields: tuple[str, ...]


def installed() -> Installed:
    """Return the software in this process's environment. Connects to no server."""
    packages: dict[str, str] = {}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    packages["librdkafka"] = librdkafka_version()
    return Installed(__version__, platform.python_version(), packages, VERSION, FORMATS)
