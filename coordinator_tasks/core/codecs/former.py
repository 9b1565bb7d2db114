"""Records of earlier versions, with sentences in place of today's values. No other module reads these sentences."""

import re

from coordinator_tasks.core.model import Cause, CauseKind, Condition, DrainKind, DrainOwner, Ending

_SHRUNK = re.compile(r"(?:shrink|undo) to \d+ consumers?: ")
_ON = "goes on: "
_NEXT = re.compile(r"; (?=(?:joined|draining|isolated|gone|no longer a target): |and \d|the roll back )")
_ENDINGS = {one.value: one for one in Ending}
_GONE = re.compile(r"gone: (\S+) \((\w+)(?:, restart planned by ([^:]+))?(?:: (.+))?\)")
_BY = re.compile(r"(draining|isolated): (\S+) \(by ([^:]+)(?:: (.+))?\)")
_JOINED, _DROPPED = re.compile(r"joined: (.+)"), re.compile(r"no longer a target: (\S+)")


def former_owner(by: str, why: str, incarnation: int) -> DrainOwner:
    """Return the owner of a stored draining that has no field `owner`.

    `fleet` is empty for a draining by growth, because its sentence does not name the fleet.
    """
    upgrade = f"upgrade of {by} to "
    if incarnation:
        return DrainOwner(DrainKind.ITSELF)
    if why == "redeployment":
        return DrainOwner(DrainKind.REDEPLOYMENT, by)
    if why.startswith(upgrade):
        return DrainOwner(DrainKind.UPGRADE, by, why.removeprefix(upgrade))
    return DrainOwner(DrainKind.GROWTH if _SHRUNK.match(why) else DrainKind.PERSON)


def former_condition(health: str) -> Condition:
    """Return the condition of an answer that has no field `condition`. An unknown word counts as stuck."""
    word = health.partition(":")[0]
    if word in set(Condition):
        return Condition(word)
    return Condition.STUCK if word else Condition.OK  # a snapshot may have no word


def former_causes(cause: str) -> tuple[Cause, ...]:
    """Return the causes of a stored transition that has no field `causes`. An unknown sentence stays a sentence."""
    on = (Cause(CauseKind.CONTINUED),) if cause.startswith(_ON) else ()
    rest = cause.removeprefix(_ON)
    return (*on, *map(_former_cause, _NEXT.split(rest))) if rest else ()


def _former_cause(text: str) -> Cause:
    if found := _GONE.fullmatch(text):
        consumer, how, by, why = found.groups("")
        return Cause(CauseKind.GONE, (consumer,), by=by, why=why, ending=_ENDINGS.get(how))
    if found := _BY.fullmatch(text):
        kind, consumer, by, why = found.groups("")
        return Cause(CauseKind(kind), (consumer,), by=by, why=why)
    if found := _JOINED.fullmatch(text):
        return Cause(CauseKind.JOINED, tuple(found[1].split(", ")))
    if found := _DROPPED.fullmatch(text):
        return Cause(CauseKind.DROPPED, (found[1],))
    return Cause(CauseKind.TOLD, why=text)
