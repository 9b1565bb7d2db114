"""The format of log lines. It is not in `logs`, so that the settings do not load the logging library."""

from enum import StrEnum


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"
