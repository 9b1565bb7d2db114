"""The end of a partition's log, as known to a consumer. Times are the clock's monotonic seconds."""

from dataclasses import dataclass, field
from math import exp, inf

from coordinator_tasks.core.measure.lag import EndPoints

INFLOW_S = 60.0
INFLOW_MIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Inflow:
    """Growth of the log's end, in records per second: the mean since the first look; after `INFLOW_S`, a decaying mean.

    `rate` is `None` until two looks are `INFLOW_MIN_S` apart, because a burst in a shorter time says little.
    """

    end: int
    at: float
    began_at: float
    first_end: int | None = None
    rate: float | None = None

    def seen(self, end: int, now: float) -> "Inflow":
        first = self.end if self.first_end is None else self.first_end
        age, gap = now - self.began_at, now - self.at
        if gap <= 0:
            return self
        rate = self.rate
        if rate is None or age <= INFLOW_S:
            rate = max(0, end - first) / age if age >= INFLOW_MIN_S else None
        else:
            rate += (max(0, end - self.end) / gap - rate) * (1 - exp(-gap / INFLOW_S))
        return Inflow(end, now, self.began_at, first, rate)


@dataclass(slots=True)
class LogEnd:
    """`offset`: the log's end at the last read. `goal`: the log's end at the first read, after the take-up."""

    offset: int | None = None
    goal: int | None = None
    asked_from: int | None = None  # the position when the log's end was asked for
    asked_at: float = -inf
    handed_from: int | None = None  # the first offset handed out since the last fetch of the log's beginning
    ahead_since: float | None = None  # when the position was first found behind the log's end
    inflow: Inflow | None = None
    points: EndPoints = field(default_factory=EndPoints)

    def see(self, end: int, position: int | None, now: float) -> None:
        """Note the log's end. `position`: the next offset to read; `None` while a batch is under way."""
        self.offset = end
        self.points.see(end, now)
        if position is not None:
            # Records that were read after the request may lie beyond the answer.
            ahead = self.asked_from is not None and min(position, self.asked_from) > end
            self.ahead_since = (now if self.ahead_since is None else self.ahead_since) if ahead else None
        self.goal = end if self.goal is None else self.goal
        self.inflow = Inflow(end, now, now) if self.inflow is None else self.inflow.seen(end, now)
