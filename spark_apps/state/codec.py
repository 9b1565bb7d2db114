"""Values of Spark's types as bytes. A row of state is a MessagePack array of its columns, in order.

Older bytes remain readable after a change to wider numbers or new nullable columns at the end. `schema_problem` reports
any other change.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any, TypeAlias

import msgspec
from pyspark.sql import types as T  # noqa: N812 (its usual name)

from spark_apps.releases import struct_of_ddl
from spark_apps.state import StateRefused

Convert: TypeAlias = Callable[[Any], Any]
MAX_DECIMAL_CHARS = 60

_INTEGERS: Mapping[type[T.DataType], int] = {T.ByteType: 7, T.ShortType: 15, T.IntegerType: 31, T.LongType: 63}
"""Types of whole numbers, from narrow to wide, with the bits of their values."""
_BY_SPARK = (T.DateType, T.TimestampType, T.TimestampNTZType, T.DayTimeIntervalType)
"""Types that Spark itself converts into whole numbers; for `TIMESTAMP`, by the local time zone."""
_KEYS = (*_INTEGERS, T.StringType, T.BinaryType, T.BooleanType, T.DecimalType, *_BY_SPARK)

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


class Unfit(Exception):
    """A value does not fit its declared type. The text is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Codec:
    """Rows of one schema. `store` returns a row to encode; `restore` returns a tuple of Spark's Python values."""

    schema: T.StructType
    store: Convert
    restore: Callable[[Any], tuple[Any, ...]]


@cache
def parsed(ddl: str) -> T.StructType:
    """Return the schema of a DDL text. Spark's JVM parses the text, so a session must exist."""
    return struct_of_ddl(ddl)


def struct_of(schema: T.StructType | str) -> T.StructType:
    """Return the schema, which Spark accepts as an object or as DDL."""
    return parsed(schema) if isinstance(schema, str) else schema


def codec_of(schema: T.StructType | str, what: str) -> Codec:
    """Return the codec of a schema; raises `StateRefused` for a type that cannot be stored."""
    struct = struct_of(schema)
    if not isinstance(struct, T.StructType):
        raise StateRefused(f"{what} has the schema {struct!r}; give a StructType or a DDL text such as 'count LONG'")
    return Codec(struct, _storing_struct(struct, what), _restoring_struct(struct, tuple))


def check_key(schema: T.StructType) -> None:
    """Raise `StateRefused` for a grouping column whose equal values may be stored as different bytes."""
    for field in schema.fields:
        if not isinstance(field.dataType, _KEYS):
            raise StateRefused(
                f"the grouping column {field.name} has the type {field.dataType.simpleString()}, by which state cannot be "
                "found; group by text, binary, whole numbers, decimals, dates, times or booleans"
            )


# To stored values ------------------------------------------------------------------------------------------------------


def _storing(kind: T.DataType, nullable: bool, what: str) -> Convert:
    """Return the conversion of a value to its stored form. The conversion raises `Unfit`."""
    plain = _storing_value(kind, what)

    def store(value: Any) -> Any:
        if value is None:
            if not nullable:
                raise Unfit(f"{what} is null, and is declared NOT NULL")
            return None
        return plain(value)

    return store


def _storing_value(kind: T.DataType, what: str) -> Convert:
    for kinds, storing in _STORING:
        if isinstance(kind, kinds):
            return storing(kind, what)
    raise StateRefused(
        f"{what} has the type {kind.simpleString()}, which state cannot hold; store it as text or binary"
    )


def _unfit(what: str, kind: T.DataType, value: Any) -> Unfit:
    return Unfit(f"{what} is a {type(value).__name__}, and is declared {kind.simpleString().upper()}")


def _checking(kinds: tuple[type, ...], what: str, kind: T.DataType) -> Convert:
    def check(value: Any) -> Any:
        if not isinstance(value, kinds):
            value = _plain(value)
            if not isinstance(value, kinds):
                raise _unfit(what, kind, value)
        return value

    return check


def _plain(value: Any) -> Any:
    """Convert a value of NumPy or pandas to Python's, as Spark does. Return other values unchanged."""
    for name in ("to_pytimedelta", "to_pydatetime"):
        if hasattr(value, name):
            return getattr(value, name)()
    return value.tolist() if type(value).__module__ == "numpy" else value


