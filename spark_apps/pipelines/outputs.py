"""Makes a query's writer from a pipeline's result, and sets the delivery at the topic's runner before any grant."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.core.errors import Refused
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.dead_letters import DeadLettersRefused, OnError
from spark_apps.dead_letters.recovery import Bad, Recovery, Site
from spark_apps.delivery import Delivery
from spark_apps.delivery.database import blames_record
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.hooks import Hooks
from spark_apps.pipelines import AtLeastOnce, AtMostOnce, ExactlyOnce, Output, check_writer
from spark_apps.pipelines.bad_records import Rerun, found_in
from spark_apps.releases import arrow_table
from spark_apps.spark.plans import frame_of, sources_of
from spark_apps.state import StateRefused
from spark_apps.state.sink import StatefulSink
from spark_apps.state.stateful import KAFKA_KEY, Stateful, stateful_sink

NO_SITE = Site()


def agreed_writer(
    runner: TopicRunner, output: Output, hooks: Hooks, site: Site = NO_SITE, rerun: Rerun | None = None
) -> DataStreamWriter:
    """Return the query's writer; raises `Refused` for a writer that would lose records.

    `site`: the process's part in the treatment of bad records. `rerun`: the pipeline, to find bad records.
    """
    match output:
        case ExactlyOnce(rows, sink):
            _check_partition(runner.topic, rows.columns)
            recovery = _recovery(runner, output, site)
            keeps_state = isinstance(sink, StatefulSink)
            idle_s = sink.idle_s if isinstance(sink, StatefulSink) else inf
            runner.agree(Delivery.EXACTLY_ONCE, sink, hooks, idle_s=idle_s, keeps_state=keeps_state)
            return rows.writeStream.foreachBatch(_transaction(runner, output, recovery, rerun))
        case Stateful(rows):
            if not output.determines_partition:
                check_kafka_key(rows, output.by)
            once = ExactlyOnce(rows, stateful_sink(output), on_error=output.on_error)
            return agreed_writer(runner, once, hooks, site, rerun)
        case AtLeastOnce(rows, each_batch):
            recovery = _recovery(runner, output, site)
            runner.agree(Delivery.AT_LEAST_ONCE, None, hooks)
            write = each_batch if recovery is None else partial(_delivery, runner, output, recovery, rerun)
            return rows.writeStream.foreachBatch(write)
        case AtMostOnce(writer):
            check_writer(writer)
            runner.agree(Delivery.AT_MOST_ONCE, None, hooks)
            return writer
        case writer:
            check_writer(writer)
            runner.agree(Delivery.AT_LEAST_ONCE, None, hooks)
            return writer


def rows_before_sink(output: Output) -> DataFrame:
    """Return the rows of a pipeline's result, before its sink; raises `Refused` for another result."""
    match output:
        case ExactlyOnce(rows) | AtLeastOnce(rows) | Stateful(rows):
            return rows
        case AtMostOnce(writer):
            return frame_of(writer)
        case writer:
            check_writer(writer)
            return frame_of(writer)


def _check_partition(topic: str, columns: Sequence[str]) -> None:
    if "partition" not in columns:
        raise Refused(
            f"the rows of topic {topic} have no column 'partition' (they have {', '.join(columns)}), by "
            "which the rows of a lost partition are left out; keep that column of the stream"
        )


def check_kafka_key(rows: DataFrame, by: Sequence[str]) -> None:
    """Raise `StateRefused` if the grouping column `key` is surely not computed from Kafka's key.

    Rows with equal keys lie in one partition only if the key is Kafka's. By another key, each partition would keep a
    state of its own, and the totals would be too small without an error.
    """
    sources = sources_of(rows, KAFKA_KEY) if KAFKA_KEY in by else None
    if sources is None or KAFKA_KEY in sources:
        return
    raise StateRefused(
        f"the grouping column key is computed from {' and '.join(sorted(sources)) or 'no column'} of the stream, and not "
        "from Kafka's key: records of one group may lie in several partitions, and each partition would keep a state of its "
        "own; group by Kafka's key too, or declare determines_partition=True if the columns decide the partition"
    )


