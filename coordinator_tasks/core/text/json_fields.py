"""JSON objects, read strictly: a wrong type, missing field or impossible number raises `Malformed` with the path."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from coordinator_tasks.core.errors import Malformed, Refused, UnknownVersion
from coordinator_tasks.core.names import MAX_PARTITION
from coordinator_tasks.core.text.partition_text import cut

MAX_BYTES = 1_000_000  # ZooKeeper's own limit (jute.maxbuffer) is 1,048,575
MAX_NUMBER = 2**63 - 1  # Kafka's own limit for an offset
MAX_LINK_CHARS = 500
MAX_COUNT = 2**53 - 1
"""Maximum of epochs and incarnations. The next larger number can still be counted, written and read."""
MAX_REAL = 1e15  # sums and products of many such numbers stay finite
MAX_TIME = 253_402_300_799.0  # the last second of the year 9999, which a page can still show
MAX_SPAN_S = 1e9  # maximum of a measured span: some thirty years
MAX_GENERATION = 64  # characters; ours have 16
MISSING: Any = object()
V = TypeVar("V")


class Fields:
    """One JSON object at `path`. Errors name `where` it is inside the node."""

    __slots__ = ("data", "path", "where")

    def __init__(self, path: str, data: Mapping[str, Any], where: str = "") -> None:
        self.path = path
        self.data = data
        self.where = where

    @classmethod
    def parse(cls, path: str, raw: bytes, version: int, limit: int = MAX_BYTES, *, once: bool = False) -> "Fields":
        """Read the object of a znode and check its `version`. A missing version counts as 1.

        `once`: refuse an object with a repeated name. By default the last value counts.
        """
        if len(raw) > limit:
            raise Malformed(path, f"has {len(raw)} bytes, more than {limit}")
        try:
            data = read_json(raw.decode("utf-8"), once=once)
        except ValueError as error:
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

    def _wrong(self, name: str, value: object, wanted: str) -> Malformed:
        return self.bad(name, "is missing" if value is MISSING else f"is {cut(repr(value), 60)}, not {wanted}")

    def text(self, name: str) -> str:
        value = self.data.get(name, MISSING)
        if not isinstance(value, str):
            raise self._wrong(name, value, "a string")
        return value

    def number(self, name: str, default: int = MISSING, most: int = MAX_NUMBER) -> int:
        value = self.data.get(name, default)
        if type(value) is not int or not 0 <= value <= most:  # a bool is an instance of int, too
            raise self._wrong(name, value, f"a whole number from 0 to {most}")
        return value

    def count(self, name: str) -> int:
        return self.number(name, MISSING, MAX_COUNT)

    def generation(self, name: str) -> str:
        """Return the name of a generation. Its length is limited, because nodes repeat names from answers."""
        value = self.text(name)
        if len(value) > MAX_GENERATION:
            raise self.bad(name, f"has {len(value)} characters, more than {MAX_GENERATION}")
        return value

    def real(self, name: str, default: float = MISSING, most: float = MAX_REAL) -> float:
        value = self.data.get(name, default)
        if type(value) not in (int, float) or not 0 <= value <= most:
            raise self._wrong(name, value, f"a number from 0 to {most:.0f}")
        return float(value)

    def time(self, name: str, default: float = MISSING) -> float:
        return self.real(name, default, MAX_TIME)

    def flag(self, name: str) -> bool:
        value = self.data.get(name, MISSING)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def choice(self, name: str, kind: Callable[[str], V]) -> V:
        value = self.text(name)
        try:
            return kind(value)
        except ValueError as error:
            raise self.bad(name, f"is {cut(repr(value), 60)}, which is none of the known values") from error

    def nested(self, name: str, default: Mapping[str, Any] = MISSING) -> "Fields":
        value = self.data.get(name, default)
        if not isinstance(value, dict):
            raise self._wrong(name, value, "an object")
        return Fields(self.path, value, f"{self.where}{name}.")

    def partitions(self, name: str) -> tuple[int, ...]:
        """Return partition numbers without repeats, sorted; empty if missing."""
        value = self._list(name, "partitions")
        for one in value:
            if type(one) is not int or not 0 <= one <= MAX_PARTITION:
                raise self._wrong(name, one, f"a whole number from 0 to {MAX_PARTITION}")
        if len(set(value)) != len(value):
            raise self.bad(name, "names a partition twice")
        return tuple(sorted(value))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings; empty if missing."""
        value = self._list(name, "strings")
        if not all(isinstance(one, str) for one in value):
            raise self._wrong(name, value, "a list of strings")
        return tuple(value)

    def objects(self, name: str) -> "list[Fields]":
        """Return a list of objects; empty if missing."""
        listed = self.data.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise self.bad(name, "is not a list of objects")
        return [Fields(self.path, one, f"{self.where}{name}[{index}].") for index, one in enumerate(listed)]

    def reals(self, name: str) -> tuple[float, ...]:
        """Return numbers from 0 to `MAX_REAL`; empty if missing."""
        value = self._list(name, "numbers")
        inner = Fields(self.path, {str(i): one for i, one in enumerate(value)}, f"{self.where}{name}.")
        return tuple(inner.real(key) for key in inner.data)

    def _list(self, name: str, what: str) -> list[Any]:
        value = self.data.get(name, [])
        if not isinstance(value, list):
            raise self._wrong(name, value, f"a list of {what}")
        return value


def read_json(text: str, *, once: bool = False) -> Any:
    """Return the value of a JSON text. Raises `ValueError`, also for a lone surrogate (half a character).

    `once`: as in `parse`.
    """
    try:
        data = (_ONCE if once else _DECODER).decode(text)
        if "\\u" in text:  # only an escape can make a lone surrogate, which could never be written again
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return data


def dump(version: int, body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a znode: compact JSON that begins with its format version.

    Raises `Refused` for a text that cannot be UTF-8.
    """
    try:
        return _ENCODER.encode({"version": version, **body}).encode()
    except UnicodeEncodeError as error:
        raise Refused(
            "a text has a byte or half a character that is not UTF-8, and cannot be stored; correct it"
        ) from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(name for name, number in Counter(name for name, _ in pairs).items() if number > 1)
        raise ValueError(f"an object has {twice[:40]!r} twice")
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_ONCE = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_each_once)
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
