"""Makes the writer of a query from a pipeline's result, and tells its delivery to the topic's runner before any grant."""

from collections.abc import Callable, Sequence
from math import inf

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.core.errors import Refused
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.dead_letters import DeadLettersRefused
from spark_apps.dead_letters.recovery import Bad, Recovery, Site
from spark_apps.delivery import Delivery
from spark_apps.delivery.database_sink import DatabaseSink
from spark_apps.delivery.hooks import Hooks
from spark_apps.pipelines import AtMostOnce, ExactlyOnce, Output, check_writer
from spark_apps.state.sink import StatefulSink
from spark_apps.state.stateful import Stateful, stateful_sink


def agreed_writer(runner: TopicRunner, output: Output, hooks: Hooks, site: Site | None = None) -> DataStreamWriter:
    """The writer of the query; raises `Refused` for a writer that would lose records.

    `site`: what the treatment of bad records needs of the process.
    """
    match output:
        case ExactlyOnce(rows, sink):
            _check_partition(runner.topic, rows.columns)
            recovery = _recovery(runner, output, site or Site())
            idle_s = sink.idle_s if isinstance(sink, StatefulSink) else inf
            runner.agree(Delivery.EXACTLY_ONCE, sink, hooks, idle_s=idle_s)
            return rows.writeStream.foreachBatch(_transaction(runner, output, recovery))
        case Stateful(rows):
            once = ExactlyOnce(rows, stateful_sink(output), on_error=output.on_error)
            return agreed_writer(runner, once, hooks, site)
        case AtMostOnce(writer):
            check_writer(writer)
            runner.agree(Delivery.AT_MOST_ONCE, None, hooks)
            return writer
        case writer:
            check_writer(writer)
            runner.agree(Delivery.AT_LEAST_ONCE, None, hooks)
            return writer


def _check_partition(topic: str, columns: Sequence[str]) -> None:
    if "partition" not in columns:
        raise Refused(
            f"the rows of topic {topic} have no column 'partition' (they have {', '.join(columns)}), by "
            "which the rows of a lost partition are left out; keep that column of the stream"
        )


def _recovery(runner: TopicRunner, output: ExactlyOnce, site: Site) -> Recovery | None:
    """Return the treatment of bad records; `None` = a bad record stops its partition."""
    policy = output.on_error.overridden(site.settings)
    if not policy.recovers:
        return None
    if "offset" not in output.rows.columns:
        raise DeadLettersRefused(
            f"the rows of topic {runner.topic} have no column 'offset' (they have {', '.join(output.rows.columns)}), by which "
            "a bad record is found; keep that column of the stream, or let bad records stop the partition"
        )
    if not isinstance(output.sink, DatabaseSink):
        raise DeadLettersRefused(
            f"the sink of topic {runner.topic} is a {type(output.sink).__name__}: only a DatabaseSink can leave out bad records; "
            "let bad records stop the partition"
        )
    return site.recovery(runner, policy)


def _transaction(
    runner: TopicRunner, output: ExactlyOnce, recovery: Recovery | None
) -> Callable[[DataFrame, int], None]:
    def collected(batch: DataFrame) -> pa.Table:
        rows = (batch if output.each_batch is None else output.each_batch(batch)).toArrow()
        _check_partition(runner.topic, rows.column_names)
        return rows

    def write(batch: DataFrame, _: int) -> None:
        rows = collected(batch)
        writer, steps = runner.edit(lambda ownership: (ownership.writer, ownership.batches.adds()))
        if recovery is None or not isinstance(output.sink, DatabaseSink):
            refused = output.sink.write(writer, steps, rows)
        else:
            refused = recovery.write(output.sink, writer, steps, rows, Bad())
        runner.edit(lambda ownership: ownership.batches.refuse(refused))
        if isinstance(sink, StatefulSink):
            sizes = sink.sizes
            runner.edit(lambda ownership: ownership.keeps(sizes))

    return write
