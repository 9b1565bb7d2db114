"""The settings of one cluster, from a file and the environment: the only place for secrets.

The file is JSON, `{"cluster": ..., "zookeeper": ..., "kafka": {"bootstrap.servers": ...}, ...}`, and only its owner may
read it. `COORDINATOR_SETTINGS` names the file, or else `COORDINATOR_SETTINGS_SECRET` holds its content (a Kubernetes
Secret in a pod). These variables take precedence over the file:

- `COORDINATOR_<FIELD>`: a field.
- `COORDINATOR_KAFKA_<PROPERTY>`: a property of librdkafka, with `_` for `.`.
- `COORDINATOR_PARAMETER_<NAME>`: a parameter of the cluster's strategy, with `_` for `.`.
- `COORDINATOR_STRATEGIES_<NAME>`: a strategy of the site.
- `COORDINATOR_ZOOKEEPER_<FIELD>`: a field of `ZooKeeperAccess`. In the same way, `POLICY`, `ALLOWED` and `BUDGET` stand
  for fields of `Policy`, `AllowedLaunches` and `Budget`.
- `COORDINATOR_DATABASES_<NAME>`, `COORDINATOR_REGISTRIES_<NAME>`: an address that a fleet may name.
- `COORDINATOR_CONSUMER_ZOOKEEPER_<FIELD>`, `COORDINATOR_CONSUMER_KAFKA_<PROPERTY>`: for consumers launched here.

No library reads the values: msgspec 0.22 takes negative numbers, `nan` and unknown fields; pydantic-settings 2.16 takes
200 ms more for each start, and shows passwords in errors.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.addresses import kafka_address, zookeeper_address
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.errors import BadSettings
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.names import check_cluster
from coordinator_tasks.core.text.json_fields import read_json
from coordinator_tasks.links import why_no_template
from coordinator_tasks.log_format import LogFormat
from coordinator_tasks.private_files import read_private
from coordinator_tasks.status_tokens import is_token
from coordinator_tasks.tls_files import TlsFiles

PREFIX = "COORDINATOR_"
CONTENT_VARIABLE = PREFIX + "SETTINGS_SECRET"
FILE_DISCOVERY = "file:"
HTTP_ALLOWED = "allowed"
TOKEN_FENCE, TRANSACTIONAL_FENCE = "token", "transactional"


@dataclass(frozen=True, slots=True)
class Settings:
    """The addresses of a cluster's servers, and how they are used."""

    cluster: str
    """The cluster's name and folder in ZooKeeper."""
    zookeeper: str
    """Servers, `host:port,host:port`, followed by `/folder` if the cluster is not at the root (a chroot)."""
    kafka: Mapping[str, str] = field(repr=False)
    """Settings of librdkafka, with `_` for `.` in the environment. `bootstrap.servers` is required: any
    listener of the same Kafka, so consumers may have different listeners.
    """
    discovery: str = "zookeeper"
    """Where consumers register: in ZooKeeper, or in a shared folder, `file:/path/of/folder`."""
    status_token: str = field(default="", repr=False)
    """The token that the coordinator sends and the consumers' interfaces require; empty = they accept no topic node."""
    status_token_file: str = ""
    """Instead of `status_token`: a file of mode 0600 with one token in each line. A changed file is read again."""
    status_certificate: str = ""
    """File in PEM: the certificate with which a consumer's interface serves HTTPS."""
    status_key: str = ""
    """File in PEM, with the certificate's key."""
    status_key_password: str = field(default="", repr=False)
    """Pass phrase of an encrypted key."""
    status_ca: str = ""
    """File in PEM: authorities of the consumers' certificates; empty = the authorities of certifi. With
    `status_ca`, the coordinator sends nothing to a consumer that registers plain http.
    """
    status_http: str = ""
    """`allowed` = despite `status_ca`, the coordinator also sends requests to consumers with plain http, with the token
    in clear. Use this only while consumers change to TLS.
    """
    zookeeper_access: ZooKeeperAccess = field(default_factory=ZooKeeperAccess)
    session_timeout_s: float = 10.0
    """Time-out of the session in ZooKeeper; a consumer without a session is not registered."""
    answer_timeout_s: float = 10.0
    """How long ZooKeeper and Kafka may take to answer a request; a consumer's own requests to Kafka have 2 s."""
    ask_timeout_s: float = 2.0
    """How long a consumer's interface may take to answer."""
    fence: str = TOKEN_FENCE
    """The fence against commits of a former owner: `token` (the owner notices such a commit and commits again)
    or `transactional` (Kafka refuses the commit). Must be the same for all consumers of a cluster.
    """
    log_format: str = ""
    """`text` (also if empty) or `json`: how log lines of consumers, launcher and command line are written."""
    log_url: str = ""
    """The address of a driver's log with placeholders, as a link on the pages; empty = no link."""
    strategy: str = "balanced"
    """The strategy of topics that set no strategy."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the cluster's strategy, with `_` for `.` in the environment."""
    strategies: Mapping[str, str] = field(default_factory=dict)
    """Strategies of the site, name and `package.module:callable`."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rules of the site for upgrades, name and `package.module:callable`."""
    registry_ttl_s: float = 10.0
    """With the registry in a folder: how long a registration counts without renewal."""
    policy: Policy = field(default_factory=Policy)
    allowed: AllowedLaunches = field(default_factory=AllowedLaunches)
    budget: Budget = field(default_factory=Budget)
    consumer_zookeeper: Mapping[str, str] = field(default_factory=dict, repr=False)
    """ZooKeeper credentials for launched consumers: fields of `zookeeper_access`."""
    consumer_kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of librdkafka for launched consumers, replacing the coordinator's settings of the same name."""
    databases: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Databases for pipelines (`database=NAME`): name and address, with the log-in."""
    registries: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Schema registries for pipelines (`schemaRegistry=NAME`): name and address, `https://<user>:<password>@host`."""

    def __post_init__(self) -> None:
        check_cluster(self.cluster)
        if not is_token(self.status_token):
            raise BadSettings(
                "the status token has a character that an HTTP header does not take, such as a line break; "
                "set `status_token` to visible ASCII characters"
            )
        if self.status_token and self.status_token_file:
            raise BadSettings("both status_token and status_token_file are set; set one of them")
        if self.status_http not in ("", HTTP_ALLOWED):
            raise BadSettings(f"status_http is {self.status_http[:40]!r}; set it to {HTTP_ALLOWED}, or leave it out")
        # Each process may have another working directory, so the folder must be absolute.
        if self.discovery != "zookeeper" and not self.discovery.startswith(f"{FILE_DISCOVERY}/"):
            raise BadSettings(
                f"{self.discovery!r} is no registry; set `discovery` to zookeeper or file:/path/of/folder, from the root on"
            )
        if self.fence not in (TOKEN_FENCE, TRANSACTIONAL_FENCE):
            raise BadSettings(f"{self.fence!r} is no fence; set `fence` to {TOKEN_FENCE} or {TRANSACTIONAL_FENCE}")
        if self.log_format not in ("", *LogFormat):
            raise BadSettings(f"{self.log_format!r} is no format of log lines; set `log_format` to text or json")
        if self.log_url and (problem := why_no_template(self.log_url)):
            raise BadSettings(f"the setting log_url is {self.log_url[:80]!r}: {problem}")

    @property
    def https_only(self) -> bool:
        """Return whether nothing is sent to consumers with plain http."""
        return bool(self.status_ca) and self.status_http != HTTP_ALLOWED

    @property
    def interface_tls(self) -> TlsFiles:
        served = (self.status_certificate, self.status_key, self.status_key_password)
        return TlsFiles("status_", "the consumer's interface over TLS", "", *served)


