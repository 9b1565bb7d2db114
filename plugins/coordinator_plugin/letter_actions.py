"""The action that drops dead letters, from a database that the settings of the task's host name."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Actor, FieldChange
from coordinator_tasks.core.names import MAX_PARTITION
from coordinator_tasks.core.text.json_fields import MAX_NUMBER
from coordinator_tasks.core.text.partition_text import counted, cut, shown
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log
from coordinator_tasks.settings import of_the_host


def _text(name: str, title: str, text: str, **rules: Any) -> p.Parameter:
    return p.Parameter(name, {"type": "string", "title": title, "description": text, **rules})


_NAME = "The name of a database in the settings of Airflow's hosts (COORDINATOR_DATABASES_NAME)."
DATABASE = _text("database", "Database", _NAME, minLength=1, maxLength=64)
PARTITION = _text("partition", "Partition", "Empty = all partitions.", default="", pattern="^[0-9]{0,10}$")
OFFSET = _text("offset", "Offset", "Empty = all offsets.", default="", pattern="^[0-9]{0,19}$")
_UNTIL = "Only dead letters whose last failure is not later, such as 2026-11-21T08:15:00Z; empty = all times."
UNTIL = _text("until", "Failed until", _UNTIL, default="", maxLength=40)
_NUMBER = "How many dead letters are dropped. If there are more or fewer of them by then, nothing is dropped."
NUMBER = p.Parameter(
    "number", {"type": "integer", "title": "Number", "description": _NUMBER, "minimum": 1, "maximum": MAX_NUMBER}
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _chosen(c: Coordinator, given: Given) -> tuple[str, dict[str, Any], str]:
    """Return the database's address, the columns and values of the chosen letters, and their place in words."""
    name, known = given["database"], of_the_host().get("databases", {})
    if name not in known:
        raise Refused(
            f"no database is named {cut(name, 60)!r} in the settings of this task's host (known: {shown(sorted(known)) or 'none'}); set "
            "COORDINATOR_DATABASES_NAME for Airflow's workers too"
        )
    chosen: dict[str, Any] = {}
    for column, most in (("partition", MAX_PARTITION), ("offset", MAX_NUMBER)):
        if text := given.get(column, ""):
            if not re.fullmatch("[0-9]{1,19}", text) or int(text) > most:
                raise Refused(f"{cut(text, 60)!r} is no {column}; give a whole number up to {most}")
            chosen[column] = int(text)
    if "offset" in chosen and "partition" not in chosen:
        raise Refused("an offset names a record of a partition; give the partition too")
    place = "".join(f", {column} {number}" for column, number in chosen.items())
    if until := given.get("until", ""):
        try:
            chosen["until_ms"] = (datetime.fromisoformat(until) - _EPOCH) // timedelta(milliseconds=1)
        except (ValueError, TypeError) as error:  # a time without a zone is a TypeError
            raise Refused(
                f"{cut(until, 60)!r} is no time with a zone; give one such as 2026-11-21T08:15:00Z"
            ) from error
        place += f", failed until {until}"
    return known[name], {"cluster": c.paths.cluster, "topic": given["topic"], **chosen}, place


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
