"""Reading JSON objects strictly: every wrong type, missing field or odd number is a `Malformed` that names the path."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from coordinator_tasks.core.errors import Malformed, UnknownVersion
from coordinator_tasks.core.names import partition_of

MAX_BYTES = 1_000_000  # ZooKeeper's own limit (jute.maxbuffer) is 1,048,575
MAX_NUMBER = 2**63 - 1
MISSING: Any = object()
V = TypeVar("V")


class Fields:
    """One JSON object at `path`; `where` is the place inside it, for the errors."""

    def __init__(self, path: str, data: Mapping[str, Any], where: str = "") -> None:
        self.path = path
        self.data = data
        self.where = where

    @classmethod
    def parse(cls, path: str, raw: bytes, version: int, limit: int = MAX_BYTES) -> "Fields":
        """Read the object of a znode and check its `version` (missing = 1, as the contract's own examples)."""
        if len(raw) > limit:
            raise Malformed(path, f"has {len(raw)} bytes, more than {limit}")
        try:
            data = read_json(raw.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise Malformed(path, f"is not JSON in UTF-8 ({error})") from error
        if not isinstance(data, dict):
            raise Malformed(path, f"is not a JSON object but {type(data).__name__}")
        fields = cls(path, data)
        found = fields.number("version", default=1)
        if not 1 <= found <= version:
            raise UnknownVersion(path, f"has format version {found}; this release reads 1 to {version}")
        return fields

    def bad(self, name: str, problem: str) -> Malformed:
        return Malformed(self.path, f"field {self.where + name!r} {problem}")

    def raw(self, name: str, default: Any = MISSING) -> Any:
        value = self.data.get(name, default)
        if value is MISSING:
            raise self.bad(name, "is missing")
        return value

    def text(self, name: str, default: str = MISSING) -> str:
        value = self.raw(name, default)
        if not isinstance(value, str):
            raise self.bad(name, f"is {_shown(value)}, not a string")
        return value

    def number(self, name: str, default: int = MISSING) -> int:
        """A whole number from 0 to 2^63-1."""
        return self._number(name, self.raw(name, default))

    def _number(self, name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_NUMBER:
            raise self.bad(name, f"is {_shown(value)}, not a whole number from 0 on")
        return value

    def real(self, name: str, default: float = MISSING) -> float:
        """A finite number from 0 on."""
        value = self.raw(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise self.bad(name, f"is {_shown(value)}, not a number from 0 on")
        return float(value)

    def flag(self, name: str, default: bool = MISSING) -> bool:
        value = self.raw(name, default)
        if not isinstance(value, bool):
            raise self.bad(name, f"is {_shown(value)}, not true or false")
        return value

    def choice(self, name: str, kind: Callable[[str], V], default: V = MISSING) -> V:
        """A member of a closed set."""
        if default is not MISSING and name not in self.data:
            return default
        value = self.text(name)
        try:
            return kind(value)
        except ValueError as error:
            raise self.bad(name, f"is {_shown(value)}, which is none of the known values") from error

    def nested(self, name: str, default: Mapping[str, Any] = MISSING) -> "Fields":
        value = self.raw(name, default)
        if not isinstance(value, dict):
            raise self.bad(name, f"is {_shown(value)}, not an object")
        return Fields(self.path, value, f"{self.where}{name}.")

    def optional(self, name: str) -> "Fields | None":
        return None if self.data.get(name) is None else self.nested(name)

    def partitions(self, name: str) -> tuple[int, ...]:
        """A list of different partition numbers, sorted; missing = empty."""
        value = self.raw(name, [])
        if not isinstance(value, list):
            raise self.bad(name, f"is {_shown(value)}, not a list of partitions")
        numbers = tuple(sorted(self._number(name, one) for one in value))
        if len(set(numbers)) != len(numbers):
            raise self.bad(name, "names a partition twice")
        return numbers

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; missing = empty."""
        value = self.raw(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.bad(name, f"is {_shown(value)}, not a list of strings")
        return tuple(value)

    def reals(self, name: str) -> tuple[float, ...]:
        """A list of finite numbers from 0 on; missing = empty."""
        value = self.raw(name, [])
        if not isinstance(value, list):
            raise self.bad(name, f"is {_shown(value)}, not a list of numbers")
        inner = Fields(self.path, {str(i): one for i, one in enumerate(value)}, f"{self.where}{name}.")
        return tuple(inner.real(key) for key in inner.data)

    def by_partition(self, name: str, read: Callable[["Fields", str], V]) -> dict[int, V]:
        """An object with partition numbers as keys; missing = empty."""
        inner = self.nested(name, {})
        found: dict[int, V] = {}
        for key in inner.data:
            partition = partition_of(key)
            if partition is None:
                raise inner.bad(key, "is not a partition number")
            found[partition] = read(inner, key)
        return dict(sorted(found.items()))

    def by_name(self, name: str, read: Callable[["Fields", str], V]) -> dict[str, V]:
        """An object with names as keys; missing = empty."""
        inner = self.nested(name, {})
        return {key: read(inner, key) for key in sorted(inner.data)}


def read_json(text: str) -> Any:
    """The value of a JSON text; raises `ValueError`, also for half a character (a lone surrogate), and `RecursionError`."""
    data = _DECODER.decode(text)
    if "\\u" in text:  # the only way to half a character, which could be read but never be written again
        json.dumps(data, ensure_ascii=False).encode()
    return data


def dump(version: int, body: Mapping[str, Any]) -> bytes:
    """The bytes of a znode: compact JSON with its format version first."""
    return _ENCODER.encode({"version": version, **body}).encode()


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
