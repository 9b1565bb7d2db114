"""The declaration of an action. The form in Airflow and the command are made from it."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Actor
from coordinator_tasks.core.names import check_app, check_consumer, check_topic, check_words, spelled
from coordinator_tasks.service.actions import parameters as p
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.action_log import done_by, recording

Given: TypeAlias = Mapping[str, Any]
"""The parameters by name, from the form or the command."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The effect of an action, or of its dry run.

    `found` is for a program, `text` for the terminal, `lines` for the log of the form's task. `partial`: something is
    left out, and the lines name it.
    """

    found: Any
    text: str
    lines: tuple[str, ...] = ()
    partial: bool = False

    def done(self, would: str = "", does: str = "") -> "ActionResult":
        """Return the result of the action from the result of its dry run, with `does` for `would` in the texts."""
        text, *lines = will(one.replace(would, does) for one in (self.text, *self.lines))
        return replace(self, text=text, lines=tuple(lines))


NOTHING = ActionResult(None, "")
ONCE = "another try of this task has done it; start a new run to do it again"
_ONCE = ActionResult(None, ONCE, (ONCE,))


@dataclass(frozen=True, slots=True)
class Action:
    """An action. `help` is the text of the command, `form` the text of the form. Without `form` the action has no form.

    `reads`: the action changes nothing, and has no dry run. `destructive`: a sentence about the loss, which a person at
    a terminal must confirm first.

    - `do` runs the action.
    - `preview` tells the effect, and changes nothing.
    - `before` yields lines about the effect. The form's task logs them first. A command without `preview` shows them as
      its dry run. `before` raises the same refusals as `do`. `preview` and `before` speak in the conditional.
    - `watch` does the next step and reports it. A second task of the form repeats `watch` until it returns True.
    """

    name: str
    help: str
    form: str
    parameters: tuple[p.Parameter, ...]
    do: Callable[[Coordinator, Given, Actor], ActionResult]
    preview: Callable[[Coordinator, Given], ActionResult] = lambda _c, _given: NOTHING
    before: Callable[[Coordinator, Given], Iterable[str]] = lambda _c, _given: ()
    reads: bool = False
    destructive: str = ""
    watch: Callable[[Coordinator, Given], tuple[bool, Iterable[str]]] | None = None

    @property
    def words(self) -> str:
        """Return the command as a person types it."""
        return spelled(self.name)

    def run(self, c: Coordinator, given: Given, actor: Actor, *, dry_run: bool) -> ActionResult:
        """Run the command. The transaction that makes the changes also records them, with the actor.

        If an earlier try of an Airflow task has done the work, a retry does nothing and is not refused.
        """
        check_names(given)
        why = check_words(given.get("why", ""), "reason")
        if dry_run:
            return self.preview(c, given)
        about = about_of(given)
        if done_by(c, self.name, about, actor):
            return _ONCE
        try:
            return self.do(recording(c, self.name, about, actor, why), given, actor)
        except Refused:
            if not done_by(c, self.name, about, actor):  # an earlier try may still run
                raise
            return _ONCE

    def would(self, c: Coordinator, given: Given, actor: Actor) -> ActionResult:
        """Return the text of the command's dry run."""
        found = self.run(c, given, actor, dry_run=True)
        if found is not NOTHING:
            return found
        said = tuple(self.before(c, given))
        return ActionResult(said, "\n".join(said), said)

    def lines(self, c: Coordinator, given: Given, actor: Actor, *, dry_run: bool) -> list[str]:
        """Run the form's task and return its log lines. Parameters that the form lacks are left out."""
        fields = {one.name for one in self.parameters if one.form is not None}
        given = {name: value for name, value in given.items() if name in fields}
        check_names(given)
        if not dry_run and done_by(c, self.name, about_of(given), actor):
            return [ONCE]
        return [*self.before(c, given), *self.run(c, given, actor, dry_run=dry_run).lines]


def will(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines of a dry run with `will` for `would`: the change is requested, and the next plan makes it."""
    return tuple(re.sub(r"\bwould\b", "will", line) for line in lines)


def texts(parameters: Mapping[str, Any] | None) -> dict[str, str]:
    """Return names with text values. A form gives JSON values; numbers and booleans become their JSON text."""
    found = parameters or {}
    return {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def about_of(given: Given) -> str:
    """Return the topic, consumer or fleet that an action's record names; empty if there is none."""
    return next((str(given[name]) for name in ("topic", "consumer", "app") if name in given), "")


def check_names(given: Given) -> None:
    """Raise `InvalidName` for an impossible name of a topic, consumer or fleet."""
    for name, check in (("topic", check_topic), ("consumer", check_consumer), ("app", check_app)):
        if given.get(name) or (name in given and name != "app"):
            check(given[name])
