"""Records of earlier versions: sentences where this version stores values. No other module reads these sentences."""

import re

from coordinator_tasks.core.model import DrainKind, DrainOwner

_SHRUNK = re.compile(r"(?:shrink|undo) to \d+ consumers?: ")


def former_owner(by: str, why: str, incarnation: int) -> DrainOwner:
    """Return the owner of a stored draining without `owner`.

    The draining of a growth does not name the fleet, so `fleet` is empty.
    """
    upgrade = f"upgrade of {by} to "
    if incarnation:
        return DrainOwner(DrainKind.ITSELF)
    if why == "redeployment":
        return DrainOwner(DrainKind.REDEPLOYMENT, by)
    if why.startswith(upgrade):
        return DrainOwner(DrainKind.UPGRADE, by, why.removeprefix(upgrade))
    return DrainOwner(DrainKind.GROWTH if _SHRUNK.match(why) else DrainKind.PERSON)
