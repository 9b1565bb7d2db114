"""The JSON in the znodes of a topic: one reader and one writer for each, with the contract's field names.

Readers raise `Malformed` (naming the path) or its kind `UnknownVersion`. Fields that a later release has added to a
known version are ignored; the writers of topic nodes are the coordinator's alone, so nothing gets lost by that.
"""

from collections.abc import Mapping
from typing import Any

from coordinator_tasks.core.fetch_properties import usable
from coordinator_tasks.core.fields import Fields, dump
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

VERSION = 1


def encode_node(node: TopicNode) -> bytes:
    body = {
        "bootstrap.servers": node.bootstrap_servers,
        "group.id": node.group_id,
        "epoch": node.epoch,
        "generation": node.generation,
        "topicId": node.topic_id,
        "startingOffsets": node.start.value,
        "initialPartitions": node.initial_partitions,
        "assignments": _keyed(node.assignments),
        "since": _keyed(node.since),
        "handoff": {str(p): {"from": h.giver, "to": h.taker, "epoch": h.epoch} for p, h in _sorted(node.handoff)},
        "incarnations": dict(sorted(node.incarnations.items())),
        "guarded": sorted(node.guarded),
        "supersedes": dict(sorted(node.supersedes.items())),
        "paused": sorted(node.paused),
        "removed": node.removed,
    }
    # A release that does not know these fields refuses a node that has them, and holds.
    if node.properties:
        body["properties"] = dict(sorted(node.properties.items()))
    if node.seeks:
        body["seeks"] = {str(p): {"offset": s.offset, "epoch": s.epoch} for p, s in _sorted(node.seeks)}
    return dump(VERSION, body)


def decode_node(path: str, raw: bytes) -> TopicNode:
    fields = Fields.parse(path, raw, VERSION)
    node = TopicNode(
        bootstrap_servers=fields.text("bootstrap.servers"),
        group_id=fields.text("group.id"),
        epoch=fields.count("epoch"),
        generation=fields.generation("generation"),
        topic_id=fields.text("topicId", ""),
        assignments=fields.by_partition("assignments", Fields.text),
        since=fields.by_partition("since", Fields.count),
        handoff=fields.by_partition("handoff", _handoff),
        incarnations=fields.by_name("incarnations", Fields.count),
        guarded=frozenset(fields.partitions("guarded")),
        supersedes=fields.by_name("supersedes", Fields.count),
        start=fields.choice("startingOffsets", StartRule, StartRule.EARLIEST),
        initial_partitions=fields.number("initialPartitions", 0),
        paused=frozenset(fields.partitions("paused")),
        removed=fields.flag("removed", False),
        # An older release wrote them among the node's own fields.
        properties=usable(fields.nested("properties", fields.data).data),
        seeks=fields.by_partition("seeks", _seek),
    )
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


def _handoff(fields: Fields, key: str) -> Handoff:
    inner = fields.nested(key)
    return Handoff(inner.text("from"), inner.text("to"), inner.count("epoch"))


def _seek(fields: Fields, key: str) -> Seek:
    inner = fields.nested(key)
    return Seek(inner.number("offset"), inner.count("epoch"))


def encode_release(release: Release) -> bytes:
    return dump(
        VERSION,
        {
            "epoch": release.epoch,
            "by": release.by,
            "incarnation": release.incarnation,
            "offset": release.offset,
            "generation": release.generation,
            "token": write_token(release.token),
        },
    )


def decode_release(path: str, raw: bytes) -> Release | None:
    """The last release on a partition's node; `None` while there was none (empty data)."""
    if not raw:
        return None
    fields = Fields.parse(path, raw, VERSION)
    return Release(
        epoch=fields.count("epoch"),
        by=fields.text("by"),
        incarnation=fields.count("incarnation"),
        offset=fields.number("offset"),
        generation=fields.generation("generation"),
        token=read_token(fields.nested("token")),
    )


def write_token(token: Token) -> dict[str, Any]:
    return {"epoch": token.epoch, "incarnation": token.incarnation, "generation": token.generation}


def read_token(fields: Fields) -> Token:
    return Token(fields.count("epoch"), fields.count("incarnation"), fields.generation("generation"))


def encode_state(state: TopicState) -> bytes:
    return dump(
        VERSION,
        {
            "state": state.state.value,
            "toStart": {c: list(ps) for c, ps in sorted(state.to_start.items())},
            "toClose": {c: list(ps) for c, ps in sorted(state.to_close.items())},
            "epochs": _keyed(state.epochs),
            "rebalance": state.rebalance,
            "since": state.since_at,
            "began": state.began_at,
            "cause": state.cause,
            "targets": dict(sorted(state.targets.items())),
            "planned": state.planned,
            "restarts": dict(sorted(state.restarts.items())),
            **({"recovered": {c: list(at) for c, at in sorted(state.recovered.items())}} if state.recovered else {}),
        },
    )


def decode_state(path: str, raw: bytes) -> TopicState:
    fields = Fields.parse(path, raw, VERSION)
    return TopicState(
        state=fields.choice("state", State),
        to_start=fields.by_name("toStart", Fields.partitions),
        to_close=fields.by_name("toClose", Fields.partitions),
        epochs=fields.by_partition("epochs", Fields.count),
        rebalance=fields.text("rebalance", ""),
        since_at=fields.time("since", 0.0),
        began_at=fields.time("began", 0.0),
        cause=fields.text("cause", ""),
        targets=fields.by_name("targets", Fields.count),
        planned=fields.text("planned", ""),
        restarts=fields.by_name("restarts", Fields.number),
        recovered=fields.by_name("recovered", Fields.reals),
    )


def encode_config(config: TopicConfig) -> bytes:
    return dump(
        VERSION,
        {
            "topic": config.topic,
            "topicId": config.topic_id,
            "bootstrap.servers": config.bootstrap_servers,
            "group.id": config.group_id,
            "strategy": config.strategy,
            "parameters": dict(sorted(config.parameters.items())),
            "startingOffsets": config.start.value,
            "initialPartitions": config.initial_partitions,
            "properties": dict(sorted(config.properties.items())),
            "pins": _keyed(config.pins),
            "paused": sorted(config.paused),
            "frozen": config.frozen,
            "removed": config.removed,
        },
    )


def decode_config(path: str, raw: bytes) -> TopicConfig:
    fields = Fields.parse(path, raw, VERSION)
    return TopicConfig(
        topic=fields.text("topic"),
        topic_id=fields.text("topicId"),
        bootstrap_servers=fields.text("bootstrap.servers"),
        group_id=fields.text("group.id"),
        strategy=fields.text("strategy", "balanced"),
        parameters=fields.by_name("parameters", Fields.text),
        start=fields.choice("startingOffsets", StartRule, StartRule.EARLIEST),
        initial_partitions=fields.number("initialPartitions", 0),
        properties=usable(fields.nested("properties", {}).data),
        pins=fields.by_partition("pins", Fields.text),
        paused=frozenset(fields.partitions("paused")),
        frozen=fields.flag("frozen", False),
        removed=fields.flag("removed", False),
    )


def _sorted(mapping: Mapping[int, Any]) -> list[tuple[int, Any]]:
    return sorted(mapping.items())


def _keyed(mapping: Mapping[int, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in sorted(mapping.items())}
