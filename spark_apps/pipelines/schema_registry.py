"""Decodes Avro records with a schema id in front (the format of Confluent's serialisers) by Spark's own `from_avro`.

Spark's function needs the schema of each record, and does not use a registry. So all versions of a subject are read
when the query is built. Each record is decoded with its own version, into the columns of the latest version. A record
whose version was registered later becomes null until the consumer restarts.
"""

import json
import secrets
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
END = secrets.token_bytes(16)
"""Appended to each record before decoding, to detect trailing bytes: Avro silently stops at the record's end."""
TIMEOUT_S, ALL_TIMEOUT_S = 10.0, 60.0
"""Time limits for one answer, and for all answers about a subject."""
MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of an answer. A schema has kilobytes."""
MOST_SCHEMAS = 1_000
"""Maximum number of a subject's versions and references. Each needs a request."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The schemas of one subject by id, as JSON. `latest` gives the columns of the decoded records."""

    schemas: Mapping[int, str]
    latest: str


def subject_of(settings: Mapping[str, str], subject: str, client: httpx.Client | None = None) -> Subject:
    """Read a subject from the registry in the settings `schemaRegistry`, `schemaRegistryUser`,
    `schemaRegistryPassword`.

    The address may be a name in the site's `registries`, which hold address and log-in. With an address in place of a
    name, give the password as `PIPELINE_schemaRegistryPassword` in the environment. Raises `Refused`.
    """
    url = setting(settings, "schemaRegistry", "").rstrip("/")
    if not url:
        raise Refused("the setting schemaRegistry is missing; give the registry's address, http://host:8081")
    given = _address(url)
    user = setting(settings, "schemaRegistryUser", given.username)
    auth = (user, setting(settings, "schemaRegistryPassword", given.password)) if user else None
    url = str(given.copy_with(userinfo=b"")).rstrip("/")  # without the log-in, because errors show the address
    try:
        with client or httpx.Client(timeout=TIMEOUT_S) as asked:
            return _Registry(asked, url, auth).subject(subject)
    except (httpx.HTTPError, ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise Refused(
            f"the schema registry at {url} did not give the versions of {subject} ({type(error).__name__}: {error}); check "
            "the settings schemaRegistry and schemaRegistryUser, and the subject's name"
        ) from error


class _Registry:
    """The schemas of a registry, each read once. Soft-deleted schemas count, because their records remain."""

    def __init__(self, client: httpx.Client, url: str, auth: tuple[str, str] | None) -> None:
        self._client, self._url, self._auth = client, url, auth
        self._found: dict[tuple[str, int], Mapping[str, Any]] = {}
        self._until = time.monotonic() + ALL_TIMEOUT_S

    def subject(self, subject: str) -> Subject:
        """Read all versions. The latest undeleted version gives the columns; if all are deleted, the latest."""
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
        """Return the texts of all schemas that the schema references, directly or indirectly."""
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
    """Return the checked address. Raises `Refused` without showing the address, which may hold a password."""
    with suppress(httpx.InvalidURL):
        given = httpx.URL(url)
        if given.scheme in ("http", "https") and given.host:
            return given
    raise Refused(
        "the setting schemaRegistry is no address; give http://host:8081, or a NAME that the settings of the launching host have: "
        "registries.NAME (COORDINATOR_REGISTRIES_NAME)"
    )


def decoded(column: Column, subject: Subject) -> Column:
    """Return the decoded record; null for another subject, a truncated record, or trailing bytes.

    `undecoded` gives the reason of a null. Needs `spark-avro` on the class path.
    """
    number = schema_id(column)
    body = F.concat(F.substring(column, MAGIC_BYTES + 1, WHOLE), F.lit(bytearray(END)))
    options = {"mode": "PERMISSIVE", "avroSchema": _with_end(subject.latest)}
    by_version = [
        F.when(_framed(column) & (number == one), from_avro(body, _with_end(text), options))
        for one, text in subject.schemas.items()
    ]
    # Because of the array, Spark decodes a record once and not at every use.
    whole = F.transform(
        F.array(F.coalesce(*by_version)),
        lambda one: F.when(one["end"].eqNullSafe(F.lit(bytearray(END))), one["record"]),
    )
    return whole[0]


def undecoded(column: Column, subject: Subject, record: Column) -> Column:
    """Return why `record`, the result of `decoded`, is null; null for a decoded record."""
    known = schema_id(column).isin(list(subject.schemas))
    unknown = F.concat(
        F.lit("schema "), schema_id(column), F.lit(" is none of the subject, or newer than this consumer")
    )
    return F.when(
        record.isNull(),
        F.when(column.isNull(), "no value")
        .when(~_framed(column), "no Avro record with the id of a schema")
        .when(~known, unknown)
        .otherwise("the record is cut short, or bytes stand behind it"),
    )


def _framed(column: Column) -> Column:
    return (F.hex(F.substring(column, 1, 1)) == "00") & (F.octet_length(column) >= MAGIC_BYTES)


def _with_end(schema: str) -> str:
    """Return the schema with a last field for `END`. The field matches only if the record has no trailing bytes."""
    end = {"type": "fixed", "name": "_end", "size": len(END)}
    fields = [{"name": "record", "type": json.loads(schema)}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "_with_end", "fields": fields})


def schema_id(column: Column | str) -> Column:
    """Return the number after the first byte. A foreign record may have any number there."""
    return F.conv(F.hex(F.substring(column, 2, MAGIC_BYTES - 1)), 16, 10).cast("long")
