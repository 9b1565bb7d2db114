"""The packed form of a topic's node: the same fields in a tenth of the bytes.

`{"version": 2, "packed": TEXT}`. The text is Base64 of a JSON object that was compressed by zlib. The object has the
fields of the plain form, but columns in place of the objects by partition. Consumers are numbered. `assigned` and
`moving` list partitions as ranges.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_tasks.core.text.json_fields import Fields, dump
from coordinator_tasks.core.text.partition_text import numbers, ranges

PACKED_VERSION = 2
MAX_UNPACKED_BYTES = 8_000_000
"""A node of 200,000 partitions is smaller. A larger text is refused before it fills the memory."""
_NAME = "packed"
_BEGIN = dump(PACKED_VERSION, {_NAME: ""})[: -len(b'"}')]
_COLUMNS = ("assignments", "since", "handoff", "incarnations")


def packed(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a topic's node from the fields of its plain form."""
    assignments, since, handoff, incarnations = (body[name] for name in _COLUMNS)
    entries = handoff.values()
    names = sorted({*assignments.values(), *incarnations, *(e["from"] for e in entries), *(e["to"] for e in entries)})
    index = {name: number for number, name in enumerate(names)}
    columns = {
        "consumers": names,
        "incarnations": [incarnations.get(name) for name in names],
        "assigned": ranges(map(int, assignments)),
        "owners": [index[name] for name in assignments.values()],
        "since": [since[partition] for partition in assignments],
        "moving": ranges(map(int, handoff)),
        "givers": [index[entry["from"]] for entry in entries],
        "takers": [index[entry["to"]] for entry in entries],
        "epochs": [entry["epoch"] for entry in entries],
    }
    rest = {name: value for name, value in body.items() if name not in _COLUMNS}
    return wrapped(PACKED_VERSION, {**rest, **columns})


def wrapped(version: int, body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a node with these fields packed."""
    # The columns are numbers that hardly repeat. This strategy codes frequent digits in fewer bits, and saves some 6 %.
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS, memLevel=zlib.DEF_MEM_LEVEL, strategy=zlib.Z_FILTERED)
    deflated = packer.compress(dump(version, body)) + packer.flush()
    return dump(version, {_NAME: b64encode(deflated).decode()})


def unpacked(fields: Fields) -> Fields:
    """Return the fields of the plain form. Raises `Malformed` if the text is too long, damaged, or of another form."""
    inner = unwrapped(fields, PACKED_VERSION)
    names = inner.texts("consumers")
    assigned, moving = partitions_beside(inner, "assigned", "owners"), partitions_beside(inner, "moving", "givers")
    owners, since = _named(inner, "owners", names), column(inner, "since", len(assigned))
    givers, takers = _named(inner, "givers", names), _named(inner, "takers", names)
    epochs = column(inner, "epochs", len(moving))
    if len(takers) != len(moving):
        raise inner.bad("takers", f"has {len(takers)} entries for {len(moving)} partitions")
    incarnations = column(inner, "incarnations", len(names))
    columns = {
        "assignments": dict(zip(assigned, owners, strict=True)),
        "since": dict(zip(assigned, since, strict=True)),
        "handoff": {
            partition: {"from": giver, "to": taker, "epoch": epoch}
            for partition, giver, taker, epoch in zip(moving, givers, takers, epochs, strict=True)
        },
        "incarnations": {name: one for name, one in zip(names, incarnations, strict=True) if one is not None},
    }
    return Fields(fields.path, {**inner.data, **columns})


def unwrapped(fields: Fields, version: int) -> Fields:
    """Return the fields that `wrapped` has packed. Raises `Malformed` if the text is too long or damaged."""
    return Fields.parse(fields.path, _inflated(fields), version, MAX_UNPACKED_BYTES)


def is_packed(fields: Fields) -> bool:
    """Return whether this object of a topic's node is in the packed form."""
    return fields.number("version", default=1) == PACKED_VERSION


def begins_packed(raw: bytes) -> bool:
    """Return, without decoding, whether `packed` made the bytes of a node that is known to be readable."""
    return raw.startswith(_BEGIN)


def _inflated(fields: Fields) -> bytes:
    try:
        deflated, unpacker = b64decode(fields.text(_NAME), validate=True), zlib.decompressobj()
        found = unpacker.decompress(deflated, MAX_UNPACKED_BYTES)
    except (ValueError, zlib.error) as error:
        raise fields.bad(_NAME, f"cannot be unpacked ({error})") from error
    if unpacker.unconsumed_tail:
        raise fields.bad(_NAME, f"unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    if not unpacker.eof or unpacker.unused_data:
        raise fields.bad(_NAME, "is cut off, or has more behind its end")
    return found


def partitions_beside(fields: Fields, name: str, other: str) -> list[str]:
    """Return the partitions in a text of ranges, as keys. Their number must equal the length of the column `other`."""
    entries = len(column(fields, other))
    found = listed(fields, name, entries)
    if len(found) != entries:
        raise fields.bad(name, f"names {len(found)} partitions, and {other!r} has {entries} entries")
    return [str(partition) for partition in found]


def listed(fields: Fields, name: str, most: int | None = None) -> tuple[int, ...]:
    """Return the partitions in a text of ranges, at most `most`."""
    try:
        return numbers(fields.text(name), most)
    except ValueError as error:
        raise fields.bad(name, f"is no list of partitions ({error})") from error


def column(
    fields: Fields, name: str, entries: int | None = None, bounds: tuple[int, int] | None = None
) -> Sequence[Any]:
    """Return a list with this number of entries. Without `bounds`, the reader of the plain form checks the entries."""
    found = fields.data.get(name)
    if not isinstance(found, list) or entries not in (None, len(found)):
        raise fields.bad(name, f"is not a list{'' if entries is None else f' of {entries} entries'}")
    if bounds is not None and not all(type(one) is int and bounds[0] <= one <= bounds[1] for one in found):
        raise fields.bad(name, f"has another entry than a number from {bounds[0]} to {bounds[1]}")
    return found


def _named(fields: Fields, name: str, names: Sequence[str]) -> list[str]:
    """Return the consumers that a column lists by number."""
    return [names[one] for one in column(fields, name, bounds=(0, len(names) - 1))]
