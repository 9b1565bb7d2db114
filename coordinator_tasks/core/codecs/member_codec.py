"""The JSON in the znodes of consumers: registration, claim of the id, directive, and the fleet that should run.

Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`.
"""

from coordinator_tasks.core.codecs.shape import (
    COUNT,
    FLAG,
    NUMBER,
    REAL,
    REALS,
    TEXT,
    TEXTS,
    TIME,
    Item,
    Kind,
    Shape,
    by_count,
    by_name,
    choice,
    optional,
)
from coordinator_tasks.core.errors import InvalidName
from coordinator_tasks.core.fields import Fields
from coordinator_tasks.core.model import Absence, Directive, Draining, Ending, Fleet, IdClaim, Isolation, Member
from coordinator_tasks.core.names import check_address, is_address
from coordinator_tasks.core.protocol.claims import one_line


def _address(fields: Fields, name: str) -> str:
    try:
        return check_address(fields.text(name))
    except InvalidName as error:
        raise fields.bad(name, str(error)) from error


def _known_address(fields: Fields, name: str) -> str:
    """Where it was last registered; empty if nobody could be asked there."""
    address = fields.text(name)
    return address if is_address(address) else ""


_MEMBER = Shape(
    Member,
    {
        "consumer": Item("consumer", TEXT),
        "incarnation": Item("incarnation", COUNT),
        "address": Item("address", Kind(_address)),
        "bootId": Item("boot_id", TEXT, ""),
        "rack": Item("rack", TEXT, ""),
        "capacity": Item("capacity", REAL, 1.0),
        "topics": Item("topics", TEXTS),
        "direct": Item("direct", FLAG, True),
        "process": Item("process", TEXT, ""),
        "attributes": Item("attributes", by_name(TEXT)),
        "formats": Item("formats", TEXTS),
    },
)
_ABSENCE = Shape(
    Absence,
    {
        "incarnation": Item("incarnation", COUNT),
        "since": Item("since_at", TIME),
        "refused": Item("refused_at", TIME, 0.0),
    },
)
_CLAIM = Shape(
    IdClaim,
    {
        "incarnation": Item("incarnation", COUNT),
        "address": Item("address", Kind(_known_address), ""),
        "bootId": Item("boot_id", TEXT, ""),
        "direct": Item("direct", FLAG, True),
        "registered": Item("registered", NUMBER, 0),
        "process": Item("process", TEXT, ""),
        "answered": Item("answered", COUNT, 0),
        "ended": Item("ended", by_count(choice(Ending))),
        "reasons": Item("reasons", by_count(Kind(lambda fields, name: one_line(fields.text(name))))),
        "registrations": Item("registrations", REALS),
        "absence": Item("absence", optional(_ABSENCE.nested)),
    },
)
_ISOLATION = Shape(
    Isolation,
    {
        "by": Item("by", TEXT),
        "why": Item("why", TEXT, ""),
        "at": Item("at", TIME, 0.0),
        "incarnation": Item("incarnation", COUNT, 0),
        "until": Item("until_at", TIME, 0.0),
        "readmit": Item("readmit", FLAG, False),
    },
)
_DRAINING = Shape(
    Draining,
    {
        "by": Item("by", TEXT),
        "why": Item("why", TEXT, ""),
        "at": Item("at", TIME, 0.0),
        "incarnation": Item("incarnation", COUNT, 0),
        "leaving": Item("leaving", COUNT, 0),
    },
)
_DIRECTIVE = Shape(
    Directive,
    {
        "isolated": Item("isolation", optional(_ISOLATION.nested)),
        "draining": Item("draining", optional(_DRAINING.nested)),
    },
)
_FLEET = Shape(
    Fleet,
    {
        "application": Item("application", TEXT),
        "consumers": Item("consumers", TEXTS),
        "arguments": Item("arguments", TEXTS),
        "conf": Item("conf", by_name(TEXT)),
    },
)

encode_member, encode_claim = _MEMBER.encode, _CLAIM.encode
encode_directive, encode_fleet = _DIRECTIVE.encode, _FLEET.encode


def decode_member(path: str, raw: bytes, registered_at: float = 0.0) -> Member:
    return _MEMBER.decode(path, raw, registered_at=registered_at)


def decode_claim(path: str, raw: bytes, consumer: str, version: int) -> IdClaim:
    return _CLAIM.decode(path, raw, consumer=consumer, version=version)


def decode_directive(path: str, raw: bytes, consumer: str, version: int) -> Directive:
    return _DIRECTIVE.decode(path, raw, consumer=consumer, version=version)


def decode_fleet(path: str, raw: bytes, app: str, version: int) -> Fleet:
    return _FLEET.decode(path, raw, app=app, version=version)
