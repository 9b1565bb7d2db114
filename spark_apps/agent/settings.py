"""The times and limits of an agent; all in seconds unless named otherwise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """How a consumer paces what it asks of Kafka for one topic.

    - `look_s`: every owner looks at the committed entries at least this often; `fresh_s`: no commit on an older look.
    - `cool_down_s`: a commit that was on its way for longer than `fresh_s` may have written over a newer owner's entry: for so
      long, in which that one looks and writes its own again, nothing more is committed.
    - `commit_timeout_s`: a request to Kafka is given up after this; its outcome is then unknown.
    - `guard_s`: a guarded start commit has to stay our own for longer than this, which is longer than any consumer of
      the site keeps a commit on its way.
    - `commit_s`: what has passed the sink is committed at most this often, and for each held partition `commit_each_s` less
      often, except where somebody waits for it.
    - `recommit_s`: idle partitions are committed again, because Kafka forgets the offsets of a group without members.
    - `give_up_s`: a partition whose commits, or the looks that come before them, have failed for so long stops and says so.
    - `measure_s`: the log's ends are asked for at most this often, and for each held partition `measure_each_s` less
      often: what an answer costs grows with them. `ends_s`: but at least so often, also while no batch is planned.
    - `id_each_s`: so often for each partition of the topic, and at most with every look, Kafka is asked for the topic's id,
      because its answer describes all of them; always when a holding begins, except that a taker who has been told it since
      `id_fresh_s` goes on with that: it asks while it waits for the release.
    - `together_s`: a release waits so long for others that only want their commit, to be written with them; where theirs takes
      longer, until the agent looks next.
    - `bounds_s`: so often it is looked whether the log still has the position; a position behind the log's end is only
      believed after `ahead_s`, because a broker that has just become the leader may know less for a moment.
    - `retry_s` to `retry_max_s`: the pause after a failed request, doubled with every further one.
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
    """How batches are paced: one at most every `batch_interval_s`, at most `max_offsets` in it.

    `parallelism`: a batch is read by at most so many tasks; a `Consumer` takes as many as Spark has cores. `min_offsets`:
    a batch waits for so many, but at most `max_delay_s`; a hand-off waits for neither. `min_partitions` and
    `max_records_per_task` cut the ranges of partitions into more tasks. `handoff_batch_s`: while partitions come to us, a
    batch is meant to take no longer; `handoff_s`: who has waited so long for them, a giver that hangs, goes on as ever.
    """

    batch_interval_s: float = 0.2
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
    before it goes to the sink. `listening`: somebody wants to be told before a partition begins and before it is released.
    """

    claims: bool = False
    commit_first: bool = False
    listening: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """Which consumer this is: `incarnation` is drawn once per process start and kept over sessions."""

    consumer: str
    cluster: str
    incarnation: int
