"""The actions on fleets: their consumers, their size, and the replacement of running consumers."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from coordinator_tasks.core.errors import UNREADABLE, BadFleet, CoordinatorError, NotManaged
from coordinator_tasks.core.machine.fleet_topics import conflicts, named, unnamed
from coordinator_tasks.core.machine.life import Life
from coordinator_tasks.core.model import Actor, Fleet
from coordinator_tasks.core.text.partition_text import agreed, counted, cut, shown
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given, texts, will
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import redeployment, scaling
from coordinator_tasks.service.nodes import fleet, topics
from coordinator_tasks.service.nodes.directives import UNTIL_ANOTHER, may_have, registered
from coordinator_tasks.service.nodes.observe import load_directives
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import overview

_TOLD = ("application", "code", "arguments", "conf", "environment")


def _wanted(given: Given) -> Fleet:
    return Fleet(
        given["app"],
        given["application"],
        tuple(given.get("consumers") or ()),
        tuple(given.get("arguments") or ()),
        texts(given.get("conf")),
        environment=texts(given.get("environment")),
        code=given.get("code") or "",
    )


def _set_fleet(c: Coordinator, given: Given, _: Actor) -> ActionResult:
    wanted = _wanted(given)
    fleet.check_set(c, wanted)
    warned = _topics_checked(c, wanted, given)
    try:
        unwanted = tuple(_unwanted(fleet.fleet_of(c, wanted.app), wanted))
    except NotManaged:
        unwanted = ()
    found = fleet.set_fleet(c, wanted)
    said = f"{_listed(found)}; the missing ones are launched"
    return ActionResult(found, "\n".join(will((said, *unwanted, *_not_launched(c, found), *warned))), (_listed(found),))


def _topics_checked(c: Coordinator, wanted: Fleet, given: Given) -> list[str]:
    """Return remarks on the fleet's topics. Raises `BadFleet` if another fleet has one of the topics, unless forced."""
    known = {one.app: one for one in fleet.fleets(c)}
    present = known.get(wanted.app)
    known[wanted.app] = wanted
    conflict = "; ".join(conflicts(known.values(), transitions.topics(c)).get(wanted.app, ()))
    same = present is not None and bool(present.consumers) and named(present.arguments) == named(wanted.arguments)
    if conflict and not same and not given.get("force"):
        raise BadFleet(f"{conflict}, or --force (in a form: Force) if they are to share topics")
    return [text] if (text := conflict or ("" if same else unnamed(wanted))) else []


def _not_launched(c: Coordinator, wanted: Fleet) -> Iterator[str]:
    asked = load_directives(c, {})
    mine = [asked[one] for one in wanted.consumers if one in asked]
    lasting = [one for one in mine if one.draining is not None and not one.draining.incarnation]
    found = [one.consumer for one in lasting if not redeployment.is_ours(one, wanted.app)]
    if found:
        are, each = agreed(len(found), "is", "are"), agreed(len(found), "it", "each")
        yield f"{shown(found)} {are} drained and would not be launched; let {each} in again: `undrain {found[0]} --fleet {wanted.app}`"
    lives = [Life(one.consumer, 0, directive=one) for one in mine]  # of the next processes
    if kept := [one.consumer for one in lives if one.isolation and not one.isolation.is_over(c.clock.now())]:
        are, each = agreed(len(kept), "is", "are"), agreed(len(kept), "it", "each")
        yield f"{shown(kept)} {are} isolated and would not be launched; let {each} in again: `readmit {kept[0]}`"


def _listed(found: Fleet) -> str:
    names = f": {shown(found.consumers)}" if found.consumers else ""
    return f"{found.app} should have {counted(len(found.consumers), 'consumer')}{names}"


def _compared(c: Coordinator, given: Given) -> Iterator[str]:
    wanted = _wanted(given)
    fleet.check_set(c, wanted)
    warned = _topics_checked(c, wanted, given)
    yield from list(_changed(c, wanted)) or [f"nothing would change: {_listed(wanted)}"]
    yield from _not_launched(c, wanted)
    yield from warned


def _changed(c: Coordinator, wanted: Fleet) -> Iterator[str]:
    try:
        now = fleet.fleet_of(c, wanted.app)
    except NotManaged:
        yield f"{wanted.app} is new, and would be set: {_listed(wanted)}"
        return
    for name in _TOLD:
        if getattr(now, name) != getattr(wanted, name):
            yield f"{wanted.app}: {name} was {_shown(getattr(now, name))} and would become {_shown(getattr(wanted, name))}"
    for consumer in sorted(set(wanted.consumers) - set(now.consumers)):
        yield f"{wanted.app}: {consumer} would join"
    yield from _unwanted(now, wanted)


def _unwanted(now: Fleet, wanted: Fleet) -> Iterator[str]:
    for consumer in sorted(set(now.consumers) - set(wanted.consumers)):
        yield f"{wanted.app}: {consumer} would no longer be wanted; drain it, or it reads on while it lives"


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{name}={one}" for name, one in sorted(value.items())]
    text = value if isinstance(value, str) else " ".join(value)
    return repr(cut(text, 200))


