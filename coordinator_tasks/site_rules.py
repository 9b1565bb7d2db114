"""A site's own rules for upgrades: callables that the settings name. Only this module imports them.

A rule takes `Facts` (about a step of an upgrade) and returns, as a text, why the step fails. An empty text, `None` or
`True` means that the step passes, and `False` that it fails. Every error in a rule, or in its import, becomes a
`BadRule` of one line. Then an upgrade does not begin, or pauses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from coordinator_tasks.core.errors import BadRule
from coordinator_tasks.core.fleet.upgrade_rule import Facts, SiteRule
from coordinator_tasks.core.names import MAX_WORDS_CHARS
from coordinator_tasks.site_strategies import FAILURES, imported, one_line


@dataclass(frozen=True, slots=True)
class _Named:
    """A rule and its name. `source`: `package.module:callable`."""

    name: str
    source: str
    call: Callable[[Facts], object]

    def __call__(self, facts: Facts) -> str:
        """Return the rule's answer in one line. Raises `BadRule`."""
        try:
            answer = self.call(facts)
        except FAILURES as error:
            raise BadRule(
                f"the rule {self.name!r} ({self.source}) failed with {one_line(error)}; correct it and continue the upgrade, "
                "or roll it back"
            ) from error
        if answer is False:
            return f"the rule {self.name!r} says no"
        if answer is None or answer is True:
            return ""
        if isinstance(answer, str):
            return " ".join(answer.split())[:MAX_WORDS_CHARS]
        raise BadRule(
            f"the rule {self.name!r} ({self.source}) answered with {type(answer).__name__}; it has to return a text, None or a "
            "boolean: correct it and continue the upgrade, or roll it back"
        )


def _imported(name: str, source: str) -> SiteRule:
    advice = "correct it, or install it here; then begin the upgrade, or continue it if it is paused"
    try:
        found = imported(source)
    except FAILURES as error:
        raise BadRule(f"the rule {name!r} ({source}) cannot be imported: {one_line(error)}; {advice}") from error
    if not callable(found):
        raise BadRule(f"the rule {name!r} ({source}) is no callable but {type(found).__name__}; {advice}")
    return _Named(name, source, found)


def rules_of(named: Mapping[str, str]) -> dict[str, Callable[[], SiteRule]]:
    """Return name → importer, for the rules in the settings. An importer raises `BadRule`."""
    return {name: partial(_imported, name, source) for name, source in named.items()}
