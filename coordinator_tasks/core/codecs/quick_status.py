"""The JSON that every observation reads, declared for msgspec: consumers' answers, and committed offsets' metadata.

If a text does not fit, `status_codec` reads it again: its errors name the path of the wrong field.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.names import MAX_PARTITION
from coordinator_tasks.core.text.json_fields import MAX_COUNT, MAX_GENERATION, MAX_NUMBER, MAX_REAL, MAX_SPAN_S

_Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
_Partition = Annotated[int, Meta(ge=0, le=MAX_PARTITION)]
_Real = Annotated[float, Meta(ge=0, le=MAX_REAL)]
_Span = Annotated[float, Meta(ge=0, le=MAX_SPAN_S)]
_Generation = Annotated[str, Meta(max_length=MAX_GENERATION)]


class QuickToken(msgspec.Struct, frozen=True, gc=False):
    """`Token`."""

    epoch: _Count
    incarnation: _Count
    generation: _Generation


class QuickTaken(msgspec.Struct, rename="camel"):
    """`Taken`. `last_pass` stays a JSON value."""

    waited: _Number
    ago: _Span | None = None
    batch: _Span = 0.0
    released: _Span | None = None
    last_pass: Any = None


class QuickRunning(msgspec.Struct, rename={"record_bytes": "recordBytes"}):
    """`RunningPartition`. `overwritten` and `state` stay JSON values."""

    position: _Number
    token: QuickToken
    started: bool
    closing: bool = False
    lag: _Number | None = None
    rate: _Real | None = None
    record_bytes: _Real | None = None
    taken: QuickTaken | None = None
    overwritten: Any = None
    state: Any = None


class QuickTopic(msgspec.Struct, rename="camel"):
    """`TopicStatus`. `stalls` and `failures` stay JSON values."""

    generation: _Generation
    acted_epoch: _Count
    query_alive: bool
    held: dict[_Partition, _Count] = {}
    reports: list[str] = []
    last_batch: dict[str, _Real] = {}
    running: dict[_Partition, QuickRunning] = {}
    stalls: Any = None
    failures: Any = None


class QuickStatus(msgspec.Struct, rename="camel"):
    """`ConsumerStatus`. `condition` stays a JSON value."""

    consumer: str
    cluster: str
    incarnation: _Count
    health: str
    boot_id: str = ""
    reports: list[str] = []
    topics: dict[str, QuickTopic] = {}
    condition: Any = None
    version: Annotated[int, Meta(ge=1, le=VERSION)] = 1


class QuickMetadata(msgspec.Struct):
    """The metadata of a committed offset. `p` stays a JSON value."""

    v: int
    g: _Generation
    e: _Count
    i: _Count
    o: str
    c: str
    t: str
    p: Any = None
    s: bool = False


_METADATA = msgspec.json.Decoder(QuickMetadata)
_DECODER = msgspec.json.Decoder(QuickStatus)


def quick_status(raw: bytes) -> QuickStatus | None:
    """Return the answer; `None` if it does not fit, or may contain a lone surrogate or a partition `-0`."""
    if b"\\u" in raw or b'"-0"' in raw:
        return None
    try:
        return _DECODER.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def quick_metadata(metadata: str) -> QuickMetadata | None:
    """Return the metadata; `None` if the text does not fit."""
    if "\\u" in metadata:
        return None
    try:
        return _METADATA.decode(metadata)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