_STATUS_FIELDS = {one.name for one in fields(Settings) if one.name.startswith("status_")}
_OWN_FIELDS = {"cluster", "zookeeper", "discovery", "fence", "log_format", "log_url", "strategy"} | _STATUS_FIELDS
_TIMES = {"session_timeout_s", "answer_timeout_s", "ask_timeout_s", "registry_ttl_s"}
_NAMED_PLACES = ("databases", "registries")
"""A consumer of 0.2.0 refuses these fields, so empty fields are left out."""
_TEXTS = ("kafka", "parameters", "strategies", "rules", "consumer_zookeeper", "consumer_kafka", *_NAMED_PLACES)
_OBJECTS = {"zookeeper_access": ZooKeeperAccess(), "policy": Policy(), "allowed": AllowedLaunches(), "budget": Budget()}
_GROUPS = {*_OBJECTS, *_TEXTS}
_PREFIXES = {"zookeeper_access": "ZOOKEEPER", "parameters": "PARAMETER"}
"""Groups whose variables do not begin with the group's name."""
_DOTTED = ("kafka", "parameters", "consumer_kafka")
"""Groups whose names have `.` where the variables have `_`."""
_OF_LAUNCHERS = ("consumer_zookeeper", "consumer_kafka", "allowed", "rules", "budget", "log_url", "status_http")
_MADE_BY_WIRING = {"strategies"}  # fields of `Policy` that are not settings
_OF_COORDINATOR = {"history_bytes", "lag_partitions"}
"""Fields of `Policy` that a consumer of an earlier release would refuse."""


