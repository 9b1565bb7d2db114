"""The JSON in the znodes of a topic, with the contract's names of fields.

Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`. Readers ignore unknown fields of a known
version, which a later release has added. Nothing is lost by this, because only the coordinator writes topic nodes.
"""

from coordinator_tasks.core.codecs import kinds
from coordinator_tasks.core.codecs.cause_codec import CAUSES, with_former_causes
from coordinator_tasks.core.codecs.packed import PACKED_VERSION, is_packed, packed, unpacked
from coordinator_tasks.core.codecs.shape import VERSION, FieldKind, Item, Shape
from coordinator_tasks.core.fleet.fetch_properties import usable
from coordinator_tasks.core.model import (
    Ago,
    Approval,
    Handoff,
    Release,
    Rollback,
    Seek,
    Split,
    StartRule,
    State,
    StateOnReset,
    Token,
    TopicConfig,
    TopicNode,
    TopicState,
)
from coordinator_tasks.core.names import is_consumer
from coordinator_tasks.core.text.json_fields import Fields, dump

_ASSIGNED_BYTES = len('"0":"c",') + len('"0":1,')
"""The least bytes of an assigned partition in the plain form: the entries for owner and epoch."""
_TEXTS_BY_NAME, _COUNTS_BY_NAME = kinds.by_name(kinds.TEXT), kinds.by_name(kinds.COUNT)
_HANDOFF = Shape(
    Handoff,
    Item("from", kinds.TEXT, attribute="giver"),
    Item("to", kinds.TEXT, attribute="taker"),
    Item("epoch", kinds.COUNT),
)
_SEEK = Shape(
    Seek,
    Item("offset", kinds.NUMBER),
    Item("epoch", kinds.COUNT),
    Item("state", kinds.optional(kinds.choice(StateOnReset)), None, sparse=True),
)
TOKEN = Shape(Token, Item("epoch", kinds.COUNT), Item("incarnation", kinds.COUNT), Item("generation", kinds.GENERATION))
_NODE = Shape(
    TopicNode,
    Item("bootstrap.servers", kinds.TEXT, attribute="bootstrap_servers"),
    Item("group.id", kinds.TEXT, attribute="group_id"),
    Item("epoch", kinds.COUNT),
    Item("generation", kinds.GENERATION),
    Item("topicId", kinds.TEXT, ""),
    Item("startingOffsets", kinds.choice(StartRule), StartRule.EARLIEST, attribute="start"),
    Item("initialPartitions", kinds.NUMBER, 0),
    Item("assignments", kinds.by_partition(kinds.TEXT)),
    Item("since", kinds.by_partition(kinds.COUNT)),
    Item("handoff", kinds.by_partition(_HANDOFF.nested)),
    Item("incarnations", _COUNTS_BY_NAME),
    Item("guarded", kinds.PARTITION_SET),
    Item("supersedes", _COUNTS_BY_NAME),
    Item("paused", kinds.PARTITION_SET),
    Item("removed", kinds.FLAG, False),
    # Releases without one of these fields refuse the node, so their consumers go on by the former node.
    # An earlier release wrote the properties among the node's own fields.
    Item(
        "properties",
        FieldKind(lambda fields, name: usable(fields.nested(name, fields.data).data), _TEXTS_BY_NAME.write),
        sparse=True,
    ),
    Item("seeks", kinds.by_partition(_SEEK.nested), sparse=True),
)
_AGO = Shape(
    Ago,
    Item("read", kinds.optional(kinds.SPAN), attribute="read_s"),
    Item("passed", kinds.optional(kinds.SPAN), attribute="passed_s"),
    Item("empty", kinds.optional(kinds.SPAN), attribute="empty_s"),
    Item("usual", kinds.optional(kinds.SPAN), attribute="usual_s"),  # missing in releases of earlier versions
)
_RELEASE = Shape(
    Release,
    Item("epoch", kinds.COUNT),
    Item("by", kinds.TEXT),
    Item("incarnation", kinds.COUNT),
    Item("offset", kinds.NUMBER),
    Item("generation", kinds.GENERATION),
    Item("token", TOKEN.nested),
    Item("ago", kinds.measured(_AGO.nested), sparse=True),  # missing in releases of earlier versions
)
_STATE = Shape(
    with_former_causes(TopicState),
    Item("state", kinds.choice(State)),
    Item("toStart", kinds.by_name(kinds.PARTITIONS)),
    Item("toClose", kinds.by_name(kinds.PARTITIONS)),
    Item("epochs", kinds.by_partition(kinds.COUNT)),
    Item("rebalance", kinds.TEXT, ""),
    Item("since", kinds.TIME, 0.0, attribute="since_at"),
    Item("began", kinds.TIME, 0.0, attribute="began_at"),
    Item("cause", kinds.TEXT, ""),
    Item("targets", _COUNTS_BY_NAME),
    Item("planned", kinds.TEXT, ""),
    Item("restarts", kinds.by_name(kinds.NUMBER)),
    Item("recovered", kinds.by_name(kinds.REALS), sparse=True),
    CAUSES,
)
_ROLLBACK = Shape(
    Rollback,
    Item("rebalance", kinds.TEXT),
    Item("assignments", kinds.by_partition(kinds.TEXT)),
    Item("targets", _COUNTS_BY_NAME),
    Item("by", kinds.TEXT, ""),
    Item("why", kinds.TEXT, ""),
    Item("at", kinds.TIME, 0.0),
    Item("for", kinds.TIME, 0.0, attribute="for_s"),
)
_SPLIT = Shape(
    Split,
    Item("fleet", kinds.TEXT, attribute="app"),
    Item("consumers", kinds.TEXTS),
    Item("partitions", kinds.PARTITION_SET, frozenset()),
)
_APPROVAL = Shape(
    Approval,
    Item("digest", kinds.TEXT),
    Item("granted", kinds.FLAG),
    Item("by", kinds.TEXT, ""),
    Item("why", kinds.TEXT, ""),
    Item("at", kinds.TIME, 0.0),
)
_CONFIG = Shape(
    TopicConfig,
    Item("topic", kinds.TEXT),
    Item("topicId", kinds.TEXT),
    Item("bootstrap.servers", kinds.TEXT, attribute="bootstrap_servers"),
    Item("group.id", kinds.TEXT, attribute="group_id"),
    Item("strategy", kinds.TEXT, "balanced"),
    Item("parameters", _TEXTS_BY_NAME),
    Item("startingOffsets", kinds.choice(StartRule), StartRule.EARLIEST, attribute="start"),
    Item("initialPartitions", kinds.NUMBER, 0),
    Item("properties", FieldKind(lambda fields, name: usable(fields.nested(name, {}).data), _TEXTS_BY_NAME.write)),
    Item("pins", kinds.by_partition(kinds.TEXT)),
    Item("paused", kinds.PARTITION_SET),
    Item("frozen", kinds.FLAG, False),
    Item("removed", kinds.FLAG, False),
    Item("rollback", kinds.optional(_ROLLBACK.nested), sparse=True),
    Item("split", kinds.optional(_SPLIT.nested), sparse=True),
    Item("approval", kinds.optional(_APPROVAL.nested), None, sparse=True),
)

