"""The JSON in the znodes of consumers: registration, claim of the id, directive, and fleet.

Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`.
"""

from typing import Any

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.former import former_owner
from coordinator_tasks.core.codecs.shape import VERSION, FieldKind, Item, Shape
from coordinator_tasks.core.errors import InvalidName
from coordinator_tasks.core.model import (
    Absence,
    Directive,
    Draining,
    DrainKind,
    DrainOwner,
    Ending,
    Fleet,
    FleetVersion,
    IdClaim,
    Isolation,
    Member,
    PlannedRestart,
)
from coordinator_tasks.core.names import check_address, is_address
from coordinator_tasks.core.protocol.claims import one_line
from coordinator_tasks.core.text.json_fields import MAX_LINK_CHARS, Fields

MAX_MEMBER_BYTES = 256 * 1024
"""Maximum bytes of a registration. Ours have less than 1 KB, but an account of consumers can register any number."""


def _address(fields: Fields, name: str) -> str:
    try:
        return check_address(fields.text(name))
    except InvalidName as error:
        raise fields.bad(name, str(error)) from error


def _known_address(fields: Fields, name: str) -> str:
    """Return the last registered address; empty if it is invalid."""
    address = fields.text(name)
    return address if is_address(address) else ""


def _said(fields: Fields, name: str) -> str:
    """Return a text for display, cut to size. A wrong text never makes a registration unreadable."""
    found = fields.data.get(name, "")
    return (found if isinstance(found, str) else repr(found))[: MAX_LINK_CHARS + 1]


_MEMBER = Shape(
    Member,
    {
        "consumer": Item("consumer", kinds.TEXT),
        "incarnation": Item("incarnation", kinds.COUNT),
        "address": Item("address", FieldKind(_address)),
        "bootId": Item("boot_id", kinds.TEXT, ""),
        "rack": Item("rack", kinds.TEXT, ""),
        "capacity": Item("capacity", kinds.REAL, 1.0),
        "topics": Item("topics", kinds.TEXTS),
        "direct": Item("direct", kinds.FLAG, True),
        "process": Item("process", kinds.TEXT, ""),
        "attributes": Item("attributes", kinds.by_name(kinds.TEXT)),
        "formats": Item("formats", kinds.TEXTS),
        "release": Item("release", kinds.TEXT, "", sparse=True),
        "sparkUi": Item("spark_ui", FieldKind(_said), "", sparse=True),
        "applicationId": Item("application_id", FieldKind(_said), "", sparse=True),
    },
)
_ABSENCE = Shape(
    Absence,
    {
        "incarnation": Item("incarnation", kinds.COUNT),
        "since": Item("since_at", kinds.TIME),
        "refused": Item("refused_at", kinds.TIME, 0.0),
    },
)
_CLAIM = Shape(
    IdClaim,
    {
        "incarnation": Item("incarnation", kinds.COUNT),
        "address": Item("address", FieldKind(_known_address), ""),
        "bootId": Item("boot_id", kinds.TEXT, ""),
        "direct": Item("direct", kinds.FLAG, True),
        "registered": Item("registered", kinds.NUMBER, 0),
        "process": Item("process", kinds.TEXT, ""),
        "answered": Item("answered", kinds.COUNT, 0),
        "ended": Item("ended", kinds.by_count(kinds.choice(Ending))),
        "reasons": Item("reasons", kinds.by_count(FieldKind(lambda fields, name: one_line(fields.text(name))))),
        "registrations": Item("registrations", kinds.REALS),
        "absence": Item("absence", kinds.optional(_ABSENCE.nested)),
        "refused": Item("refused_at", kinds.TIME, 0.0, sparse=True),
        "failedAt": Item(
            "failed_at", kinds.by_count(kinds.TIME), {}, sparse=True
        ),  # missing in claims of earlier versions
    },
)
_DIRECTED = {
    "by": Item("by", kinds.TEXT),
    "why": Item("why", kinds.TEXT, ""),
    "at": Item("at", kinds.TIME, 0.0),
    "incarnation": Item("incarnation", kinds.COUNT, 0),
}
_ISOLATION = Shape(
    Isolation,
    {
        **_DIRECTED,
        "until": Item("until_at", kinds.TIME, 0.0),
        "readmit": Item("readmit", kinds.FLAG, False),
    },
)
_OWNER = Shape(
    DrainOwner,
    {
        "kind": Item("kind", kinds.choice(DrainKind)),
        "fleet": Item("fleet", kinds.TEXT, "", sparse=True),
        "version": Item("version", kinds.TEXT, "", sparse=True),
    },
)