def _storing_integer(kind: T.DataType, what: str) -> Convert:
    bound = 1 << _INTEGERS[type(kind)]

    def store(value: Any) -> Any:
        if type(value) is not int:
            value = _plain(value)
            if type(value) is not int:
                raise _unfit(what, kind, value)
        if not -bound <= value < bound:
            raise Unfit(f"{what} is {value}, which is out of the range of {kind.simpleString().upper()}")
        return value

    return store


def _storing_float(kind: T.DataType, what: str) -> Convert:
    check = _checking((float, int), what, kind)

    def store(value: Any) -> Any:
        found = check(value)
        if isinstance(found, bool):
            raise _unfit(what, kind, found)
        return float(found)

    return store


def _storing_text(kind: T.DataType, what: str) -> Convert:
    return _checking((str,), what, kind)


def _storing_boolean(kind: T.DataType, what: str) -> Convert:
    return _checking((bool,), what, kind)


def _storing_binary(kind: T.DataType, what: str) -> Convert:
    check = _checking((bytes, bytearray, memoryview), what, kind)
    return lambda value: bytes(check(value))


def _storing_decimal(kind: T.DecimalType, what: str) -> Convert:
    check, step = _checking((Decimal,), what, kind), Decimal(1).scaleb(-kind.scale)
    bound = Decimal(10) ** (kind.precision - kind.scale)

    def store(value: Any) -> Any:
        found = check(value)
        rounded = _DECIMALS.quantize(found, step) if found.is_finite() and abs(found) < bound else bound
        if abs(rounded) >= bound:
            raise Unfit(
                f"{what} is {str(found)[:MAX_DECIMAL_CHARS]}, which is out of the range of {kind.simpleString()}"
            )
        return str(rounded)

    return store


def _storing_by_spark(kind: T.DataType, what: str) -> Convert:
    def store(value: Any) -> Any:
        try:
            return kind.toInternal(_plain(value))
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise _unfit(what, kind, value) from None

    return store


def _storing_array(kind: T.ArrayType, what: str) -> Convert:
    element = _storing(kind.elementType, kind.containsNull, f"an element of {what}")
    check = _checking((list, tuple), what, kind)
    return lambda value: [element(one) for one in check(value)]


def _storing_map(kind: T.MapType, what: str) -> Convert:
    key = _storing(kind.keyType, False, f"a key of {what}")
    item = _storing(kind.valueType, kind.valueContainsNull, f"a value of {what}")
    check = _checking((dict,), what, kind)
    return lambda value: [[key(name), item(one)] for name, one in check(value).items()]


def _storing_struct(struct: T.StructType, what: str) -> Convert:
    names = [field.name for field in struct.fields]
    fields = [_storing_value(field.dataType, f"column {field.name} of {what}") for field in struct.fields]
    required = [(place, field.name) for place, field in enumerate(struct.fields) if not field.nullable]

    def store(value: Any) -> Any:
        if isinstance(value, dict):
            value = [value.get(name) for name in names]
        if not isinstance(value, tuple | list):
            raise Unfit(f"{what} is a {type(value).__name__}, and a tuple of {len(names)} columns is declared")
        if len(value) != len(names):
            raise Unfit(f"{what} has {len(value)} columns, and {len(names)} are declared: {', '.join(names)}")
        for place, name in required:
            if value[place] is None:
                raise Unfit(f"column {name} of {what} is null, and is declared NOT NULL")
        return [one if one is None else field(one) for field, one in zip(fields, value, strict=True)]

    return store


_DECIMALS = Context(prec=80, rounding=ROUND_HALF_UP)
_STORING: tuple[tuple[type[T.DataType] | tuple[type[T.DataType], ...], Callable[[Any, str], Convert]], ...] = (
    (tuple(_INTEGERS), _storing_integer),
    ((T.FloatType, T.DoubleType), _storing_float),
    (T.StringType, _storing_text),
    (T.BooleanType, _storing_boolean),
    (T.BinaryType, _storing_binary),
    (T.DecimalType, _storing_decimal),
    (_BY_SPARK, _storing_by_spark),
    (T.ArrayType, _storing_array),
    (T.MapType, _storing_map),
    (T.StructType, _storing_struct),
)


