"""The input of the checks: plain values, and nothing that a consumer claims about its own partitions.

Times are seconds since 1970. The sink gives the rows, the producer the journal, ZooKeeper the records and releases, and
Airflow the task runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator_tasks.core.model import Record, Release


@dataclass(frozen=True, slots=True)
class Row:
    """The processing of a record, from the sink. Rows of the same batch have the same `processed_at`."""

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
    """A record that the broker has confirmed. `sequence` counts within the partition."""

    partition: int
    offset: int
    sequence: int
    produced_at: float


@dataclass(frozen=True, slots=True)
class SeenRelease:
    """A release as read from a partition's node. `written_at`: ZooKeeper's time of the write."""

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
    """All evidence. `killed`: consumer and incarnation of each deliberate kill.

    `rows`: in the order of each writer. `counts`: at each Stable, consumer → its partitions of all topics. `loops`:
    command lines of coordinator processes that ran outside of Airflow.
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
    """One change of membership that the demonstration caused.

    `kind`: join, drain or kill. `began_at`: when the new consumer registered, the drain run started, or the consumer
    was killed. `stable_at`: time of the record of Stable. `quiet_from_at`, `quiet_to_at`: the window to compare with.
    """

    kind: str
    consumer: str
    began_at: float
    stable_at: float
    quiet_from_at: float
    quiet_to_at: float
