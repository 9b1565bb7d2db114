"""Pauses of moved partitions, from ZooKeeper's times and the reports of giver and taker. Pure.

All pages and commands show three numbers:
- *total*: from the giver's last record, or from the first record that came later, to the taker's first record;
- *usual*: the longest undisturbed standstill of the same partition just before, measured in the same way;
- *extra*: the total without the usual, which is the cost of the move.

No clock is compared with another clock. Consumers report durations by clocks that never jump: the giver before its
release, the taker before its answer. ZooKeeper's times of the plan and the release, and the times of the coordinator's
requests, bound each moment from both sides. The middle is stored, with half of the width as the error.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from coordinator_tasks.core.model import Amount, Pause, Pauses, Release, Stall, Taken, Unmoved
from coordinator_tasks.core.text.partition_text import counted

TICK_S = 0.001
"""ZooKeeper's times are whole milliseconds, rounded down."""
DRIFT = 1e-4
"""The rates of two clocks differ by less than this share."""
SLACK_S = 0.05
"""Seconds. A smaller contradiction between times counts as a measuring error."""
MOST_STALL_S = 3600.0
MOST_LEFT_OUT = 8


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The bounds of a moment, in seconds since 1970 by ZooKeeper's clock."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def error_s(self) -> float:
        return (self.high - self.low) / 2

    def before(self, ago_s: float) -> "TimeSpan":
        """Return the bounds of the moment `ago_s` seconds earlier. Another clock measured `ago_s`."""
        drift = ago_s * DRIFT
        return TimeSpan(self.low - ago_s - drift, self.high - ago_s + drift)

    def within(self, other: "TimeSpan") -> "TimeSpan | None":
        """Return the intersection; `None` if the bounds contradict each other."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low > high + SLACK_S:
            return None
        return TimeSpan(low, high) if low <= high else TimeSpan((low + high) / 2, (low + high) / 2)


@dataclass(frozen=True, slots=True)
class Moved:
    """The known facts about a moved partition. `planned_at`: ZooKeeper's time of the plan.

    `release`: written at `released_at`; `None` if the partition moved without a release. `taken`: the taker's report,
    made at `answered`. `read_at`: the giver read the epoch in its last commit then or later; `None` if unknown.
    """

    partition: int
    giver: str
    taker: str
    planned_at: float
    release: Release | None
    released_at: float | None
    taken: Taken
    answered: TimeSpan
    record_bytes: float | None = None
    read_at: float | None = None

    @property
    def passed_from(self) -> float | None:
        """Return since when, at the earliest, the partition stood still, by the giver's last commit."""
        last = self.taken.last_pass
        return None if last is None or self.read_at is None else self.read_at + last.after_s * (1 - DRIFT)

    @property
    def usual_s(self) -> float | None:
        """Return the usual stall in the giver's release, or else in its last commit."""
        ago = self.release.ago if self.release is not None else None
        if ago is not None and ago.usual_s is not None:
            return ago.usual_s
        return self.taken.last_pass.usual_s if self.taken.last_pass is not None else None


def pause(moved: Moved) -> Pause | str:
    """Return the pause of a partition; a sentence if an answer is impossible."""
    taken, released_at, which = moved.taken, moved.released_at, f"partition {moved.partition}"
    last, empty, problem = _of_giver(moved)
    if problem:
        return problem
    size = None if moved.record_bytes is None else round(moved.record_bytes * taken.waited)
    usual_s = None if moved.usual_s is None else round(min(moved.usual_s, MOST_STALL_S), 4)
    last_at = None if last is None else round(last.middle, 4)
    found = Pause(moved.partition, last_at, released_at, None, taken.waited, size, usual_s=usual_s)
    if taken.ago_s is None:
        if taken.waited:
            return f"{moved.taker} says that records of {which} waited, and of none that it has passed"
        return found
    begin_at = moved.planned_at if released_at is None else released_at
    least = (
        begin_at if taken.released_s is None or released_at is None else released_at + taken.released_s * (1 - DRIFT)
    )
    first = moved.answered.before(taken.ago_s).within(TimeSpan(least, inf))
    if first is None:
        what = "its plan" if released_at is None else "its release"
        early_s = least - moved.answered.before(taken.ago_s).high
        return f"{moved.taker} says that {which} passed its first record {early_s:.1f} s before {what} allows it"
    found = replace(found, first_at=round(first.middle, 4))
    if not taken.waited:
        return found
    if last is None:
        return _with_bounds(found, first, begin_at, moved.passed_from)
    read_at = max(begin_at, first.middle - taken.batch_s)
    begin, spread_s = last, 0.0
    if empty is not None:
        # Records between the two observations count as evenly spaced. The first of them waits longest.
        spread_s = max(0.0, read_at - empty.middle) / (taken.waited + 1)
        came = TimeSpan(empty.low + spread_s, empty.high + spread_s)
        begin, spread_s = (came, spread_s) if came.middle > last.middle else (last, 0.0)
    if begin.middle < moved.planned_at - MOST_STALL_S:
        return f"{moved.giver} says that {which} has stood still since {moved.planned_at - begin.middle:.0f} s before the plan"
    return _with_wait(found, first, begin, spread_s)


