"""The JSON in the znodes of consumers: registration, claim of the id, directive, and the fleet that should run.

Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`.
"""

from coordinator_tasks.core.codecs.codec import VERSION
from coordinator_tasks.core.errors import InvalidName
from coordinator_tasks.core.fields import Fields, dump
from coordinator_tasks.core.model import Absence, Directive, Draining, Ending, Fleet, IdClaim, Isolation, Member
from coordinator_tasks.core.names import check_address, is_address
from coordinator_tasks.core.protocol.claims import one_line


def encode_member(member: Member) -> bytes:
    return dump(
        VERSION,
        {
            "consumer": member.consumer,
            "incarnation": member.incarnation,
            "address": member.address,
            "bootId": member.boot_id,
            "rack": member.rack,
            "capacity": member.capacity,
            "topics": list(member.topics),
            "direct": member.direct,
            "process": member.process,
            "attributes": dict(sorted(member.attributes.items())),
            "formats": list(member.formats),
        },
    )


def decode_member(path: str, raw: bytes, registered_at: float = 0.0) -> Member:
    fields = Fields.parse(path, raw, VERSION)
    return Member(
        consumer=fields.text("consumer"),
        incarnation=fields.count("incarnation"),
        address=_address(fields),
        boot_id=fields.text("bootId", ""),
        rack=fields.text("rack", ""),
        capacity=fields.real("capacity", 1.0),
        topics=fields.texts("topics"),
        direct=fields.flag("direct", True),
        attributes=fields.by_name("attributes", Fields.text),
        registered_at=registered_at,
        process=fields.text("process", ""),
        formats=fields.texts("formats"),
    )


def encode_claim(claim: IdClaim) -> bytes:
    absence = claim.absence
    return dump(
        VERSION,
        {
            "incarnation": claim.incarnation,
            "address": claim.address,
            "bootId": claim.boot_id,
            "direct": claim.direct,
            "registered": claim.registered,
            "process": claim.process,
            "answered": claim.answered,
            "ended": {str(i): how.value for i, how in sorted(claim.ended.items())},
            "reasons": {str(i): reason for i, reason in sorted(claim.reasons.items())},
            "registrations": list(claim.registrations),
            "absence": absence
            and {"incarnation": absence.incarnation, "since": absence.since_at, "refused": absence.refused_at},
        },
    )


def decode_claim(path: str, raw: bytes, consumer: str, version: int) -> IdClaim:
    fields = Fields.parse(path, raw, VERSION)
    absence = fields.optional("absence")
    return IdClaim(
        consumer=consumer,
        incarnation=fields.count("incarnation"),
        address=_known_address(fields),
        boot_id=fields.text("bootId", ""),
        direct=fields.flag("direct", True),
        answered=fields.count("answered", 0),
        ended=fields.by_count("ended", lambda inner, key: inner.choice(key, Ending)),
        reasons=fields.by_count("reasons", lambda inner, key: one_line(inner.text(key))),
        absence=None if absence is None else _absence(absence),
        registrations=fields.reals("registrations"),
        version=version,
        registered=fields.number("registered", 0),
        process=fields.text("process", ""),
    )


def encode_directive(directive: Directive) -> bytes:
    isolation, draining = directive.isolation, directive.draining
    return dump(
        VERSION,
        {
            "isolated": isolation
            and {
                "by": isolation.by,
                "why": isolation.why,
                "at": isolation.at,
                "incarnation": isolation.incarnation,
                "until": isolation.until_at,
                "readmit": isolation.readmit,
            },
            "draining": draining
            and {
                "by": draining.by,
                "why": draining.why,
                "at": draining.at,
                "incarnation": draining.incarnation,
                "leaving": draining.leaving,
            },
        },
    )


def decode_directive(path: str, raw: bytes, consumer: str, version: int) -> Directive:
    fields = Fields.parse(path, raw, VERSION)
    isolated, draining = fields.optional("isolated"), fields.optional("draining")
    return Directive(
        consumer=consumer,
        isolation=None if isolated is None else _isolation(isolated),
        draining=None if draining is None else _draining(draining),
        version=version,
    )


def encode_fleet(fleet: Fleet) -> bytes:
    return dump(
        VERSION,
        {
            "application": fleet.application,
            "consumers": list(fleet.consumers),
            "arguments": list(fleet.arguments),
            "conf": dict(sorted(fleet.conf.items())),
        },
    )


def decode_fleet(path: str, raw: bytes, app: str, version: int) -> Fleet:
    fields = Fields.parse(path, raw, VERSION)
    return Fleet(
        app=app,
        application=fields.text("application"),
        consumers=fields.texts("consumers"),
        arguments=fields.texts("arguments"),
        conf=fields.by_name("conf", Fields.text),
        version=version,
    )


def _address(fields: Fields) -> str:
    address = fields.text("address")
    try:
        return check_address(address)
    except InvalidName as error:
        raise fields.bad("address", str(error)) from error


def _known_address(fields: Fields) -> str:
    """Where it was last registered; nowhere if nobody could be asked there."""
    address = fields.text("address", "")
    return address if is_address(address) else ""


def _absence(fields: Fields) -> Absence:
    return Absence(fields.count("incarnation"), fields.time("since"), fields.time("refused", 0.0))


def _isolation(fields: Fields) -> Isolation:
    return Isolation(
        by=fields.text("by"),
        why=fields.text("why", ""),
        at=fields.time("at", 0.0),
        incarnation=fields.count("incarnation", 0),
        until_at=fields.time("until", 0.0),
        readmit=fields.flag("readmit", False),
    )


def _draining(fields: Fields) -> Draining:
    return Draining(
        by=fields.text("by"),
        why=fields.text("why", ""),
        at=fields.time("at", 0.0),
        incarnation=fields.count("incarnation", 0),
        leaving=fields.count("leaving", 0),
    )
