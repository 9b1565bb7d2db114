"""Pipelines that a consumer application can be told to run, each a function `build`.

`build(stream, settings)` gets the stream of one topic, with the columns of the assignment, and the application's
settings, and returns the writer; the application adds the checkpoint and starts it.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

Build: TypeAlias = Callable[[DataFrame, Mapping[str, str]], DataStreamWriter]


def setting(settings: Mapping[str, str], name: str, default: str) -> str:
    """A setting of the pipeline, or its default when it is missing or empty."""
    return settings.get(name) or default
