"""Records that a pipeline cannot process: how they are found, and where they go.

`halving` finds the records, `recovery` decides what happens, `table` keeps the dead letters; see
`docs/dead-letters.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite

from coordinator_tasks.core.errors import CoordinatorError, Malformed, Refused
from coordinator_tasks.core.names import check_topic
from coordinator_tasks.fleet_values import DATABASE
from spark_apps.delivery import RecordAtFault

ON_ERROR, SHARE, PER_MINUTE, TOPIC = "onError", "onErrorShare", "onErrorPerMinute", "onErrorTopic"
"""Settings of a pipeline with which a site overrides `OnError`."""


class DeadLettersRefused(Refused, code="KPC-090"):
    """The requested treatment of bad records is not possible. The query does not start.

    Remedy: correct the setting or the pipeline, or create the topic that the text names.
    """


class TooManyDeadLetters(CoordinatorError, code="KPC-091"):
    """Within a minute, more records of a partition failed than allowed. The partition waits at the first failing
    record; nothing of its batch was written.

    Remedy: correct the cause. Or raise [the bound](dead-letters.md#the-bound), skip the records, or reset the offset.
    """


class RecordHasProblem(RecordAtFault, CoordinatorError, code="KPC-092"):
    """The problem column reports a bad record, and bad records stop the partition.

    Remedy: look at the record. Let such records become dead letters or be skipped, or reset the offset behind the
    record.
    """


class LetterUnreadable(Malformed, code="KPC-093"):
    """A row of the table `consumer_dead_letters` is from a later release, or another program has changed the table.

    Remedy: use the release that wrote the row, or delete the row.
    """

    remedy = "use the release that wrote the row, or drop the row"


class Action(StrEnum):
    """What happens to a record that the pipeline cannot process."""

    STOP = "stop"
    SKIP = "skip"
    DEAD_LETTER = "dead-letter"


class Stage(StrEnum):
    """The failed part: the sink's store, the pipeline, or no part, if the pipeline reports the problem in a column."""

    STORE = "store"
    PIPELINE = "pipeline"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class OnError:
    """The treatment of records that a pipeline cannot process. Raises `DeadLettersRefused`.

    `action`: `stop` (the partition waits at the record), `skip` or `dead-letter`. A partition stops if within a minute
    more than `per_minute` records are bad, or if more than ten are bad and exceed the `share` of the minute's records.
    `topic`: the Kafka topic for dead letters; empty = a table in the sink's database. `database`: address of the
    table's database, for a pipeline without a `DatabaseSink`; by default the setting `database`. `problem_column`: the
    column in which the pipeline reports a record's problem. A record with a text there is bad; the sink gets the other
    rows without the column.
    """

    action: str = Action.STOP
    share: float = 0.01
    per_minute: int = 60
    topic: str = ""
    database: str = ""
    problem_column: str = ""

    def __post_init__(self) -> None:
        if self.action not in [*Action]:
            raise DeadLettersRefused(f"{ON_ERROR} is '{self.action}'; give {', '.join(Action)}")
        if not (isfinite(self.share) and 0 <= self.share <= 1):
            raise DeadLettersRefused(f"{SHARE} is {self.share}; give a number from 0 to 1, such as 0.01")
        if self.per_minute < 0:
            raise DeadLettersRefused(f"{PER_MINUTE} is {self.per_minute}; give a whole number from 0 on, such as 60")
        if self.topic:
            check_topic(self.topic)

    @property
    def recovers(self) -> bool:
        """Return whether bad records are separated, so that the other records pass."""
        return self.action != Action.STOP

    def overridden(self, settings: Mapping[str, str]) -> "OnError":
        """Return the policy, with the site's settings in place of the pipeline's values."""
        return replace(
            self,
            action=settings.get(ON_ERROR) or self.action,
            share=_number(SHARE, settings.get(SHARE), self.share),
            per_minute=int(_number(PER_MINUTE, settings.get(PER_MINUTE), self.per_minute)),
            topic=settings.get(TOPIC) or self.topic,
            database=self.database or settings.get(DATABASE, ""),
        )


def _number(name: str, given: str | None, default: float) -> float:
    try:
        return float(given) if given else default
    except ValueError:
        raise DeadLettersRefused(
            f"{name} is '{given}', which is no number; give a number such as {default:g}"
        ) from None


@dataclass(frozen=True, slots=True)
class LetterPlace:
    """The place of a dead letter's record."""

    cluster: str
    topic: str
    topic_id: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A record that could not be processed. Times are in milliseconds since 1970.

    `kind`, `error`: class and text of the error. `stage`: the failed part. `release`: the consumer's release. `tries`:
    how often the record has failed, including replays.
    """

    place: LetterPlace
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    timestamp_type: int = 0
    kind: str
    error: str
    stage: Stage
    release: str
    consumer: str
    failed_at_ms: int
    tries: int = 1

    @property
    def is_whole(self) -> bool:
        """Return whether the letter holds its record. A record is missing if too large, or no longer in Kafka."""
        return self.timestamp_ms > 0 or (self.key, self.value, self.headers) != (None, None, ())
