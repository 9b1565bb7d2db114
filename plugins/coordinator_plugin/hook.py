"""Makes the coordinator's settings from Airflow's connections.

ZooKeeper's connection: host (several separated by commas) and port, or the whole address in the host. The folder is in
the schema (the path of a URI), in the host, or as `chroot` in the extra. Login and password. The extra has any other
field of the settings: `discovery`, `status_token` and other fields `status_*`, `zookeeper_access`, `policy`, `fence`,
`strategy` with `parameters`, `strategies`, the limits.

Kafka's connection: host and port, or `bootstrap.servers` in the extra. Each name with a dot in the extra is a setting
of librdkafka (`security.protocol`, `sasl.mechanism`, `ssl.ca.location`, ...). Login and password are for SASL.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from coordinator_plugin.clusters import cluster as find_cluster
from coordinator_plugin.site_options import named
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.text.json_fields import read_json

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from coordinator_tasks.run_folder import RunFolder
    from coordinator_tasks.service.coordinator import Coordinator

_GROUPS = ("zookeeper_access", "policy", "parameters", "strategies")
_OWN_EXTRAS = frozenset({"chroot", "kafka"})
_OF_THE_HOST = {
    "allowed": "what may be launched",
    "budget": "what may move without approval",
    "databases": "where databases are",
    "registries": "where schema registries are",
}
"""Settings that are found only in the environment, with their meaning."""


class CoordinatorHook(BaseHook):
    """Opens the coordinator of one cluster. An empty `cluster` means the default cluster."""

    def __init__(self, cluster: str = "") -> None:
        super().__init__()
        self.cluster = find_cluster(cluster)

    def plain_settings(self) -> dict[str, Any]:
        """Return the settings as plain data, with all secrets. Only for files of mode 0600. Raises `Refused`."""
        from coordinator_tasks.settings import of_the_host  # noqa: PLC0415 - costs time to import

        zookeeper = self._connection(self.cluster.zookeeper_conn_id)
        kafka = self._connection(self.cluster.kafka_conn_id)
        own = {"cluster": self.cluster.name, "kafka": kafka_settings(kafka)}
        return {**zookeeper_settings(zookeeper), **own, **of_the_host()}

    def write_files(self, folder: "RunFolder") -> None:
        """Write the settings and Kafka's settings for a launched consumer, with the secrets, into its run folder."""
        from coordinator_tasks.run_folder import write_private  # noqa: PLC0415 - costs time to import
        from coordinator_tasks.settings import for_consumers  # noqa: PLC0415 - costs time to import

        plain = for_consumers(self.plain_settings())
        folder.make()
        write_private(folder.settings, plain)
        write_private(folder.kafka, plain["kafka"])

    def _connection(self, conn_id: str) -> "Connection":
        try:
            return self.get_connection(conn_id)
        except AirflowNotFoundException:
            raise Refused(
                f"cluster {self.cluster.name} is not configured in this Airflow, which has no connection {conn_id!r}: add the "
                f"connection under Admin, Connections, or name the clusters of this Airflow in {named('clusters')}"
            ) from None

    @contextmanager
    def open(self) -> "Iterator[Coordinator]":
        """Yield the coordinator for the duration of a task. Raises `Refused` with the name of a wrong setting."""
        with opened(self.plain_settings()) as coordinator:
            yield coordinator


def opened(plain: Mapping[str, Any]) -> "AbstractContextManager[Coordinator]":
    """Return the context of the coordinator with these settings."""
    from coordinator_tasks.settings import settings_of  # noqa: PLC0415 - costs time to import
    from coordinator_tasks.wiring import open_coordinator  # noqa: PLC0415 - connects, and costs time to import

    return open_coordinator(settings_of(plain))


