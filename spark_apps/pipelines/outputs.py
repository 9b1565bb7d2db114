"""Makes the writer of a query from a pipeline's result, and tells its delivery to the topic's runner before any grant."""

from collections.abc import Callable, Sequence
from math import inf

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from coordinator_tasks.core.errors import Refused
from spark_apps.agent.threads.runner import TopicRunner
from spark_apps.delivery import Delivery, TransactionalSink
from spark_apps.delivery.hooks import Hooks
from spark_apps.pipelines import AtMostOnce, ExactlyOnce, Output, check_writer
from spark_apps.state.sink import StatefulSink
from spark_apps.state.stateful import Stateful, stateful_sink


def agreed_writer(runner: TopicRunner, output: Output, hooks: Hooks) -> DataStreamWriter:
    """The writer of the query; raises `Refused` for a writer that would lose records."""
    match output:
        case ExactlyOnce(rows, sink, each_batch):
            _check_partition(runner.topic, rows.columns)
            idle_s = sink.idle_s if isinstance(sink, StatefulSink) else inf
            runner.agree(Delivery.EXACTLY_ONCE, sink, hooks, idle_s=idle_s)
            return rows.writeStream.foreachBatch(_transaction(runner, sink, each_batch))
        case Stateful(rows):
            return agreed_writer(runner, ExactlyOnce(rows, stateful_sink(output)), hooks)
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


def _transaction(
    runner: TopicRunner, sink: TransactionalSink, each_batch: Callable[[DataFrame], DataFrame] | None
) -> Callable[[DataFrame, int], None]:
    def write(batch: DataFrame, _: int) -> None:
        rows = (batch if each_batch is None else each_batch(batch)).toArrow()
        _check_partition(runner.topic, rows.column_names)
        writer, steps = runner.edit(lambda ownership: (ownership.writer, ownership.batches.adds()))
        refused = sink.write(writer, steps, rows)
        runner.edit(lambda ownership: ownership.batches.refuse(refused))
        if isinstance(sink, StatefulSink):
            sizes = sink.sizes
            runner.edit(lambda ownership: ownership.keeps(sizes))

    return write