def _with_bounds(found: Pause, first: TimeSpan, begin_at: float, passed_from: float | None) -> Pause:
    """Return the pause if the giver has reported no times.

    The pause began at the latest with the plan or the release, and at the earliest after the giver's last commit.
    """
    bounded = passed_from is not None and passed_from <= first.high <= passed_from + MOST_STALL_S
    if passed_from is None or not bounded:
        return _with_wait(replace(found, least=True), first, TimeSpan(begin_at, begin_at), 0.0)
    begin_at = max(begin_at, passed_from)  # if the giver still ran, it has committed since then
    found = _with_wait(replace(found, least=True), first, TimeSpan(begin_at, begin_at), 0.0)
    return replace(found, most_s=max(found.wait_s or 0.0, round(first.high - passed_from, 4)))


def _of_giver(moved: Moved) -> tuple[TimeSpan | None, TimeSpan | None, str]:
    """Return when the giver's last record passed, when the partition was last empty, and why to doubt the giver."""
    ago = moved.release.ago if moved.release is not None else None
    if ago is None or ago.passed_s is None or ago.read_s is None or moved.released_at is None:
        return None, None, ""
    # The giver wrote after reading the plan, and before ZooKeeper stamped the write.
    read = TimeSpan(moved.planned_at + ago.read_s * (1 - DRIFT), inf)
    written = read.within(TimeSpan(moved.planned_at, moved.released_at + TICK_S))
    if written is None:
        which, early_s = f"partition {moved.partition}", read.low - moved.released_at
        why = f"{moved.giver} says of {which} that it had read the plan {early_s:.1f} s before there was one"
        return None, None, why
    empty = None if ago.empty_s is None else written.before(ago.empty_s)
    return written.before(ago.passed_s), empty, ""


def _with_wait(found: Pause, first: TimeSpan, begin: TimeSpan, spread_s: float) -> Pause:
    wait_s, error_s = max(0.0, first.middle - begin.middle), first.error_s + begin.error_s + spread_s
    return replace(found, wait_s=round(wait_s, 4), error_s=round(error_s, 4))


def unmoved(
    told: Mapping[str, Mapping[int, Stall]], first: int, last: int, moved: Collection[int], lasted_s: float
) -> tuple[Unmoved | None, list[str]]:
    """Return the longest stall of kept partitions in a rebalance, and sentences about consumers that are not believed.

    `first` and `last`: the first and last epoch of the rebalance.
    """
    found: list[Unmoved] = []
    left_out: list[str] = []
    for consumer, by_epoch in sorted(told.items()):
        stalls = [stall for epoch, stall in sorted(by_epoch.items()) if first <= epoch <= last]
        if not stalls:
            continue
        if max(max(one.longest_s, one.before_s) for one in stalls) > lasted_s + MOST_STALL_S:
            left_out.append(f"{consumer} tells of a stall that is far longer than the rebalance")
            continue
        longest = max((one for one in stalls if one.partition not in moved), key=lambda s: s.longest_s, default=None)
        partitions = max(one.partitions for one in stalls)
        if longest is not None:
            before_s = round(stalls[0].before_s, 4)
            found.append(Unmoved(partitions, round(longest.longest_s, 4), longest.partition, consumer, before_s))
    if not found:
        return None, left_out
    worst = max(found, key=lambda one: one.longest_s)
    total, before_s = sum(one.partitions for one in found), max(one.before_s for one in found)
    return replace(worst, partitions=total, before_s=before_s), left_out


