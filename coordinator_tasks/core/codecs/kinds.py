"""The kinds of fields in formats that are stored or sent."""

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

from coordinator_tasks.core.codecs.shape import FieldKind
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.names import number_of, partition_of, partitions_of
from coordinator_tasks.core.text.json_fields import MAX_COUNT, MAX_SPAN_S, Fields
from coordinator_tasks.core.text.partition_text import numbers, ranges


def _counts(values: Collection[Any]) -> bool:
    return {*map(type, values)} <= {int} and min(values, default=0) >= 0 and max(values, default=0) <= MAX_COUNT


TEXT = FieldKind(Fields.text, keeps=lambda values: {*map(type, values)} <= {str})
TEXTS = FieldKind(Fields.texts, list)
COUNT, NUMBER = FieldKind(Fields.count, keeps=_counts), FieldKind(Fields.number)
GENERATION, FLAG = FieldKind(Fields.generation), FieldKind(Fields.flag)
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
    read, write, _ = kind
    return FieldKind(
        lambda fields, name: None if fields.data.get(name) is None else read(fields, name),
        None if write is None else lambda value: None if value is None else write(value),
    )


def measured(kind: FieldKind, default: Any = None) -> FieldKind:
    """Return the kind that reads a missing or wrong value as `default`: a wrong measurement is ignored."""
    read, write, _ = optional(kind)

    def tried(fields: Fields, name: str) -> Any:
        try:
            found = read(fields, name)
        except Malformed:
            return default
        return default if found is None else found

    return FieldKind(tried, write)


def by_partition(kind: FieldKind) -> FieldKind:
    return _mapping(kind, partition_of, "a partition number", keys_of=partitions_of)


def by_count(kind: FieldKind) -> FieldKind:
    return _mapping(kind, number_of, "an incarnation")


def by_name(kind: FieldKind) -> FieldKind:
    return _mapping(kind, str, "a name", keys_of=list)


def by_name_in_order(kind: FieldKind) -> FieldKind:
    """Return the kind of an object whose names keep their order."""
    return _mapping(kind, str, "a name", list)


def _mapping(
    kind: FieldKind,
    key_of: Callable[[str], Any],
    what: str,
    order: Callable[[Iterable[Any]], list[Any]] = sorted,
    keys_of: Callable[[Collection[str]], list[Any] | None] = lambda _: None,
) -> FieldKind:
    """Return the kind of an object whose keys are all `what`. A missing object counts as empty.

    `keys_of`: like `key_of`, for all keys at once; `None` if a key is wrong.
    """
    read_one, write_one, keeps = kind

    def each(inner: Fields) -> dict[Any, Any]:
        found = {}
        for text in inner.data:
            key = key_of(text)
            if key is None:
                raise inner.bad(text, f"is not {what}")
            found[key] = read_one(inner, text)
        return found

    def read(fields: Fields, name: str) -> dict[Any, Any]:
        inner = fields.nested(name, {})
        values = inner.data.values()
        keys = keys_of(inner.data) if keeps is not None and keeps(values) else None
        found = each(inner) if keys is None else dict(zip(keys, values, strict=True))
        return {key: found[key] for key in order(found)}

    def written(value: Mapping[Any, Any]) -> dict[str, Any]:
        if write_one is None:
            return {str(key): value[key] for key in order(value)}
        return {str(key): write_one(value[key]) for key in order(value)}

    return FieldKind(read, written)