def _recovery(runner: TopicRunner, output: ExactlyOnce | AtLeastOnce, site: Site) -> Recovery | None:
    """Return the treatment of bad records; `None` if a bad record stops its partition."""
    policy: OnError = output.on_error.overridden(site.settings)
    if not policy.recovers and not policy.problem_column:
        return None
    if isinstance(output, AtLeastOnce):
        return site.recovery(runner, policy)
    if policy.problem_column and (policy.problem_column not in output.rows.columns or output.each_batch is not None):
        raise DeadLettersRefused(
            f"the rows of topic {runner.topic} have no column '{policy.problem_column}' for OnError(problem_column=...), or each_batch takes the "
            "column away; name a column of the rows, without each_batch"
        )
    if "offset" not in output.rows.columns:
        raise DeadLettersRefused(
            f"the rows of topic {runner.topic} have no column 'offset' (they have {', '.join(output.rows.columns)}), by which "
            "a bad record is found; keep that column of the stream, or let bad records stop the partition"
        )
    return site.recovery(runner, policy, output.sink if isinstance(output.sink, DatabaseSink) else None)


def rows_of(output: Output) -> pa.Table:
    """Return the rows for the sink of an exactly-once pipeline."""
    assert isinstance(output, ExactlyOnce | Stateful)  # noqa: S101 - a pipeline returns one kind of output
    each_batch = output.each_batch if isinstance(output, ExactlyOnce) else None
    return arrow_table(output.rows if each_batch is None else each_batch(output.rows))


def _transaction(
    runner: TopicRunner, output: ExactlyOnce, recovery: Recovery | None, rerun: Rerun | None
) -> Callable[[DataFrame, int], None]:
    def collected(again: Output) -> pa.Table:
        rows = rows_of(again)
        _check_partition(runner.topic, rows.column_names)
        return rows

    def write(batch: DataFrame, _: int) -> None:
        writer, steps = runner.edit(lambda ownership: (ownership.writer, ownership.batches.adds()))
        bad = Bad()
        try:
            rows = collected(replace(output, rows=batch))
        except Exception as error:
            if recovery is None or not recovery.may_recover(error, steps, blames_record):
                raise
            bad, again = found_in(recovery, rerun, steps, batch.sparkSession, collected, error)
            rows = collected(replace(output, rows=batch.limit(0)) if again is None else again)
        if recovery is not None and recovery.policy.problem_column:
            rows = recovery.without_problems(rows, steps, bad)
        if recovery is None:
            refused = output.sink.write(writer, steps, rows)
        elif isinstance(output.sink, DatabaseSink):
            refused = recovery.write(output.sink, writer, steps, rows, bad)
        else:
            refused = recovery.write_beside(output.sink, writer, steps, rows, bad)
        runner.edit(lambda ownership: ownership.batches.refuse(refused))
        if isinstance(output.sink, StatefulSink):
            sizes = output.sink.sizes
            runner.edit(lambda ownership: ownership.keeps(sizes))

    return write


def _delivery(
    runner: TopicRunner, output: AtLeastOnce, recovery: Recovery, rerun: Rerun | None, batch: DataFrame, number: int
) -> None:
    """Deliver a batch at least once. Its bad records are left out."""
    writer, steps = runner.edit(lambda ownership: (ownership.writer, ownership.batches.adds()))
    bad = Bad()

    def deliver(again: Output) -> None:
        assert isinstance(again, AtLeastOnce)  # noqa: S101 - the same function has returned such an output
        again.each_batch(again.rows, number)

    try:
        output.each_batch(batch, number)
    except Exception as error:
        if not recovery.may_recover(error, steps, blames_record):
            raise
        # `found_in` has delivered each good part.
        bad, _ = found_in(recovery, rerun, steps, batch.sparkSession, deliver, error)
        recovery.keep(writer, steps, bad)
    recovery.note(steps, bad)
