"""All checks of one side.

The checks only read, with two exceptions: they create a node in ZooKeeper to learn the server's time, and delete it at
once; and if the fence is transactional, they register a transactional id in Kafka.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress

from coordinator_tasks.adapters.server_versions import zookeeper_versions
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.protocol.kafka_rights import Side
from coordinator_tasks.core.protocol.znodes import children
from coordinator_tasks.doctor import kafka, zookeeper
from coordinator_tasks.doctor.airflow import ClusterFacts
from coordinator_tasks.doctor.findings import DoctorFinding, broken, failure, good, servers, warning
from coordinator_tasks.installed import Installed, installed
from coordinator_tasks.java import ADVICE, JavaUnavailable, find_java
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import connect_zookeeper

OLDEST = {"pyspark": "3.5", "pyspark-client": "4.0", "apache-airflow": "3.2"}
"""The oldest supported versions, as in pyproject.toml."""


def examine(settings: Settings, side: Side, topics: Mapping[str, str] | None = None) -> Iterator[DoctorFinding]:
    """Yield the findings of all checks of a side. `topics`: topic → group, in addition to the managed topics."""
    yield good("settings", f"cluster {settings.cluster}, examined as {side}")
    yield from _clients(installed())
    yield _java()
    yield from _tokens(settings)
    found, ids, idle, known = dict(topics or {}), dict[str, str](), dict[str, float](), False
    try:
        zk = connect_zookeeper(settings)
    except CoordinatorError as error:
        yield broken("ZooKeeper", error)
    else:
        try:
            yield good("ZooKeeper", f"{settings.zookeeper} answers; {zookeeper.account(settings)}")
            yield servers("ZooKeeper versions", zookeeper_versions(settings.zookeeper, settings.zookeeper_access))
            yield from zookeeper.examine(settings, side, zk)
            paths = Paths(settings.cluster)
            managed = zookeeper.managed(zk, paths, side)
            found = {name: one.group_id for name, one in managed.items()} | found
            ids = {name: one.topic_id for name, one in managed.items()}
            idle = zookeeper.idle_for(zk, paths)
            known = True
        except CoordinatorError as error:
            yield broken("ZooKeeper folders", error)
        finally:
            zk.close()
    yield from kafka.examine(settings, side, found, idle, ids, known=known)


def airflow_site(settings: Settings) -> ClusterFacts:
    """Return ZooKeeper's facts for the checks of Airflow. Other checks report unreadable nodes."""
    needed = ["approve_plan"] if settings.budget.is_set else []
    paths = Paths(settings.cluster)
    with suppress(CoordinatorError), closing(connect_zookeeper(settings)) as zk:
        # A site with a budget needs `approve_plan`. A fleet with limits of growth needs `autoscale`.
        grows = ["autoscale"] if children(zk, paths.growths) else []
        return ClusterFacts([*needed, *grows], zookeeper.changed_at(zk, paths))
    return ClusterFacts(needed)


def _clients(found: Installed) -> Iterator[DoctorFinding]:
    packages = ", ".join(f"{name} {version}" for name, version in sorted(found.packages.items()))
    says = f"coordinator {found.coordinator}, Python {found.python}, {packages}"
    old = {
        name: least
        for name, least in OLDEST.items()
        if name in found.packages and _number(found.packages[name]) < _number(least)
    }
    if not old:
        yield good("installed here", says)
        return
    names = " and ".join(f"{name} {found.packages[name]}" for name in old)
    wanted = ", ".join(f"{name} {least}" for name, least in old.items())
    mend = f"install {wanted} or newer here: docs/versions.md says what was tried"
    yield failure("installed here", f"{says}: {names} cannot run what we need", mend)


def _number(version: str) -> tuple[int, ...]:
    """Return the first two parts of a version. A part that is not a number counts as 0."""
    parts = [*version.split("."), "0"][:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


def _java() -> DoctorFinding:
    try:
        java = find_java()
    except JavaUnavailable as error:
        says = f"{error.says}; consumers without Spark, and the coordinator, need none"
        return warning("Java", says, f"for consumers with Spark {ADVICE}")
    return good("Java", f"Java {java.version} in {java.home}")


def _tokens(settings: Settings) -> Iterator[DoctorFinding]:
    if settings.status_token or settings.status_token_file:
        clear = "" if settings.status_ca else "; without status_ca it goes in clear to a consumer that registers http"
        yield good("status token", f"consumers' interfaces ask for it{clear}")
        return
    yield warning(
        "status token",
        "none is set: a consumer shows its status to its whole host, and takes no topic node when it has lost ZooKeeper",
        "set status_token or status_token_file, the same for coordinator and consumers",
    )
