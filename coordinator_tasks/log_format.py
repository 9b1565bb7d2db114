"""How log lines are written; apart from `logs`, so that settings load no library for logs."""

from enum import StrEnum


class LogFormat(StrEnum):
    """How lines are written."""

    TEXT = "text"
    JSON = "json"
