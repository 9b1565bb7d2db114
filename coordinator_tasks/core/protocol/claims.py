"""Pure changes of a consumer id's claim. The caller writes a result by compare-and-set on the claim's node."""

from dataclasses import replace

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Ending, IdClaim, Member
from coordinator_tasks.core.text.json_fields import MAX_COUNT

MAX_REGISTRATIONS = 16
MAX_ENDED = 256
MAX_STEP = 1_000_000
MAX_REASONS = 16
MAX_REASON = 240  # characters


def drawn(claim: IdClaim, step: int, seen: int = 0) -> IdClaim:
    """Return the claim with the next incarnation.

    `seen`: the largest incarnation seen elsewhere, because a restored ZooKeeper may have an older counter. `step`: a
    random number in 1..`MAX_STEP`. With a step of one, after ZooKeeper lost its counters or got older counters back, a
    new process could get the number of a live process, and both would run the partitions granted to this number. Raises
    `Refused` if no readable number is left, because a person has written the counter.
    """
    number = max(claim.incarnation, seen) + step
    if number > MAX_COUNT:
        raise Refused(
            f"consumer {claim.consumer!r} has no incarnation left above {max(claim.incarnation, seen)}; correct its node in "
            "ids or members, or give it another id"
        )
    return replace(claim, incarnation=number)


def predecessor(claim: IdClaim, member: Member) -> str:
    """Return the process registered before `member` on the same host; empty if `member` cannot check it."""
    another = claim.registered not in (0, member.incarnation)
    return claim.process if another and claim.boot_id and claim.boot_id == member.boot_id else ""


def registered(claim: IdClaim, member: Member, now: float, *, predecessor_gone: bool = False) -> IdClaim:
    """Return the claim after `member`'s registration, without a noted absence or end of this incarnation.

    `answered` stays only for the same incarnation at the same address, because a refusal at another address proves
    nothing. `predecessor_gone`: the process of `predecessor`, and so its incarnation, has ended.
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
        failed_at={number: at for number, at in claim.failed_at.items() if number != member.incarnation},
        absence=None,
        refused_at=0.0,
    )


def ended(claim: IdClaim, incarnation: int, how: Ending, reason: str = "", now: float = 0.0) -> IdClaim:
    """Return the claim after this incarnation's end. A known end stays. The oldest incarnations are forgotten.

    `reason`: why it ended; empty if requested or unknown. `now`: time of the reason; 0 if unknown.
    """
    known = {incarnation: how, **claim.ended}
    said = one_line(reason)
    reasons = {**({incarnation: said} if said else {}), **claim.reasons}
    kept = sorted(reasons)[-MAX_REASONS:]
    times = {**({incarnation: now} if now and incarnation not in claim.reasons else {}), **claim.failed_at}
    return replace(
        claim,
        ended={number: known[number] for number in sorted(known)[-MAX_ENDED:]},
        reasons={number: reasons[number] for number in kept},
        failed_at={number: times[number] for number in kept if number in times},
    )


def one_line(text: str) -> str:
    """Return a reason for display: one line without control characters, of at most `MAX_REASON` characters.

    A semicolon becomes a comma, because semicolons separate the parts of a recorded cause.
    """
    printable = "".join(one if one.isprintable() else " " for one in text[: 16 * MAX_REASON])
    line = " ".join(printable.replace(";", ",").split())
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 1]}…"


def same_process(one: Member, other: Member) -> bool:
    """Return whether both registrations are of one process. After a loss of ZooKeeper, two may share a number."""
    return (one.incarnation, one.address, one.boot_id) == (other.incarnation, other.address, other.boot_id)


def in_use(live: Member, wanted: Member, session_timeout_s: float) -> str:
    """Return why `wanted` cannot use its id, and the remedy: the text of `IdInUse`."""
    return (
        f"the consumer id {live.consumer!r} is in use: incarnation {live.incarnation} is registered at {live.address}, "
        f"so incarnation {wanted.incarnation} cannot register; stop that process or choose another id "
        f"(if it has just died, try again after {session_timeout_s:g} s)"
    )
