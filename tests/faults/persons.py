"""A person who asks for something: a process of its own that ends when it is done, and asks again when it was killed."""

import logging
import os
import time
from collections.abc import Callable, Mapping

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.errors import LookAgain, Unavailable
from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.service import directives, fleet, overrides, positions, topics
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.wiring import open_coordinator
from tests.faults.roles import LOOK_S, Life, begin

PERSON = "person"
WHO, WHY = "faults", "a test"
KEEPER, ASKED = "a", "b"
ACTOR = Actor("command", WHO)
LONG_AGO = "2020-01-01T00:00:00Z"
STRATEGY = "range"
log = logging.getLogger(__name__)


def _isolate(c: Coordinator, life: Life) -> None:
    directives.isolate(c, ASKED, by=WHO, why=WHY)


def _readmit(c: Coordinator, life: Life) -> None:
    directives.readmit(c, ASKED, by=WHO)


def _drain(c: Coordinator, life: Life) -> None:
    fleet.set_fleet(c, Fleet("app", OWN_APPLICATIONS[0], (KEEPER, ASKED)))
    directives.drain(c, ASKED, by=WHO, why=WHY)


def _undrain(c: Coordinator, life: Life) -> None:
    directives.undrain(c, ASKED)


def _pin(c: Coordinator, life: Life) -> None:
    overrides.set_pins(c, life.topic, KEEPER, range(2), actor=ACTOR)


def _unpin(c: Coordinator, life: Life) -> None:
    overrides.set_frozen(c, life.topic, frozen=True, actor=ACTOR)
    overrides.set_pins(c, life.topic, "", (), actor=ACTOR)
    topics.set_strategy(c, life.topic, STRATEGY, {}, ACTOR)
    overrides.set_frozen(c, life.topic, frozen=False, actor=ACTOR)


def _pause(c: Coordinator, life: Life) -> None:
    positions.set_paused(c, life.topic, (), paused=True, actor=ACTOR)


def _reset(c: Coordinator, life: Life) -> None:
    """To where they are, so that nothing is left out or read again; once for each task, however often it is tried."""
    positions.preview(c, life.topic, LONG_AGO)
    for shift in positions.preview(c, life.topic, "latest"):
        once = Actor("airflow", dag="reset_offsets", run="once", task=f"partition {shift.partition}", attempt=1)
        positions.reset(c, life.topic, str(shift.before), [shift.partition], why=WHY, actor=once)


def _resume(c: Coordinator, life: Life) -> None:
    positions.set_paused(c, life.topic, (), paused=False, actor=ACTOR)


def _remove(c: Coordinator, life: Life) -> None:
    topics.remove_topic(c, life.topic, ACTOR)


def _add(c: Coordinator, life: Life) -> None:
    topics.add_topic(c, life.topic, life.group, actor=ACTOR)


WISHES: Mapping[str, Callable[[Coordinator, Life], None]] = {
    "isolate": _isolate,
    "readmit": _readmit,
    "drain": _drain,
    "undrain": _undrain,
    "pin": _pin,
    "unpin": _unpin,
    "pause": _pause,
    "reset": _reset,
    "resume": _resume,
    "remove": _remove,
    "add": _add,
}


def ask(life: Life) -> None:
    """What the life wishes, once it is done; again where it came at a bad moment."""
    begin(life)
    while True:
        try:
            with open_coordinator(life.settings) as c:
                WISHES[life.wish](c, life)
            break
        except (Unavailable, LookAgain) as error:
            log.warning("asking again: %s", error)
            time.sleep(LOOK_S)
    os._exit(0)
