"""`Stateful`, the result of a pipeline with state, and the sink that runs its processor.

The processor runs in the driver, inside the sink's transaction. One statement reads the state of the batch's keys, the
processor changes the state in memory, and one statement writes the state. Then the processor's rows are stored and the
positions move. As in Spark, each batch uses a fresh copy of the processor.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from math import inf

import pyspark
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 (its usual name)

from spark_apps.dead_letters import OnError
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.releases import STATEFUL, StatefulProcessor
from spark_apps.state import StateRefused
from spark_apps.state.batch import Operator
from spark_apps.state.codec import check_key, codec_of, struct_of
from spark_apps.state.handle import Handle, TimeMode
from spark_apps.state.schema import schema_text
from spark_apps.state.sink import StatefulSink

SHORTEST_IDLE_S = 1.0
PLACE = ("partition", "offset")
KAFKA_KEY = "key"
WATERMARK = "spark.watermarkDelayMs"
"""Key in a column's metadata where `withWatermark` stores its delay."""


@dataclass(frozen=True, slots=True)
class Stateful:
    """Returned by a pipeline instead of a writer: rows, a processor of Spark's `transformWithState`, and their sink.

    The rows have the columns `partition` and `offset`. The sink stores the rows that the processor returns.

    - `by`: grouping columns. `output`: schema of the processor's rows. `time_mode`: as in `transformWithState`.
    - `operator`: the name under which the state is stored.
    - `determines_partition`: equal grouping columns always mean the same partition, although they lack Kafka's key.
    - `idle_s`: after so many seconds without a record, a partition's event time advances with the driver's clock,
      `idle_s` behind; infinite = never.
    - `keeps_on_reset`: a reset of offsets keeps the state of its partitions.
    - `keeps_partition`: records with equal grouping columns stay in one partition when partitions are added, because
      the producers use their own partitioner.
    - `on_error`: what happens to records that cannot be processed.
    """

    rows: DataFrame
    processor: StatefulProcessor
    sink: DatabaseSink
    _: KW_ONLY
    by: Sequence[str] = (KAFKA_KEY,)
    output: T.StructType | str = ""
    time_mode: str = TimeMode.NONE
    operator: str = "state"
    determines_partition: bool = False
    idle_s: float = inf
    keeps_on_reset: bool = True
    keeps_partition: bool = False
    on_error: OnError = field(default_factory=OnError)


def stateful_sink(given: Stateful) -> StatefulSink:
    """Return the sink that runs the processor, on rows without the problem column; raises `StateRefused`."""
    if not STATEFUL:
        raise StateRefused(f"Spark {pyspark.__version__} has no stateful processors; use Spark 4.0 or later for state")
    if given.on_error.problem_column:
        given = replace(given, rows=given.rows.drop(given.on_error.problem_column))
    if not isinstance(given.sink, DatabaseSink):
        raise StateRefused(
            f"the sink of a stateful pipeline is a {type(given.sink).__name__}: state is exactly once and lies beside the "
            "positions, so the sink has to be a DatabaseSink"
        )
    if not isinstance(given.processor, StatefulProcessor):
        raise StateRefused(
            f"the processor is a {type(given.processor).__name__}; give an object of a class that extends Spark's StatefulProcessor"
        )
    return StatefulSink(given.sink, operator_of(given))


def operator_of(given: Stateful) -> Operator:
    """Return the operator of a pipeline; raises `StateRefused`."""
    mode, rows = _mode_of(given.time_mode), given.rows.schema
    key = _key_of(rows, given)
    check_key(key)
    try:
        pickled = cloudpickle.dumps(given.processor)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise StateRefused(
            f"the processor cannot be pickled ({error}); as for Spark, keep connections out of it"
        ) from error
    handle = Handle(given.operator, mode)
    cloudpickle.loads(pickled).init(handle)
    return Operator(
        name=given.operator,
        mode=mode,
        pickled=pickled,
        rows=rows,
        key=codec_of(key, "the grouping key"),
        by=tuple(rows.fieldNames().index(name) for name in key.names),
        output=struct_of(given.output) if given.output else _output_of(given.processor, rows, key),
        event_time=_event_time(rows) if mode is TimeMode.EVENT_TIME else None,
        idle_s=_idle_s(given.idle_s, mode),
        keeps_on_reset=given.keeps_on_reset,
        keeps_partition=given.keeps_partition,
        schema=schema_text(mode, key, handle.variables),
        dropped=frozenset(handle.dropped - handle.variables.keys()),
        expiring=tuple(name for name, one in handle.variables.items() if one.ttl_ms),
    )


def _mode_of(word: str) -> TimeMode:
    for mode in TimeMode:
        if mode.lower() == word.lower():
            return mode
    raise StateRefused(f"the time mode is '{word}'; give {', '.join(TimeMode)}")


def _idle_s(seconds: float, mode: TimeMode) -> float:
    if seconds == inf or (seconds >= SHORTEST_IDLE_S and mode is TimeMode.EVENT_TIME):
        return seconds
    raise StateRefused(
        f"idle_s is {seconds} in the time mode {mode}: only EventTime has a watermark that goes on, after {SHORTEST_IDLE_S:g} s "
        "at least; give more seconds, or leave idle_s out"
    )


def _key_of(rows: T.StructType, given: Stateful) -> T.StructType:
    names = rows.fieldNames()
    for name in (*PLACE, *given.by):
        if name not in names:
            raise StateRefused(
                f"the rows have no column '{name}' (they have {', '.join(names)}); keep 'partition' and 'offset' of the "
                "stream, and name the grouping columns in by="
            )
    if not given.by:
        raise StateRefused("no grouping column is named; name at least one in by=")
    if KAFKA_KEY not in given.by and not given.determines_partition:
        raise StateRefused(
            f"the grouping columns {', '.join(given.by)} do not contain Kafka's key: records of one group may lie in several "
            "partitions, and each partition would keep a state of its own; group by 'key' too, or declare "
            "determines_partition=True if the columns decide the partition"
        )
    return T.StructType([rows[name] for name in given.by])


def _output_of(processor: StatefulProcessor, rows: T.StructType, key: T.StructType) -> T.StructType:
    made = getattr(processor, "output", None)
    if made is None:
        raise StateRefused(
            "the schema of the processor's rows is not given; give output='...', as outputStructType in Spark"
        )
    found: T.StructType = made(rows, key)
    return found


def _event_time(rows: T.StructType) -> tuple[str, int]:
    """Return the column with the event time, and the watermark's delay in ms."""
    found = [
        (field.name, field.metadata[WATERMARK], field.dataType) for field in rows.fields if WATERMARK in field.metadata
    ]
    if len(found) != 1 or not isinstance(found[0][2], T.TimestampType | T.TimestampNTZType):
        raise StateRefused(
            f"the time mode EventTime needs one column of times with a watermark, and the rows have {len(found)}; use "
            "rows.withWatermark('column', '10 minutes')"
        )
    return found[0][0], int(found[0][1])
