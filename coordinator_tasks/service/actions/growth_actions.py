"""The actions on the growth of a fleet: its limits, and a single decision."""

from coordinator_tasks.core.fleet.growth import Limits
from coordinator_tasks.core.model import Actor
from coordinator_tasks.core.text.partition_text import named
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.actions.action import Action, ActionResult, Given
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets import autoscale


def _would_set(c: Coordinator, given: Given) -> ActionResult:
    if not given["most"]:
        return _would_have_none(c, given["app"])
    return _would_have(autoscale.would_set(c, given["app"], autoscale.limits_of(given)).limits, given["app"])


def _set_growth(c: Coordinator, given: Given, _: Actor) -> ActionResult:
    if not given["most"]:
        would = _would_have_none(c, given["app"])
        autoscale.end_growth(c, given["app"])
    else:
        would = _would_have(autoscale.set_growth(c, given["app"], autoscale.limits_of(given)).limits, given["app"])
    return would.done(" would have ", " has ")


def _would_have_none(c: Coordinator, app: str) -> ActionResult:
    growth = autoscale.would_end(c, app)
    said = [f"{app} would have no limits of growth; `autoscale` would leave it alone"]
    for topic, partitions in autoscale.pinned_by_growth(c, growth).items() if growth is not None else ():
        unpin = " ".join((f"unpin {topic}", *(f"--partition {one}" for one in partitions)))
        said.append(f"{named(partitions)} of {topic} would stay pinned by its moves: `{unpin}` ends that")
    return ActionResult(None, "\n".join(said), tuple(said))


def _would_have(limits: Limits, app: str) -> ActionResult:
    does = "do what the policy says" if limits.act else "only say what it finds right"
    said = f"{app} would have {limits.least} to {limits.most} consumers; `autoscale` would {does}"
    return ActionResult(limits, said, (said,))


def _autoscale(c: Coordinator, given: Given, actor: Actor, *, write: bool = True) -> ActionResult:
    problems: list[str] = []
    found = list(autoscale.look(c, [given["app"]] if given.get("app") else [], actor, problems, write=write))
    lines = (*(one.text if write else one.would for one in found), *problems) or ("no fleet has limits of growth",)
    return ActionResult(found, "\n".join(lines), lines, partial=bool(problems))


GROWTH_ACTIONS = (
    Action(
        "set_growth",
        "Set the limits between which a fleet grows and shrinks by measured load; in shadow mode unless --act is given.\n\n"
        "`autoscale` looks at the load, and reports or applies the policy's decision. For pods of a StatefulSet, app is its name.",
        "Set the limits between which a fleet grows and shrinks by measured load. Without *act* the decisions are only reported.",
        (p.APP, *p.GROWTH, *p.ASKED),
        do=_set_growth,
        preview=_would_set,
    ),
    Action(
        "autoscale",
        "Look at the load of the fleets with limits of growth (or of a single fleet), and report or apply the policy's decision.\n\n"
        "Measuring the rates takes a quarter of a minute. The DAG autoscale does the same every minute. Exit code 1 if "
        "a fleet is left unchanged.",
        "",
        (p.ANY_APP, p.DRY_RUN, p.BY),
        do=_autoscale,
        preview=lambda c, given: _autoscale(c, given, Actor("nobody"), write=False),
    ),
)
