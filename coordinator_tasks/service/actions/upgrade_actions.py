"""The actions on upgrades of fleets: begin, show, pause, continue and roll back."""

from collections.abc import Callable, Iterable
from functools import partial

from coordinator_tasks.core.fleet.upgrade import Rule, Upgrade
from coordinator_tasks.core.model import Actor, FleetVersion
from coordinator_tasks.core.text.partition_text import shown
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given, texts
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import upgrade_report, upgrades
from coordinator_tasks.service.fleets.upgrade_begin import STEPS, Beginning, WantedUpgrade, begin, would_begin
from coordinator_tasks.service.nodes import fleet, upgrade_store

_PAUSES = "it would be paused: nothing more moves until it is continued or rolled back"
_DEFINES = ("application", "arguments", "conf", "environment", "code")


def _wish(c: Coordinator, given: Given) -> WantedUpgrade:
    rule = Rule(float(given["max_lag_s"]), int(given["max_errors"]), float(given["min_rate"]), given.get("rule") or "")
    return WantedUpgrade(
        given["app"],
        given["version"],
        _version(c, given),
        tuple(given.get("topics") or ()),
        tuple(int(one) for one in given.get("steps") or STEPS),
        60.0 * float(given["hold_minutes"]),
        60.0 * float(given["patience_minutes"]),
        rule,
        int(given.get("count") or 0),
        given.get("pattern") or "",
    )


def _version(c: Coordinator, given: Given) -> FleetVersion | None:
    """Return the given version, completed from the fleet's present version; `None` if no field is given."""
    if not any(given.get(name) for name in _DEFINES):
        return None
    now = fleet.version_of(fleet.fleet_of(c, given["app"]))
    return FleetVersion(
        given.get("application") or now.application,
        tuple(given.get("arguments") or now.arguments),
        texts(given.get("conf")) or now.conf,
        texts(given.get("environment")) or now.environment,
        given.get("code") or now.code,
    )


def _begin(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    return _would_be_begun(c, begin(c, _wish(c, given), by=actor.named, why=given.get("why", ""))).done()


def _would_be_begun(c: Coordinator, found: Beginning) -> ActionResult:
    asked = (
        ("its steps, and the way back, would need no approval, whatever the budget says",) if c.budget.is_set else ()
    )
    lines = (*found.lines, *asked)
    return ActionResult(found.upgrade, "\n".join(lines), lines)


def _changed(change: Callable[..., Upgrade], c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    found = change(c, given["app"], by=actor.named, why=given.get("why", ""))
    said = upgrade_report.told(found)
    return ActionResult(found, said, (said,))


def _would(
    find: Callable[[Coordinator, str], Upgrade], would: Callable[[Upgrade], str], c: Coordinator, given: Given
) -> ActionResult:
    found = find(c, given["app"])
    lines = (upgrade_report.told(found), would(found) or "nothing would change")
    return ActionResult(None, "\n".join(lines), lines)


def _would_roll_back(found: Upgrade) -> str:
    if found.reason:
        return "it would continue to go back" if found.paused else ""
    return f"everything would move back to {shown(found.old_consumers)}, and {shown(found.new_consumers)} would leave"


def _report(c: Coordinator, given: Given, _: Actor) -> ActionResult:
    found = upgrade_report.report(c, given["app"])
    return ActionResult(found, "\n".join(found.lines), found.lines)


def watch(c: Coordinator, given: Given) -> tuple[bool, Iterable[str]]:
    """Do the next steps of this upgrade. Return the steps, and whether the upgrade is over or waits for a person."""
    problems: list[str] = []
    lines = [*upgrades.advance(c, problems, [given["app"]]), *problems]
    found = upgrade_store.read(c, given["app"])
    ended = found.over or bool(found.paused)
    return ended, [*lines, *(upgrade_report.report(c, given["app"]).lines if ended else ())]


UPGRADE_ACTIONS = (
    Action(
        "upgrade",
        "Upgrade a fleet to another version without a gap: partitions move to new consumers in steps, and each step is judged.\n\n"
        "Give only what differs in a new version; if nothing is given, the fleet must already have a version of this name. "
        "The DAG reconcile, or `run`, does the steps; `upgrade-report` shows the progress.",
        "Upgrade a fleet to another version without a gap. Consumers of the new version start beside the old consumers, partitions move over in "
        "steps, and each step is held and judged. After a failed step everything moves back. At the end the old "
        "consumers leave. The run follows the upgrade to its end.",
        (
            *(p.APP, p.VERSION, p.CODE, p.OTHER_APPLICATION, p.ARGUMENTS, p.CONF, p.ENVIRONMENT, p.SOME_TOPICS),
            *(p.STEPS, p.HOLD_MINUTES, p.PATIENCE, p.MAX_LAG, p.MAX_ERRORS, p.MIN_RATE, p.RULE, p.NEW_COUNT),
            *(p.PATTERN, *p.ASKED),
        ),
        do=_begin,
        preview=lambda c, given: _would_be_begun(c, would_begin(c, _wish(c, given))),
        watch=watch,
    ),
    Action(
        "upgrade_report",
        "Show the last upgrade of a fleet: steps, reason of a way back, and the stall of each moved partition.",
        "Show the last upgrade of a fleet: steps done, reason of a way back, the stall of "
        "each moved partition, and the longest stall of staying partitions.",
        (p.APP,),
        do=_report,
        reads=True,
    ),
    Action(
        "pause_upgrade",
        "Pause the upgrade of a fleet: nothing more moves until the upgrade is continued or rolled back.",
        "Pause the upgrade of a fleet. Moved partitions stay, until the upgrade is continued or rolled back.",
        (p.APP, *p.ASKED),
        do=partial(_changed, upgrades.pause),
        preview=partial(_would, upgrades.under_way, lambda one: "" if one.paused else _PAUSES),
    ),
    Action(
        "continue_upgrade",
        "Continue a paused upgrade; a held step is held and judged from the beginning.",
        "Continue a paused upgrade. A held step is held and judged from the beginning.",
        (p.APP, *p.ASKED),
        do=partial(_changed, upgrades.go_on),
        preview=partial(_would, upgrades.under_way, lambda one: "it would continue" if one.paused else ""),
        watch=watch,
    ),
    Action(
        "roll_back_upgrade",
        "Move everything back to the old version of a fleet; the new consumers leave.",
        "Move everything back to the old version of a fleet, at any moment before the end. The new consumers leave.",
        (p.APP, *p.ASKED),
        do=partial(_changed, upgrades.roll_back),
        preview=partial(_would, upgrades.to_roll_back, _would_roll_back),
        watch=watch,
    ),
)
