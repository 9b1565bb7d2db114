"""The actions on dead letters: drop letters from a database of the settings, and replay letters by a fleet's code.

A replay runs on the task's host, in Spark or as the program of a consumer without Spark. The code and its settings are
those of the fleet, which this host may launch, so no form chooses code.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinator_plugin.child_output import run_to_end
from coordinator_plugin.fleet_code import arguments_of, launch_of, text_parameter
from coordinator_plugin.hook import CoordinatorHook
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Actor, FieldChange
from coordinator_tasks.core.names import MAX_PARTITION
from coordinator_tasks.core.text.json_fields import MAX_NUMBER
from coordinator_tasks.core.text.partition_text import counted, cut, shown
from coordinator_tasks.fleet_values import PRIVATE_PREFIXES
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log
from coordinator_tasks.service.nodes.fleet import Launch
from coordinator_tasks.settings import of_the_host

_NAME = "The name of a database in the settings of Airflow's hosts (COORDINATOR_DATABASES_NAME)."
DATABASE = text_parameter("database", "Database", _NAME, minLength=1, maxLength=64)
PARTITION = text_parameter("partition", "Partition", "Empty = all partitions.", default="", pattern="^[0-9]{0,10}$")
OFFSET = text_parameter("offset", "Offset", "Empty = all offsets.", default="", pattern="^[0-9]{0,19}$")
_UNTIL = "Only dead letters whose last failure is not later, such as 2026-11-21T08:15:00Z; empty = all times."
UNTIL = text_parameter("until", "Failed until", _UNTIL, default="", maxLength=40)
_NUMBER = "How many dead letters are dropped. If there are more or fewer of them by then, nothing is dropped."
NUMBER = p.Parameter(
    "number", {"type": "integer", "title": "Number", "description": _NUMBER, "minimum": 1, "maximum": MAX_NUMBER}
)
REPLAY_LIMIT_S = 3_600.0
OUTPUT_BYTES = 256 * 1024
"""Bytes kept of each output of a replay, from the end. The form shows the last lines."""
PLACES = ("COORDINATOR_DATABASES_", "COORDINATOR_REGISTRIES_")
"""Beginnings of the variables with the addresses of databases and registries."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _chosen(c: Coordinator, given: Given) -> tuple[str, dict[str, Any], str]:
    """Return the database's address, the columns and values of the chosen letters, and their place in words."""
    name, known = given["database"], of_the_host().get("databases", {})
    if name not in known:
        raise Refused(
            f"no database is named {cut(name, 60)!r} in the settings of this task's host (known: {shown(sorted(known)) or 'none'}); set "
            "COORDINATOR_DATABASES_NAME for Airflow's workers too"
        )
    chosen: dict[str, Any] = _numbers(given)
    place = _place(chosen)
    if until := given.get("until", ""):
        try:
            chosen["until_ms"] = (datetime.fromisoformat(until) - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, TypeError) as error:  # a time without a zone is a TypeError
            raise Refused(
                f"{cut(until, 60)!r} is no time with a zone; give one such as 2026-11-21T08:15:00Z"
            ) from error
        place += f", failed until {until}"
    return known[name], {"cluster": c.paths.cluster, "topic": given["topic"], **chosen}, place


def _numbers(given: Given) -> dict[str, int]:
    """Return partition and offset of the form, where they are given; raises `Refused`."""
    chosen: dict[str, int] = {}
    for column, most in (("partition", MAX_PARTITION), ("offset", MAX_NUMBER)):
        if text := given.get(column, ""):
            if not re.fullmatch("[0-9]{1,19}", text) or int(text) > most:
                raise Refused(f"{cut(text, 60)!r} is no {column}; give a whole number up to {most}")
            chosen[column] = int(text)
    if "offset" in chosen and "partition" not in chosen:
        raise Refused("an offset names a record of a partition; give the partition too")
    return chosen


def _place(numbers: dict[str, int]) -> str:
    return "".join(f", {column} {number}" for column, number in numbers.items())


def _named(given: Given, place: str, number: int) -> str:
    """Return words for the letters. Raises `Refused` unless there are as many as the person has seen."""
    named = f"{counted(number, 'dead letter')} of topic {given['topic']}{place} in the database {given['database']}"
    if number != given["number"]:
        raise Refused(f"there are now {named}, and not {given['number']}; look at the list, and ask again")
    return named


def _would_drop(c: Coordinator, given: Given) -> Iterator[str]:
    from spark_apps.dead_letters import table  # noqa: PLC0415 - costs time to import

    address, where, place = _chosen(c, given)
    with table.opened(address) as cursor:
        number = 0 if cursor is None else table.count(cursor, **where)
    yield f"{_named(given, place, number)} would be dropped"