def zookeeper_settings(connection: "Connection") -> dict[str, Any]:
    """Return the settings in a ZooKeeper connection. Raises `Refused`."""
    extra = _extra(connection)
    for name, says in _OF_THE_HOST.items():
        if name in extra:
            raise Refused(
                f"the connection {connection.conn_id!r} says {says}, and everybody who edits connections could change that; remove "
                f"`{name}` from its extra, and set COORDINATOR_{name.upper()}_... in the environment of Airflow's services"
            )
    own = {name: value for name, value in extra.items() if name not in _OWN_EXTRAS}
    for name in _GROUPS:
        group = extra.get(name, {})
        if not isinstance(group, Mapping):
            raise Refused(
                f"the connection {connection.conn_id!r} gives {name!r} as {type(group).__name__}; write it in the extra as an "
                "object in braces, or leave it out"
            )
        own[name] = _present(group)
    if connection.login:
        own["zookeeper_access"] = {
            "user": connection.login,
            "password": connection.password or "",
            **own["zookeeper_access"],
        }
    if "://" in (connection.host or ""):
        raise Refused(
            f"the host of the connection {connection.conn_id!r} is a URI; write host:port,host:port alone, or give the whole connection "
            "as a URI"
        )
    address = _addresses((connection.host or "").partition("/")[0], connection.port or 2181)
    if not address:
        raise Refused(f"the connection {connection.conn_id!r} has no host; set it to ZooKeeper's host:port")
    return {**own, "zookeeper": f"{address}{_folder(connection, extra)}"}


def _folder(connection: "Connection", extra: Mapping[str, Any]) -> str:
    """Return `/folder` from the host, the schema (the path of a URI) or the extra.

    Raises `Refused` if two of these places give a folder.
    """
    given = (
        (connection.host or "").partition("/")[2],
        connection.schema or "",
        _text(connection, "chroot", extra.get("chroot", "")).removeprefix("/"),
    )
    found = {one.rstrip("/") for one in given} - {""}
    if len(found) > 1:
        raise Refused(
            f"the connection {connection.conn_id!r} names two folders in ZooKeeper; leave one of them in its host, its schema (the path "
            "of a URI) or `chroot` in its extra"
        )
    return "".join(f"/{one}" for one in found)


def kafka_settings(connection: "Connection") -> dict[str, str]:
    """Return the librdkafka settings in a Kafka connection. Raises `Refused`."""
    settings = {name: _text(connection, name, value) for name, value in _extra(connection).items() if "." in name}
    if connection.schema:
        raise Refused(
            f"the connection {connection.conn_id!r} has a schema (the path of a URI), and Kafka has none; remove it"
        )
    settings.setdefault("bootstrap.servers", _addresses(connection.host or "", connection.port or 9092))
    if not settings["bootstrap.servers"]:
        raise Refused(f"the connection {connection.conn_id!r} has no host; set it to a Kafka broker's host:port")
    if connection.login and "sasl" in settings.get("security.protocol", "").lower():
        settings.setdefault("sasl.username", connection.login)
        settings.setdefault("sasl.password", connection.password or "")
    return settings


def _addresses(hosts: str, port: int) -> str:
    """Return `host:port,...`. A host without a port gets `port`."""
    return ",".join(_with_port(one.strip(), port) for one in hosts.split(",") if one.strip())


def _with_port(host: str, port: int) -> str:
    address = host.strip("[]")
    if host.endswith("]") or (host == address and host.count(":") > 1 and "://" not in host):
        return f"[{address}]:{port}"  # an IPv6 address, whose colons begin no port
    return host if ":" in host else f"{host}:{port}"


def _extra(connection: "Connection") -> dict[str, Any]:
    """Return the extra without nulls.

    Raises `Refused` for anything but an object, which Airflow would read as an empty extra.
    """
    why = ""
    try:
        if isinstance(read_json(connection.extra or "{}", once=True), dict):
            return _present(connection.extra_dejson)  # Airflow masks secrets in the extra
    except ValueError as error:
        why = f" ({error})"
    raise Refused(
        f"the extra of the connection {connection.conn_id!r} is no JSON object{why}; write it as names and values in braces, "
        "each name once"
    )


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not null. A null setting counts as absent."""
    return {name: value for name, value in given.items() if value is not None}


def _text(connection: "Connection", name: str, value: object) -> str:
    if isinstance(value, list | dict):
        raise Refused(
            f"the connection {connection.conn_id!r} gives {name!r} as {type(value).__name__}; write a single value in quotes"
        )
    return str(value).lower() if isinstance(value, bool) else str(value)
