"""The handle of a stateful processor: Spark's interface, over one batch's state in memory.

A processor declares its variables in `init`. Later, the variables act on the key in `Handle.entry`, the key that is
being processed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyspark.errors.exceptions.base import IllegalArgumentException
from pyspark.sql import types as T  # noqa: N812 (its usual name)

from spark_apps.releases import ListState, MapState, StatefulProcessorHandle, ValueState
from spark_apps.state import StateRefused
from spark_apps.state.codec import Codec, codec_of, decode, encode

TIMERS = "$timers"
"""Name of the row with a key's timers. The row's column `expires` has the earliest timer."""
RESERVED = "$"


class TimeMode(StrEnum):
    """Spark's time modes of `transformWithState`."""

    NONE = "None"
    PROCESSING_TIME = "ProcessingTime"
    EVENT_TIME = "EventTime"


class Kind(StrEnum):
    """The kind of a state variable."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared state variable. `key`: codec of a map's keys. `ttl_ms`: 0 = values never expire."""

    name: str
    kind: Kind
    value: Codec
    key: Codec | None = None
    ttl_ms: int = 0


class Entry:
    """The state of one key in one batch: name → stored content, and the names to write back.

    A value is stored as [columns, expiry], a list as an array of such pairs, a map as encoded key → pair, timers as
    sorted times. The expiry is in milliseconds since 1970; `None` = never.
    """

    __slots__ = ("changed", "contents", "key", "sizes")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.contents: dict[str, Any] = {}
        self.changed: set[str] = set()
        self.sizes: dict[str, int] = {}  # name → bytes of the row

    def load(self, name: str, value: bytes) -> None:
        """Take a row of the table. Bytes of another program raise the errors of `decode`."""
        self.contents[name] = decode(value)
        self.sizes[name] = len(value)

    def put(self, name: str, content: Any) -> None:
        """Replace the content of a name. Empty content deletes the row."""
        self.changed.add(name)
        if content:
            self.contents[name] = content
        else:
            self.contents.pop(name, None)

    @property
    def timers(self) -> list[int]:
        found: list[int] = self.contents.get(TIMERS, [])
        return found


def living(kind: Kind, content: Any, now_ms: int) -> Any:
    """Return the content without expired values; empty if none is left."""
    match kind:
        case Kind.VALUE:
            return content if _lives(content, now_ms) else None
        case Kind.LIST:
            return [pair for pair in content if _lives(pair, now_ms)]
        case Kind.MAP:
            return {key: pair for key, pair in content.items() if _lives(pair, now_ms)}


def _lives(pair: Sequence[Any], now_ms: int) -> bool:
    return pair[1] is None or pair[1] > now_ms


def expiry_of(variable: Variable | None, content: Any) -> int | None:
    """Return the value of the column `expires`: the latest expiry, or the earliest timer if there is no variable."""
    if variable is None:
        return int(content[0])
    if not variable.ttl_ms:
        return None
    pairs = [content] if variable.kind is Kind.VALUE else content.values() if variable.kind is Kind.MAP else content
    expiries = [expires for _, expires in pairs]
    return None if None in expiries else max(expiries)


class Handle(StatefulProcessorHandle):
    """Spark's handle; see the module. `now_ms`: time of the batch. `watermark_ms`: watermark of the partition."""

    def __init__(self, operator: str, mode: TimeMode) -> None:
        self.operator = operator
        self.mode = mode
        self.variables: dict[str, Variable] = {}
        self.dropped: set[str] = set()
        self.declaring = True
        self.now_ms = 0
        self.watermark_ms = 0
        self._entry: Entry | None = None

    @property
    def entry(self) -> Entry:
        if self._entry is None:
            raise StateRefused(f"operator {self.operator} uses state outside of a key; use state in the handle methods")
        return self._entry

    @entry.setter
    def entry(self, entry: Entry | None) -> None:
        self._entry = entry

    # Spark's interface -----------------------------------------------------------------------------------------------

    def getValueState(self, stateName: str, schema: T.StructType | str, ttlDurationMs: int | None = None) -> ValueState:
        return _Value(self, self._declare(stateName, Kind.VALUE, schema, ttlDurationMs))

    def getListState(self, stateName: str, schema: T.StructType | str, ttlDurationMs: int | None = None) -> ListState:
        return _List(self, self._declare(stateName, Kind.LIST, schema, ttlDurationMs))

    def getMapState(
        self,
        stateName: str,
        userKeySchema: T.StructType | str,
        valueSchema: T.StructType | str,
        ttlDurationMs: int | None = None,
    ) -> MapState:
        return _Map(self, self._declare(stateName, Kind.MAP, valueSchema, ttlDurationMs, userKeySchema))

    def registerTimer(self, expiryTimestampMs: int) -> None:
        timers = self._timers()
        if expiryTimestampMs <= self.watermark_ms:
            raise IllegalArgumentException(
                message=f"Cannot register timer with expiry {expiryTimestampMs} ms "
                f"which is not later than the current watermark {self.watermark_ms} ms."
            )
        self.entry.put(TIMERS, sorted({*timers, int(expiryTimestampMs)}))

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        timers = self._timers()
        if expiryTimestampMs in timers:
            self.entry.put(TIMERS, [one for one in timers if one != expiryTimestampMs])

    def listTimers(self) -> Iterator[int]:
        return iter(tuple(self._timers()))

    def deleteIfExists(self, stateName: str) -> None:
        self.variables.pop(stateName, None)
        self.dropped.add(stateName)

    def _timers(self) -> list[int]:
        if self.mode is TimeMode.EVENT_TIME:
            return self.entry.timers
        raise StateRefused(
            f"operator {self.operator} uses timers in the time mode {self.mode}: only event-time timers are supported; use "
            "the time mode EventTime, or a TTL in place of a timer"
        )

    def _declare(
        self,
        name: str,
        kind: Kind,
        schema: T.StructType | str,
        ttl_ms: int | None,
        key: T.StructType | str | None = None,
    ) -> Variable:
        what = f"state {name} of operator {self.operator}"
        if not self.declaring:
            raise StateRefused(f"{what} is declared outside of init(); declare all state variables in init()")
        if not name or name.startswith(RESERVED):
            raise StateRefused(f"{what} has a reserved name; let the name begin with a letter")
        if ttl_ms is not None and (ttl_ms <= 0 or self.mode is not TimeMode.PROCESSING_TIME):
            raise StateRefused(
                f"{what} has a TTL of {ttl_ms} ms in the time mode {self.mode}: as in Spark, a TTL is positive and needs the "
                "time mode ProcessingTime"
            )
        key_codec = None if key is None else codec_of(key, f"the key of {what}")
        variable = Variable(name, kind, codec_of(schema, what), key_codec, ttl_ms or 0)
        if name in self.variables and self.variables[name].kind is not kind:
            raise StateRefused(f"{what} is declared twice, as {self.variables[name].kind} and as {kind}")
        self.variables[name] = variable
        return variable