def _write_owner(owner: DrainOwner) -> dict[str, Any] | None:
    return None if owner.kind is DrainKind.ITSELF else _OWNER.write(owner)  # the incarnation already tells who drains


def _draining(by: str, why: str, at: float, incarnation: int, leaving: int, owner: DrainOwner | None) -> Draining:
    """Return the draining. With an incarnation, the consumer itself wants to leave, so an `owner` is ignored."""
    known = owner if owner is not None and not incarnation else former_owner(by, why, incarnation)
    return Draining(by, why, at, incarnation, leaving, known)


_DRAINING = Shape(
    _draining,
    {
        **_DIRECTED,
        "leaving": Item("leaving", kinds.COUNT, 0),
        "owner": Item("owner", FieldKind(kinds.optional(_OWNER.nested).read, _write_owner), None, sparse=True),
    },
)
_RESTART = Shape(
    PlannedRestart,
    {
        "by": Item("by", kinds.TEXT),
        "why": Item("why", kinds.TEXT, ""),
        "at": Item("at", kinds.TIME, 0.0),
        "until": Item("until_at", kinds.TIME),
        "incarnation": Item("incarnation", kinds.COUNT),
        "moves": Item("moves", kinds.FLAG, False),
        "partitions": Item("partitions", kinds.by_name(kinds.PARTITION_SET), {}, sparse=True),
        "capacity": Item("capacity", kinds.REAL, 1.0),
        "rack": Item("rack", kinds.TEXT, "", sparse=True),
        "attributes": Item("attributes", kinds.by_name(kinds.TEXT), {}, sparse=True),
    },
)
_DIRECTIVE = Shape(
    Directive,
    {
        "isolated": Item("isolation", kinds.optional(_ISOLATION.nested)),
        "draining": Item("draining", kinds.optional(_DRAINING.nested)),
        "restart": Item("restart", kinds.optional(_RESTART.nested), None, sparse=True),
    },
)
_VERSION_ITEMS = {
    "application": Item("application", kinds.TEXT),
    "arguments": Item("arguments", kinds.TEXTS),
    "conf": Item("conf", kinds.by_name(kinds.TEXT)),
    "environment": Item("environment", kinds.by_name(kinds.TEXT), {}, sparse=True),
    "code": Item("code", kinds.TEXT, "", sparse=True),
}
FLEET_VERSION = Shape(FleetVersion, _VERSION_ITEMS).nested
_FLEET = Shape(
    Fleet,
    {
        "application": _VERSION_ITEMS["application"],
        "consumers": Item("consumers", kinds.TEXTS),
        **{name: item for name, item in _VERSION_ITEMS.items() if name != "application"},
        "replaced": Item("replaced", kinds.by_name(kinds.COUNT), {}, sparse=True),
        "name": Item("name", kinds.TEXT, "", sparse=True),
        "versions": Item("versions", kinds.by_name_in_order(FLEET_VERSION), {}, sparse=True),
        "runs": Item("runs", kinds.by_name(kinds.TEXT), {}, sparse=True),
    },
)

encode_member, encode_claim = _MEMBER.encode, _CLAIM.encode
encode_directive, encode_leave, encode_fleet = _DIRECTIVE.encode, _DRAINING.encode, _FLEET.encode


def decode_member(path: str, raw: bytes, registered_at: float = 0.0) -> Member:
    fields = Fields.parse(path, raw, VERSION, MAX_MEMBER_BYTES)
    return _MEMBER.read(fields, registered_at=registered_at)


def decode_claim(path: str, raw: bytes, consumer: str, version: int) -> IdClaim:
    return _CLAIM.decode(path, raw, consumer=consumer, version=version)


def decode_directive(path: str, raw: bytes, consumer: str, version: int) -> Directive:
    return _DIRECTIVE.decode(path, raw, consumer=consumer, version=version)


def decode_leave(path: str, raw: bytes) -> Draining:
    return _DRAINING.decode(path, raw)


def decode_fleet(path: str, raw: bytes, app: str, version: int) -> Fleet:
    return _FLEET.decode(path, raw, app=app, version=version)
