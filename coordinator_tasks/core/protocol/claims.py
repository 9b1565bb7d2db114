"""How the claim of a consumer id changes: pure steps, each written by a compare-and-set on its node."""

from dataclasses import replace

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.fields import MAX_COUNT
from coordinator_tasks.core.model import Ending, IdClaim, Member

MAX_REGISTRATIONS = 16
MAX_ENDED = 256
MAX_STEP = 1_000_000
MAX_REASONS = 16
MAX_REASON = 240  # characters


def drawn(claim: IdClaim, step: int, seen: int = 0) -> IdClaim:
    """The claim with the next incarnation; `seen` = the largest one met elsewhere (a restored ZooKeeper counts low).

    `step`: by chance in 1..`MAX_STEP`. When ZooKeeper loses its counters, or gets older ones back, a counter that went
    up by one would give a new process the number of one that lives on: both would take what is granted to that number.
    Raises `Refused` where no number is left that could be read again: somebody has written the counter by hand.
    """
    number = max(claim.incarnation, seen) + step
    if number > MAX_COUNT:
        raise Refused(
            f"consumer {claim.consumer!r} has no incarnation left above {max(claim.incarnation, seen)}; correct its node in "
            "ids or members, or give it another id"
        )
    return replace(claim, incarnation=number)


def predecessor(claim: IdClaim, member: Member) -> str:
    """The process that registered last and that `member`, another one, can ask its own host about; empty = none."""
    another = claim.registered not in (0, member.incarnation)
    return claim.process if another and claim.boot_id and claim.boot_id == member.boot_id else ""


def registered(claim: IdClaim, member: Member, now: float, *, predecessor_gone: bool = False) -> IdClaim:
    """The claim once `member` is registered: what was noted of its absence or its end is no longer true.

    What answered us at another address, or as another incarnation, is no longer what a refusal there would speak of.
    `predecessor_gone`: the process of `predecessor` is over, which is the end of its incarnation.
    """
    if predecessor_gone and predecessor(claim, member):
        claim = ended(claim, claim.registered, Ending.REAPED)
    same = (claim.answered, claim.address) == (member.incarnation, member.address)
    return replace(
        claim,
        incarnation=max(claim.incarnation, member.incarnation),
        address=member.address,
        boot_id=member.boot_id,
        direct=member.direct,
        registered=member.incarnation,
        process=member.process,
        answered=claim.answered if same else 0,
        registrations=(*claim.registrations, now)[-MAX_REGISTRATIONS:],
        ended={number: how for number, how in claim.ended.items() if number != member.incarnation},
        reasons={number: reason for number, reason in claim.reasons.items() if number != member.incarnation},
        absence=None,
    )


def ended(claim: IdClaim, incarnation: int, how: Ending, reason: str = "") -> IdClaim:
    """The claim once this incarnation is known to be over; the first knowledge stays, the oldest is forgotten.

    `reason`: why it ended; empty = as it was asked to, or not known.
    """
    known = {incarnation: how, **claim.ended}
    said = one_line(reason)
    reasons = {**({incarnation: said} if said else {}), **claim.reasons}
    return replace(
        claim,
        ended={number: known[number] for number in sorted(known)[-MAX_ENDED:]},
        reasons={number: reasons[number] for number in sorted(reasons)[-MAX_REASONS:]},
    )


def one_line(text: str) -> str:
    """A reason that others show: one line without control characters, of at most `MAX_REASON` characters.

    A semicolon becomes a comma: a recorded cause is read back in parts that semicolons separate.
    """
    printable = "".join(one if one.isprintable() else " " for one in text[: 16 * MAX_REASON])
    line = " ".join(printable.replace(";", ",").split())
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"


def same_process(one: Member, other: Member) -> bool:
    """Whether two registrations are one process: numbers alone could meet again after ZooKeeper was lost."""
    return (one.incarnation, one.address, one.boot_id) == (other.incarnation, other.address, other.boot_id)


def in_use(live: Member, wanted: Member, session_timeout_s: float) -> str:
    """Why `wanted` cannot have its id, and what to do: the text of `IdInUse`."""
    return (
        f"the consumer id {live.consumer!r} is in use: incarnation {live.incarnation} is registered at {live.address}, "
        f"so incarnation {wanted.incarnation} cannot register; stop that process or choose another id "
        f"(if it has just died, try again after {session_timeout_s:g} s)"
    )
