"""The checks of ZooKeeper: folders, access lists, the session, sizes of nodes and requests, and clocks."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from coordinator_tasks.adapters.access_lists import MEND
from coordinator_tasks.adapters.server_versions import NOT_TOLD, REFUSES, TAKES, zookeeper_takes
from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_rights import wrong_access_lists
from coordinator_tasks.core.codecs.codec import decode_config, decode_node
from coordinator_tasks.core.codecs.history_codec import decode_record
from coordinator_tasks.core.codecs.member_codec import decode_claim, decode_fleet, decode_member
from coordinator_tasks.core.errors import CoordinatorError, Malformed, NoAccess
from coordinator_tasks.core.fleet.interface_addresses import is_plain
from coordinator_tasks.core.machine.fleet_topics import conflicts
from coordinator_tasks.core.model import TopicConfig, TopicNode
from coordinator_tasks.core.names import Paths, is_app, is_consumer, is_topic
from coordinator_tasks.core.ports import Create, Delete
from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.core.protocol.znodes import children, find_decoded, find_many, numbered
from coordinator_tasks.core.text.partition_text import counted, shown
from coordinator_tasks.doctor.findings import DoctorFinding, failure, good, warning
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import check_folders

CLOCKS_S = 1.0
WRITTEN_LATE_S = 10.0
"""Seconds from an observation to the write of the history record: the time for asking all consumers."""
JUTE_BYTES = 1024 * 1024 - 1
"""The default of `jute.maxbuffer`."""
ROOMY = 0.7
"""Share of the largest request that one node may take, because a transaction also writes other nodes."""
_SHOWN = 3
_TLS = "status_certificate and status_key"
_MOST_HISTORIES = 200
_MOST_CHARS = 80


def account(settings: Settings) -> str:
    """Return, in words, which accounts may write the nodes by the settings."""
    access = settings.zookeeper_access
    if not access.closes_nodes:
        return "nodes are open"
    return "coordinator and consumers have separate accounts" if access.separate else "one account for everybody"


def examine(settings: Settings, side: Side, zk: KazooZooKeeper) -> Iterator[DoctorFinding]:
    """Yield findings about folders and session; for the coordinator also about every node and the clocks.

    Raises `CoordinatorError`.
    """
    paths = Paths(settings.cluster)
    if not settings.zookeeper_access.closes_nodes:
        yield warning(
            "ZooKeeper folders",
            f"whoever reaches ZooKeeper may write below {paths.base}, which decides what launchers start",
            "give coordinator and consumers log-ins: zookeeper_access (docs/secrets.md, Separate ZooKeeper accounts)",
        )
    else:
        check_folders(zk, paths)
        yield good("ZooKeeper folders", "each folder gives every account what it needs, and not more")
    yield _session(settings, zk)
    yield from _sizes(
        zk, paths, side, lambda size: zookeeper_takes(settings.zookeeper, settings.zookeeper_access, size)
    )
    if side is Side.COORDINATOR:
        yield from _nodes(settings, zk, paths)
        yield _clocks(zk, paths)
        yield from _consumers_clocks(zk, paths)
        yield from _plain_interfaces(settings, zk, paths)
        yield from _fleets(zk, paths)
        yield from _coordinators_clocks(zk, paths)


def _session(settings: Settings, zk: KazooZooKeeper) -> DoctorFinding:
    granted, asked = zk.session_timeout_s, settings.session_timeout_s
    if abs(granted - asked) < 1e-3:
        return good("ZooKeeper session", f"the server grants the time-out of {asked:g} s that is asked for")
    return warning(
        "ZooKeeper session",
        f"the server grants a time-out of {granted:g} s, and {asked:g} s are asked for: a death is noticed after {granted:g} s",
        "set session_timeout_s between the server's minSessionTimeout and maxSessionTimeout, or change these (2 and 20 ticks)",
    )


def _sizes(
    zk: KazooZooKeeper, paths: Paths, side: Side, takes: Callable[[int], Mapping[str, str]]
) -> Iterator[DoctorFinding]:
    """Yield the largest node of those that grow, and whether each server accepts a request large enough to write it.

    `takes`: server → whether it accepts a request of this number of bytes. A refusal closes the connection.
    """
    grow = (paths.assignments, paths.states, paths.configs, paths.fleets, paths.upgrades, paths.growths)
    folders = grow[:1] if side is Side.CONSUMER else grow
    wanted = [f"{folder}/{name}" for folder in folders for name in children(zk, folder)]
    denied: dict[str, CoordinatorError] = {}
    sizes = {path: len(node.data) for path, node in find_many(zk, {path: path for path in wanted}, denied).items()}
    if denied:
        named = "; ".join(map(str, list(denied.values())[:_SHOWN]))
        more = f" ({len(denied)} of {len(wanted)} nodes)" if len(denied) > 1 else ""
        yield failure("ZooKeeper nodes", named + more, MEND)
    path, size = max(sizes.items(), key=lambda item: item[1], default=(paths.base, 0))
    said = f"the largest of {len(sizes)} nodes, {path}, has {size:,} bytes: {size / JUTE_BYTES:.0%} of jute.maxbuffer's default"
    needed = max(JUTE_BYTES, math.ceil(size / ROOMY))
    told = takes(needed)
    small = [server for server, answer in told.items() if answer == REFUSES]
    silent = [server for server, answer in told.items() if answer == NOT_TOLD]
    raised = bool(told) and set(told.values()) == {TAKES}
    if size < ROOMY * JUTE_BYTES or raised:
        yield good("ZooKeeper node sizes", said)
    else:
        mend = "split the topic's consumers over shorter ids, or raise jute.maxbuffer on all servers to the same value"
        yield warning("ZooKeeper node sizes", said, mend)
    check = "ZooKeeper jute.maxbuffer"
    if small:
        yield warning(
            check,
            f"{shown(small)} hangs up on a request of {needed:,} bytes: its jute.maxbuffer is smaller",
            f"start all servers with the same -Djute.maxbuffer, of {needed:,} or more (SERVER_JVMFLAGS)",
        )
    elif len(silent) < len(told):
        more = f"; {shown(silent)} does not tell" if silent else ""
        yield good(check, f"each server takes a request of {needed:,} bytes{more}")
    else:
        yield good(check, "not told: the servers take no connection but the session's")


def _nodes(settings: Settings, zk: KazooZooKeeper, paths: Paths) -> Iterator[DoctorFinding]:
    if not settings.zookeeper_access.closes_nodes:
        return
    count, problems = wrong_access_lists(zk, paths.base)
    if not problems:
        yield good("ZooKeeper nodes", f"all {count} nodes have their access lists")
        return
    more = f" ({len(problems)} of {count} nodes)" if len(problems) > 1 else ""
    yield failure("ZooKeeper nodes", "; ".join(problems[:_SHOWN]) + more, MEND)


def _clocks(zk: KazooZooKeeper, paths: Paths) -> DoctorFinding:
    """Compare our clock with the server's time stamp on a new node."""
    zk.ensure(paths.base)
    path = f"{paths.base}/doctor-{zk.session_id:x}"
    before = time.time()
    zk.transact([Create(path, ephemeral=True)])
    at, after = zk.get(path).stat.created_at, time.time()
    zk.transact([Delete(path)])
    apart = max(before - at, at - after, 0.0)
    if apart <= CLOCKS_S:
        return good("clocks", f"this host and ZooKeeper are at most {CLOCKS_S:g} s apart")
    says = (
        f"this host and ZooKeeper are {apart:.1f} s apart: waiting times, and the registry in a folder, count wrongly"
    )
    return warning("clocks", says, "synchronize the clocks (NTP) of all hosts")


