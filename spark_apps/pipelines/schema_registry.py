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
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.avro.functions import from_avro

from coordinator_tasks.core.errors import Refused
from spark_apps.pipelines import setting
from spark_apps.pipelines.avro_references import with_references

MAGIC_BYTES = 5
"""A zero, then the schema's id in four bytes, big-endian."""
WHOLE = 2**31 - 1
READ = "_of_a_whole_record"
"""A field with a default, so that every record has it: Spark makes nulls of one that is cut short, and others may have such fields."""
TIMEOUT_S, ALL_TIMEOUT_S = 10.0, 60.0
"""For one answer, and for all of a subject."""
MOST_BYTES = 4 * 1024 * 1024
"""Of an answer: a schema has kilobytes."""
MOST_SCHEMAS = 1_000
"""Versions of a subject and references: each is one request."""


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
    try:
        with client or httpx.Client(timeout=TIMEOUT_S) as asked:
            return _Registry(asked, url, auth).subject(subject)
    except (httpx.HTTPError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise Refused(
            f"the schema registry at {url} did not give the versions of {subject} ({type(error).__name__}: {error}); check "
            "the settings schemaRegistry and schemaRegistryUser, and the subject's name"
        ) from error


class _Registry:
    """The schemas of a registry, each asked for once; soft-deleted ones too, since records of them remain."""

    def __init__(self, client: httpx.Client, url: str, auth: tuple[str, str] | None) -> None:
        self._client, self._url, self._auth = client, url, auth
        self._found: dict[tuple[str, int], Mapping[str, Any]] = {}
        self._until = time.monotonic() + ALL_TIMEOUT_S

    def subject(self, subject: str) -> Subject:
        """All versions; the latest that is not deleted gives the columns, or the latest of all if each is deleted."""
        place = _versions(subject)
        every = sorted(self._answer(f"{place}?deleted=true"))
        try:
            latest = max(self._answer(place))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != HTTPStatus.NOT_FOUND:
                raise
            latest = every[-1]
        texts = {number: self._text(subject, number) for number in every}
        return Subject({int(self._version(subject, number)["id"]): texts[number] for number in every}, texts[latest])

    def _text(self, subject: str, number: int) -> str:
        found = self._version(subject, number)
        if found.get("schemaType", "AVRO") != "AVRO":
            raise ValueError(f"version {number} is a schema of {found['schemaType']}, and these records are Avro")
        references = self._references(found)
        text = str(found["schema"])
        json.loads(text)
        return with_references(text, references) if references else text

    def _references(self, schema: Mapping[str, Any]) -> list[str]:
        """The texts of all schemas that this one needs, also by the references of its references."""
        known: dict[tuple[str, int], str] = {}
        ahead = list(schema.get("references") or ())
        while ahead:
            one = ahead.pop()
            place = str(one["subject"]), int(one["version"])
            if place not in known:
                found = self._version(*place)
                known[place] = str(found["schema"])
                ahead += found.get("references") or ()
        return list(known.values())

    def _version(self, subject: str, number: int) -> Mapping[str, Any]:
        place = subject, number
        if place not in self._found:
            if len(self._found) == MOST_SCHEMAS:
                raise ValueError(f"it has more than {MOST_SCHEMAS:,} versions and references")
            self._found[place] = self._answer(f"{_versions(subject)}/{int(number)}?deleted=true")
        return self._found[place]

    def _answer(self, path: str) -> Any:
        body, until = bytearray(), min(self._until, time.monotonic() + TIMEOUT_S)
        with self._client.stream("GET", self._url + path, auth=self._auth) as answer:
            for piece in answer.raise_for_status().iter_bytes():
                body += piece
                if len(body) > MOST_BYTES or time.monotonic() > until:
                    raise ValueError(
                        f"its answer has more than {MOST_BYTES:,} bytes, or takes more than {TIMEOUT_S:g} s"
                    )
        return json.loads(body)


def _versions(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}/versions"


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
