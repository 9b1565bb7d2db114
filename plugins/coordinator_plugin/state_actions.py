"""The action on the state of a pipeline: move each key's state after partitions were added to the topic.

The database is that of a fleet's settings (`--set database=NAME`), so no form takes an address.
"""

from collections.abc import Iterator

from coordinator_plugin.fleet_code import arguments_of, launch_of, text_parameter
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Actor, FieldChange
from coordinator_tasks.core.text.partition_text import counted, cut, shown
from coordinator_tasks.fleet_values import DATABASE, SQLITE
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log
from coordinator_tasks.settings import of_the_host

_TEXT = "The producers' partitioner; empty = the one that has placed all present keys."
_KNOWN = ["", "murmur2", "consistent", "fnv1a"]
PARTITIONER = text_parameter("partitioner", "Partitioner", _TEXT, default="", enum=_KNOWN)


def _database(c: Coordinator, app: str) -> tuple[str, str]:
    """Return name and address of the database in the settings of a fleet's pipelines; raises `Refused`."""
    launch, known = launch_of(c, app), of_the_host()["databases"]
    settings = dict(one.split("=", 1) for one in arguments_of(launch).set if "=" in one)
    name = settings.get(DATABASE) or launch.environment.get(f"PIPELINE_{DATABASE}", "")
    address = name if name.startswith(SQLITE) else known.get(name, "")
    if not address:
        told = "of an address" if "://" in name else repr(cut(name, 60))
        raise Refused(
            f"the database {told} of fleet {launch.app!r} is not in the settings of this task's host (known: "
            f"{shown(sorted(known)) or 'none'}); give the fleet --set {DATABASE}=NAME, and set COORDINATOR_DATABASES_NAME for Airflow's "
            "workers too, or use `coordinator state rehash`"
        )
    return name, address


def _would_rehash(c: Coordinator, given: Given) -> Iterator[str]:
    _, lines = _moved(c, given, execute=False)
    yield from lines


def _rehash(c: Coordinator, given: Given, _: Actor) -> ActionResult:
    """Move the state. A retry moves what is left, so the action is recorded at its end."""
    name, lines = _moved(c, given, execute=True)
    action_log.note(c, FieldChange(f"databases/{name}", f"state of topic {given['topic']}", "", "; ".join(lines)))
    return ActionResult(lines, "\n".join(lines), lines)


def _moved(c: Coordinator, given: Given, *, execute: bool) -> tuple[str, tuple[str, ...]]:
    """Return the database's name, and a line for each operator."""
    name, address = _database(c, given["app"])
    try:
        from spark_apps.state.topic_rehash import rehash_topic  # noqa: PLC0415 - Spark may be missing on this host
    except ImportError as error:
        raise Refused(f"state needs Spark on this host ({error}); use `coordinator state rehash` elsewhere") from error
    found = rehash_topic(c, address, given["topic"], given.get("partitioner", ""), execute=execute)
    verb = "moved" if execute else "would move"
    lines = tuple(
        f"operator {one.operator}, {one.before} → {one.after} partitions: {sum(move.keys for move in one.moving)} of "
        f"{counted(one.keys, 'key')} {verb}, by {one.partitioner}; {one.keyless} without key stay"
        for one in found
    )
    return name, lines or ("the topic has no more partitions than when its state began",)


REHASH_STATE = Action(
    "rehash_state",
    "",
    "Move the state of each key to the key's new partition, after partitions were added to a topic. Stop the producers and let the "
    "consumers process all records before partitions are added.",
    (p.APP, p.TOPIC, PARTITIONER, p.REASON),
    do=_rehash,
    before=_would_rehash,
)