def _consumers_clocks(zk: KazooZooKeeper, paths: Paths) -> Iterator[DoctorFinding]:
    """Compare clocks by each consumer's last registration: the claim has the consumer's time, the node ZooKeeper's."""
    members = find_many(zk, _members(zk, paths), {})
    apart: dict[str, float] = {}
    for name, node in find_many(zk, {name: paths.id(name) for name in members}, {}).items():
        with suppress(Malformed):  # `status` reports the unreadable node
            claim = decode_claim(paths.id(name), node.data, name, node.stat.version)
            if claim.registrations:
                apart[name] = claim.registrations[-1] - members[name].stat.created_at
    wrong = sorted(name for name, seconds in apart.items() if abs(seconds) > CLOCKS_S)
    if not wrong:
        if apart:
            says = f"the hosts of {counted(len(apart), 'consumer')} and ZooKeeper are at most {CLOCKS_S:g} s apart"
            yield good("consumers' clocks", says)
        return
    said = "; ".join(f"{name} is {_off(apart[name])}" for name in wrong[:_SHOWN])
    more = f" ({len(wrong)} of {len(apart)} consumers)" if len(wrong) > _SHOWN else ""
    mend = "synchronize the clocks (NTP) of all hosts"
    yield warning("consumers' clocks", f"by ZooKeeper's clock {said}{more}", mend)