def _would_scale(c: Coordinator, given: Given) -> ActionResult:
    found = scaling.would_scale(c, given["app"], int(given["count"]), given.get("pattern") or "")
    return _would_be_scaled(found, [*_join_lines(found), *_leave_lines(c, found)])


def _scale(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    count, pattern = int(given["count"]), given.get("pattern") or ""
    effect = _leave_lines(c, scaling.would_scale(c, given["app"], count, pattern))
    found = scaling.scale(c, given["app"], count, pattern, by=actor.named, why=given.get("why", ""))
    would = _would_be_scaled(found, [*_join_lines(found), *(f"{one} is draining" for one in found.leaves), *effect])
    return would.done()


def _would_be_scaled(found: scaling.Scaled, lines: list[str]) -> ActionResult:
    there = _listed(found.fleet)
    said = [*lines, there.replace(" should ", " would ")] if lines else [f"nothing would change: {there}"]
    return ActionResult(found, "\n".join(said), tuple(said))


def _join_lines(found: scaling.Scaled) -> list[str]:
    return [f"{one} would join" for one in found.joins]


def _leave_lines(c: Coordinator, found: scaling.Scaled) -> list[str]:
    lives = registered(c) if found.leaves else {}
    return [line for one in found.leaves for line in given_away(c, lives, one, found.leaves, ", and leave")]


def given_away(
    c: Coordinator, lives: Mapping[str, Life], consumer: str, leaves: Collection[str], then: str = ""
) -> Iterator[str]:
    """Yield what happens to all partitions of the consumer if the consumers in `leaves` leave.

    `then`: what the consumer does once all partitions are given away. `lives`: the registered consumers.
    """
    problems: dict[str, CoordinatorError] = {}
    held = overview.held(c, consumer, problems)
    for topic, partitions in held.items():
        until = kept_until(c, lives, topic, leaves)
        verb, end = ("would keep", until) if until else ("would give away", then)
        yield f"{consumer} {verb} {counted(len(partitions), 'partition')} of {topic}{end}"
    yield from overview.not_known(consumer, problems)
    if not held and not problems:
        yield f"{consumer} holds nothing, {'and would leave' if then else 'so nothing would move'}"


def kept_until(c: Coordinator, lives: Mapping[str, Life], topic: str, leaves: Collection[str]) -> str:
    """Return until when leaving consumers keep the partitions of a topic; empty if other consumers get the partitions.

    `lives`: the registered consumers.
    """
    try:
        if topics.configuration(c, topic).frozen:
            return " until the topic is unfrozen"
    except UNREADABLE:
        return " until the topic's configuration can be read"
    return "" if may_have(topic, lives) - set(leaves) else f" {UNTIL_ANOTHER}"


def _redeploy(c: Coordinator, given: Given, actor: Actor) -> ActionResult:
    begun = redeployment.redeploy(c, given["app"], by=actor.named, why=given.get("why", ""))
    return _would_be_redeployed(begun).done()


def _would_be_redeployed(found: redeployment.Redeployed) -> ActionResult:
    lines = [
        f"then {one} would be" if place else f"{one} would be replaced first"
        for place, one in enumerate(sorted(found.replaced))
    ]
    said = lines or [f"no consumer of {found.fleet.app} lives: nothing would be replaced"]
    return ActionResult(found, "\n".join(said), tuple(said))


FLEET_ACTIONS = (
    Action(
        "set_fleet",
        "Set the consumers of an application that should run; the DAGs consumers and reconcile, or a launcher, start the missing ones.\n\n"
        "The former definition is replaced. Running consumers are not touched: `redeploy` replaces them.",
        "Set the consumers of an application that should run. The former definition is replaced; running consumers are not touched.",
        (p.APP, p.APPLICATION, p.CONSUMERS, p.ARGUMENTS, p.CONF, p.ENVIRONMENT, p.CODE, p.FORCE, *p.ASKED),
        do=_set_fleet,
        before=_compared,
    ),
    Action(
        "scale",
        "Bring a fleet to a number of consumers; application, arguments and settings stay as they are.\n\n"
        "New ids follow the present ids. The highest numbers are drained and leave.",
        "Bring a fleet to a number of consumers. New ids follow the present ids; the highest numbers are drained and leave.",
        (p.APP, p.COUNT, p.PATTERN, *p.ASKED),
        do=_scale,
        preview=_would_scale,
    ),
    Action(
        "redeploy",
        "Replace the processes of a fleet, one at a time, with its present settings.\n\n"
        "The DAG reconcile, or `run`, does this: each consumer gives its partitions away, leaves, and is launched again.",
        "Replace the processes of a fleet, one at a time, with its present settings. `reconcile` does a step each minute: a "
        "consumer gives its partitions away, leaves, and is launched again.",
        (p.APP, *p.ASKED),
        do=_redeploy,
        preview=lambda c, given: _would_be_redeployed(redeployment.would_redeploy(c, given["app"])),
    ),
)
