"""Objects of JSON as tables: one line for each field has its name, attribute, kind, and value if it is missing."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from coordinator_tasks.core.fields import MISSING, Fields, dump

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