def _plain_interfaces(settings: Settings, zk: KazooZooKeeper, paths: Paths) -> Iterator[DoctorFinding]:
    """Yield consumers with plain http, if the site has an authority for the consumers' interfaces."""
    if not settings.status_ca:
        return
    check = "consumers' TLS"
    plain = _plain_consumers(zk, paths)
    if plain and settings.https_only:
        says = f"{shown(plain)}: plain http is registered, and is sent nothing; plans wait for what they do not confirm"
        yield failure(check, says, f"give them {_TLS}, and restart one after the other")
    elif plain:
        says = f"{shown(plain)}: the status token goes there in clear (status_http is allowed)"
        yield warning(check, says, f"give them {_TLS}, then remove status_http and change the token")
    elif not settings.https_only:
        says = "every consumer has https, and status_http still lets plain http have the status token"
        yield warning(check, says, "remove status_http, and change the token")
    else:
        yield good(check, "every registered consumer has https")


def _members(zk: KazooZooKeeper, paths: Paths) -> dict[str, str]:
    return {name: paths.member(name) for name in children(zk, paths.members) if is_consumer(name)}


def _plain_consumers(zk: KazooZooKeeper, paths: Paths) -> list[str]:
    # `status` reports unreadable nodes.
    members = find_decoded(
        zk, _members(zk, paths), lambda at, node: decode_member(at, node.data, node.stat.created_at), {}
    )
    return sorted(name for name, one in members.items() if is_plain(one.address))


def _fleets(zk: KazooZooKeeper, paths: Paths) -> Iterator[DoctorFinding]:
    """Yield a finding for each fleet: whether it shares topics with another fleet."""
    found = []
    nodes = find_many(zk, {app: paths.fleet(app) for app in filter(is_app, children(zk, paths.fleets))}, {})
    for app, node in nodes.items():
        with suppress(Malformed):  # `fleet` reports the unreadable node
            found.append(decode_fleet(paths.fleet(app), node.data, app, node.stat.version))
    wrong = list(conflicts(found, children(zk, paths.configs)).values())
    check = "fleets' topics"
    if wrong:
        more = f" ({len(wrong)} of {counted(len(found), 'fleet')})" if len(wrong) > _SHOWN else ""
        says = "; ".join(text for text, _ in wrong[:_SHOWN]) + more
        yield warning(check, says, "give each fleet topics of its own, as an argument: --topics=orders,clicks-.*")
    elif found:
        yield good(check, f"no topic is taken by two of {counted(len(found), 'fleet')}")


