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
    Handoff, {"from": Item("giver", kinds.TEXT), "to": Item("taker", kinds.TEXT), "epoch": Item("epoch", kinds.COUNT)}
)
_SEEK = Shape(
    Seek,
    {
        "offset": Item("offset", kinds.NUMBER),
        "epoch": Item("epoch", kinds.COUNT),
        "state": Item("state", kinds.optional(kinds.choice(StateOnReset)), None, sparse=True),
    },
)
TOKEN = Shape(
    Token,
    {
        "epoch": Item("epoch", kinds.COUNT),
        "incarnation": Item("incarnation", kinds.COUNT),
        "generation": Item("generation", kinds.GENERATION),
    },
)
_NODE = Shape(
    TopicNode,
    {
        "bootstrap.servers": Item("bootstrap_servers", kinds.TEXT),
        "group.id": Item("group_id", kinds.TEXT),
        "epoch": Item("epoch", kinds.COUNT),
        "generation": Item("generation", kinds.GENERATION),
        "topicId": Item("topic_id", kinds.TEXT, ""),
        "startingOffsets": Item("start", kinds.choice(StartRule), StartRule.EARLIEST),
        "initialPartitions": Item("initial_partitions", kinds.NUMBER, 0),
        "assignments": Item("assignments", kinds.by_partition(kinds.TEXT)),
        "since": Item("since", kinds.by_partition(kinds.COUNT)),
        "handoff": Item("handoff", kinds.by_partition(_HANDOFF.nested)),
        "incarnations": Item("incarnations", _COUNTS_BY_NAME),
        "guarded": Item("guarded", kinds.PARTITION_SET),
        "supersedes": Item("supersedes", _COUNTS_BY_NAME),
        "paused": Item("paused", kinds.PARTITION_SET),
        "removed": Item("removed", kinds.FLAG, False),
        # Releases without one of these fields refuse the node, so their consumers go on by the former node.
        # An earlier release wrote the properties among the node's own fields.
        "properties": Item(
            "properties",
            FieldKind(lambda fields, name: usable(fields.nested(name, fields.data).data), _TEXTS_BY_NAME.write),
            sparse=True,
        ),
        "seeks": Item("seeks", kinds.by_partition(_SEEK.nested), sparse=True),
    },
)
_AGO = Shape(
    Ago,
    {
        "read": Item("read_s", kinds.optional(kinds.SPAN)),
        "passed": Item("passed_s", kinds.optional(kinds.SPAN)),
        "empty": Item("empty_s", kinds.optional(kinds.SPAN)),
        "usual": Item("usual_s", kinds.optional(kinds.SPAN)),  # missing in releases of earlier versions
    },
)
_RELEASE = Shape(
    Release,
    {
        "epoch": Item("epoch", kinds.COUNT),
        "by": Item("by", kinds.TEXT),
        "incarnation": Item("incarnation", kinds.COUNT),
        "offset": Item("offset", kinds.NUMBER),
        "generation": Item("generation", kinds.GENERATION),
        "token": Item("token", TOKEN.nested),
        "ago": Item("ago", kinds.measured(_AGO.nested), sparse=True),  # missing in releases of earlier versions
    },
)
_STATE = Shape(
    with_former_causes(TopicState),
    {
        "state": Item("state", kinds.choice(State)),
        "toStart": Item("to_start", kinds.by_name(kinds.PARTITIONS)),
        "toClose": Item("to_close", kinds.by_name(kinds.PARTITIONS)),
        "epochs": Item("epochs", kinds.by_partition(kinds.COUNT)),
        "rebalance": Item("rebalance", kinds.TEXT, ""),
        "since": Item("since_at", kinds.TIME, 0.0),
        "began": Item("began_at", kinds.TIME, 0.0),
        "cause": Item("cause", kinds.TEXT, ""),
        "targets": Item("targets", _COUNTS_BY_NAME),
        "planned": Item("planned", kinds.TEXT, ""),
        "restarts": Item("restarts", kinds.by_name(kinds.NUMBER)),
        "recovered": Item("recovered", kinds.by_name(kinds.REALS), sparse=True),
        "causes": CAUSES,
    },
)
_ROLLBACK = Shape(
    Rollback,
    {
        "rebalance": Item("rebalance", kinds.TEXT),
        "assignments": Item("assignments", kinds.by_partition(kinds.TEXT)),
        "targets": Item("targets", _COUNTS_BY_NAME),
        "by": Item("by", kinds.TEXT, ""),
        "why": Item("why", kinds.TEXT, ""),
        "at": Item("at", kinds.TIME, 0.0),
        "for": Item("for_s", kinds.TIME, 0.0),
    },
)
_SPLIT = Shape(
    Split,
    {
        "fleet": Item("app", kinds.TEXT),
        "consumers": Item("consumers", kinds.TEXTS),
        "partitions": Item("partitions", kinds.PARTITION_SET, frozenset()),
    },
)
_APPROVAL = Shape(
    Approval,
    {
        "digest": Item("digest", kinds.TEXT),
        "granted": Item("granted", kinds.FLAG),
        "by": Item("by", kinds.TEXT, ""),
        "why": Item("why", kinds.TEXT, ""),
        "at": Item("at", kinds.TIME, 0.0),
    },
)
_CONFIG = Shape(
    TopicConfig,
    {
        "topic": Item("topic", kinds.TEXT),
        "topicId": Item("topic_id", kinds.TEXT),
        "bootstrap.servers": Item("bootstrap_servers", kinds.TEXT),
        "group.id": Item("group_id", kinds.TEXT),
        "strategy": Item("strategy", kinds.TEXT, "balanced"),
        "parameters": Item("parameters", _TEXTS_BY_NAME),
        "startingOffsets": Item("start", kinds.choice(StartRule), StartRule.EARLIEST),
        "initialPartitions": Item("initial_partitions", kinds.NUMBER, 0),
        "properties": Item(
            "properties", FieldKind(lambda fields, name: usable(fields.nested(name, {}).data), _TEXTS_BY_NAME.write)
        ),
        "pins": Item("pins", kinds.by_partition(kinds.TEXT)),
        "paused": Item("paused", kinds.PARTITION_SET),
        "frozen": Item("frozen", kinds.FLAG, False),
        "removed": Item("removed", kinds.FLAG, False),
        "rollback": Item("rollback", kinds.optional(_ROLLBACK.nested), sparse=True),
        "split": Item("split", kinds.optional(_SPLIT.nested), sparse=True),
        "approval": Item("approval", kinds.optional(_APPROVAL.nested), None, sparse=True),
    },
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
