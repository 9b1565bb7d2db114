"""The times and limits of an agent; all in seconds unless named otherwise."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Timing:
    """Pace of a consumer's requests to Kafka for one topic, in seconds.

    - `look_s`: longest pause between two fetches of the committed offsets. `fresh_s`: nothing is committed if the last
      fetch is older.
    - `cool_down_s`: pause after a commit that took longer than `fresh_s`, since the commit may have replaced a newer
      owner's entry. In this time the newer owner fetches, and writes its entry again.
    - `commit_timeout_s`: time limit of a request to Kafka. The outcome of a request beyond the limit is unknown.
    - `guard_s`: a guarded start commit has to stay unchanged for longer than this. No other consumer's commit can be
      under way for longer.
    - `guard_look_s`: pause between two fetches of a guarded start.
    - `commit_s`, plus `commit_each_s` per partition: pause between commits that are not urgent.
    - `recommit_s`: pause between commits of an idle partition. Kafka forgets the offsets of a group without members.
    - `give_up_s`: a partition stops if its commits, or the fetches before them, fail for this long.
    - `measure_s`, plus `measure_each_s` per partition: least pause between two reads of the log's ends. `ends_s`:
      longest pause, also while no batch is planned.
    - `id_each_s`, per partition of the topic: pause between two requests for the topic's id. A new ownership asks at
      once, unless it begins with a release and Kafka has returned the id within the last `id_fresh_s`.
    - `together_s`: how long a release waits for other releases whose commit is under way, to share one write.
    - `bounds_s`: pause between two comparisons of the positions with the log. A position behind the log's end counts as
      misplaced after `ahead_s`, because a new leader may lag for a moment.
    - `retry_s` to `retry_max_s`: pause after a failed request, doubled with each further failure.
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
    """Pace and size of batches.

    A batch starts when the last batch has passed, but at most every `batch_interval_s`, with at most `max_offsets`.

    `parallelism`: maximum tasks of a batch; a `Consumer` uses the number of Spark's cores. `min_offsets`: a batch waits
    for this many offsets, but at most `max_delay_s`; a hand-off waits for neither. `min_partitions` and
    `max_records_per_task` split the ranges of partitions into more tasks. `handoff_batch_s`: intended duration of a
    batch while partitions come to this consumer. After `handoff_s` without a new partition, batches have their usual
    size again.
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

    `claims`: the sink keeps the positions, so a holding begins with a claim in the sink. `commit_first`: a batch is
    committed before the sink gets it. `listening`: the application has a listener. `idle_s`: after this time without a
    record, a partition gets an empty range. `keeps_state`: the sink keeps state of each partition.
    """

    claims: bool = False
    commit_first: bool = False
    listening: bool = False
    idle_s: float = inf
    keeps_state: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """A consumer's identity. Each process start draws one `incarnation`, and keeps it over all sessions."""

    consumer: str
    cluster: str
    incarnation: int