def _coordinators_clocks(zk: KazooZooKeeper, paths: Paths) -> Iterator[DoctorFinding]:
    """Compare the clocks of hosts that plan (Airflow's workers, or the plain loop's host) by each topic's newest
    history record.

    The record has the planner's time of the observation. Its node has ZooKeeper's time of the write.
    """
    topics = [name for name in children(zk, paths.histories) if is_topic(name)][:_MOST_HISTORIES]
    newest: dict[str, str] = {}
    for topic in topics:
        with suppress(NoAccess):  # the check of the access lists reports the missing right
            newest[topic] = max(numbered(zk, paths.history(topic)), default="")
    wanted = {topic: f"{paths.history(topic)}/{name}" for topic, name in newest.items() if name}
    apart: dict[str, float] = {}
    for topic, node in find_many(zk, wanted, {}).items():
        with suppress(Malformed):  # `history` reports the unreadable node
            record = decode_record(wanted[topic], node.data, int(newest[topic]))
            one = record.actor.run or record.actor.who or record.actor.kind
            who = f"{one[:_MOST_CHARS]!r}, who was the last to change {topic},"
            apart[who] = record.at - node.stat.created_at
    wrong = {who: s for who, s in apart.items() if not -WRITTEN_LATE_S <= s <= CLOCKS_S}
    if apart and not wrong:
        says = f"who has planned {counted(len(apart), 'topic')} last agrees with ZooKeeper's clock"
        yield good("coordinators' clocks", says)
    if wrong:
        first = sorted(wrong.items(), key=lambda item: -abs(item[1]))[:_SHOWN]
        said = "; ".join(f"{who} was {_off(s)}" for who, s in first)
        mend = "synchronize the clocks (NTP) of the hosts of Airflow's workers, or of the plain loop"
        yield warning("coordinators' clocks", f"by ZooKeeper's clock {said}", mend)


def _off(seconds: float) -> str:
    return f"{abs(seconds):.1f} s {'ahead' if seconds > 0 else 'behind'}"


def changed_at(zk: KazooZooKeeper, paths: Paths) -> dict[str, float]:
    """Return for each asset of Airflow's watcher when a watched node was last written, by ZooKeeper's clock.

    A deletion leaves no time, so the last change may be later than the result.
    """
    folders = {"topics": (paths.configs, paths.directives), "fleet": (paths.fleets,)}
    found = {}
    for asset, watched in folders.items():
        names = [f"{folder}/{name}" for folder in watched for name in children(zk, folder)]
        times = [node.stat.modified_at for node in find_many(zk, {path: path for path in names}, {}).values()]
        if times:
            found[asset] = max(times)
    return found


def idle_for(zk: KazooZooKeeper, paths: Paths) -> dict[str, float]:
    """Return managed topic without any owner → for how many seconds at least. Unreadable topics are left out."""
    paths_of = {name: paths.topic(name) for name in children(zk, paths.assignments) if is_topic(name)}
    found, now = {}, time.time()
    for name, node in find_many(zk, paths_of, {}).items():
        with suppress(Malformed):  # `topics` reports the unreadable node
            if node.data and not (one := decode_node(paths_of[name], node.data)).assignments and not one.removed:
                found[name] = max(0.0, now - node.stat.modified_at)
    return found


def managed(zk: KazooZooKeeper, paths: Paths, side: Side) -> dict[str, TopicConfig | TopicNode]:
    """Return topic → its configuration or its node, whichever this side may read. Unreadable topics are left out."""
    found: dict[str, TopicConfig | TopicNode] = {}
    folder = paths.configs if side is Side.COORDINATOR else paths.assignments
    decode = decode_config if side is Side.COORDINATOR else decode_node
    paths_of = {name: f"{folder}/{name}" for name in children(zk, folder) if is_topic(name)}
    for name, node in find_many(zk, paths_of, {}).items():
        with suppress(Malformed):  # `topics` reports the unreadable node
            if node.data and not (one := decode(paths_of[name], node.data)).removed:
                found[name] = one
    return found
