"""The times and limits of an agent; all in seconds unless named otherwise."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Timing:
    """Paces a consumer's requests to Kafka for one topic, in seconds.

    - `look_s`: the committed offsets are fetched at least this often; `fresh_s`: no commit on an older fetch.
    - `cool_down_s`: a commit that took longer than `fresh_s` may have overwritten a newer owner's entry. For this long
      nothing more is committed: the newer owner fetches, and writes its entry again.
    - `commit_timeout_s`: a request to Kafka is given up after this; its outcome is then unknown.
    - `guard_s`: a guarded start commit has to stay our own for longer than this. No commit of the site can be under way
      for longer.
    - `guard_look_s`: the pause between two fetches of a guarded start.
    - `commit_s`, plus `commit_each_s` for each partition: the pause between unhurried commits.
    - `recommit_s`: idle partitions are committed again, because Kafka forgets the offsets of a group without members.
    - `give_up_s`: a partition stops if its commits, or the fetches before them, fail for this long.
    - `measure_s`, plus `measure_each_s` for each partition: the least pause between two requests for the log's ends.
      `ends_s`: the longest pause, also while no batch is planned.
    - `id_each_s`, for each partition of the topic: the pause between two requests for the topic's id. A new ownership
      asks at once, unless it begins with a release and Kafka has told the id within `id_fresh_s`.
    - `together_s`: a release waits this long for releases that only wait for their commit, for a joint write.
    - `bounds_s`: how often positions are compared with the log. A position behind the log's end counts only after
      `ahead_s`: a new leader may lag for a moment.
    - `retry_s` to `retry_max_s`: the pause after a failed request, doubled with each further failure.
    """

    look_s: float = 0.9
    fresh_s: float = 2.0
    cool_down_s: float = 1.5
    commit_timeout_s: float = 2.0
    guard_s: float = 2.25
    guard_look_s: float = 0.25
    commit_s: float = 0.05
    commit_each_s: float = 0.001
    recommit_s: float = 3600.0
    give_up_s: float = 120.0
    measure_s: float = 0.05
    measure_each_s: float = 0.0005
    ends_s: float = 5.0
    id_each_s: float = 0.001
    id_fresh_s: float = 1.0
    together_s: float = 0.1
    bounds_s: float = 10.0
    ahead_s: float = 5.0
    retry_s: float = 0.1
    retry_max_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Pacing:
    """Pacing of batches.

    The next starts as soon as the last has passed, at most every `batch_interval_s`, with at most `max_offsets`.

    `parallelism`: maximum tasks of a batch; a `Consumer` takes the number of Spark's cores. `min_offsets`: a batch
    waits for this many offsets, but at most `max_delay_s`; a hand-off waits for neither. `min_partitions` and
    `max_records_per_task` cut the ranges of partitions into more tasks. `handoff_batch_s`: intended duration of a batch
    while partitions come to us; after `handoff_s` without new partitions batches return to their usual size.
    """

    batch_interval_s: float = 0.0
    handoff_batch_s: float = 0.3
    handoff_s: float = 10.0
    max_offsets: int | None = None
    parallelism: int = 2
    min_offsets: int = 0
    max_delay_s: float = 900.0
    min_partitions: int | None = None
    max_records_per_task: int | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """How one topic is delivered.

    `claims`: the sink keeps the positions, and a holding begins with a claim there. `commit_first`: a batch is committed
    before it goes to the sink. `listening`: the application has a listener. `idle_s`: a partition without a record for this
    time gets an empty range.
    """

    claims: bool = False
    commit_first: bool = False
    listening: bool = False
    idle_s: float = inf


@dataclass(frozen=True, slots=True)
class Identity:
    """A consumer's identity: `incarnation` is drawn once per process start and kept over sessions."""

    consumer: str
    cluster: str
    incarnation: int