def settings_from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings. Raises `BadSettings`, which names the missing, unknown or unsafe setting."""
    path = environ.get(PREFIX + "SETTINGS", "")
    content = environ.get(CONTENT_VARIABLE, "")
    given = read_settings_file(Path(path)) if path else _object(content, CONTENT_VARIABLE) if content else {}
    for name in _OWN_FIELDS | _TIMES:
        if PREFIX + name.upper() in environ:
            given[name] = environ[PREFIX + name.upper()]
    from_environment = {
        name: _group(environ, f"{_PREFIXES.get(name, name.upper())}_", dots=name in _DOTTED) for name in _GROUPS
    }
    _check_groups(given)
    groups = {name: {**(given.get(name) or {}), **more} for name, more in from_environment.items()}
    return settings_of({**given, **groups})


def of_the_host(environ: Mapping[str, str] = os.environ) -> dict[str, dict[str, str]]:
    """Return the environment's fields of `allowed` and `budget`, and the addresses of databases and registries."""
    return {name: _group(environ, f"{name.upper()}_") for name in ("allowed", "budget", *_NAMED_PLACES)}


def read_settings_file(path: Path) -> dict[str, Any]:
    """Return the object in a settings file. Raises `BadSettings`, also if another user owns the file or may read it."""
    try:
        text = read_private(path, "the settings file")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"the settings file {path} cannot be read: {error}; check COORDINATOR_SETTINGS") from error
    return _object(text, f"the settings file {path}")


def _object(text: str, origin: str) -> dict[str, Any]:
    try:
        data = read_json(text, once=True)
    except ValueError as error:
        raise BadSettings(f"{origin} is not JSON: {error}; correct it") from error
    if not isinstance(data, dict):
        raise BadSettings(f"{origin} holds no JSON object; write one as the documentation shows")
    return data


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Return the settings from strings or JSON values; null means not given. Raises `BadSettings` with the field's
    name.
    """
    unknown = sorted(given.keys() - _OWN_FIELDS - _TIMES - _GROUPS)
    if unknown:
        raise BadSettings(
            f"the settings have no field {unknown[0]!r}; the known ones are {sorted(_OWN_FIELDS | _TIMES | _GROUPS)}"
        )
    _check_groups(given)
    given = _present(given)
    found: dict[str, Any] = {"cluster": "", "zookeeper": ""}
    found |= {name: _text(name, given[name]) for name in _OWN_FIELDS if name in given}
    found |= {name: _texts(name, given.get(name, {})) for name in _TEXTS}
    found |= {name: _converted(name, given[name], 0.0) for name in _TIMES if name in given}
    found |= {name: _dataclass(default, name, given.get(name, {})) for name, default in _OBJECTS.items()}
    found["zookeeper"] = zookeeper_address(found["zookeeper"])
    found["kafka"]["bootstrap.servers"] = kafka_address(found["kafka"].get("bootstrap.servers", ""))
    return Settings(**found)


def _present(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _texts(group: str, given: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): _in_one(f"{group}.{key}", value) for key, value in _present(given).items()}


def _in_one(name: str, value: object) -> str:
    """Return the value as a text. The texts of a list are joined with `;`."""
    if not isinstance(value, list):
        return _text(name, value)
    if not all(isinstance(one, str) for one in value):
        raise BadSettings(f"the setting {name} is a list with something else than texts; write each of them in quotes")
    return _text(name, ";".join(value))


def _text(name: str, value: object) -> str:
    """Return the value as a text that ZooKeeper and Kafka accept. `BadSettings` omits it, as it may be a secret."""
    if isinstance(value, list | Mapping):
        kind = "a list" if isinstance(value, list) else "an object"
        raise BadSettings(f"the setting {name} is {kind}, and a single value is wanted; write one in quotes")
    text = str(value)
    if "\0" in text or text != text.encode(errors="replace").decode():
        raise BadSettings(f"the setting {name} has a byte that is not UTF-8, or a NUL; correct it")
    return text


def for_consumers(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a consumer launched from here, as plain data; raises `BadSettings`.

    If consumers have an account of their own, a consumer never gets the coordinator's account.
    """
    settings = settings_of(plain)
    if settings.zookeeper_access.consumers and not settings.consumer_zookeeper:
        raise BadSettings(
            "zookeeper_access.consumers names other accounts for consumers, and this one launches consumers; "
            "set consumer_zookeeper to what they log in with"
        )
    given = {
        name: value
        for name, value in plain.items()
        if name not in _OF_LAUNCHERS and (value or name not in _NAMED_PLACES)
    }
    if settings.consumer_zookeeper:
        given["zookeeper_access"] = dict(settings.consumer_zookeeper)
    if given.get("policy"):
        given["policy"] = {name: value for name, value in given["policy"].items() if name not in _OF_COORDINATOR}
    given["kafka"] = {**settings.kafka, **settings.consumer_kafka}
    settings_of(given)
    return given


