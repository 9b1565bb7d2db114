"""The launches that a site permits: read from the settings of the host that launches, never from ZooKeeper.

Fleets are stored in ZooKeeper. An account with the right to write fleets must not choose the code on our hosts, or the
log-ins and output files of this code.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from coordinator_tasks import fleet_values
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.fleet.fetch_properties import checked
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.core.names import has_control

_PACKAGES = Path(__file__).absolute().parent.parent
OWN_APPLICATIONS = tuple(str(folder / "spark_apps" / "main.py") for folder in (_PACKAGES, _PACKAGES.resolve()))
OWN_CODE = "spark_apps.pipelines.*"
HARMLESS_CONF = (
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.cores",
    "spark.driver.maxResultSize",
    "spark.driver.memory",
    "spark.driver.memoryOverhead",
    "spark.dynamicAllocation.*",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.locality.wait*",
    "spark.network.timeout",
    "spark.scheduler.mode",
    "spark.sql.session.timeZone",
    "spark.sql.shuffle.partitions",
    "spark.task.cpus",
    "spark.task.maxFailures",
    "spark.ui.enabled",
    "spark.ui.port",
)
"""Settings for a consumer's resources and for display. None of them names code, files or other hosts."""

HARMLESS_ENVIRONMENT = ("LANG", "LC_*", "TZ")
PIPELINE_VARIABLE = "PIPELINE_"
_LOG_IN = ("--cluster", "--consumer", "--discovery", "--kafka", "--run-folder", "--settings", "--zookeeper")
_CODE = ("--default", "--interceptor", "--listener")
_CODE_FOR = ("--pattern", "--pipeline")
"""Arguments whose values name a topic, `=`, and then the code."""
_SET, _OPTION, _CHECKPOINTS, _ADVERTISE = "--set", "--option", "--checkpoints", "--advertise"
_OTHERS = ("--listen", _SET)
"""Arguments whose names begin like an argument above."""
_CONF_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}")
_OWN_HOST = ("host", "address")
"""Values of `--advertise` that stand for the consumer's own host."""


@dataclass(frozen=True, slots=True)
class AllowedLaunches:
    """Patterns with `*`, separated by commas: what a fleet may name in addition to the lists above."""

    applications: str = ""
    """Paths of applications for fleets, besides our own `spark_apps/main.py`; `*` stands for anything but `/`."""
    code: str = ""
    """Modules for a fleet's arguments, besides `spark_apps.pipelines.*`."""
    conf: str = ""
    """Spark settings for fleets, besides harmless settings."""
    environment: str = ""
    """Variables for a fleet's consumers, besides `TZ`, `LANG`, `LC_*`, and `PIPELINE_*` of an allowed setting."""
    settings: str = ""
    """Settings of pipelines for fleets (`--set`, `PIPELINE_*`), besides the settings of our own pipelines."""
    folders: str = ""
    """Absolute paths of folders; a fleet's SQLite files, audit folders and checkpoints have to lie below them."""
    addresses: str = ""
    """Addresses for `--advertise` of a fleet, besides `host` and `address`; `*` stands for anything but `/`."""

    def problem(self, fleet: Fleet) -> str:
        """Return why a fleet may not be launched, and the remedy; empty if it may."""
        application = fleet.application
        if application not in OWN_APPLICATIONS and not any(
            _is_at(application, one) for one in _list(self.applications)
        ):
            return _refused(fleet, "the application", application, "applications")
        problems = chain(
            (self._conf_problem(fleet, *one) for one in fleet.conf.items()),
            (self._variable_problem(fleet, *one) for one in fleet.environment.items()),
            (self._argument_problem(fleet, *one) for one in _options(fleet.arguments)),
        )
        return next(filter(None, problems), "") or _text_problem(fleet)

    def _conf_problem(self, fleet: Fleet, name: str, value: str) -> str:
        harmless = any(fnmatchcase(name, one) for one in HARMLESS_CONF)
        if not harmless and not fleet_values.conf_is_allowed(name, _list(self.conf)):
            return _refused(fleet, "the Spark setting", name, "conf")
        return _bad(fleet, "Spark setting", name, fleet_values.conf_problem(value, harmless=harmless))

    def _variable_problem(self, fleet: Fleet, name: str, value: str) -> str:
        if name.startswith(PIPELINE_VARIABLE):
            return self._setting_problem(fleet, name.removeprefix(PIPELINE_VARIABLE), value)
        harmless = any(fnmatchcase(name, one) for one in HARMLESS_ENVIRONMENT)
        if not harmless and not fleet_values.variable_is_allowed(name, _list(self.environment)):
            return _refused(fleet, "the variable", name, "environment")
        return _bad(fleet, "variable", name, fleet_values.variable_problem(name, value))

    def _setting_problem(self, fleet: Fleet, name: str, value: str) -> str:
        if problem := fleet_values.setting_problem(name, value, _list(self.folders)):
            return _bad(fleet, "setting", name, problem)
        if any(fnmatchcase(name, one) for one in (*fleet_values.OWN_SETTINGS, *_list(self.settings))):
            return ""
        return _refused(fleet, "the setting", name, "settings")

    def _argument_problem(self, fleet: Fleet, name: str, value: str) -> str:
        if _means(name, _LOG_IN):
            return (
                f"fleet {fleet.app!r} is not launched: its argument {_shown(name)} says where a consumer logs in or who it is, "
                "which only the settings of the launching host say; set the fleet without it"
            )
        key, _, setting = value.partition("=")
        if name == _SET:
            return self._setting_problem(fleet, key, setting)
        if _means(name, (_OPTION,)):
            return _option_problem(fleet, key, setting)
        if _means(name, (_CHECKPOINTS,)):
            return _bad(fleet, "argument", name, fleet_values.path_problem(value, _list(self.folders)))
        if _means(name, (_ADVERTISE,)) and not _is_reached_at(value, _list(self.addresses)):
            return _refused(fleet, "the advertised address", value, "addresses")
        for place in _places(name, value):
            module = place.partition(":")[0]
            if not any(fnmatchcase(module, one) for one in (OWN_CODE, *_list(self.code))):
                return _refused(fleet, "the code", module, "code")
        return ""


