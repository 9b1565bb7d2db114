"""A person who asks for something: a process of its own that ends when it is done, and asks again when it was killed.

It asks by the actions, as the forms in Airflow do: each life is another try of the same task.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.errors import ApprovalVoid, LookAgain, Refused, Unavailable
from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import redeployment
from coordinator_tasks.service.fleets.scaling import NUMBER
from coordinator_tasks.service.nodes import action_log, history
from coordinator_tasks.service.nodes.topics import list_topics
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import plans_to_approve, rollback
from coordinator_tasks.wiring import open_coordinator
from tests.faults.roles import LOOK_S, Life, begin

PERSON = "person"
WHO, WHY = "faults", "a test"
KEEPER, ASKED, NEXT, FURTHER = "a", "b", "b1", "b2"
PATTERN = f"{ASKED}{NUMBER}"
APP = "app"
HOLD_S, LONG_S = 0.2, 600.0
SOON_S = 1.0
RECORDS = 500
LONG_AGO = "2020-01-01T00:00:00Z"
STRATEGY = "range"
ASKED_FILE, TRIES = "asked", "tries-"
VOID = "void"
log = logging.getLogger(__name__)


class Ask(NamedTuple):
    """An action with its parameters; `run`: what tells it from others of its kind."""

    action: str
    given: Mapping[str, Any]
    run: str = ""


def _fleet(*consumers: str) -> Ask:
    return Ask("set_fleet", {"app": APP, "application": OWN_APPLICATIONS[0], "consumers": consumers, "code": "v1"})


def _possible(preview: Callable[[], object]) -> None:
    """A dry run, until it is not refused: while somebody starts again it is."""
    while True:
        with suppress(Refused):
            preview()
            return
        time.sleep(LOOK_S)


def _isolate(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("isolate", {"consumer": ASKED})]


def _readmit(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("readmit", {"consumer": ASKED})]


def _drain(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [_fleet(KEEPER, ASKED), Ask("drain", {"consumer": ASKED})]


def _undrain(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("undrain", {"consumer": ASKED})]


def _pin(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("pin", {"topic": life.topic, "consumer": KEEPER, "partitions": range(2)})]


def _unpin(c: Coordinator, life: Life) -> Iterable[Ask]:
    topic = {"topic": life.topic}
    return [
        Ask("freeze", topic),
        Ask("unpin", topic),
        Ask("set_strategy", {**topic, "strategy": STRATEGY}),
        Ask("unfreeze", topic),
    ]


def _freeze(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("freeze", {"topic": life.topic})]


def _go_back(c: Coordinator, life: Life) -> Iterable[Ask]:
    """To before the second consumer got something, whoever dies and returns."""
    records = reversed(history.records(c, life.topic, RECORDS))
    joined = next(one.rebalance for one in records if any(move.taker == ASKED for move in one.moves))
    _possible(lambda: rollback.preview(c, life.topic, joined))
    return [Ask("roll_back", {"topic": life.topic, "rebalance": joined, "minutes": LONG_S / 60})]


def _pause(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("pause", {"topic": life.topic})]


def _reset(c: Coordinator, life: Life) -> Iterable[Ask]:
    """To where they are, so that nothing is left out or read again."""
    positions.preview(c, life.topic, LONG_AGO)
    for shift in positions.preview(c, life.topic, "latest"):
        given = {"topic": life.topic, "to": str(shift.before), "partitions": [shift.partition]}
        yield Ask("reset_offsets", given, f"partition {shift.partition}")


def _import(c: Coordinator, life: Life) -> Iterable[Ask]:
    """The same for all topics at once."""
    lines = [
        f"{one.topic},{shift.partition},{shift.before}\n"
        for one in list_topics(c)
        for shift in positions.shifts_to(c, one.topic, "current", ())
    ]
    return [Ask("import_offsets", {"offsets": "".join(lines)})]


def _undo(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("undo_offsets", {"topic": one.topic}, one.topic) for one in list_topics(c)]


def _resume(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("resume", {"topic": life.topic})]


def _upgrade(c: Coordinator, life: Life) -> Iterable[Ask]:
    return _begin_upgrade((50, 100), HOLD_S)


def _upgrade_and_hold(c: Coordinator, life: Life) -> Iterable[Ask]:
    return _begin_upgrade((100,), LONG_S)


def _begin_upgrade(steps: tuple[int, ...], hold_s: float) -> list[Ask]:
    """Of a fleet of one consumer to one other; a consumer that a death starts again is no error here."""
    given = {
        "app": APP,
        "version": "v2",
        "code": "v2",
        "steps": steps,
        "hold_minutes": hold_s / 60,
        "patience_minutes": LONG_S / 60,
        "max_lag_s": LONG_S,
        "max_errors": 1000,
        "min_rate": 0,
        "count": 1,
        "pattern": PATTERN,
    }
    return [_fleet(ASKED), Ask("upgrade", given)]


def _halt(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("pause_upgrade", {"app": APP})]


def _go_on(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("continue_upgrade", {"app": APP})]


def _roll_back(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("roll_back_upgrade", {"app": APP})]


def _approve(c: Coordinator, life: Life) -> Iterator[Ask]:
    """Each plan that waits, as long as the case goes on: one is void as soon as somebody has died."""
    while True:
        found = plans_to_approve.waiting(c, [life.topic]).get(life.topic)
        if found is not None:
            yield Ask("approve", {"topic": life.topic, "digest": found.digest}, found.digest)
        time.sleep(LOOK_S)


def _reject(c: Coordinator, life: Life) -> Iterator[Ask]:
    """The plan that waits, until one is rejected."""
    while True:
        found = plans_to_approve.waiting(c, [life.topic]).get(life.topic)
        if found is not None and found.answered:
            return
        if found is not None:
            yield Ask("approve", {"topic": life.topic, "digest": found.digest, "reject": True}, found.digest)
        time.sleep(LOOK_S)


def _expect(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("expect_restart", {"consumer": ASKED, "within": LONG_S / 60})]


def _lend(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("expect_restart", {"consumer": ASKED, "within": LONG_S / 60, "move": True})]


def _scale(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [_fleet(KEEPER), Ask("scale", {"app": APP, "count": 2, "pattern": PATTERN})]


def _scale_back(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("scale", {"app": APP, "count": 1})]


def _redeploy(c: Coordinator, life: Life) -> Iterator[Ask]:
    yield _fleet(KEEPER, ASKED)
    _possible(lambda: redeployment.would_redeploy(c, APP))
    yield Ask("redeploy", {"app": APP})


def _grow(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [_fleet(KEEPER, ASKED), Ask("set_growth", {"app": APP, "most": 2, "act": True})]


def _shrink(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("set_growth", {"app": APP, "most": 1, "act": True})]


def _outgrow(c: Coordinator, life: Life) -> Iterable[Ask]:
    """What a growth brings is not judged for long."""
    limits = {"app": APP, "most": 2, "act": True, "start_up_s": SOON_S, "window_s": LONG_S}
    return [_fleet(NEXT), Ask("set_growth", limits)]


def _ungrow(c: Coordinator, life: Life) -> Iterable[Ask]:
    """What a growth brings is judged now."""
    limits = {"app": APP, "most": 2, "act": True, "start_up_s": SOON_S, "window_s": SOON_S}
    return [Ask("set_growth", limits)]


def _remove(c: Coordinator, life: Life) -> Iterable[Ask]:
    return [Ask("remove_topic", {"topic": life.topic})]


def _add(c: Coordinator, life: Life) -> Iterable[Ask]:
    given = {"topic": life.topic, "group_id": life.group, "start": "earliest", "strategy": ""}
    return [Ask("add_topic", given)]


WISHES: Mapping[str, Callable[[Coordinator, Life], Iterable[Ask]]] = {
    "isolate": _isolate,
    "readmit": _readmit,
    "drain": _drain,
    "undrain": _undrain,
    "pin": _pin,
    "unpin": _unpin,
    "freeze": _freeze,
    "go back": _go_back,
    "pause": _pause,
    "reset": _reset,
    "import": _import,
    "undo": _undo,
    "resume": _resume,
    "upgrade": _upgrade,
    "upgrade and hold": _upgrade_and_hold,
    "halt": _halt,
    "go on": _go_on,
    "roll back": _roll_back,
    "approve": _approve,
    "reject": _reject,
    "expect": _expect,
    "lend": _lend,
    "scale": _scale,
    "scale back": _scale_back,
    "redeploy": _redeploy,
    "grow": _grow,
    "shrink": _shrink,
    "outgrow": _outgrow,
    "ungrow": _ungrow,
    "remove": _remove,
    "add": _add,
}


def ask(life: Life) -> None:
    """What the life wishes, once it is done; again where it came at a bad moment."""
    points = begin(life)
    while True:
        try:
            with open_coordinator(life.settings) as c:
                run = f"{points.phase} {life.wish}"
                attempt = _noted(life.folder / f"{TRIES}{run}", "try")
                for one in WISHES[life.wish](c, life):
                    _do(c, life, one, Actor("airflow", WHO, one.action, f"{run} {one.run}".strip(), "do", attempt))
            break
        except (Unavailable, LookAgain) as error:
            log.warning("asking again: %s", error)
            time.sleep(LOOK_S)
    os._exit(0)


def _do(c: Coordinator, life: Life, one: Ask, actor: Actor) -> None:
    file, line = life.folder / ASKED_FILE, f"{actor.dag} {actor.run}"
    _noted(file, line)
    with suppress(ApprovalVoid):  # something has changed since: the next one is looked at
        ACTIONS[one.action].run(c, {"why": WHY, **one.given}, actor, dry_run=False)
        return
    _noted(file, f"{VOID} {line}")


def _noted(file: Path, line: str) -> int:
    """Write a line, and count all of them."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)
    return len(file.read_text().splitlines())


def wanted(folder: Path) -> list[str]:
    """What was asked for in a case, and not refused as void: action and run, each once."""
    file = folder / ASKED_FILE
    lines = set(file.read_text().splitlines()) if file.exists() else set()
    void = {one for one in lines if one.startswith(f"{VOID} ")}
    return sorted(lines - void - {one.removeprefix(f"{VOID} ") for one in void})


def recorded(c: Coordinator) -> list[str]:
    """What the history says of persons, in the same words: actions, and resets in the histories of their topics."""
    resets: Counter[str] = Counter()
    for topic in history.recorded(c):
        plans = history.records(c, topic, RECORDS)
        actors = (one.actor for one in plans if one.plan is not None and one.plan.strategy == positions.RESET)
        resets |= Counter(_told(actors))  # one for each topic, if it is of several
    return sorted([*resets.elements(), *_told(one.actor for one in action_log.asked(c, limit=RECORDS))])


def _told(actors: Iterable[Actor]) -> list[str]:
    return [f"{one.dag} {one.run}" for one in actors if one.who == WHO and one.kind == "airflow"]
