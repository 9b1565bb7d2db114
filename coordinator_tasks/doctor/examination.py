"""All checks of one side.

Only reads, but for one node of ZooKeeper that tells the server's time and is removed at once, and for the registration of
one transactional id of Kafka, where the fence is transactional.
"""

from collections.abc import Iterator, Mapping

from coordinator_tasks.adapters.server_versions import zookeeper_versions
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.kafka_rights import Side
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.znodes import children
from coordinator_tasks.doctor import kafka, zookeeper
from coordinator_tasks.doctor.findings import Finding, Result, broken, servers
from coordinator_tasks.installed import Installed, installed
from coordinator_tasks.java import JavaUnavailable, find_java
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import connect_zookeeper


def examine(settings: Settings, side: Side, topics: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """All checks of one side; `topics`: topic → group, besides those that are managed."""
    yield Finding("settings", Result.OK, f"cluster {settings.cluster}, examined as {side}")
    yield Finding("installed here", Result.OK, _clients(installed()))
    yield _java()
    yield from _tokens(settings)
    found = dict(topics or {})
    try:
        zk = connect_zookeeper(settings)
    except CoordinatorError as error:
        yield broken("ZooKeeper", error)
    else:
        try:
            yield Finding("ZooKeeper", Result.OK, f"{settings.zookeeper} answers; {zookeeper.account(settings)}")
            yield servers("ZooKeeper versions", zookeeper_versions(settings.zookeeper, settings.zookeeper_access))
            yield from zookeeper.examine(settings, side, zk)
            found = {**zookeeper.managed(zk, Paths(settings.cluster), side), **found}
        except CoordinatorError as error:
            yield broken("ZooKeeper folders", error)
        finally:
            zk.close()
    yield from kafka.examine(settings, side, found)


def dags_on_demand(settings: Settings) -> list[str]:
    """The further DAGs of Airflow that this cluster needs: for its budget, and for fleets with limits of growth.

    What cannot be read needs none here: the checks of ZooKeeper name it.
    """
    found = ["approve_plan"] if settings.budget.is_set else []
    try:
        zk = connect_zookeeper(settings)
    except CoordinatorError:
        return found
    try:
        return [*found, *(["autoscale"] if children(zk, Paths(settings.cluster).growths) else [])]
    except CoordinatorError:
        return found
    finally:
        zk.close()


def _clients(found: Installed) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in sorted(found.packages.items()))
    return f"coordinator {found.coordinator}, Python {found.python}, {packages}"


def _java() -> Finding:
    try:
        java = find_java()
    except JavaUnavailable as error:
        return Finding("Java", Result.WARNING, f"{error}; consumers without Spark, and the coordinator, need none")
    return Finding("Java", Result.OK, f"Java {java.version} in {java.home}")


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
