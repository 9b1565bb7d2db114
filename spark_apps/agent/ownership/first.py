"""The start of a partition without a committed offset, by the options of the application's source. Pure."""

from datetime import UTC, datetime

from coordinator_tasks.core.protocol.fence import Bounds, NoStart, Start
from spark_apps.records.options import EARLIEST, LATEST, Starting


class FirstOffsets:
    """First offsets from `startingOffsets` and similar options; without an option, the topic's start rule decides."""

    def __init__(self, starting: Starting) -> None:
        self._starting = starting

    def time_ms(self, partition: int) -> int | None:
        """Return the time of the first wanted record, in milliseconds since 1970; `None` without such an option."""
        return self._starting.timestamps_ms.get(partition, self._starting.every_ms)

    def start(self, partition: int, bounds: Bounds, at: int | None) -> Start | None:
        """Return the start of a partition. `at`: offset of the first record at or after `time_ms`.

        Raises `NoStart` if the options allow no start.
        """
        time_ms = self.time_ms(partition)
        if time_ms is not None:
            return self._by_time(bounds, at, time_ms)
        wanted = self._starting.offsets.get(partition, self._starting.every)
        if wanted is None:
            return None
        places = {EARLIEST: bounds.beginning, LATEST: bounds.end}
        return Start(places.get(wanted, wanted), "startingOffsets")

    def _by_time(self, bounds: Bounds, at: int | None, time_ms: int) -> Start:
        if at is not None:
            return Start(at, "startingTimestamp")
        if self._starting.else_latest:
            return Start(bounds.end, "startingTimestamp")
        raise NoStart(
            f"no record at or after {_shown(time_ms)}; "
            "give an earlier time, or set startingOffsetsByTimestampStrategy to latest"
        )


def _shown(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):  # after the year 9999
        return f"{time_ms} ms since 1970"
