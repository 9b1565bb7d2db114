"""One incarnation of a consumer, with everything that is stored of it and that it says itself."""

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
    """One incarnation, with the registration, the claim, the directive and the answer of its id; `None` = there is none.

    The properties speak of this incarnation alone: what is known of another one of the id says nothing of it. `now`: when
    that is asked, for a planned restart that runs out.
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
        """How we know that it is over; `None` = we do not."""
        return self.claim.ended.get(self.incarnation) if self.claim is not None else None

    @property
    def reason(self) -> str:
        """Why it ended, where that is known."""
        return self.claim.reasons.get(self.incarnation, "") if self.claim is not None else ""

    @property
    def isolation(self) -> Isolation | None:
        """The isolation that holds for it, until a readmission has taken effect (and removed it)."""
        found = self.directive.isolation if self.directive is not None else None
        return found if found is not None and found.incarnation in (0, self.incarnation) else None

    @property
    def draining(self) -> Draining | None:
        """The draining that it is to follow: it gives everything away, for good or until it has restarted."""
        found = self.directive.draining if self.directive is not None else None
        if found is not None and found.incarnation in (0, self.incarnation):
            return found
        restart = self.restart
        if restart is None or not restart.moves:
            return None
        return Draining(restart.by, f"restart{because(restart.why)}", restart.at, restart.incarnation)

    @property
    def restart(self) -> PlannedRestart | None:
        """The planned restart of it that has not run out."""
        found = self.directive.restart if self.directive is not None else None
        mine = found is not None and found.incarnation == self.incarnation
        return found if found is not None and mine and found.holds(self.now) else None

    @property
    def kept_until(self) -> float:
        """Until when its partitions wait for the next process of the id, by a planned restart; 0 = they do not wait.

        A registered consumer that closes for its restart, or no longer answers, is waited for as well.
        """
        found = self.restart
        over = self._works or self.draining is not None or self._successor_is_ready
        return found.until_at if found is not None and not found.moves and not over else 0.0

    @property
    def _works(self) -> bool:
        """Whether it is registered, answers, and is not about to end."""
        return self.registered and self.answers and isinstance(self.answer, ConsumerStatus) and not self.answer.leaves

    @property
    def _successor_is_ready(self) -> bool:
        """Whether another incarnation is registered whose interface has answered, so that it can take partitions."""
        if self.member is None or self.registered:
            return False
        said = self.answer.incarnation if isinstance(self.answer, ConsumerStatus) else 0
        return self.member.incarnation in (said, self.claim.answered if self.claim is not None else 0)

    @property
    def leaving(self) -> bool:
        """Whether it was asked to end: it leaves, also where nobody takes over what it has."""
        found = self.directive.draining if self.directive is not None else None
        return found is not None and self.incarnation > 0 and self.incarnation in (found.incarnation, found.leaving)


def with_leave(directive: Directive, leave: Draining) -> Directive:
    """The directive with what the consumer asks for itself in its own node: that one incarnation may end."""
    if not leave.incarnation:
        return directive  # that would be of every incarnation, and only a person asks for that
    if directive.draining is None or directive.draining.incarnation:
        return replace(directive, draining=leave)
    return replace(directive, draining=replace(directive.draining, leaving=leave.incarnation))


def interfaces(consumers: Iterable[str], members: Mapping[str, Member], claims: Mapping[str, IdClaim]) -> list[Member]:
    """Where to ask these consumers, in their order; one that has no known address is left out.

    Each is asked at its registration, or at the address of the last one: it may have lost only ZooKeeper.
    """
    found = []
    for consumer in consumers:
        claim = claims.get(consumer)
        if consumer in members:
            found.append(members[consumer])
        elif claim is not None and claim.address:
            found.append(Member(claim.consumer, claim.incarnation, claim.address, claim.boot_id))
    return found
