"""Secret Kafka settings: from a private file, or from the environment.

Names are librdkafka's (`security.protocol`, `sasl.username`, `sasl.password`, `ssl.ca.location`, ...), without the
prefix `kafka.`. The file is a JSON object of strings, or lines of `name=value`; `#` begins a comment line. Sources in
order: option `kafkaSettingsFile`, environment variable `ASSIGNED_KAFKA_SETTINGS_FILE` (both a path on every executor,
or the name of a file shipped with `--files`), environment variable `ASSIGNED_KAFKA_SETTINGS_SECRET` (the content
itself). Executors get environment variables by `spark.executorEnv.<NAME>` in Spark's properties file; Spark redacts the
last variable in its UI and logs because its name contains "secret".
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkFiles

from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.core.text.json_fields import read_json
from coordinator_tasks.private_files import read_private

FILE_VARIABLE = "ASSIGNED_KAFKA_SETTINGS_FILE"
SECRET_VARIABLE = "ASSIGNED_KAFKA_SETTINGS_SECRET"  # noqa: S105 (the name of a variable)


def load_settings(path: str = "", environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings of the first existing source, or none. Raises `BadSettings`, whose text never shows a value."""
    named = path or environment.get(FILE_VARIABLE, "")
    if named:
        return _read(_find(named))
    return _parse(environment.get(SECRET_VARIABLE, ""), f"environment variable {SECRET_VARIABLE}")


def _find(named: str) -> Path:
    path = Path(named).expanduser()
    shipped = _shipped(path.name)
    # Look for a bare name among the shipped files first: on a cluster they are in the working folder as well.
    for candidate in (shipped, path) if path.name == named else (path, shipped):
        if candidate is not None and candidate.is_file():
            return candidate
    raise BadSettings(f"the Kafka settings file {named} is not there; put it on every host, or ship it with --files")


def _shipped(name: str) -> Path | None:
    """Return a file that Spark has copied to this executor. Everybody can read the copy until its mode is changed here."""
    root = getattr(SparkFiles, "_root_directory", None)
    if not root or not (Path(root) / name).is_file():
        return None
    copy = Path(root) / name
    copy.chmod(stat.S_IRUSR | stat.S_IWUSR)
    return copy


def _read(path: Path) -> dict[str, str]:
    try:
        return _parse(read_private(path, "the Kafka settings file"), f"Kafka settings file {path}")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"the Kafka settings file {path} cannot be read ({type(error).__name__})") from error


def _parse(text: str, origin: str) -> dict[str, str]:
    found = _parse_json(text, origin) if text.lstrip().startswith("{") else _parse_lines(text, origin)
    told = "".join((*found, *found.values()))
    if "\0" in told or told != told.encode(errors="replace").decode():  # librdkafka would read on to the NUL alone
        raise BadSettings(f"the {origin} has a byte that is not UTF-8, or a NUL; correct it")
    return found


def _parse_lines(text: str, origin: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise BadSettings(f"line {number} of the {origin} is not name=value")
        found[name.strip()] = value.strip()
    return found


def _parse_json(text: str, origin: str) -> dict[str, str]:
    try:
        data = read_json(text, once=True)
    except ValueError:
        raise BadSettings(
            f"the {origin} begins like JSON, but is not valid JSON with each name once"
        ) from None  # the cause would show the content
    if not all(isinstance(value, str | int | float | bool) for value in data.values()):
        raise BadSettings(f"the {origin} has a value that is neither text nor a number")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in data.items()}
