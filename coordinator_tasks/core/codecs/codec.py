"""The JSON in the znodes of a topic, with the contract's field names.

Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`. They ignore fields that a later release has
added to a known version; only the coordinator writes topic nodes, so nothing is lost by that.
"""

from coordinator_tasks.core.codecs.shape import (
    COUNT,
    FLAG,
    GENERATION,
    NUMBER,
    PARTITION_SET,
    PARTITIONS,
    REALS,
    TEXT,
    TIME,
    VERSION,
    Item,
    Kind,
    Shape,
    by_name,
    by_partition,
    choice,
)
from coordinator_tasks.core.fetch_properties import usable
from coordinator_tasks.core.fields import Fields
from coordinator_tasks.core.model import (
    Handoff,
    Release,
    Seek,
    StartRule,
    State,
    Token,
    TopicConfig,
    TopicNode,
    TopicState,
)
from coordinator_tasks.core.names import is_consumer

_TEXTS_BY_NAME, _COUNTS_BY_NAME = by_name(TEXT), by_name(COUNT)
_HANDOFF = Shape(Handoff, {"from": Item("giver", TEXT), "to": Item("taker", TEXT), "epoch": Item("epoch", COUNT)})
_SEEK = Shape(Seek, {"offset": Item("offset", NUMBER), "epoch": Item("epoch", COUNT)})
TOKEN = Shape(
    Token,
    {
        "epoch": Item("epoch", COUNT),
        "incarnation": Item("incarnation", COUNT),
        "generation": Item("generation", GENERATION),
    },
)
_NODE = Shape(
    TopicNode,
    {
        "bootstrap.servers": Item("bootstrap_servers", TEXT),
        "group.id": Item("group_id", TEXT),
        "epoch": Item("epoch", COUNT),
        "generation": Item("generation", GENERATION),
        "topicId": Item("topic_id", TEXT, ""),
        "startingOffsets": Item("start", choice(StartRule), StartRule.EARLIEST),
        "initialPartitions": Item("initial_partitions", NUMBER, 0),
        "assignments": Item("assignments", by_partition(TEXT)),
        "since": Item("since", by_partition(COUNT)),
        "handoff": Item("handoff", by_partition(_HANDOFF.nested)),
        "incarnations": Item("incarnations", _COUNTS_BY_NAME),
        "guarded": Item("guarded", PARTITION_SET),
        "supersedes": Item("supersedes", _COUNTS_BY_NAME),
        "paused": Item("paused", PARTITION_SET),
        "removed": Item("removed", FLAG, False),
        # A release that does not know these fields refuses a node that has them, and holds. An older release wrote the
        # properties among the node's own fields.
        "properties": Item(
            "properties",
            Kind(lambda fields, name: usable(fields.nested(name, fields.data).data), _TEXTS_BY_NAME.write),
            sparse=True,
        ),
        "seeks": Item("seeks", by_partition(_SEEK.nested), sparse=True),
    },
)
_RELEASE = Shape(
    Release,
    {
        "epoch": Item("epoch", COUNT),
        "by": Item("by", TEXT),
        "incarnation": Item("incarnation", COUNT),
        "offset": Item("offset", NUMBER),
        "generation": Item("generation", GENERATION),
        "token": Item("token", TOKEN.nested),
    },
)
_STATE = Shape(
    TopicState,
    {
        "state": Item("state", choice(State)),
        "toStart": Item("to_start", by_name(PARTITIONS)),
        "toClose": Item("to_close", by_name(PARTITIONS)),
        "epochs": Item("epochs", by_partition(COUNT)),
        "rebalance": Item("rebalance", TEXT, ""),
        "since": Item("since_at", TIME, 0.0),
        "began": Item("began_at", TIME, 0.0),
        "cause": Item("cause", TEXT, ""),
        "targets": Item("targets", _COUNTS_BY_NAME),
        "planned": Item("planned", TEXT, ""),
        "restarts": Item("restarts", by_name(NUMBER)),
        "recovered": Item("recovered", by_name(REALS), sparse=True),
    },
)
_CONFIG = Shape(
    TopicConfig,
    {
        "topic": Item("topic", TEXT),
        "topicId": Item("topic_id", TEXT),
        "bootstrap.servers": Item("bootstrap_servers", TEXT),
        "group.id": Item("group_id", TEXT),
        "strategy": Item("strategy", TEXT, "balanced"),
        "parameters": Item("parameters", _TEXTS_BY_NAME),
        "startingOffsets": Item("start", choice(StartRule), StartRule.EARLIEST),
        "initialPartitions": Item("initial_partitions", NUMBER, 0),
        "properties": Item(
            "properties", Kind(lambda fields, name: usable(fields.nested(name, {}).data), _TEXTS_BY_NAME.write)
        ),
        "pins": Item("pins", by_partition(TEXT)),
        "paused": Item("paused", PARTITION_SET),
        "frozen": Item("frozen", FLAG, False),
        "removed": Item("removed", FLAG, False),
    },
)

encode_node = _NODE.encode
encode_release = _RELEASE.encode
encode_state, decode_state = _STATE.encode, _STATE.decode
encode_config, decode_config = _CONFIG.encode, _CONFIG.decode


def decode_node(path: str, raw: bytes) -> TopicNode:
    fields = Fields.parse(path, raw, VERSION)
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
    """The last release on a partition's node; `None` while there was none (empty data)."""
    return _RELEASE.decode(path, raw) if raw else None
