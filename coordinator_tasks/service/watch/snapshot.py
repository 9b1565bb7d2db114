"""A cluster in a file, for offline experiments: configuration, assignment, rates, members and history.

The file holds the inputs of planning and no free text: no reasons, reports, names of people, addresses, settings or
fleets. A file is outside input, so its parts are checked like ZooKeeper nodes.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any, TypeVar

from coordinator_tasks import __version__
from coordinator_tasks.core.assignors import Strategies
from coordinator_tasks.core.codecs import codec, member_codec
from coordinator_tasks.core.codecs.history_codec import decode_record, encode_record
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.codecs.status_codec import decode_status, encode_status
from coordinator_tasks.core.errors import UNREADABLE, Malformed, Refused, UnknownVersion
from coordinator_tasks.core.machine.what_if import MAX_PARTITIONS, ClusterMoment
from coordinator_tasks.core.machine.world import Policy, TopicView, World
from coordinator_tasks.core.model import (
    Actor,
    Answer,
    ConsumerStatus,
    Directive,
    IdClaim,
    Member,
    Record,
    Silence,
    TopicConfig,
    TopicDescription,
    Unreachable,
)
from coordinator_tasks.core.names import check_cluster, is_consumer, is_topic, partition_of
from coordinator_tasks.core.text.json_fields import Fields, dump
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import history
from coordinator_tasks.service.plan.cluster_view import site_of

KIND = "partition coordinator snapshot"
MAX_BYTES = 64 * 1024 * 1024
PACK_OVER = 500_000
"""Bytes. A longer topic node is packed, because a reader of the file applies ZooKeeper's limit."""
MAX_RECORDS = 500
"""Maximum records of each topic, the newest, from which pauses of moves are predicted."""
HISTORY_BYTES = MAX_BYTES // 2
"""Maximum bytes of all histories together. All topics have the same share."""
_NOWHERE = "http://localhost:1"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """`history`: topic → records, newest first. `left_out`: unreadable topics, and why."""

    cluster: str
    taken_at: float
    policy: Policy
    site: ClusterMoment
    history: Mapping[str, tuple[Record, ...]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def take(c: Coordinator) -> ClusterSnapshot:
    """Return the cluster's present state. Writes nothing. Raises the `Unavailable` kinds."""
    site, left_out = site_of(c)
    records: dict[str, tuple[Record, ...]] = {}
    for topic in site.topics:
        try:
            records[topic] = _records_within(c, topic, HISTORY_BYTES // len(site.topics))
        except UNREADABLE as error:
            left_out[topic] = f"its history cannot be read: {error}"
    return ClusterSnapshot(c.paths.cluster, c.clock.now(), c.policy, site, records, left_out)


def _records_within(c: Coordinator, topic: str, room: int) -> tuple[Record, ...]:
    """Return the newest records of a topic that fit in `room` bytes of the file."""
    found: list[Record] = []
    for record in islice(history.backwards(c, topic), MAX_RECORDS):
        room -= len(encode_record(_bare_record(record)))
        if room < 0:
            break
        found.append(record)
    return tuple(found)


# Writing -------------------------------------------------------------------------------------------------------------


def encode(snapshot: ClusterSnapshot) -> bytes:
    """Return the bytes of the file."""
    world, site, strategies = snapshot.site.world, snapshot.site, snapshot.policy.strategies
    body = {
        "kind": KIND,
        "release": __version__,
        "cluster": snapshot.cluster,
        "takenAt": snapshot.taken_at,
        "policy": {one.name: getattr(snapshot.policy, one.name) for one in _numbers()}
        | {"strategy": strategies.default, "parameters": dict(strategies.parameters)},
        "topics": {name: _topic_body(view, snapshot.history.get(name, ())) for name, view in site.topics.items()},
        "members": _bodies(world.members, _bare_member),
        "claims": _bodies(world.claims, _bare_claim),
        "directives": _bodies(world.directives, _bare_directive),
        "answers": {name: _answer_body(one) for name, one in world.answers.items()},
        "unclear": sorted(world.unclear),
    }
    return dump(VERSION, body)


def _bodies(found: Mapping[str, T], encode: Callable[[T], bytes]) -> dict[str, Any]:
    return {name: json.loads(encode(one)) for name, one in found.items()}


def _numbers() -> list[Any]:
    """Return the fields of `Policy` that are numbers or flags."""
    return [one for one in fields(Policy) if one.name != "strategies"]


def _topic_body(view: TopicView, records: tuple[Record, ...]) -> dict[str, Any]:
    found = view.description
    return {
        "config": json.loads(codec.encode_config(_bare_config(view.config))),
        "node": json.loads(codec.encode_node(view.node, PACK_OVER)) if view.node is not None else None,
        "state": json.loads(codec.encode_state(replace(view.state, cause="", causes=()))) if view.state else None,
        "partitions": list(view.partitions),
        "topicId": found.topic_id if found is not None else "",
        "partitionCount": found.partition_count if found is not None else 0,
        "racks": {str(p): list(racks) for p, racks in (found.racks if found is not None else {}).items()},
        "described": found is not None,
        "missing": view.missing,
        "history": [{**json.loads(encode_record(_bare_record(one))), "sequence": one.sequence} for one in records],
    }


def _bare_config(config: TopicConfig) -> TopicConfig:
    wanted = config.rollback
    return replace(config, rollback=replace(wanted, by="", why="") if wanted is not None else None, approval=None)


def _bare_record(record: Record) -> Record:
    return replace(record, cause="", causes=(), actor=Actor(record.actor.kind), plan=None)


def _bare_member(member: Member) -> bytes:
    bare = replace(member, address=_NOWHERE, boot_id="", process="", spark_ui="", application_id="")
    return member_codec.encode_member(bare)


def _bare_claim(claim: IdClaim) -> bytes:
    return member_codec.encode_claim(replace(claim, address="", boot_id="", process="", reasons={}))


def _bare_directive(directive: Directive) -> bytes:
    requests = {name: getattr(directive, name) for name in ("isolation", "draining", "restart")}
    bare: dict[str, Any] = {name: one and replace(one, by="", why="") for name, one in requests.items()}
    return member_codec.encode_directive(replace(directive, **bare))


def _answer_body(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Unreachable):
        return {"silence": answer.silence.value}
    topics = {name: replace(one, reports=(), last_batch={}) for name, one in answer.topics.items()}
    bare = replace(answer, boot_id="", health="", reports=(), topics=topics)
    return {"status": json.loads(encode_status(bare))}


# Reading -------------------------------------------------------------------------------------------------------------


def decode(path: str, raw: bytes) -> ClusterSnapshot:
    """Read a file written by `encode`. Raises `Refused` with the file, the problem and the remedy."""
    try:
        return _decoded(path, raw)
    except UnknownVersion as error:
        raise Refused(f"{error.path} {error.problem}; use the release that wrote it, or take a new snapshot") from error
    except Malformed as error:
        raise Refused(
            f"{error.path}: {error.problem}; this is no snapshot, take one with `coordinator snapshot`"
        ) from error


def _decoded(path: str, raw: bytes) -> ClusterSnapshot:
    whole = Fields.parse(path, raw, VERSION, MAX_BYTES, once=True)
    if whole.data.get("kind") != KIND:
        raise whole.bad("kind", f"is not {KIND!r}")
    cluster = whole.text("cluster")
    try:
        check_cluster(cluster)
    except Refused as error:
        raise whole.bad("cluster", f"is no name: {error}") from error
    topics, records = dict[str, TopicView](), dict[str, tuple[Record, ...]]()
    for name, one in _objects(whole, "topics", is_topic):
        topics[name], records[name] = _topic(name, one)
    world = World(
        now=whole.time("takenAt"),
        members=_each(whole, "members", lambda at, raw, _: member_codec.decode_member(at, raw)),
        claims=_each(whole, "claims", lambda at, raw, name: member_codec.decode_claim(at, raw, name, 0)),
        directives=_each(whole, "directives", lambda at, raw, name: member_codec.decode_directive(at, raw, name, 0)),
        answers={name: _answer(one) for name, one in _objects(whole, "answers", is_consumer)},
        unclear=dict.fromkeys(whole.texts("unclear"), "its nodes could not be read when the snapshot was taken"),
    )
    return ClusterSnapshot(cluster, world.now, _policy(whole.nested("policy")), ClusterMoment(world, topics), records)


def _objects(whole: Fields, name: str, allowed: Callable[[str], bool]) -> list[tuple[str, Fields]]:
    """Return the objects inside an object, by name, sorted."""
    inner = whole.nested(name)
    for key in inner.data:
        if not allowed(key):
            raise inner.bad(key[:80], "is no name that can stand here")
    return [(key, inner.nested(key)) for key in sorted(inner.data)]


def _each(whole: Fields, name: str, read: Callable[[str, bytes, str], T]) -> dict[str, T]:
    return {key: read(f"{whole.path} {name}.{key}", _raw(one), key) for key, one in _objects(whole, name, is_consumer)}


def _raw(one: Fields) -> bytes:
    return json.dumps(one.data).encode()


def _part(one: Fields, name: str, read: Callable[[str, bytes], T]) -> T | None:
    """Return the data of a topic's node; `None` if absent."""
    if one.data.get(name) is None:
        return None
    return read(f"{one.path} {one.where}{name}", _raw(one.nested(name)))


def _policy(one: Fields) -> Policy:
    found: dict[str, Any] = {}
    for number in _numbers():
        readers: Mapping[type, Callable[[str], Any]] = {bool: one.flag, int: one.number, float: one.real}
        found[number.name] = readers[type(number.default)](number.name)
    parameters = one.nested("parameters")
    given = {name: parameters.text(name) for name in parameters.data}
    return Policy(**found, strategies=Strategies(default=one.text("strategy"), parameters=given))


def _topic(name: str, one: Fields) -> tuple[TopicView, tuple[Record, ...]]:
    config = _part(one, "config", codec.decode_config)
    if config is None or config.topic != name:
        raise one.bad("config", "is not the configuration of this topic")
    partitions = one.partitions("partitions")
    count = one.number("partitionCount", most=MAX_PARTITIONS)
    if len(partitions) > MAX_PARTITIONS or max(partitions, default=0) >= MAX_PARTITIONS:
        raise one.bad("partitions", f"has more than {MAX_PARTITIONS} partitions")
    description = TopicDescription(name, one.text("topicId"), count, _racks(one)) if one.flag("described") else None
    node, state = _part(one, "node", codec.decode_node), _part(one, "state", codec.decode_state)
    view = TopicView(config, node, state, partitions, description=description, missing=one.flag("missing"))
    listed = one.data.get("history")
    if not isinstance(listed, list) or len(listed) > MAX_RECORDS or not all(isinstance(r, dict) for r in listed):
        raise one.bad("history", f"is not a list of at most {MAX_RECORDS} objects")
    at = f"{one.path} {one.where}history"
    records = (Fields(at, record) for record in listed)
    return view, tuple(decode_record(at, _raw(record), record.number("sequence")) for record in records)


def _racks(one: Fields) -> dict[int, tuple[str, ...]]:
    inner = one.nested("racks")
    found: dict[int, tuple[str, ...]] = {}
    for key in inner.data:
        partition = partition_of(key)
        if partition is None:
            raise inner.bad(key[:80], "is not a partition number")
        found[partition] = inner.texts(key)
    return found


def _answer(one: Fields) -> Answer:
    if "status" not in one.data:
        return Unreachable(one.choice("silence", Silence), "it did not answer when the snapshot was taken")
    status: ConsumerStatus = decode_status(f"{one.path} {one.where}status", _raw(one.nested("status")))
    return status