class _State:
    """A variable of the key that is being processed."""

    def __init__(self, handle: Handle, variable: Variable) -> None:
        self._handle = handle
        self._name = variable.name
        self._store, self._restore = variable.value.store, variable.value.restore
        self._ttl_ms = variable.ttl_ms

    def clear(self) -> None:
        entry = self._handle.entry
        if self._name in entry.contents:
            entry.put(self._name, None)

    def _content(self) -> Any:
        return self._handle.entry.contents.get(self._name)

    def _pair(self, value: Any) -> list[Any]:
        return [self._store(value), self._handle.now_ms + self._ttl_ms if self._ttl_ms else None]

    def _lives(self, pair: Sequence[Any]) -> bool:
        return _lives(pair, self._handle.now_ms)


class _Value(_State, ValueState):
    def exists(self) -> bool:
        content = self._content()
        return content is not None and self._lives(content)

    def get(self) -> tuple[Any, ...] | None:
        content = self._content()
        return self._restore(content[0]) if content is not None and self._lives(content) else None

    def update(self, newValue: tuple[Any, ...]) -> None:
        self._handle.entry.put(self._name, self._pair(newValue))


class _List(_State, ListState):
    def exists(self) -> bool:
        return any(map(self._lives, self._content() or ()))

    def get(self) -> Iterator[tuple[Any, ...]]:
        return iter([self._restore(pair[0]) for pair in self._content() or () if self._lives(pair)])

    def put(self, newState: list[tuple[Any, ...]]) -> None:
        self._handle.entry.put(self._name, [self._pair(value) for value in newState])

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        self.appendList([newState])

    def appendList(self, newState: list[tuple[Any, ...]]) -> None:
        pairs = [self._pair(value) for value in newState]
        content = self._content()
        if content is None:
            self._handle.entry.put(self._name, pairs)
        else:
            content.extend(pairs)
            self._handle.entry.changed.add(self._name)


class _Map(_State, MapState):
    def __init__(self, handle: Handle, variable: Variable) -> None:
        super().__init__(handle, variable)
        self._key = variable.key or variable.value  # for a map, the codec of its keys

    def exists(self) -> bool:
        return any(map(self._lives, self._pairs().values()))

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        pair = self._pairs().get(self._encoded(key))
        return self._restore(pair[0]) if pair is not None and self._lives(pair) else None

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        return self.getValue(key) is not None

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        encoded, pair, content = self._encoded(key), self._pair(value), self._content()
        if content is None:
            self._handle.entry.put(self._name, {encoded: pair})
        else:
            content[encoded] = pair
            self._handle.entry.changed.add(self._name)

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        living = [(key, pair[0]) for key, pair in self._pairs().items() if self._lives(pair)]
        return iter([(self._key.restore(decode(key)), self._restore(value)) for key, value in living])

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return iter([key for key, _ in self.iterator()])

    def values(self) -> Iterator[tuple[Any, ...]]:
        return iter([value for _, value in self.iterator()])

    def removeKey(self, key: tuple[Any, ...]) -> None:
        left = dict(self._pairs())
        if left.pop(self._encoded(key), None) is not None:
            self._handle.entry.put(self._name, left)

    def _pairs(self) -> Mapping[bytes, Any]:
        return self._content() or {}

    def _encoded(self, key: tuple[Any, ...]) -> bytes:
        return encode(self._key.store(key))
