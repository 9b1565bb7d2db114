"""The JSON of `/upgrades/[APP]`. Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`.

A record of more than `MOST_PLAIN_BYTES` is packed (see `packed.wrapped`), with ranges and columns in place of the numbers
by partition: 10 bytes for each partition in place of 40.
"""

from collections.abc import Mapping
from typing import Any

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.member_codec import FLEET_VERSION
from coordinator_tasks.core.codecs.packed import (
    PACKED_VERSION,
    column,
    is_packed,
    listed,
    partitions_beside,
    unwrapped,
    wrapped,
)
from coordinator_tasks.core.codecs.shape import FieldKind, Item, Shape
from coordinator_tasks.core.fleet.upgrade import Outage, Rule, Upgrade, UpgradeEvent, UpgradeMark, UpgradePhase
from coordinator_tasks.core.text.json_fields import Fields
from coordinator_tasks.core.text.partition_text import ranges

MOST_PLAIN_BYTES = 256 * 1024
"""Up to this size a record stays readable for releases until 0.3.0."""
MOST_CHOSEN = 200_000
"""Maximum partitions of a topic. A larger range is refused before it fills the memory."""

_RULE = Shape(
    Rule,
    Item("maxLag", kinds.TIME, 60.0, attribute="max_lag_s"),
    Item("maxErrors", kinds.NUMBER, 0),
    Item("minRate", kinds.REAL, 0.0),
    Item("call", kinds.TEXT, "", sparse=True),
)
_MARK = Shape(UpgradeMark, Item("at", kinds.TIME), Item("positions", kinds.by_name(kinds.by_partition(kinds.NUMBER))))
_OUTAGE = Shape(
    Outage, Item("at", kinds.TIME), Item("text", kinds.TEXT), Item("over", kinds.TIME, 0.0, attribute="over_at")
)
_EVENT = Shape(UpgradeEvent, Item("at", kinds.TIME), Item("text", kinds.TEXT))


def _steps(fields: Fields, name: str) -> tuple[int, ...]:
    found = fields.partitions(name)
    if not found or found[-1] != 100 or list(found) != sorted(set(found)) or found[0] < 1:
        raise fields.bad(name, "is no list of percentages that increase to 100")
    return tuple(found)


_UPGRADE = Shape(
    Upgrade,
    Item("old", FLEET_VERSION),
    Item("new", FLEET_VERSION),
    Item("oldName", kinds.TEXT),
    Item("newName", kinds.TEXT),
    Item("oldConsumers", kinds.TEXTS),
    Item("newConsumers", kinds.TEXTS),
    Item("topics", kinds.TEXTS),
    Item("steps", FieldKind(_steps, list)),
    Item("hold", kinds.TIME, attribute="hold_s"),
    Item("patience", kinds.TIME, attribute="patience_s"),
    Item("rule", _RULE.nested),
    Item("by", kinds.TEXT, ""),
    Item("why", kinds.TEXT, ""),
    Item("began", kinds.TIME, attribute="began_at"),
    Item("since", kinds.TIME, attribute="since_at"),
    Item("phase", kinds.choice(UpgradePhase)),
    Item("step", kinds.NUMBER, 0),
    Item("chosen", kinds.by_name(kinds.PARTITIONS)),
    Item("mark", kinds.optional(_MARK.nested), None, sparse=True),
    Item("baseline", kinds.by_name(kinds.by_partition(kinds.REAL)), {}, sparse=True),
    Item("incarnations", kinds.by_name(kinds.COUNT), {}, sparse=True),
    Item("reason", kinds.TEXT, "", sparse=True),
    Item("paused", kinds.TEXT, "", sparse=True),
    Item("events", _EVENT.listed, ()),
    Item("outage", kinds.optional(_OUTAGE.nested), None, sparse=True),
    Item("suspected", kinds.TIME, 0.0, sparse=True, attribute="suspected_at"),
    Item("away", kinds.TIME, 0.0, sparse=True, attribute="away_at"),
)


def encode_upgrade(upgrade: Upgrade) -> bytes:
    """Return the bytes of a record; a large record is packed."""
    plain = _UPGRADE.encode(upgrade)
    return plain if len(plain) <= MOST_PLAIN_BYTES else wrapped(PACKED_VERSION, _columns(_UPGRADE.write(upgrade)))


def _columns(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the packed form."""
    found = body | {"chosen": {topic: ranges(chosen) for topic, chosen in body["chosen"].items()}}
    if body.get("mark"):
        found["mark"] = body["mark"] | {"positions": _of_topics(body["mark"]["positions"])}
    if body.get("baseline"):
        found["baseline"] = _of_topics(body["baseline"])
    return found


def _of_topics(by_topic: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        topic: {"partitions": ranges(map(int, values)), "values": [values[p] for p in sorted(values, key=int)]}
        for topic, values in by_topic.items()
    }


def _plain(fields: Fields) -> Fields:
    """Return the fields of the plain form. Raises `Malformed` for ranges or columns that do not fit together."""
    chosen = fields.nested("chosen")
    found: dict[str, Any] = {
        **fields.data,
        "chosen": {topic: list(listed(chosen, topic, MOST_CHOSEN)) for topic in chosen.data},
    }
    if "mark" in fields.data:
        mark = fields.nested("mark")
        found["mark"] = {**mark.data, "positions": _by_partition(mark.nested("positions"))}
    if "baseline" in fields.data:
        found["baseline"] = _by_partition(fields.nested("baseline"))
    return Fields(fields.path, found)


def _by_partition(topics: Fields) -> dict[str, dict[str, Any]]:
    found = {}
    for topic in topics.data:
        columns = topics.nested(topic)
        partitions = partitions_beside(columns, "partitions", "values")
        found[topic] = dict(zip(partitions, column(columns, "values"), strict=True))
    return found


def decode_upgrade(path: str, raw: bytes, app: str, version: int) -> Upgrade:
    """Return a record of either form."""
    fields = Fields.parse(path, raw, PACKED_VERSION)
    plain = _plain(unwrapped(fields, PACKED_VERSION)) if is_packed(fields) else fields
    fields_of = _UPGRADE.read(plain, app=app, version=version)
    if fields_of.step >= len(fields_of.steps):
        raise Fields.parse(path, raw, 1).bad("step", "is beyond the last of its steps")
    return fields_of
