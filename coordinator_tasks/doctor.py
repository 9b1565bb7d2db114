"""Whether this side may do all that it has to: each right, each neighbour, one finding each.

Only reads, but for one node of ZooKeeper that tells the server's time and is removed at once, and for the registration of
one transactional id of Kafka, where the fence is transactional.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.adapters.access_lists import MEND
from coordinator_tasks.adapters.kafka_rights import KafkaRights
from coordinator_tasks.adapters.server_versions import NOT_TOLD, kafka_versions, zookeeper_versions
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_rights import wrong_access_lists
from coordinator_tasks.core.codecs.codec import decode_config, decode_node
from coordinator_tasks.core.errors import CoordinatorError, Malformed
from coordinator_tasks.core.kafka_rights import Resource, Side, needed, transactional_ids
from coordinator_tasks.core.names import Paths, is_topic
from coordinator_tasks.core.ports import Create, Delete
from coordinator_tasks.core.znodes import children, find_many
from coordinator_tasks.installed import Installed, installed
from coordinator_tasks.settings import TRANSACTIONAL_FENCE, Settings
from coordinator_tasks.wiring import check_folders, connect_zookeeper

CLOCKS_S = 1.0
_SHOWN = 3


class Result(StrEnum):
    """`WARNING`: it works, and somebody may do more than necessary, or something works slower."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what it found in a sentence, and what to do about it (empty = nothing)."""

    check: str
    result: Result
    says: str
    mend: str = ""


def examine(settings: Settings, side: Side, topics: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """All checks of one side; `topics`: topic → group, besides those that are managed."""
    yield Finding("settings", Result.OK, f"cluster {settings.cluster}, examined as {side}")
    yield Finding("installed here", Result.OK, _clients(installed()))
    yield from _tokens(settings)
    found = dict(topics or {})
    try:
        zk = connect_zookeeper(settings)
    except CoordinatorError as error:
        yield _failed("ZooKeeper", error)
    else:
        try:
            yield Finding("ZooKeeper", Result.OK, f"{settings.zookeeper} answers; {_account(settings)}")
            yield _servers("ZooKeeper versions", zookeeper_versions(settings.zookeeper, settings.zookeeper_access))
            yield from _folders(settings, side, zk)
            found = {**_managed(zk, Paths(settings.cluster), side), **found}
        except CoordinatorError as error:
            yield _failed("ZooKeeper folders", error)
        finally:
            zk.close()
    yield from _kafka(settings, side, found)


def _failed(check: str, error: CoordinatorError) -> Finding:
    return Finding(check, Result.FAILED, str(error))


def _clients(found: Installed) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in sorted(found.packages.items()))
    return f"coordinator {found.coordinator}, Python {found.python}, {packages}"


def _servers(check: str, versions: Mapping[str, str]) -> Finding:
    """Each version once, with its servers where there are several versions; a server that is down tells none."""
    places: dict[str, list[str]] = {}
    for server, version in versions.items():
        places.setdefault(version, []).append(server)
    if len(places) == 1:
        return Finding(check, Result.OK, next(iter(places)))
    told = "; ".join(f"{version}: {', '.join(servers)}" for version, servers in sorted(places.items()))
    if len(places.keys() - {NOT_TOLD}) < 2:
        return Finding(check, Result.OK, told)
    return Finding(check, Result.WARNING, told, "run the same version on all servers, unless an upgrade is under way")


def _tokens(settings: Settings) -> Iterator[Finding]:
    if settings.status_token or settings.status_token_file:
        yield Finding("status token", Result.OK, "consumers' interfaces ask for it")
        return
    yield Finding(
        "status token",
        Result.WARNING,
        "none is set: a consumer shows its status to its whole host, and takes no topic node when it has lost ZooKeeper",
        "set status_token or status_token_file, the same for coordinator and consumers",
    )


# ZooKeeper -------------------------------------------------------------------------------------------------------------


def _account(settings: Settings) -> str:
    access = settings.zookeeper_access
    if not access.closes_nodes:
        return "nodes are open"
    return "coordinator and consumers have separate accounts" if access.separate else "one account for everybody"


def _folders(settings: Settings, side: Side, zk: KazooZooKeeper) -> Iterator[Finding]:
    paths = Paths(settings.cluster)
    if not settings.zookeeper_access.closes_nodes:
        yield Finding(
            "ZooKeeper folders",
            Result.WARNING,
            f"whoever reaches ZooKeeper may write below {paths.base}, which decides what launchers start",
            "give coordinator and consumers log-ins: zookeeper_access (docs/operations.md, Separate ZooKeeper accounts)",
        )
    else:
        check_folders(zk, paths)
        yield Finding("ZooKeeper folders", Result.OK, "each folder gives every account what it needs, and not more")
    if side is Side.COORDINATOR:
        yield from _nodes(settings, zk, paths)
        yield _clocks(zk, paths)


