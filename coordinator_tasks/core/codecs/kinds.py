"""The kinds of fields in stored and sent formats."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from coordinator_tasks.core.codecs.shape import FieldKind
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.names import number_of, partition_of
from coordinator_tasks.core.text.json_fields import MAX_SPAN_S, Fields
from coordinator_tasks.core.text.partition_text import numbers, ranges

TEXT, TEXTS = FieldKind(Fields.text), FieldKind(Fields.texts, list)
COUNT, NUMBER, GENERATION, FLAG = (
    FieldKind(Fields.count),
    FieldKind(Fields.number),
    FieldKind(Fields.generation),
    FieldKind(Fields.flag),
)
REAL, REALS, TIME = FieldKind(Fields.real), FieldKind(Fields.reals, list), FieldKind(Fields.time)
SPAN = FieldKind(lambda fields, name: fields.real(name, most=MAX_SPAN_S))
PARTITIONS = FieldKind(Fields.partitions, list)
PARTITION_SET = FieldKind(lambda fields, name: frozenset(fields.partitions(name)), sorted)


def _ranges(fields: Fields, name: str) -> tuple[int, ...]:
    try:
        return numbers(fields.text(name))
    except ValueError as error:
        raise fields.bad(name, str(error)) from error


RANGES = FieldKind(_ranges, ranges)
"""Partitions written as `0-3,7`."""


def choice(kind: type[StrEnum]) -> FieldKind:
    return FieldKind(lambda fields, name: fields.choice(name, kind), lambda value: value.value)


def optional(kind: FieldKind) -> FieldKind:
    """Return the kind that reads a missing or null field as `None`."""
    read, write = kind
    return FieldKind(
        lambda fields, name: None if fields.data.get(name) is None else read(fields, name),
        None if write is None else lambda value: None if value is None else write(value),
    )


def measured(kind: FieldKind) -> FieldKind:
    """Return the kind that reads a missing or wrong value as `None`. A wrong measure counts for nothing."""
    read, write = optional(kind)

    def tried(fields: Fields, name: str) -> Any:
        try:
            return read(fields, name)
        except Malformed:
            return None

    return FieldKind(tried, write)


def by_partition(kind: FieldKind) -> FieldKind:
    return _mapping(kind, partition_of, "a partition number")


def by_count(kind: FieldKind) -> FieldKind:
    return _mapping(kind, number_of, "an incarnation")


def by_name(kind: FieldKind) -> FieldKind:
    return _mapping(kind, str, "a name")


def by_name_in_order(kind: FieldKind) -> FieldKind:
    """Return the kind of an object whose names keep their order."""
    return _mapping(kind, str, "a name", list)


def _mapping(
    kind: FieldKind, key_of: Callable[[str], Any], what: str, order: Callable[[Iterable[Any]], list[Any]] = sorted
) -> FieldKind:
    """Return the kind of an object whose keys all are `what`. A missing object counts as empty."""
    read_one, write_one = kind

    def read(fields: Fields, name: str) -> dict[Any, Any]:
        inner, found = fields.nested(name, {}), {}
        for text in inner.data:
            key = key_of(text)
            if key is None:
                raise inner.bad(text, f"is not {what}")
            found[key] = read_one(inner, text)
        return {key: found[key] for key in order(found)}

    def written(value: Mapping[Any, Any]) -> dict[str, Any]:
        if write_one is None:
            return {str(key): value[key] for key in order(value)}
        return {str(key): write_one(value[key]) for key in order(value)}

    return FieldKind(read, written)