def merged(stored: Pauses | None, fresh: Pauses) -> Pauses:
    """Return the stored pauses with missing entries added. Of the stalls of unmoved partitions, the longest is kept."""
    if stored is None:
        return fresh
    known = {one.partition: one for one in fresh.measured} | {one.partition: one for one in stored.measured}
    missing = max(0, fresh.missing + len(fresh.measured) - len(known))
    left_out = tuple(dict.fromkeys((*stored.left_out, *fresh.left_out)))[:MOST_LEFT_OUT]
    stalls = [one for one in (stored.unmoved, fresh.unmoved) if one is not None]
    longest = max(stalls, key=lambda one: one.longest_s, default=None)
    return Pauses(tuple(known[p] for p in sorted(known)), missing, longest, left_out)


@dataclass(frozen=True, slots=True)
class Longest:
    """The longest total, usual and extra of the pauses with waiting records.

    `error_s`: error of the longest total. `extra`, `usual_s`: `None` if unknown for any pause. `median_extra_s`: `None`
    if a pause has only bounds.
    """

    pauses: int
    total: Amount
    error_s: float
    usual_s: float | None
    extra: Amount | None
    median_extra_s: float | None


def longest(found: Iterable[Pause]) -> Longest | None:
    """Return the summary of the pauses; `None` if no pause had waiting records."""
    waited = [one for one in found if one.total is not None]
    if not waited:
        return None
    extras = [one.extra for one in waited if one.extra is not None]
    usuals = [one.usual_s for one in waited if one.usual_s is not None]
    known = len(extras) == len(waited)
    exact = known and not any(one.least for one in waited)
    return Longest(
        len(waited),
        _longest(one.total for one in waited if one.total is not None),
        max((one.wait_s or 0.0, one.error_s) for one in waited)[1],
        max(usuals) if known else None,
        _longest(extras) if known else None,
        round(median(one.least_s for one in extras), 4) if exact else None,
    )


def _longest(amounts: Iterable[Amount]) -> Amount:
    some = list(amounts)
    most = [one.most_s for one in some if one.most_s is not None]
    return Amount(max(one.least_s for one in some), max(most) if len(most) == len(some) else None)


def milliseconds(seconds: float) -> str:
    """Return a text such as `23 ms`, `0.4 ms` or `1.25 s`."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


def sentence(found: Pauses) -> str:
    """Return the whole result in one line."""
    return "; ".join(part for part in (moved_sentence(found), unmoved_sentence(found)) if part)


def amount(found: Amount, error_s: float = 0.0) -> str:
    """Return `858 ms`, `between 280 ms and 2.30 s`, `at least 280 ms`; `(±2.0 ms)` for exact amounts."""
    if found.most_s is None:
        return f"at least {milliseconds(found.least_s)}"
    if found.most_s > found.least_s:
        return f"between {milliseconds(found.least_s)} and {milliseconds(found.most_s)}"
    exact = milliseconds(found.least_s) if found.least_s else "none"
    return f"{exact} (±{milliseconds(error_s)})" if error_s else exact


def of_one(one: Pause) -> str:
    """Return the three numbers of a partition."""
    if one.total is None:
        return "nothing waited"
    total = f"total {amount(one.total, one.error_s)}"
    if one.extra is None or one.usual_s is None:
        return total
    return f"extra pause {amount(one.extra)} ({total}, usual {milliseconds(one.usual_s)})"


def moved_sentence(found: Pauses) -> str:
    """Return the number of moved partitions, and their pauses."""
    parts = [f"{counted(len(found.measured) + found.missing, 'partition')} moved"]
    known = longest(found.measured)
    if known is not None:
        parts += _three(known)
    idle = sum(1 for one in found.measured if one.wait_s is None)
    if idle:
        parts.append(f"nothing waited in {idle}")
    waited = sum(one.records for one in found.measured)
    if waited:
        parts.append(f"{counted(waited, 'record')} waited")
    if found.missing:
        parts.append(f"{found.missing} not measured")
    return "; ".join(parts)


def _three(known: Longest) -> list[str]:
    word = "" if known.pauses == 1 else "longest "
    total = f"{word}total {amount(known.total, known.error_s)}"
    if known.extra is None or known.usual_s is None:
        return [total]
    middle = f", median {milliseconds(known.median_extra_s)}" if known.pauses > 1 and known.median_extra_s else ""
    return [f"{word}extra pause {amount(known.extra)}{middle}", f"{total}, usual {milliseconds(known.usual_s)}"]


def unmoved_sentence(found: Pauses) -> str:
    """Return the stalls of unmoved partitions; empty if not reported."""
    if found.unmoved is None:
        return ""
    stall, before = milliseconds(found.unmoved.longest_s), milliseconds(found.unmoved.before_s)
    return f"{found.unmoved.partitions} unmoved: longest stall {stall} (just before: {before})"
