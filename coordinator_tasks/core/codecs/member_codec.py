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
    address = fields.text(name)
    return address if is_address(address) else ""


def _said(fields: Fields, name: str) -> str:
    """Return a text for display, cut to size. A wrong text never makes a registration unreadable."""
    found = fields.data.get(name, "")
    return (found if isinstance(found, str) else repr(found))[: MAX_LINK_CHARS + 1]


_MEMBER = Shape(
    Member,
    Item("consumer", kinds.TEXT),
    Item("incarnation", kinds.COUNT),
    Item("address", FieldKind(_address)),
    Item("bootId", kinds.TEXT, ""),
    Item("rack", kinds.TEXT, ""),
    Item("capacity", kinds.REAL, 1.0),
    Item("topics", kinds.TEXTS),
    Item("direct", kinds.FLAG, True),
    Item("process", kinds.TEXT, ""),
    Item("attributes", kinds.by_name(kinds.TEXT)),
    Item("formats", kinds.TEXTS),
    Item("release", kinds.TEXT, "", sparse=True),
    Item("sparkUi", FieldKind(_said), "", sparse=True),
    Item("applicationId", FieldKind(_said), "", sparse=True),
)
_ABSENCE = Shape(
    Absence,
    Item("incarnation", kinds.COUNT),
    Item("since", kinds.TIME, attribute="since_at"),
    Item("refused", kinds.TIME, 0.0, attribute="refused_at"),
)
_CLAIM = Shape(
    IdClaim,
    Item("incarnation", kinds.COUNT),
    Item("address", FieldKind(_known_address), ""),
    Item("bootId", kinds.TEXT, ""),
    Item("direct", kinds.FLAG, True),
    Item("registered", kinds.NUMBER, 0),
    Item("process", kinds.TEXT, ""),
    Item("answered", kinds.COUNT, 0),
    Item("ended", kinds.by_count(kinds.choice(Ending))),
    Item("reasons", kinds.by_count(FieldKind(lambda fields, name: one_line(fields.text(name))))),
    Item("registrations", kinds.REALS),
    Item("absence", kinds.optional(_ABSENCE.nested)),
    Item("refused", kinds.TIME, 0.0, sparse=True, attribute="refused_at"),
    Item("failedAt", kinds.by_count(kinds.TIME), {}, sparse=True),  # missing in claims of earlier versions
)
_DIRECTED = (
    Item("by", kinds.TEXT),
    Item("why", kinds.TEXT, ""),
    Item("at", kinds.TIME, 0.0),
    Item("incarnation", kinds.COUNT, 0),
)
_ISOLATION = Shape(
    Isolation, *_DIRECTED, Item("until", kinds.TIME, 0.0, attribute="until_at"), Item("readmit", kinds.FLAG, False)
)
_OWNER = Shape(
    DrainOwner,
    Item("kind", kinds.choice(DrainKind)),
    Item("fleet", kinds.TEXT, "", sparse=True),
    Item("version", kinds.TEXT, "", sparse=True),
)


def _write_owner(owner: DrainOwner) -> dict[str, Any] | None:
    return None if owner.kind is DrainKind.ITSELF else _OWNER.write(owner)  # the incarnation already tells who drains


def _draining(by: str, why: str, at: float, incarnation: int, leaving: int, owner: DrainOwner | None) -> Draining:
    """Return the draining. With an incarnation, the consumer itself wants to leave, so an `owner` is ignored."""
    known = owner if owner is not None and not incarnation else former_owner(by, why, incarnation)
    return Draining(by, why, at, incarnation, leaving, known)


_DRAINING = Shape(
    _draining,
    *_DIRECTED,
    Item("leaving", kinds.COUNT, 0),
    Item("owner", FieldKind(kinds.optional(_OWNER.nested).read, _write_owner), None, sparse=True),
)
_RESTART = Shape(
    PlannedRestart,
    Item("by", kinds.TEXT),
    Item("why", kinds.TEXT, ""),
    Item("at", kinds.TIME, 0.0),
    Item("until", kinds.TIME, attribute="until_at"),
    Item("incarnation", kinds.COUNT),
    Item("moves", kinds.FLAG, False),
    Item("partitions", kinds.by_name(kinds.PARTITION_SET), {}, sparse=True),
    Item("capacity", kinds.REAL, 1.0),
    Item("rack", kinds.TEXT, "", sparse=True),
    Item("attributes", kinds.by_name(kinds.TEXT), {}, sparse=True),
)
_DIRECTIVE = Shape(
    Directive,
    Item("isolated", kinds.optional(_ISOLATION.nested), attribute="isolation"),
    Item("draining", kinds.optional(_DRAINING.nested)),
    Item("restart", kinds.optional(_RESTART.nested), None, sparse=True),
)
_APPLICATION = Item("application", kinds.TEXT)
_LAUNCH = (
    Item("arguments", kinds.TEXTS),
    Item("conf", kinds.by_name(kinds.TEXT)),
    Item("environment", kinds.by_name(kinds.TEXT), {}, sparse=True),
    Item("code", kinds.TEXT, "", sparse=True),
)
FLEET_VERSION = Shape(FleetVersion, _APPLICATION, *_LAUNCH).nested
_FLEET = Shape(
    Fleet,
    _APPLICATION,
    Item("consumers", kinds.TEXTS),
    *_LAUNCH,
    Item("replaced", kinds.by_name(kinds.COUNT), {}, sparse=True),
    Item("name", kinds.TEXT, "", sparse=True),
    Item("versions", kinds.by_name_in_order(FLEET_VERSION), {}, sparse=True),
    Item("runs", kinds.by_name(kinds.TEXT), {}, sparse=True),
)

encode_member, encode_claim = _MEMBER.encode, _CLAIM.encode
encode_leave, decode_leave = _DRAINING.encode, _DRAINING.decode
encode_directive, encode_fleet = _DIRECTIVE.encode, _FLEET.encode


def decode_member(path: str, raw: bytes, registered_at: float = 0.0) -> Member:
    fields = Fields.parse(path, raw, VERSION, MAX_MEMBER_BYTES)
    return _MEMBER.read(fields, registered_at=registered_at)


def decode_claim(path: str, raw: bytes, consumer: str, version: int) -> IdClaim:
    return _CLAIM.decode(path, raw, consumer=consumer, version=version)


def decode_directive(path: str, raw: bytes, consumer: str, version: int) -> Directive:
    return _DIRECTIVE.decode(path, raw, consumer=consumer, version=version)


def decode_fleet(path: str, raw: bytes, app: str, version: int) -> Fleet:
    return _FLEET.decode(path, raw, app=app, version=version)
