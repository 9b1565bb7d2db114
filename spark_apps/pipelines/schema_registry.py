"""Decodes Avro records with a schema id in front (the format of Confluent's serialisers) by Spark's own `from_avro`.

Spark's function needs the schema of each record, and knows no registry. So the versions of a subject are read once, when
the query is built. Each record is decoded by its own version, into the columns of the latest one. A record of a version
that is registered later becomes null until the consumer restarts.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.avro.functions import from_avro

from coordinator_tasks.core.errors import Refused
from spark_apps.pipelines import setting

MAGIC_BYTES = 5
"""A zero, then the schema's id in four bytes, big-endian."""
WHOLE = 2**31 - 1
READ = "_of_a_whole_record"
"""A field with a default, so that every record has it: Spark makes nulls of one that is cut short, and others may have such fields."""
TIMEOUT_S = 10.0
MOST_BYTES = 4 * 1024 * 1024
"""Of an answer: a schema has kilobytes."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The schemas of one subject by their ids, as JSON; `latest` gives the columns of the decoded records."""

    schemas: Mapping[int, str]
    latest: str


def subject_of(settings: Mapping[str, str], subject: str, client: httpx.Client | None = None) -> Subject:
    """Ask the registry in the settings `schemaRegistry`, `schemaRegistryUser` and `schemaRegistryPassword`.

    The address may be the name of one in the site's `registries`, with the log-in in it. Without a name, give the password as
    `PIPELINE_schemaRegistryPassword` in the environment. Raises `Refused`.
    """
    url = setting(settings, "schemaRegistry", "").rstrip("/")
    if not url:
        raise Refused("the setting schemaRegistry is missing; give the registry's address, http://host:8081")
    given = _address(url)
    user = setting(settings, "schemaRegistryUser", given.username)
    auth = (user, setting(settings, "schemaRegistryPassword", given.password)) if user else None
    url = str(given.copy_with(userinfo=b"")).rstrip("/")  # errors show it
    place = f"{url}/subjects/{quote(subject, safe='')}/versions"
    try:
        with client or httpx.Client(timeout=TIMEOUT_S) as asked:
            numbers = _answer(asked, place, auth)
            found = [_answer(asked, f"{place}/{number}", auth) for number in sorted(numbers)]
        schemas = {int(one["id"]): str(one["schema"]) for one in found}
        latest = str(found[-1]["schema"])
        json.loads(latest)
    except (httpx.HTTPError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise Refused(
            f"the schema registry at {url} did not give the versions of {subject} ({type(error).__name__}: {error}); check "
            "the settings schemaRegistry and schemaRegistryUser, and the subject's name"
        ) from error
    return Subject(schemas, latest)


def _answer(client: httpx.Client, place: str, auth: tuple[str, str] | None) -> Any:
    body, until = bytearray(), time.monotonic() + TIMEOUT_S
    with client.stream("GET", place, auth=auth) as answer:
        for piece in answer.raise_for_status().iter_bytes():
            body += piece
            if len(body) > MOST_BYTES or time.monotonic() > until:
                raise ValueError(f"its answer has more than {MOST_BYTES:,} bytes, or takes more than {TIMEOUT_S:g} s")
    return json.loads(body)


def _address(url: str) -> httpx.URL:
    """Raises `Refused` without what was given, which may hold a password."""
    with suppress(httpx.InvalidURL):
        given = httpx.URL(url)
        if given.scheme in ("http", "https") and given.host:
            return given
    raise Refused(
        "the setting schemaRegistry is no address; give http://host:8081, or a NAME that the settings of the launching host have: "
        "registries.NAME (COORDINATOR_REGISTRIES_NAME)"
    )


def decoded(column: Column, subject: Subject) -> Column:
    """The record as a struct; null if it is no Avro record of this subject. Needs `spark-avro` on the class path."""
    number = schema_id(column)
    framed = F.hex(F.substring(column, 1, 1)) == "00"
    body = F.substring(column, MAGIC_BYTES + 1, WHOLE)
    latest = json.loads(subject.latest)
    struct = isinstance(latest, dict) and latest.get("type") == "record" and bool(latest.get("fields"))
    if struct:
        latest["fields"].append({"name": READ, "type": "int", "default": 1})
    options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(latest)}
    by_version = [
        F.when(framed & (number == one), from_avro(body, text, options)) for one, text in subject.schemas.items()
    ]
    return _whole(F.coalesce(*by_version)) if struct else F.coalesce(*by_version)


def _whole(record: Column) -> Column:
    """Null in place of a record that was cut short. The array is for Spark to decode once what is used several times."""
    return F.transform(F.array(record), lambda one: F.when(one[READ].isNotNull(), one.dropFields(READ)))[0]


def schema_id(column: Column | str) -> Column:
    """The number behind the first byte: a foreign record may have any there."""
    return F.conv(F.hex(F.substring(column, 2, MAGIC_BYTES - 1)), 16, 10).cast("long")
