"""The JSON of `/upgrades/[APP]`. Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`."""

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.member_codec import FLEET_VERSION
from coordinator_tasks.core.codecs.shape import FieldKind, Item, Shape
from coordinator_tasks.core.fleet.upgrade import Outage, Rule, Upgrade, UpgradeEvent, UpgradeMark, UpgradePhase
from coordinator_tasks.core.text.json_fields import Fields

_RULE = Shape(
    Rule,
    {
        "maxLag": Item("max_lag_s", kinds.TIME, 60.0),
        "maxErrors": Item("max_errors", kinds.NUMBER, 0),
        "minRate": Item("min_rate", kinds.REAL, 0.0),
        "call": Item("call", kinds.TEXT, "", sparse=True),
    },
)
_MARK = Shape(
    UpgradeMark,
    {
        "at": Item("at", kinds.TIME),
        "positions": Item("positions", kinds.by_name(kinds.by_partition(kinds.NUMBER))),
    },
)
_OUTAGE = Shape(
    Outage,
    {"at": Item("at", kinds.TIME), "text": Item("text", kinds.TEXT), "over": Item("over_at", kinds.TIME, 0.0)},
)
_EVENT = Shape(UpgradeEvent, {"at": Item("at", kinds.TIME), "text": Item("text", kinds.TEXT)})


def _steps(fields: Fields, name: str) -> tuple[int, ...]:
    found = fields.partitions(name)
    if not found or found[-1] != 100 or list(found) != sorted(set(found)) or found[0] < 1:
        raise fields.bad(name, "is no list of percentages that increase to 100")
    return tuple(found)


_UPGRADE = Shape(
    Upgrade,
    {
        "old": Item("old", FLEET_VERSION),
        "new": Item("new", FLEET_VERSION),
        "oldName": Item("old_name", kinds.TEXT),
        "newName": Item("new_name", kinds.TEXT),
        "oldConsumers": Item("old_consumers", kinds.TEXTS),
        "newConsumers": Item("new_consumers", kinds.TEXTS),
        "topics": Item("topics", kinds.TEXTS),
        "steps": Item("steps", FieldKind(_steps, list)),
        "hold": Item("hold_s", kinds.TIME),
        "patience": Item("patience_s", kinds.TIME),
        "rule": Item("rule", _RULE.nested),
        "by": Item("by", kinds.TEXT, ""),
        "why": Item("why", kinds.TEXT, ""),
        "began": Item("began_at", kinds.TIME),
        "since": Item("since_at", kinds.TIME),
        "phase": Item("phase", kinds.choice(UpgradePhase)),
        "step": Item("step", kinds.NUMBER, 0),
        "chosen": Item("chosen", kinds.by_name(kinds.PARTITIONS)),
        "mark": Item("mark", kinds.optional(_MARK.nested), None, sparse=True),
        "baseline": Item("baseline", kinds.by_name(kinds.by_partition(kinds.REAL)), {}, sparse=True),
        "incarnations": Item("incarnations", kinds.by_name(kinds.COUNT), {}, sparse=True),
        "reason": Item("reason", kinds.TEXT, "", sparse=True),
        "paused": Item("paused", kinds.TEXT, "", sparse=True),
        "events": Item("events", _EVENT.listed, ()),
        "outage": Item("outage", kinds.optional(_OUTAGE.nested), None, sparse=True),
        "suspected": Item("suspected_at", kinds.TIME, 0.0, sparse=True),
        "away": Item("away_at", kinds.TIME, 0.0, sparse=True),
    },
)

encode_upgrade = _UPGRADE.encode


def decode_upgrade(path: str, raw: bytes, app: str, version: int) -> Upgrade:
    fields_of = _UPGRADE.decode(path, raw, app=app, version=version)
    if fields_of.step >= len(fields_of.steps):
        raise Fields.parse(path, raw, 1).bad("step", "is beyond the last of its steps")
    return fields_of
