"""Everything stored and reported about one incarnation of a consumer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from coordinator_tasks.core.model import (
    Answer,
    ConsumerStatus,
    Directive,
    Draining,
    Ending,
    IdClaim,
    Isolation,
    Member,
    PlannedRestart,
)
from coordinator_tasks.core.text.partition_text import because


@dataclass(frozen=True, slots=True)
class Life:
    """An incarnation, with the registration, claim, directive and answer of its id; `None` means absent.

    The properties describe this incarnation alone: facts about another incarnation of the id do not count. `now`: the
    time at which a planned restart may have expired.
    """

    consumer: str
    incarnation: int
    member: Member | None = None
    claim: IdClaim | None = None
    directive: Directive | None = None
    answer: Answer | None = None
    now: float = 0.0

    @property
    def registered(self) -> bool:
        return self.member is not None and self.member.incarnation == self.incarnation

    @property
    def answers(self) -> bool:
        return isinstance(self.answer, ConsumerStatus) and self.answer.incarnation == self.incarnation

    @property
    def ending(self) -> Ending | None:
        """Return how the incarnation ended; `None` if no end is known."""
        return self.claim.ended.get(self.incarnation) if self.claim is not None else None

    @property
    def reason(self) -> str:
        """Return why the incarnation ended; empty if unknown."""
        return self.claim.reasons.get(self.incarnation, "") if self.claim is not None else ""

    @property
    def isolation(self) -> Isolation | None:
        """Return the incarnation's isolation. A readmission removes the isolation."""
        stored = self.directive.isolation if self.directive is not None else None
        return stored if stored is not None and stored.incarnation in (0, self.incarnation) else None

    @property
    def draining(self) -> Draining | None:
        """Return the incarnation's draining: the stored draining, or a planned restart that moves partitions."""
        stored = self.directive.draining if self.directive is not None else None
        if stored is not None and stored.incarnation in (0, self.incarnation):
            return stored
        restart = self.restart
        if restart is None or not restart.moves:
            return None
        return Draining(restart.by, f"restart{because(restart.why)}", restart.at, restart.incarnation)

    @property
    def restart(self) -> PlannedRestart | None:
        """Return the incarnation's planned restart, unless expired."""
        found = self.directive.restart if self.directive is not None else None
        mine = found is not None and found.incarnation == self.incarnation
        return found if found is not None and mine and found.holds(self.now) else None

    @property
    def kept_until(self) -> float:
        """Return until when a planned restart keeps the partitions for the id's next process; 0 if it does not.

        The partitions wait even while the consumer is registered, if it closes for the restart or no longer answers.
        """
        restart = self.restart
        over = self._works or self.draining is not None or self._successor_is_ready
        return restart.until_at if restart is not None and not restart.moves and not over else 0.0

    @property
    def _works(self) -> bool:
        """Return whether the incarnation is registered, answers, and is not about to end."""
        return self.registered and self.answers and isinstance(self.answer, ConsumerStatus) and not self.answer.leaves

    @property
    def _successor_is_ready(self) -> bool:
        """Return whether another incarnation is registered and has answered, so that it can take partitions."""
        if self.member is None or self.registered:
            return False
        answering = self.answer.incarnation if isinstance(self.answer, ConsumerStatus) else 0
        return self.member.incarnation in (answering, self.claim.answered if self.claim is not None else 0)

    @property
    def leaving(self) -> bool:
        """Return whether the incarnation was asked to end, even if no consumer takes over its partitions."""
        draining = self.directive.draining if self.directive is not None else None
        asked = (draining.incarnation, draining.leaving) if draining is not None else ()
        return self.incarnation > 0 and self.incarnation in asked


def with_leave(directive: Directive, leave: Draining) -> Directive:
    """Return the directive with the leave request of the consumer's own node. Only the incarnation in it may end."""
    if not leave.incarnation:
        return directive  # a consumer may ask only for its own incarnation
    if directive.draining is None or directive.draining.incarnation:
        return replace(directive, draining=leave)
    return replace(directive, draining=replace(directive.draining, leaving=leave.incarnation))


def interfaces(consumers: Iterable[str], members: Mapping[str, Member], claims: Mapping[str, IdClaim]) -> list[Member]:
    """Return where to reach these consumers, in the given order. Consumers with an unknown address are left out.

    An unregistered consumer is reached at its last address, because the consumer may have lost only ZooKeeper.
    """
    targets = []
    for consumer in consumers:
        claim = claims.get(consumer)
        if consumer in members:
            targets.append(members[consumer])
        elif claim is not None and claim.address:
            targets.append(Member(claim.consumer, claim.incarnation, claim.address, claim.boot_id))
    return targets
