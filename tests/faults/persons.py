"""A person who asks for something: a process of its own that ends when it is done, and asks again when it was killed.

It asks by the actions, as the forms in Airflow do: each life is another try of the same task.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from coordinator_tasks.core.errors import LookAgain, Unavailable
from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log, history
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.wiring import open_coordinator
from tests.faults.roles import LOOK_S, Life, begin

PERSON = "person"
WHO = "faults"
RECORDS = 500
LONG_AGO = "2020-01-01T00:00:00Z"
ASKED_FILE, TRIES = "asked", "tries-"
ACTION = {"add": "add_topic", "remove": "remove_topic", "pause": "pause", "reset": "reset_offsets", "resume": "resume"}
"""The action of each wish."""
log = logging.getLogger(__name__)


def _asked(c: Coordinator, life: Life) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the parameters of each action of the wish, and a text that tells it from others of its kind.

    A reset is to where the partition is, so that nothing is left out or read again.
    """
    if life.wish == "add":
        yield {"group_id": life.group, "start": "earliest", "strategy": ""}, ""
    elif life.wish == "reset":
        positions.preview(c, life.topic, LONG_AGO)
        for shift in positions.preview(c, life.topic, "latest"):
            yield {"to": str(shift.before), "partitions": [shift.partition]}, f" partition {shift.partition}"
    else:
        yield {}, ""


def ask(life: Life) -> None:
    """What the life wishes, once it is done; again where it came at a bad moment."""
    points = begin(life)
    action = ACTION[life.wish]
    while True:
        try:
            with open_coordinator(life.settings) as c:
                run = f"{points.phase} {life.wish}"
                attempt = _noted(life.folder / f"{TRIES}{run}", "try")
                for given, more in _asked(c, life):
                    actor = Actor("airflow", WHO, action, f"{run}{more}", "do", attempt)
                    _noted(life.folder / ASKED_FILE, f"{actor.dag} {actor.run}")
                    ACTIONS[action].run(c, {"why": "a test", "topic": life.topic, **given}, actor, dry_run=False)
            break
        except (Unavailable, LookAgain) as error:
            log.warning("asking again: %s", error)
            time.sleep(LOOK_S)
    os._exit(0)


def _noted(file: Path, line: str) -> int:
    """Write a line, and count all of them."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)
    return len(file.read_text().splitlines())


def wanted(folder: Path) -> list[str]:
    """Return what was asked for in a case: action and run, each once."""
    file = folder / ASKED_FILE
    return sorted(set(file.read_text().splitlines())) if file.exists() else []


def recorded(c: Coordinator) -> list[str]:
    """What the history says of persons, in the same words: actions, and resets in the histories of their topics."""
    resets: Counter[str] = Counter()
    for topic in history.recorded(c):
        plans = history.records(c, topic, RECORDS)
        actors = (one.actor for one in plans if one.plan is not None and one.plan.strategy == positions.RESET)
        resets.update(_told(actors))
    return sorted([*resets.elements(), *_told(one.actor for one in action_log.asked(c, limit=RECORDS))])


def _told(actors: Iterable[Actor]) -> list[str]:
    return [f"{one.dag} {one.run}" for one in actors if one.who == WHO and one.kind == "airflow"]