def _text_problem(fleet: Fleet) -> str:
    """Return the problem with a text that a later program would read differently.

    Spark's shell scripts delete every carriage return in an argument.
    """
    for name in fleet.conf:
        if not _CONF_NAME.fullmatch(name):
            problem = "its name has other characters than letters, digits, '.', '_', '-' and '/'"
            return _bad(fleet, "Spark setting", name, problem)
    for name in fleet.environment:
        if not _VARIABLE_NAME.fullmatch(name):
            return _bad(fleet, "variable", name, "its name has other characters than letters, digits, '_', '.' and '-'")
    for what, texts in (
        ("application", (fleet.application,)),
        ("argument", fleet.arguments),
        ("Spark setting's value", fleet.conf.values()),
        ("variable's value", fleet.environment.values()),
    ):
        for text in texts:
            if has_control(text):
                return _bad(fleet, what, text, "it has a control character; leave the character out")
    return ""


def _option_problem(fleet: Fleet, name: str, value: str) -> str:
    """Return the problem with an option. Of the Kafka client's settings, only settings of topics are allowed."""
    lower = name.strip().lower()
    problem = ""
    if lower == "kafkasettingsfile":
        problem = "it names a file with a log-in; set the fleet without it"
    elif lower.startswith("kafka."):
        try:
            checked({lower.removeprefix("kafka."): value})
        except Refused as error:
            problem = str(error)
    return _bad(fleet, "option", name, problem)


def _options(arguments: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each argument that argparse may take for an option."""
    for number, argument in enumerate(arguments):
        name, joined, value = argument.partition("=")
        if name.startswith("--") and name != "--":
            following = arguments[number + 1] if number + 1 < len(arguments) else ""
            yield name, value if joined else following


def _places(name: str, value: str) -> Iterator[str]:
    """Yield each `module:function` in an argument, parsed as our application does."""
    if _means(name, _CODE):
        yield value
    if _means(name, _CODE_FOR):
        last = value.rpartition("=")[2]
        yield last if ":" in last else value.partition("=")[2]


def _means(name: str, options: tuple[str, ...]) -> bool:
    """Return whether argparse may take `name` for one of `options`. Argparse completes abbreviated names."""
    return name not in _OTHERS and any(option.startswith(name) for option in options)


def _is_reached_at(address: str, allowed: list[str]) -> bool:
    """Return whether the coordinator may ask a consumer at this address, and so send its status token there."""
    return address in _OWN_HOST or ("@" not in address and any(_is_at(address, one) for one in allowed))


def _is_at(application: str, pattern: str) -> bool:
    parts, wanted = application.split("/"), pattern.split("/")
    return ".." not in parts and len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _list(patterns: str) -> list[str]:
    return [one.strip() for one in patterns.split(",") if one.strip()]


def _bad(fleet: Fleet, what: str, name: str, problem: str) -> str:
    return problem and f"fleet {fleet.app!r} is not launched: its {what} {_shown(name)} is refused: {problem}"


def _refused(fleet: Fleet, what: str, value: str, setting: str) -> str:
    return (
        f"fleet {fleet.app!r} is not launched: this site does not allow {what} {_shown(value)}; set the fleet without it, "
        f"or allow it where consumers are launched: allowed.{setting} (COORDINATOR_ALLOWED_{setting.upper()})"
    )


def _shown(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else shown[:77] + "..."
