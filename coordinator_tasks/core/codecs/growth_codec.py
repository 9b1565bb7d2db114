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
    {
        "min": Item("least", kinds.NUMBER),
        "max": Item("most", kinds.NUMBER),
        "spare": Item("spare", kinds.NUMBER, 0),
        "utilisation": Item("utilisation", kinds.REAL, 0.7),
        "catchUp": Item("catch_up_s", kinds.SPAN, 300.0),
        "startUp": Item("start_up_s", kinds.SPAN, 60.0),
        "window": Item("window_s", kinds.SPAN, 180.0),
        "growPause": Item("grow_pause_s", kinds.SPAN, 60.0),
        "shrinkPause": Item("shrink_pause_s", kinds.SPAN, 300.0),
        "act": Item("act", kinds.FLAG, False),
    },
)
_MOVE = Shape(
    GrowthMove,
    {
        "topic": Item("topic", kinds.TEXT),
        "partition": Item("partition", kinds.NUMBER),
        "from": Item("giver", kinds.TEXT),
        "to": Item("taker", kinds.TEXT),
    },
)
_DECISION = Shape(
    GrowthDecision,
    {
        "kind": Item("kind", kinds.choice(What)),
        "at": Item("at", kinds.TIME),
        "count": Item("count", kinds.NUMBER),
        "desired": Item("desired", kinds.NUMBER),
        "reasons": Item("reasons", kinds.TEXTS),
        "leaves": Item("leaves", kinds.TEXTS),
        "moves": Item("moves", _MOVE.listed),
        "throughput": Item("throughput", kinds.REAL, 0.0),
        "lag": Item("lag", kinds.REAL, 0.0),
        "acted": Item("acted", kinds.FLAG, False),
    },
)


def _wanted(fields: Fields, name: str) -> tuple[tuple[float, int], ...]:
    return tuple((one.time("at"), one.number("count")) for one in fields.objects(name))


_MEMORY = Shape(
    Memory,
    {
        "capacity": Item("capacity", kinds.REAL, 0.0),
        "decisions": Item("decisions", _DECISION.listed),
        "wanted": Item("wanted", FieldKind(_wanted, lambda found: [{"at": at, "count": count} for at, count in found])),
        "latest": Item("latest", kinds.optional(_DECISION.nested)),
    },
)
_GROWTH = Shape(Growth, {"limits": Item("limits", _LIMITS.nested), "memory": Item("memory", _MEMORY.nested)})

encode_growth = _GROWTH.encode


def decode_growth(path: str, raw: bytes, app: str, version: int) -> Growth:
    fields = Fields.parse(path, raw, 1)
    found = _GROWTH.read(fields, app=app, version=version)
    try:
        found.limits.check()
    except BadGrowth as error:
        raise fields.bad("limits", str(error)) from error
    return found
