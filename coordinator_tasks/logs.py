"""Log lines with fields: text for a person, or a JSON object per line for a program.

Every line has its context: `cluster`, `consumer` and `incarnation` of the process, and `topic`, `epoch` and `rebalance`
if known. Text from outside can neither begin a line of its own nor control a terminal. Fields come from three places:
`know` for the process, `about` for a block in one thread (also in Airflow's logs), and `extra=` for a single line.
"""

import json
import logging
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from coordinator_tasks.log_format import LogFormat
from coordinator_tasks.tables import visible, visible_line

FIELDS = ("cluster", "consumer", "incarnation", "topic", "epoch", "rebalance")
"""The fields, in the order in which they follow the text of a line."""
about: Callable[..., AbstractContextManager[None]] = structlog.contextvars.bound_contextvars
"""`with about(topic=..., epoch=...)` adds these fields to all lines that this thread logs in the block."""


def within(run: Callable[..., None], **fields: object) -> Callable[..., None]:
    """Return the function with these fields in all its lines. For the target of a thread."""

    def bound(*given: Any) -> None:
        with about(**fields):
            run(*given)

    return bound


def know(*, epoch_of: Callable[[str], int] | None = None, **fields: object) -> None:
    """Add these fields to all later lines of this process.

    `epoch_of`: topic → its epoch (0 if none), for lines with a topic but no epoch. Any thread may call it.
    """
    _process.fields.update({name: value for name, value in fields.items() if value})
    _process.epoch_of = epoch_of or _process.epoch_of


def set_up(form: str = LogFormat.TEXT, *, level: int = logging.INFO, times: bool = True) -> None:
    """Write all log lines of this process to standard error from now on. A later call replaces an earlier call.

    `times` False writes the bare text, without time, level, logger and fields (for commands). An empty `form` is text.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(allow=FIELDS),
        _process,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.format_exc_info,
    ]
    last: Processor
    _process.json = form == LogFormat.JSON
    if _process.json:
        shared.append(structlog.processors.TimeStamper(fmt="iso", utc=True))
        last = _json
    else:
        shared += [structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S.%f", utc=False)] if times else []
        last = _text
    hidden = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[hidden, last])
    _handler.setFormatter(formatter)
    root = logging.getLogger()
    if _handler not in root.handlers:
        root.addHandler(_handler)
    root.setLevel(level)


def say_error(sentence: str, who: str = "error") -> None:
    """Write the last line of a process that fails to standard error, as text or JSON."""
    if are_json():
        logging.getLogger(__name__).error("%s", sentence)
    else:
        print(f"{who}: {visible_line(sentence)}", file=sys.stderr)


def are_json() -> bool:
    """Return whether `set_up` was called for JSON."""
    return _process.json


class _Process:
    """Adds the fields of the process, and a topic's epoch."""

    def __init__(self) -> None:
        self.fields: dict[str, object] = {}
        self.epoch_of: Callable[[str], int] | None = None
        self.json = False

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        topic = event.get("topic")
        if self.epoch_of is not None and topic and "epoch" not in event and (epoch := self.epoch_of(str(topic))):
            event["epoch"] = epoch
        return {**self.fields, **event}


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to the present `sys.stderr`, which is looked up for each line."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def _text(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return a line such as `2026-11-25 01:02:03.004 WARNING spark_apps.plain the text [topic=orders epoch=7]`."""
    line = str(event["event"])
    if "timestamp" in event:
        fields = " ".join(f"{name}={event[name]}" for name in FIELDS if name in event)
        head = f"{event['timestamp'][:23]} {event['level'].upper()} {event['logger']}"
        line = f"{head} {line} [{fields}]" if fields else f"{head} {line}"
    shown = visible_line(line)
    if event.get("exception"):
        # Keep the line breaks of a traceback. But no line of it may begin with a time, as our own lines do.
        shown += "\n" + _TIME.sub("  ", visible(event["exception"].expandtabs()))
    return shown


def _json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return visible(json.dumps(event, ensure_ascii=False, default=str))


_TIME = re.compile(r"^(?=\d)", re.MULTILINE)
_process = _Process()
_handler = _StandardError()