encode_release = _RELEASE.encode
encode_state, decode_state = _STATE.encode, _STATE.decode
encode_config, decode_config = _CONFIG.encode, _CONFIG.decode


def encode_node(node: TopicNode, pack_over: int | None = None) -> bytes:
    """Return the bytes of a topic's node; packed if the plain form exceeds `pack_over` bytes (`None`: never)."""
    body = _NODE.write(node)
    if pack_over is not None and _ASSIGNED_BYTES * len(node.assignments) > pack_over:
        return packed(body)
    plain = dump(VERSION, body)
    return plain if pack_over is None or len(plain) <= pack_over else packed(body)


def decode_node(path: str, raw: bytes) -> TopicNode:
    """Return a topic's node from its plain or packed form."""
    fields = Fields.parse(path, raw, PACKED_VERSION)
    if is_packed(fields):
        fields = unpacked(fields)
    node = _NODE.read(fields)
    twice = node.assignments.keys() & node.handoff.keys()
    if twice:
        raise fields.bad("handoff", f"names partitions {sorted(twice)} that are assigned as well")
    named = {*node.assignments.values(), *node.incarnations}.union(*((h.giver, h.taker) for h in node.handoff.values()))
    strange = sorted(name for name in named if not is_consumer(name))
    if strange:
        raise fields.bad("assignments", f"names {strange[0][:80]!r}, which cannot be a consumer id")
    without = node.assignments.keys() - node.since.keys()
    if without:
        raise fields.bad("since", f"misses the assigned partitions {sorted(without)}")
    return node


def decode_release(path: str, raw: bytes) -> Release | None:
    """Return the last release on a partition's node; `None` if the node is empty, because there was none."""
    return _RELEASE.decode(path, raw) if raw else None
