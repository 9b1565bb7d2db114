"""Objects of JSON as tables: one line for each field has its name, attribute, kind, and value if it is missing."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from coordinator_tasks.core.fields import MISSING, Fields, dump
from coordinator_tasks.core.names import number_of, partition_of

VERSION = 1
T = TypeVar("T")


class Kind(NamedTuple):
    """How a field of this kind is read, by its name in an object, and how its value is written (`None` = as it is)."""

    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any] | None = None


class Item(NamedTuple):
    """One field. Without a `default` it must be there; `sparse`: it is only written if its value is not empty."""

    attribute: str
    kind: Kind
    default: Any = MISSING
    sparse: bool = False


class Shape(Generic[T]):
    """The JSON object of a class, by the names of its fields in the order in which they are written."""

    def __init__(self, made: Callable[..., T], items: Mapping[str, Item]) -> None:
        self._made = made
        self._reads = [(name, one.attribute, one.kind.read, one.default) for name, one in items.items()]
        self._writes = [(name, attrgetter(one.attribute), one.kind.write, one.sparse) for name, one in items.items()]

    def read(self, fields: Fields, **more: Any) -> T:
        """Raises `Malformed`. `more` are the attributes that the object does not hold."""
        for name, attribute, read, default in self._reads:
            more[attribute] = read(fields, name) if default is MISSING or name in fields.data else default
        return self._made(**more)

    def write(self, value: T) -> dict[str, Any]:
        body = {}
        for name, attribute, write, sparse in self._writes:
            found = attribute(value)
            if found or not sparse:
                body[name] = found if write is None else write(found)
        return body

    def decode(self, path: str, raw: bytes, **more: Any) -> T:
        return self.read(Fields.parse(path, raw, VERSION), **more)

    def encode(self, value: T) -> bytes:
        return dump(VERSION, self.write(value))

    @property
    def nested(self) -> Kind:
        return Kind(lambda fields, name: self.read(fields.nested(name)), self.write)


TEXT, TEXTS = Kind(Fields.text), Kind(Fields.texts, list)
COUNT, NUMBER, GENERATION, FLAG = Kind(Fields.count), Kind(Fields.number), Kind(Fields.generation), Kind(Fields.flag)
REAL, REALS, TIME = Kind(Fields.real), Kind(Fields.reals, list), Kind(Fields.time)
PARTITIONS = Kind(Fields.partitions, list)
PARTITION_SET = Kind(lambda fields, name: frozenset(fields.partitions(name)), sorted)


def choice(kind: type[StrEnum]) -> Kind:
    return Kind(lambda fields, name: fields.choice(name, kind), lambda value: value.value)


def optional(kind: Kind) -> Kind:
    """`None` = missing or null."""
    write = kind.write
    return Kind(
        lambda fields, name: None if fields.data.get(name) is None else kind.read(fields, name),
        None if write is None else lambda value: None if value is None else write(value),
    )


def by_partition(kind: Kind) -> Kind:
    return _mapping(kind, partition_of, "a partition number")


def by_count(kind: Kind) -> Kind:
    return _mapping(kind, number_of, "an incarnation")


def by_name(kind: Kind) -> Kind:
    return _mapping(kind, str, "a name")


def _mapping(kind: Kind, key_of: Callable[[str], Any], what: str) -> Kind:
    """An object whose keys all are `what`; missing = empty."""
    write = kind.write

    def read(fields: Fields, name: str) -> dict[Any, Any]:
        inner, found = fields.nested(name, {}), {}
        for text in inner.data:
            key = key_of(text)
            if key is None:
                raise inner.bad(text, f"is not {what}")
            found[key] = kind.read(inner, text)
        return {key: found[key] for key in sorted(found)}

    def written(value: Mapping[Any, Any]) -> dict[str, Any]:
        return {str(key): value[key] if write is None else write(value[key]) for key in sorted(value)}

    return Kind(read, written)
