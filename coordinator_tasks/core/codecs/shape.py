"""JSON objects as tables. Each field is a line with name, kind and default."""

import re
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from coordinator_tasks.core.text.json_fields import MISSING, Fields, dump

VERSION = 1
T = TypeVar("T")


class FieldKind(NamedTuple):
    """A kind of field: `read` takes an object and a name; `write` converts the value, or leaves it unchanged if `None`.

    `keeps`: returns whether `read` would leave all these values unchanged, which saves a call for each value.
    """

    read: Callable[[Fields, str], Any]
    write: Callable[[Any], Any] | None = None
    keeps: Callable[[Collection[Any]], bool] | None = None


class Item(NamedTuple):
    """A field. Without a `default` the field is required. A `sparse` field is written only if not empty.

    `attribute`: the attribute with the value; by default the name in snake case.
    """

    name: str
    kind: FieldKind
    default: Any = MISSING
    sparse: bool = False
    attribute: str = ""

    @property
    def place(self) -> str:
        return self.attribute or re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", self.name)


class Shape(Generic[T]):
    """The JSON object of a class: fields in the order in which they are written."""

    def __init__(self, made: Callable[..., T], *items: Item) -> None:
        self._made = made
        self._reads = [(one.name, one.place, one.kind.read, one.default) for one in items]
        got = [(one.name, attrgetter(one.place), one.kind.write) for one in items]
        self._empty: dict[str, Any] = dict.fromkeys(one.name for one in items)  # keeps the order of the names
        self._plain = [(name, attribute) for name, attribute, write in got if not write]
        self._written = [(name, attribute, write) for name, attribute, write in got if write]
        self._sparse = [one.name for one in items if one.sparse]

    def read(self, fields: Fields, **more: Any) -> T:
        """Return the object; raises `Malformed`. `more`: attributes that the JSON does not have."""
        for name, attribute, read, default in self._reads:
            more[attribute] = read(fields, name) if default is MISSING or name in fields.data else default
        return self._made(**more)

    def write(self, value: T) -> dict[str, Any]:
        body = self._empty.copy()
        for name, attribute in self._plain:
            body[name] = attribute(value)
        for name, attribute, write in self._written:
            body[name] = write(attribute(value))
        for name in self._sparse:
            if not body[name]:
                del body[name]
        return body

    def decode(self, path: str, raw: bytes, **more: Any) -> T:
        return self.read(Fields.parse(path, raw, VERSION), **more)

    def encode(self, value: T) -> bytes:
        return dump(VERSION, self.write(value))

    @property
    def nested(self) -> FieldKind:
        return FieldKind(lambda fields, name: self.read(fields.nested(name)), self.write)

    @property
    def listed(self) -> FieldKind:
        return FieldKind(
            lambda fields, name: tuple(map(self.read, fields.objects(name))),
            lambda values: list(map(self.write, values)),
        )
