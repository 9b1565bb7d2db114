"""Shows a dead letter to a person: times and bytes as text, with limited lengths."""

from datetime import UTC, datetime
from typing import Any

from coordinator_tasks.core.text.partition_text import cut
from spark_apps.dead_letters import Letter

SHOWN_VALUE_CHARS = 2_000


def plain(letter: Letter) -> dict[str, Any]:
    """Return the letter's fields as text and numbers."""
    return {
        "cluster": letter.place.cluster,
        "topic": letter.place.topic,
        "topic_id": letter.place.topic_id,
        "partition": letter.place.partition,
        "offset": letter.place.offset,
        "failed_at": time_text(letter.failed_at_ms),
        "tries": letter.tries,
        "stage": letter.stage,
        "error_class": letter.kind,
        "error": letter.error,
        "release": letter.release,
        "consumer": letter.consumer,
        "timestamp": time_text(letter.timestamp_ms),
        "key": _shown(letter.key),
        "headers": [[name, _shown(value)] for name, value in letter.headers],
        "value": _shown(letter.value),
    }


def time_text(at_ms: int) -> str:
    """Return the time as ISO 8601; the number itself if outside the calendar, since any program may write rows."""
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError, TypeError):
        return f"{at_ms} ms"


def _shown(given: bytes | None) -> str | None:
    """Return bytes as shortened text. Bytes that are no UTF-8 are escaped."""
    return None if given is None else cut(given.decode("utf-8", "backslashreplace"), SHOWN_VALUE_CHARS)