def _drop(c: Coordinator, given: Given, _: Actor) -> ActionResult:
    """Drop the letters. The action is recorded first, so that without the record nothing is dropped."""
    from spark_apps.dead_letters import table  # noqa: PLC0415 - costs time to import

    address, where, place = _chosen(c, given)
    with table.opened(address) as cursor:
        number = 0 if cursor is None else table.drop(cursor, **where)
        said = f"{_named(given, place, number)} dropped"
        action_log.note(c, FieldChange(f"databases/{given['database']}", f"dead letters{place}", str(number), ""))
    return ActionResult(number, said, (said,))


DROP_DEAD_LETTERS = Action(
    "drop_dead_letters",
    "",
    "Delete dead letters of a topic for good: nothing processes their records any more.",
    (DATABASE, p.TOPIC, PARTITION, OFFSET, UNTIL, NUMBER, p.REASON),
    do=_drop,
    before=_would_drop,
    destructive="the dead letters are gone for good; their records may still be in Kafka",
)


@dataclass(frozen=True, slots=True)
class _Way:
    """How letters are replayed. `code`: the pipeline or the program. `options`: of `spark_apps.replay`."""

    code: str
    options: Sequence[str]
    is_program: bool = False


def _way(launch: Launch, topic: str) -> _Way:
    """Return the topic's pipeline among the fleet's arguments, or the program of consumers without Spark."""
    given = arguments_of(launch)
    places = dict(text.split("=", 1) for text in given.pipeline if "=" in text)
    if place := places.get(topic, given.default):
        return _Way(place, [f"--pipeline={topic}={place}", *(f"--set={one}" for one in given.set)])
    if given.pipeline or given.pattern or launch.application in OWN_APPLICATIONS:
        raise Refused(
            f"the arguments of fleet {launch.app!r} name no pipeline for topic {topic!r} (--pipeline {topic}=module:function, or "
            "--default); use `coordinator dead-letters replay` where the pipeline's code is"
        )
    return _Way(launch.application, [f"--topic={topic}"], is_program=True)


def _would_replay(c: Coordinator, given: Given) -> Iterator[str]:
    launch, topic = launch_of(c, given["app"]), given["topic"]
    code, place = _way(launch, topic).code, _place(_numbers(given))
    yield f"all dead letters of topic {topic}{place} would go through {code} of fleet {launch.app}"


def _replay(c: Coordinator, given: Given, _: Actor) -> ActionResult:
    """Replay the letters. A retry replays what is left, so the action is recorded at its end."""
    launch, topic, numbers = launch_of(c, given["app"]), given["topic"], _numbers(given)
    way = _way(launch, topic)
    command = [sys.executable, "-m", "spark_apps.replay", "--cluster", c.paths.cluster, *way.options]
    command += [f"--{name}={number}" for name, number in numbers.items()]
    kept = {k: v for k, v in os.environ.items() if k.startswith(PLACES) or not k.startswith(PRIVATE_PREFIXES)}
    environ = {**kept, **launch.environment}
    with TemporaryDirectory(prefix="replay-") as base:
        folder = RunFolder(Path(base) / "consumer")
        if way.is_program:
            CoordinatorHook(c.paths.cluster).write_files(folder)
            environ["COORDINATOR_SETTINGS"] = str(folder.settings)
            command += ["--program", way.code, *launch.arguments]
            command += ["--consumer", launch.consumer, "--run-folder", str(folder.path)]
        done = _ended(command, environ)
        out, err = folder.hide(done.stdout), folder.hide(done.stderr)
    lines = tuple(cut(line, 500) for line in out.splitlines()[-50:])
    if done.returncode not in (0, 1) or not lines:
        said = err.strip().splitlines() or [f"no word, exit code {done.returncode}"]
        raise Refused(f"the replay of topic {topic} has failed: {cut(said[-1], 500)}")
    action_log.note(
        c, FieldChange(f"fleet/{launch.app}", f"dead letters of topic {topic}{_place(numbers)}", "", lines[-1])
    )
    return ActionResult(lines[-1], lines[-1], lines, partial=done.returncode == 1)


def _ended(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return run_to_end(command, environ, REPLAY_LIMIT_S, OUTPUT_BYTES)
    except subprocess.TimeoutExpired:
        raise Refused(
            f"the replay took longer than {REPLAY_LIMIT_S:g} s and was ended; what has passed is done: ask again"
        ) from None


REPLAY_DEAD_LETTERS = Action(
    "replay_dead_letters",
    "",
    "Process dead letters of a topic again, by the fleet's pipeline of the topic, or by its program of consumers without Spark.",
    (p.APP, p.TOPIC, PARTITION, OFFSET, p.REASON),
    do=_replay,
    before=_would_replay,
)