def plain_settings(settings: Settings) -> dict[str, Any]:
    """Return a consumer's settings with all secrets, as in a settings file. For files of mode 0600 only."""
    found, left_out = asdict(settings), _MADE_BY_WIRING | _OF_COORDINATOR
    found["policy"] = {name: value for name, value in found["policy"].items() if name not in left_out}
    del found["allowed"], found["budget"], found["log_url"], found["status_http"]
    # A consumer of an earlier release refuses unknown fields.
    access = found["zookeeper_access"].items()
    found["zookeeper_access"] = {
        name: value for name, value in access if value or name not in ("consumers", "coordinator")
    }
    later = _STATUS_FIELDS | {"log_format", "consumer_zookeeper", "consumer_kafka", "rules", *_NAMED_PLACES}
    return {name: value for name, value in found.items() if value or name not in later}


def _check_groups(given: Mapping[str, Any]) -> None:
    for name in _GROUPS:
        if given.get(name) is not None and not isinstance(given[name], Mapping):
            raise BadSettings(f"the setting {name!r} is no object; write it as name and value pairs")


def _group(environ: Mapping[str, str], group: str, dots: bool = False) -> dict[str, str]:
    prefix = PREFIX + group
    names = {key: key.removeprefix(prefix).lower() for key in environ if key.startswith(prefix)}
    return {name.replace("_", ".") if dots else name: environ[key] for key, name in names.items()}


def _dataclass(default: Any, group: str, given: Mapping[str, Any]) -> Any:
    known = {one.name for one in fields(default)} - _MADE_BY_WIRING
    unknown = sorted(given.keys() - known)
    if unknown:
        raise BadSettings(f"{group} has no field {unknown[0]!r}; the known ones are {sorted(known)}")
    values = {
        name: _converted(f"{group}.{name}", value, getattr(default, name)) for name, value in _present(given).items()
    }
    return type(default)(**values)


def _converted(name: str, value: object, like: object) -> Any:
    """Return the value converted to the type of `like`. A number must be at least 0."""
    if isinstance(like, tuple) and isinstance(value, list | tuple):
        return tuple(_text(name, one).strip() for one in value)
    text = _text(name, value).strip()
    if isinstance(like, bool):
        if text.lower() in ("true", "yes", "1", "false", "no", "0"):
            return text.lower() in ("true", "yes", "1")
        raise BadSettings(f"the setting {name} is {text!r}, neither true nor false; correct it")
    if isinstance(like, tuple):
        return tuple(one.strip() for one in text.split(";")) if text else ()
    if not isinstance(like, int | float):
        return str(value)
    try:
        number = type(like)(text)
    except ValueError as error:
        raise BadSettings(f"the setting {name} is {text!r}, not a number; correct it") from error
    if not 0 <= number < 1e12:
        raise BadSettings(f"the setting {name} is {text!r}, not a number from 0 on; correct it")
    return number
