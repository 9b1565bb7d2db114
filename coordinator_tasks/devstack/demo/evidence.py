"""The input of the checks: plain values, never a consumer's own claim about its partitions.

Times are seconds since 1970. Rows come from the sink, the journal from the producer, records and releases from
ZooKeeper, and task runs from Airflow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator_tasks.core.model import Record, Release


@dataclass(frozen=True, slots=True)
class Row:
    """A processing of a record, from the sink; rows of a batch share `processed_at`."""

    consumer: str
    incarnation: int
    epoch: int
    partition: int
    offset: int
    sequence: int
    produced_at: float
    processed_at: float


@dataclass(frozen=True, slots=True)
class Produced:
    """A record confirmed by the broker; `sequence` counts within its partition."""

    partition: int
    offset: int
    sequence: int
    produced_at: float


@dataclass(frozen=True, slots=True)
class SeenRelease:
    """A release as read from a partition's node; `written_at` is ZooKeeper's own time of the write."""

    partition: int
    release: Release
    written_at: float


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One try of a task, from Airflow's API."""

    dag: str
    run: str
    task: str
    attempt: int
    state: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence. `killed`: consumer and incarnation of deliberate kills.

    `rows` keep the order of each writer. `counts`: consumer → its partitions of all topics, at each Stable. `loops`:
    command lines of coordinator processes seen outside of Airflow.
    """

    produced: Sequence[Produced]
    rows: Sequence[Row]
    records: Sequence[Record]
    releases: Sequence[SeenRelease]
    tasks: Sequence[TaskRun]
    killed: frozenset[tuple[str, int]] = frozenset()
    loops: tuple[str, ...] = ()
    partitions: int = 0
    events: Sequence["MembershipEvent"] = ()
    counts: Sequence[Mapping[str, int]] = ()


@dataclass(frozen=True, slots=True)
class MembershipEvent:
    """One change of membership that was caused on purpose.

    `kind`: join, drain or kill; `began_at`: when the membership changed (the registration of the new consumer, the
    start of the drain run, the kill); `stable_at`: the record of Stable. The undisturbed window to compare with is from
    `quiet_from_at` to `quiet_to_at`.
    """

    kind: str
    consumer: str
    began_at: float
    stable_at: float
    quiet_from_at: float
    quiet_to_at: float
