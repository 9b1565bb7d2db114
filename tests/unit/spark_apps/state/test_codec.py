"""Values of each of Spark's types come back as they were stored, or are refused with the name of their column."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812

from spark_apps.state.codec import Unfit, codec_of, decode, encode, schema_problem


def time_of(year: int) -> datetime:
    """Return the second of January, as Spark gives times to Python: without a time zone."""
    return datetime(year, 1, 2)  # noqa: DTZ001


INNER = T.StructType().add("a", T.IntegerType()).add("b", T.DecimalType(6, 2))
TYPES: dict[T.DataType, st.SearchStrategy[Any]] = {
    T.ByteType(): st.integers(-128, 127),
    T.ShortType(): st.integers(-(2**15), 2**15 - 1),
    T.IntegerType(): st.integers(-(2**31), 2**31 - 1),
    T.LongType(): st.integers(-(2**63), 2**63 - 1),
    T.DoubleType(): st.floats(allow_nan=False),
    T.StringType(): st.text(st.characters(exclude_categories=["Cs"])),
    T.BooleanType(): st.booleans(),
    T.BinaryType(): st.binary(),
    T.DecimalType(10, 3): st.decimals(-9_999_999, 9_999_999, places=3),
    T.DecimalType(38, 18): st.decimals(-(10**19), 10**19, places=18),
    T.DateType(): st.dates(),
    T.TimestampNTZType(): st.datetimes(time_of(1970), time_of(9000)),
    T.TimestampType(): st.datetimes(time_of(1970), time_of(2030)),
    T.DayTimeIntervalType(): st.timedeltas(timedelta(-10_000), timedelta(10_000)),
    T.ArrayType(T.DateType()): st.lists(st.none() | st.dates()),
    T.MapType(T.StringType(), T.DecimalType(5, 1)): st.dictionaries(st.text("ab"), st.decimals(-999, 999, places=1)),
    INNER: st.builds(Row("a", "b"), st.integers(0, 9), st.none() | st.decimals(-99, 99, places=2)),
}


@given(st.sampled_from(list(TYPES)).flatmap(lambda kind: st.tuples(st.just(kind), st.none() | TYPES[kind])))
def test_a_value_comes_back_as_it_was_stored(given_value: tuple[T.DataType, Any]) -> None:
    kind, value = given_value
    codec = codec_of(T.StructType().add("v", kind), "state x")
    (found,) = codec.restore(decode(encode(codec.store((value,)))))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (T.ByteType(), 128, "column v of state x is 128, which is out of the range of TINYINT"),
        (T.LongType(), True, "column v of state x is a bool, and is declared BIGINT"),
        (T.LongType(), 1.0, "is a float"),
        (T.DoubleType(), True, "is a bool"),
        (T.StringType(), b"a", "is a bytes, and is declared STRING"),
        (T.DecimalType(4, 1), Decimal("999.95"), "is 999.95, which is out of the range of decimal"),
        (T.DecimalType(4, 1), Decimal("NaN"), "is NaN"),
        (T.DecimalType(4, 1), 5, "is a int"),
        (T.DateType(), "2026-11-29", "is a str, and is declared DATE"),
        (T.ArrayType(T.LongType()), [1, "2"], "an element of column v of state x is a str"),
        (T.ArrayType(T.LongType(), containsNull=False), [None], "is null, and is declared NOT NULL"),
        (T.MapType(T.StringType(), T.LongType()), {1: 1}, "a key of column v of state x is a int"),
        (INNER, (1,), "column v of state x has 1 columns, and 2 are declared: a, b"),
        (INNER, 7, "column v of state x is a int, and a tuple of 2 columns is declared"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_column(kind: T.DataType, value: Any, problem: str) -> None:
    with pytest.raises(Unfit) as caught:
        codec_of(T.StructType().add("v", kind), "state x").store((value,))
    assert problem in str(caught.value)


def test_values_of_numpy_and_pandas_are_taken_as_spark_takes_them() -> None:
    schema = T.StructType().add("a", T.LongType()).add("b", T.DoubleType()).add("c", T.TimestampNTZType())
    codec = codec_of(schema, "state x")
    stored = codec.store((np.int32(5), np.float32(0.5), pd.Timestamp("2026-01-02")))
    assert codec.restore(decode(encode(stored))) == (5, 0.5, time_of(2026))


WIDER = [
    (T.ByteType(), T.LongType()),
    (T.FloatType(), T.DoubleType()),
    (T.DecimalType(6, 2), T.DecimalType(9, 3)),
    (T.ArrayType(T.IntegerType(), containsNull=False), T.ArrayType(T.LongType())),
    (T.MapType(T.StringType(), T.IntegerType()), T.MapType(T.StringType(), T.LongType())),
    (INNER, T.StructType([*INNER.fields, T.StructField("c", T.DateType())])),
    (T.DateType(), T.DateType()),
]


@pytest.mark.parametrize(("before", "after"), WIDER, ids=[str(pair[0].simpleString()) for pair in WIDER])
def test_a_wider_type_reads_what_was_stored_and_not_the_other_way_round(before: T.DataType, after: T.DataType) -> None:
    assert schema_problem(before, after, "state x") == ""
    assert before == after or schema_problem(after, before, "state x")
    samples = {
        "byte": 5,
        "float": 0.5,
        "decimal": Decimal("1.25"),
        "array": [1],
        "map": {"a": 1},
        "date": date(2026, 11, 29),
    }
    value = samples.get(before.typeName(), Row(a=1, b=Decimal("0.50")))
    stored = encode(codec_of(T.StructType().add("v", before), "state x").store((value,)))
    (found,) = codec_of(T.StructType().add("v", after), "state x").restore(decode(stored))
    assert found == ((*value, None) if isinstance(value, Row) else value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (T.LongType(), T.DoubleType()),
        (T.DateType(), T.TimestampType()),
        (T.DecimalType(6, 2), T.DecimalType(6, 3)),
        (T.StringType(), T.BinaryType()),
        (T.MapType(T.StringType(), T.LongType()), T.MapType(T.BinaryType(), T.LongType())),
        (T.ArrayType(T.LongType()), T.ArrayType(T.LongType(), containsNull=False)),
        (T.ArrayType(T.LongType()), T.LongType()),
    ],
)
def test_any_other_change_is_told_by_name(before: T.DataType, after: T.DataType) -> None:
    assert "column v of state x" in schema_problem(
        T.StructType().add("v", before), T.StructType().add("v", after), "state x"
    )