def _nodes(settings: Settings, zk: KazooZooKeeper, paths: Paths) -> Iterator[Finding]:
    if not settings.zookeeper_access.closes_nodes:
        return
    count, problems = wrong_access_lists(zk, paths.base)
    if not problems:
        yield Finding("ZooKeeper nodes", Result.OK, f"all {count} nodes have their access lists")
        return
    more = f" ({len(problems)} of {count} nodes)" if len(problems) > 1 else ""
    yield Finding("ZooKeeper nodes", Result.FAILED, "; ".join(problems[:_SHOWN]) + more, MEND)


def _clocks(zk: KazooZooKeeper, paths: Paths) -> Finding:
    """By the time that the server gives to a node."""
    zk.ensure(paths.base)
    path = f"{paths.base}/doctor-{zk.session_id:x}"
    before = time.time()
    zk.transact([Create(path, ephemeral=True)])
    at, after = zk.get(path).stat.created_at, time.time()
    zk.transact([Delete(path)])
    apart = max(before - at, at - after, 0.0)
    if apart <= CLOCKS_S:
        return Finding("clocks", Result.OK, f"this host and ZooKeeper are at most {CLOCKS_S:g} s apart")
    return Finding(
        "clocks",
        Result.WARNING,
        f"this host and ZooKeeper are {apart:.1f} s apart: waiting times, and the registry in a folder, count wrongly",
        "synchronize the clocks (NTP) of all hosts",
    )


def _managed(zk: KazooZooKeeper, paths: Paths, side: Side) -> dict[str, str]:
    """Topic → group of the managed topics, from what this side may read; what cannot be read is left out."""
    found = {}
    folder = paths.configs if side is Side.COORDINATOR else paths.assignments
    paths_of = {name: f"{folder}/{name}" for name in children(zk, folder) if is_topic(name)}
    for name, node in find_many(zk, paths_of).items():
        if not node.data:
            continue
        decode = decode_config if side is Side.COORDINATOR else decode_node
        try:
            one = decode(f"{folder}/{name}", node.data)
        except Malformed:
            continue  # `topics` names it
        if not one.removed:
            found[name] = one.group_id
    return found


# Kafka -----------------------------------------------------------------------------------------------------------------


def _kafka(settings: Settings, side: Side, topics: Mapping[str, str]) -> Iterator[Finding]:
    try:
        rights = KafkaRights(settings.kafka, settings.answer_timeout_s)
        brokers = rights.brokers()
    except CoordinatorError as error:
        yield _failed("Kafka", error)
        return
    yield Finding("Kafka", Result.OK, f"{settings.kafka['bootstrap.servers']} answers; brokers: {', '.join(brokers)}")
    yield _servers("Kafka versions", kafka_versions(brokers, settings.kafka))
    if not topics:
        yield Finding(
            "Kafka rights", Result.WARNING, "not checked: no topic is managed", "name one with --topic and --group"
        )
    for topic, group in topics.items():
        if not rights.has_topic(topic):
            yield Finding(f"topic {topic}", Result.FAILED, "Kafka has no such topic", "create it, or correct the name")
            continue
        yield from _rights(settings, side, rights, topic, group)


def _rights(settings: Settings, side: Side, rights: KafkaRights, topic: str, group: str) -> Iterator[Finding]:
    transactional = settings.fence == TRANSACTIONAL_FENCE
    for right in needed(side, transactional=transactional):
        name = {
            Resource.TOPIC: topic,
            Resource.GROUP: group,
            Resource.TRANSACTIONAL_ID: transactional_ids(settings.cluster),
        }[right.resource]
        check, who = f"Kafka: {right.operation} on {right.resource} {name}", principal(settings.kafka)
        try:
            there = rights.has(right, topic, group, settings.cluster)
        except CoordinatorError as error:
            yield _failed(check, error)
            continue
        if there:
            yield Finding(check, Result.OK, f"{who} has it")
        else:
            command = right.command(name, who, settings.kafka["bootstrap.servers"])
            yield Finding(check, Result.FAILED, f"{who} does not have it, and a {side} needs it", command)


def principal(kafka: Mapping[str, str]) -> str:
    """Who Kafka's brokers take us for, as far as the settings tell; their rules may map the name of a certificate."""
    protocol = kafka.get("security.protocol", "").upper()
    if protocol.startswith("SASL"):
        return f"User:{kafka.get('sasl.username', 'NAME')}"
    if protocol == "SSL" and kafka.get("ssl.certificate.location"):
        return f"User:SUBJECT OF {kafka['ssl.certificate.location']}"
    return "User:ANONYMOUS"


def failed(findings: Sequence[Finding]) -> bool:
    """Whether something is missing."""
    return any(one.result is Result.FAILED for one in findings)
