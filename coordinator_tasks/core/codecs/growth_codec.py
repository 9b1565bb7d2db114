"""The JSON of a fleet's growth: a person's limits, and what is kept between observations. Readers raise `Malformed`."""

from dataclasses import dataclass, field

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.shape import FieldKind, Item, Shape
from coordinator_tasks.core.errors import BadGrowth
from coordinator_tasks.core.fleet.growth import GrowthDecision, GrowthMove, Limits, Memory
from coordinator_tasks.core.fleet.growth import GrowthKind as What
from coordinator_tasks.core.text.json_fields import Fields


@dataclass(frozen=True, slots=True)
class Growth:
    """`/history/:growth/[APP]`; `version` is the znode's version."""

    app: str
    limits: Limits = field(default_factory=Limits)
    memory: Memory = field(default_factory=Memory)
    version: int = -1


_LIMITS = Shape(
    Limits,
    Item("min", kinds.NUMBER, attribute="least"),
    Item("max", kinds.NUMBER, attribute="most"),
    Item("spare", kinds.NUMBER, 0),
    Item("utilisation", kinds.REAL, 0.7),
    Item("catchUp", kinds.SPAN, 300.0, attribute="catch_up_s"),
    Item("startUp", kinds.SPAN, 60.0, attribute="start_up_s"),
    Item("window", kinds.SPAN, 180.0, attribute="window_s"),
    Item("growPause", kinds.SPAN, 60.0, attribute="grow_pause_s"),
    Item("shrinkPause", kinds.SPAN, 300.0, attribute="shrink_pause_s"),
    Item("act", kinds.FLAG, False),
)
_MOVE = Shape(
    GrowthMove,
    Item("topic", kinds.TEXT),
    Item("partition", kinds.NUMBER),
    Item("from", kinds.TEXT, attribute="giver"),
    Item("to", kinds.TEXT, attribute="taker"),
)
_DECISION = Shape(
    GrowthDecision,
    Item("kind", kinds.choice(What)),
    Item("at", kinds.TIME),
    Item("count", kinds.NUMBER),
    Item("desired", kinds.NUMBER),
    Item("reasons", kinds.TEXTS),
    Item("leaves", kinds.TEXTS),
    Item("moves", _MOVE.listed),
    Item("throughput", kinds.REAL, 0.0),
    Item("lag", kinds.REAL, 0.0),
    Item("acted", kinds.FLAG, False),
)


def _wanted(fields: Fields, name: str) -> tuple[tuple[float, int], ...]:
    return tuple((one.time("at"), one.number("count")) for one in fields.objects(name))


_MEMORY = Shape(
    Memory,
    Item("capacity", kinds.REAL, 0.0),
    Item("decisions", _DECISION.listed),
    Item("wanted", FieldKind(_wanted, lambda found: [{"at": at, "count": count} for at, count in found])),
    Item("latest", kinds.optional(_DECISION.nested)),
)
_GROWTH = Shape(Growth, Item("limits", _LIMITS.nested), Item("memory", _MEMORY.nested))

encode_growth = _GROWTH.encode


def decode_growth(path: str, raw: bytes, app: str, version: int) -> Growth:
    fields = Fields.parse(path, raw, 1)
    found = _GROWTH.read(fields, app=app, version=version)
    try:
        found.limits.check()
    except BadGrowth as error:
        raise fields.bad("limits", str(error)) from error
    return found