# From stored values ----------------------------------------------------------------------------------------------------


def _restoring(kind: T.DataType) -> Convert | None:
    """Return the conversion of a stored value to Python's; `None` if the stored value needs none."""
    match kind:
        case T.FloatType() | T.DoubleType():
            return None
        case T.DecimalType():
            step = Decimal(1).scaleb(-kind.scale)
            return _unless_null(lambda value: _DECIMALS.quantize(Decimal(value), step))
        case T.ArrayType():
            element = _restoring(kind.elementType)
            return None if element is None else _unless_null(lambda value: [element(one) for one in value])
        case T.MapType():
            key, item = _restoring(kind.keyType) or _same, _restoring(kind.valueType) or _same
            return _unless_null(lambda value: {key(k): item(v) for k, v in value})
        case T.StructType():
            return _unless_null(_restoring_struct(kind, _row_of(kind)))
        case _ if isinstance(kind, _BY_SPARK):
            return _unless_null(kind.fromInternal)
    return None


def _same(value: Any) -> Any:
    return value


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _row_of(struct: T.StructType) -> Convert:
    make = T.Row(*[field.name for field in struct.fields])
    return lambda values: make(*values)


def _restoring_struct(struct: T.StructType, made: Convert) -> Convert:
    """Return the conversion of a struct. In a shorter array, stored before columns were added, these are null."""
    fields = [(place, convert) for place, one in enumerate(struct.fields) if (convert := _restoring(one.dataType))]
    width = len(struct.fields)

    def restore(stored: Any) -> Any:
        values = [*stored, *[None] * (width - len(stored))]
        for place, convert in fields:
            values[place] = convert(values[place])
        return made(values)

    return restore


# Comparison ------------------------------------------------------------------------------------------------------------


def schema_problem(stored: T.DataType, declared: T.DataType, what: str) -> str:
    """Return why values of the type `stored` cannot be read as `declared`; empty if they can."""
    match stored, declared:
        case T.StructType(), T.StructType():
            return _struct_problem(stored, declared, what)
        case T.ArrayType(), T.ArrayType():
            problem = schema_problem(stored.elementType, declared.elementType, f"an element of {what}")
            return problem or _null_problem(stored.containsNull, declared.containsNull, f"an element of {what}")
        case T.MapType(), T.MapType():
            null = _null_problem(stored.valueContainsNull, declared.valueContainsNull, f"a value of {what}")
            return (
                schema_problem(stored.keyType, declared.keyType, f"a key of {what}")
                or schema_problem(stored.valueType, declared.valueType, f"a value of {what}")
                or null
            )
        case T.DecimalType(), T.DecimalType():
            wide = declared.scale >= stored.scale
            wide = wide and declared.precision - declared.scale >= stored.precision - stored.scale
        case T.FloatType(), T.DoubleType():
            wide = True
        case _ if type(stored) in _INTEGERS and type(declared) in _INTEGERS:
            wide = _INTEGERS[type(declared)] >= _INTEGERS[type(stored)]
        case _:
            wide = stored == declared
    if wide:
        return ""
    return f"{what} was stored as {stored.simpleString().upper()}, and is declared {declared.simpleString().upper()}"


def _struct_problem(stored: T.StructType, declared: T.StructType, what: str) -> str:
    for place, old in enumerate(stored.fields):
        new = declared.fields[place] if place < len(declared.fields) else None
        where = f"column {old.name} of {what}"
        if new is None or new.name != old.name:
            instead = "is missing" if new is None else f"has become {new.name}"
            return f"{where} {instead}: stored columns keep their names and places"
        problem = schema_problem(old.dataType, new.dataType, where) or _null_problem(old.nullable, new.nullable, where)
        if problem:
            return problem
    added = declared.fields[len(stored.fields) :]
    strict = next((one.name for one in added if not one.nullable), None)
    return (
        "" if strict is None else f"column {strict} of {what} is new and declared NOT NULL: earlier rows have no value"
    )


def _null_problem(stored: bool, declared: bool, what: str) -> str:
    return f"{what} may be null in stored rows, and is declared NOT NULL" if stored and not declared else ""
