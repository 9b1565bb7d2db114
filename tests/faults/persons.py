"""A person who asks for something: a process of its own that ends when it is done, and asks again when it was killed."""

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.errors import ApprovalVoid, LookAgain, Unavailable
from coordinator_tasks.core.growth import Limits
from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.core.upgrade import Rule
from coordinator_tasks.service import (
    approving,
    autoscale,
    directives,
    fleet,
    overrides,
    positions,
    topics,
    upgrade_store,
    upgrades,
)
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.scaling import NUMBER
from coordinator_tasks.service.upgrade_begin import Wish
from coordinator_tasks.service.upgrade_begin import begin as begin_upgrade
from coordinator_tasks.wiring import open_coordinator
from tests.faults.roles import LOOK_S, Life, begin

PERSON = "person"
WHO, WHY = "faults", "a test"
KEEPER, ASKED, NEXT = "a", "b", "b1"
APP = "app"
HOLD_S, LONG_S = 0.2, 600.0
ACTOR = Actor("command", WHO)
LONG_AGO = "2020-01-01T00:00:00Z"
STRATEGY = "range"
log = logging.getLogger(__name__)


def _isolate(c: Coordinator, life: Life) -> None:
    directives.isolate(c, ASKED, by=WHO, why=WHY)


def _readmit(c: Coordinator, life: Life) -> None:
    directives.readmit(c, ASKED, by=WHO)


def _drain(c: Coordinator, life: Life) -> None:
    fleet.set_fleet(c, Fleet(APP, OWN_APPLICATIONS[0], (KEEPER, ASKED)))
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


def _upgrade(c: Coordinator, life: Life) -> None:
    _begin_upgrade(c, (50, 100), HOLD_S)


def _upgrade_and_hold(c: Coordinator, life: Life) -> None:
    _begin_upgrade(c, (100,), LONG_S)


def _begin_upgrade(c: Coordinator, steps: tuple[int, ...], hold_s: float) -> None:
    """Of a fleet of one consumer to one other; a consumer that a death starts again is no error here."""
    if upgrade_store.find(c, APP) is not None:
        return
    fleet.set_fleet(c, Fleet(APP, OWN_APPLICATIONS[0], (ASKED,), code="v1"))
    version = replace(fleet.version_of(fleet.fleet_of(c, APP)), code="v2")
    rule = Rule(max_lag_s=LONG_S, max_errors=1000)
    wish = Wish(APP, "v2", version, steps=steps, hold_s=hold_s, rule=rule, count=1, pattern=f"{ASKED}{NUMBER}")
    begin_upgrade(c, wish, by=WHO, why=WHY)


def _roll_back(c: Coordinator, life: Life) -> None:
    if not upgrade_store.read(c, APP).reason:
        upgrades.roll_back(c, APP, by=WHO, why=WHY)


def _approve(c: Coordinator, life: Life) -> None:
    """Each plan that waits, as long as the case goes on: one is void as soon as somebody has died."""
    while True:
        found = approving.waiting(c, [life.topic]).get(life.topic)
        if found is not None and not found.answered:
            with suppress(ApprovalVoid):
                approving.answer(c, life.topic, found.digest, granted=True, by=[WHO], why=WHY)
        time.sleep(LOOK_S)


def _expect(c: Coordinator, life: Life) -> None:
    directives.expect_restart(c, ASKED, LONG_S, moves=False, by=WHO, why=WHY)


def _lend(c: Coordinator, life: Life) -> None:
    directives.expect_restart(c, ASKED, LONG_S, moves=True, by=WHO, why=WHY)


def _grow(c: Coordinator, life: Life) -> None:
    fleet.set_fleet(c, Fleet(APP, OWN_APPLICATIONS[0], (KEEPER, ASKED)))
    autoscale.set_growth(c, APP, Limits(most=2, act=True))


def _shrink(c: Coordinator, life: Life) -> None:
    autoscale.set_growth(c, APP, Limits(most=1, act=True))


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
    "upgrade": _upgrade,
    "upgrade and hold": _upgrade_and_hold,
    "roll back": _roll_back,
    "approve": _approve,
    "expect": _expect,
    "lend": _lend,
    "grow": _grow,
    "shrink": _shrink,
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
