"""Checks of a fleet's values: settings of pipelines, Spark settings, variables, paths.

A fleet refers to the site's databases and registries by name. The host's settings hold each address together with its
secrets, so a fleet can send no secret to another address. A pattern of the site never matches a name that loads code,
reads files or logs in. To allow such a name, a site has to write the whole name.
"""

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

SQLITE = "sqlite:///"
SQLITE_ENDINGS = (".sqlite", ".sqlite3", ".db")
DATABASE, REGISTRY, AUDIT_FOLDER = "database", "schemaRegistry", "auditFolder"
ON_ERROR = ("onError", "onErrorShare", "onErrorPerMinute")
OWN_SETTINGS = (AUDIT_FOLDER, DATABASE, REGISTRY, "delivery", "records", *ON_ERROR)
"""Settings of our own pipelines. Each has a check of its value."""
REGISTRY_LOG_IN = ("schemaRegistryUser", "schemaRegistryPassword")
NAMED = {DATABASE: "databases", REGISTRY: "registries"}
"""Setting of a pipeline → the group of the host's settings that has the addresses."""
PRIVATE_PREFIXES = ("AIRFLOW", "_AIRFLOW", "COORDINATOR_")
"""Prefixes of variables that a consumer does not inherit from its launcher: secrets, and settings of other clusters."""
_LOG_IN_PREFIXES = (*PRIVATE_PREFIXES, "ASSIGNED_KAFKA_")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SIMPLE = re.compile(r"[A-Za-z0-9_.,:/+-]{0,200}")
"""A number, a size, a time or a zone. There is no blank, and no `${...}`, which Spark replaces by the host's variables.
"""
_LOCALE = re.compile(r"[A-Za-z0-9_.@-]{0,64}")
_ZONE = re.compile(r"[A-Za-z0-9_+<>][A-Za-z0-9_+<>,./:-]{0,63}")
_RISKY_CONF = re.compile(
    "account|archive|artifact|auth|catalog|class|cmd|codec|command|conf|credential|decommission|dir|env|executable|extension|"
    "extra|factory|file|hadoop|handler|hive|host|image|impl|interceptor|ivy|jar|java|kerberos|key|library|listener|location|"
    "log|manager|master|metrics|namespace|opts|options|package|path|plugin|principal|provider|proxy|python|repositor|resource|script|"
    "acls|api\\.|bind|redaction|remote|ui\\.|secret|serializer|service|shell|sink|ssl|storage|submit|template|token|uri|url|volume|worker"
)
_RISKY_VARIABLE = re.compile(
    r"_?(AWS|AZURE|BASH|CDPATH|CLASSPATH|CURL|DYLD|ENV$|GCONV|GIT|GLIBC|GOOGLE|HADOOP|HIVE|HOME$|HOSTALIASES|IFS$|JAVA|JDK|JVM|KRB5|LD_|"
    r"KUBE|LOCALDOMAIN|NETRC|R_|SASL|LOCPATH|LOG4J|MALLOC|NLSPATH|NM_HOST|NODE_|OPENLINEAGE|OPENSSL|PATH$|PERL|PG|PIP_|PS4$|PYSPARK|PYTHON|REQUESTS|RES_|RUBY|SHELL|SPARK|"
    r"SSL|SSH|TMP|TEMP|TZDIR|XDG|YARN)|.*(CERT|PROXY|PRELOAD|_OPTS|OPTIONS)"
)


def conf_is_allowed(name: str, patterns: list[str]) -> bool:
    """Return whether a site's patterns allow a Spark setting that is not on the harmless list."""
    return _is_allowed(name, patterns, risky=_RISKY_CONF.search(name.removeprefix("spark.").lower()) is not None)


def variable_is_allowed(name: str, patterns: list[str]) -> bool:
    """Return whether a site's patterns allow a variable. None allows a variable that says where a consumer logs in."""
    if name.upper().startswith(_LOG_IN_PREFIXES):
        return False
    return _is_allowed(name, patterns, risky=_RISKY_VARIABLE.match(name.upper()) is not None)


def _is_allowed(name: str, patterns: list[str], *, risky: bool) -> bool:
    return name in patterns or (not risky and any(fnmatchcase(name, pattern) for pattern in patterns))


def conf_problem(value: str, *, harmless: bool) -> str:
    """Return why Spark must not get this value; empty if it may."""
    if harmless and not _SIMPLE.fullmatch(value):
        return "its value is no number, size, time or word; give one such as 4g"
    if "${" in value:
        return "its value has ${...}, which Spark replaces by variables of the host; write the value itself"
    return ""


def variable_problem(name: str, value: str) -> str:
    """Return why a consumer must not get this value of `TZ`, `LANG` or `LC_*`; empty if it may."""
    if name == "TZ" and (not _ZONE.fullmatch(value) or ".." in value):
        return "its value is no time zone; give one such as Europe/Berlin"
    if (name == "LANG" or name.startswith("LC_")) and not _LOCALE.fullmatch(value):
        return "its value is no locale; give one such as C.UTF-8"
    return ""


def setting_problem(name: str, value: str, folders: list[str]) -> str:
    """Return why a fleet must not set this value of a setting of our own pipelines; empty if it may."""
    if name in REGISTRY_LOG_IN:
        return f"a registry's user and password stand with its address: {_write_the_name(REGISTRY)}"
    if name == AUDIT_FOLDER:
        return path_problem(value, folders)
    if name not in NAMED or _NAME.fullmatch(value):
        return ""
    if name == DATABASE and value.startswith(SQLITE):
        path = value.removeprefix(SQLITE)
        if not path.endswith(SQLITE_ENDINGS):
            return f"the file of a SQLite database ends in {', '.join(SQLITE_ENDINGS)}; name another one"
        return path_problem(path, folders)
    return f"a fleet gives no address, since the host's log-in would follow it there: {_write_the_name(name)}"


def path_problem(path: str, folders: list[str]) -> str:
    """Return why a fleet may not name this path; empty if it is below a folder of the site, links resolved."""
    where = "allowed.folders (COORDINATOR_ALLOWED_FOLDERS) where consumers are launched"
    if not path.startswith("/") or not path.isprintable() or ".." in path.split("/"):
        return f"it is no path from the root without '..'; name one below a folder of {where}"
    real = Path(os.path.realpath(path))
    bases = {Path(os.path.realpath(folder)) for folder in folders if folder.startswith("/")} - {Path("/")}
    if any(real.is_relative_to(base) and real != base for base in bases):
        return ""
    return f"it lies below no folder that this site gives to fleets; name one below them, or add one to {where}"


def _write_the_name(setting: str) -> str:
    group = NAMED[setting]
    return (
        f"write {setting}=NAME, and the address with its log-in as {group}.NAME (COORDINATOR_{group.upper()}_NAME) "
        "where consumers are launched"
    )
