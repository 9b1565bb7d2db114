"""What a life may do that slept for longer than its session and woke up: judged from the evidence of the run.

What it does then under the rights that it had before it slept is set apart and bounded; everything else has to be as ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator_tasks.devstack.demo.evidence import Row
from coordinator_tasks.devstack.demo.ownership import holdings
from tests.faults.checker import TOLERANCE_S, Findings, Run, check
from tests.faults.commit_log import LoggedCommit, by_partition

PROMISED_S = 1.0
"""Within which a zombie finds out by itself, or within the batch that was under way, whichever is longer."""
SLACK_S = 2.0
"""For a busy machine, and for the question that tells that it has stopped; what was measured is told."""
AFTERWARDS_S = 1.0
"""So long a sleeper lives on after it was seen to run nothing: what it does then is judged as well."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Times in seconds since 1970. `epoch`: the topic's when it fell asleep; `stopped_at`: when it was first seen to run nothing."""

    consumer: str
    incarnation: int
    epoch: int
    slept_at: float
    woke_at: float
    stopped_at: float

    @property
    def life(self) -> tuple[str, int]:
        return self.consumer, self.incarnation


@dataclass(frozen=True, slots=True)
class Waking:
    """What it did under its old rights after it woke up. Times in seconds since then; `batches`: when rows passed its sink."""

    stopped_after_s: float
    batches: tuple[float, ...]
    rows: Sequence[Row]
    commits: Sequence[LoggedCommit]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`findings`: of everything that is not set apart; one `Waking` for each sleep."""

    findings: Findings
    wakings: tuple[Waking, ...]

    def problems(self) -> list[str]:
        """All that is wrong."""
        return [*self.findings.problems(), *(text for one in self.wakings for text in one.problems)]


def judge(run: Run, sleeps: Sequence[Sleep], *, fenced_by_broker: bool = False) -> Verdict:
    """Judge a run with sleepers, all of which are lives of their own.

    Stopped: in time, and no row passes after it was seen to run nothing. Commits: the fence in the metadata does not keep
    Kafka from taking the one request that was on its way when it fell asleep, which the new owner writes over. So there
    is at most one such commit of a partition, none that says anything of what it processed after it woke up, and the
    effective position, which the checker follows through all commits, never goes back. A fence in the broker lets none through.
    """
    wakings = tuple(_waking(run, one, fenced_by_broker=fenced_by_broker) for one in sleeps)
    apart = {row for one in wakings for row in one.rows}
    rest = replace(
        run,
        rows=[row for row in run.rows if row not in apart],
        killed=run.killed | {one.life for one in sleeps},
    )
    return Verdict(check(rest), wakings)


def _waking(run: Run, sleep: Sleep, *, fenced_by_broker: bool) -> Waking:
    held = [h for h in holdings(run.records, run.releases) if (h.consumer, h.incarnation) == sleep.life]
    old = {(h.partition, h.epoch) for h in held if h.epoch <= sleep.epoch}
    rows = [
        r for r in run.rows if _is_of(r, sleep) and (r.partition, r.epoch) in old and r.processed_at >= sleep.woke_at
    ]
    commits = [c for c in run.commits if _is_late(c, sleep) and (c.partition, _epoch(c)) in old]
    before = [r for r in run.rows if r.processed_at < (sleep.woke_at if _is_of(r, sleep) else sleep.slept_at)]
    batches = tuple(sorted({round(r.processed_at - sleep.woke_at, 3) for r in rows}))
    stopped_after_s = sleep.stopped_at - sleep.woke_at
    problems = _late_stop(stopped_after_s, batches) + _taken(commits, before, fenced_by_broker=fenced_by_broker)
    return Waking(stopped_after_s, batches, rows, commits, tuple(problems))


def _is_of(row: Row, sleep: Sleep) -> bool:
    return (row.consumer, row.incarnation) == sleep.life


def _is_late(one: LoggedCommit, sleep: Sleep) -> bool:
    token = one.entry.token
    own = token is not None and (one.entry.owner, token.incarnation) == sleep.life
    return own and one.at >= sleep.woke_at - TOLERANCE_S


def _epoch(one: LoggedCommit) -> int:
    return one.entry.token.epoch if one.entry.token is not None else 0


def _late_stop(stopped_after_s: float, batches: Sequence[float]) -> list[str]:
    """What is wrong with when it stopped; `batches` are the times at which its batches passed, in seconds since it woke up."""
    under_way_s = batches[0] if batches else 0.0
    limit_s = max(PROMISED_S, under_way_s) + SLACK_S
    found = []
    if stopped_after_s > limit_s:
        found.append(f"the zombie stopped after {stopped_after_s:.1f} s, and had {limit_s:.1f} s")
    if batches and batches[-1] > stopped_after_s + TOLERANCE_S:
        found.append(
            f"a batch passed {batches[-1] - stopped_after_s:.3f} s after the zombie had said that it runs nothing"
        )
    return found


def _taken(late: Sequence[LoggedCommit], before: Sequence[Row], *, fenced_by_broker: bool) -> list[str]:
    """What is wrong with the commits under an old epoch; `before` are the rows of the time before it slept.

    Also those of whoever had the partition before: a start commit says how far that one had come.
    """
    found = []
    for partition, commits in by_partition(list(late)).items():
        passed = max((r.offset + 1 for r in before if r.partition == partition), default=0)
        said = [one.entry.offset for one in commits]
        if fenced_by_broker or len(said) > 1 or said[0] > passed:
            found.append(
                f"partition {partition}: Kafka took {said} under an old epoch; before it slept {passed} had passed"
            )
    return found
