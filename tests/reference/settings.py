"""Every setting, with its name in the environment, its default, and the text below its field."""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.settings import _MADE_BY_WIRING, Settings
from tests.reference.form import page, table

GROUPS: Mapping[str, tuple[str, type]] = {
    "zookeeper_access": ("ZOOKEEPER", ZooKeeperAccess),
    "policy": ("POLICY", Policy),
    "allowed": ("ALLOWED", AllowedLaunches),
    "budget": ("BUDGET", Budget),
}
OF_MAPPINGS = {
    "kafka": "KAFKA_<PROPERTY>",
    "parameters": "PARAMETER_<NAME>",
    "strategies": "STRATEGIES_<NAME>",
    "rules": "RULES_<NAME>",
    "consumer_zookeeper": "CONSUMER_ZOOKEEPER_<FIELD>",
    "consumer_kafka": "CONSUMER_KAFKA_<PROPERTY>",
    "databases": "DATABASES_<NAME>",
    "registries": "REGISTRIES_<NAME>",
}
SEE = {
    "status_token": "[consumers' interfaces](../secrets.md#consumers-interfaces)",
    "status_token_file": "[consumers' interfaces](../secrets.md#consumers-interfaces)",
    "zookeeper_access.consumers": "[separate accounts](../secrets.md#separate-zookeeper-accounts)",
    "zookeeper_access.coordinator": "[separate accounts](../secrets.md#separate-zookeeper-accounts)",
    "fence": "[the fence in the broker](../reliability.md#the-fence-in-the-broker)",
    "log_format": "[log lines](../logs.md)",
    "log_url": "[links to a consumer](../logs.md#links-to-a-consumer)",
    "strategy": "[assignors](../assignors.md)",
    "parameters": "[for a whole cluster](../assignors.md#for-a-whole-cluster)",
    "strategies": "[a strategy of your own](../assignors.md#a-strategy-of-your-own)",
    "rules": "[upgrades](../howto/upgrade.md)",
    "policy.absent_after_s": "[measured](../measurements.md#an-unreported-death)",
    "policy.pack_over_bytes": "[the packed form](../architecture.md#the-packed-form)",
    "allowed.applications": "[what may be launched](../allowed.md)",
    "databases": "[databases and registries](../allowed.md#databases-and-registries)",
    "budget.moves": "[approve a plan](../howto/approve.md)",
}
"""Setting → the page that says more."""
OTHERS = (
    ("`COORDINATOR_SETTINGS`", "all but Airflow's services", "path of the settings file"),
    (
        "`COORDINATOR_SETTINGS_SECRET`",
        "all but Airflow's services",
        "the content of the settings file, if no file is named: for a Kubernetes Secret",
    ),
    (
        "`COORDINATOR_KUBERNETES_SECRET`",
        "Airflow's workers",
        "the Kubernetes Secret with `settings.json` and `kafka.json`; default `coordinator-[CLUSTER]`",
    ),
    (
        "those of [the installation](../install.md#the-dags)",
        "Airflow's services",
        "the clusters, the DAGs, and where consumers are launched",
    ),
    (
        "`PIPELINE_<name>`",
        "consumers; set by their launcher",
        "a setting of the pipelines that may be secret; `--set name=value` sets the same, and wins. If fleets name a database or registry, its "
        "secret [is a part of its address](../allowed.md#databases-and-registries)",
    ),
    (
        "`ASSIGNED_KAFKA_SETTINGS_FILE`",
        "drivers, executors",
        "the file with Kafka's secret settings, unless the option `kafkaSettingsFile` names another file; set by the launcher",
    ),
    (
        "`ASSIGNED_KAFKA_SETTINGS_SECRET`",
        "drivers, executors",
        "Kafka's secret settings themselves, if no file is named",
    ),
    (
        "`COORDINATOR_CACHE`",
        "local servers of demo, tests and benchmarks",
        "the folder of fetched jars; default `~/.cache/kafka-partition-coordinator`",
    ),
)
"""Variables that are no settings of a cluster."""


class Setting(NamedTuple):
    """`variable`: in the environment."""

    name: str
    variable: str
    default: str
    meaning: str


def settings() -> str:
    rows = [
        (
            f"`{one.name}`",
            f"`{one.variable}`",
            one.default if one.default in ("required", "empty") else f"`{one.default}`",
            one.meaning + (f" See {SEE[one.name]}." if one.name in SEE else ""),
        )
        for one in every_setting()
    ]
    about = (
        "In the [settings file](../operations.md#point-it-at-your-own-kafka-and-zookeeper) a name with a dot is a field of an object: `policy.settle_s` is `settle_s` in "
        "`policy`, and `null` counts as not given. The environment wins over the file, and a consumer's arguments win over both. Times are in "
        "seconds.\n"
    )
    return page(
        "Settings",
        about,
        table(("setting", "in the environment", "default", "meaning"), rows),
        "## Other names in the environment\n",
        table(("name", "read by", "meaning"), OTHERS),
    )


def every_setting() -> Iterator[Setting]:
    """In the order of their fields."""
    for one in fields(Settings):
        if one.name not in GROUPS:
            variable = f"COORDINATOR_{OF_MAPPINGS.get(one.name, one.name.upper())}"
            yield Setting(one.name, variable, _default(one), texts(Settings)[one.name])
            continue
        prefix, kind = GROUPS[one.name]
        for inner in fields(kind):
            if inner.name not in _MADE_BY_WIRING:
                variable = f"COORDINATOR_{prefix}_{inner.name.upper()}"
                yield Setting(f"{one.name}.{inner.name}", variable, _default(inner), texts(kind)[inner.name])


@cache
def texts(kind: type) -> dict[str, str]:
    """Field → the text below it."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = found.body if isinstance(found, ast.ClassDef) else []
    return {
        before.target.id: " ".join(text.value.value.split())
        for before, text in pairwise(body)
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _default(one: Field[Any]) -> str:
    made = one.default_factory() if one.default_factory is not MISSING else one.default
    if made is MISSING:
        return "required"
    if made in ("", {}, ()):
        return "empty"
    return str(made).lower() if isinstance(made, bool | str) else f"{made:.15g}"
