"""Allowed results of a pipeline, and the terms with the topic's ownership."""

from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.streaming.query import StreamingQuery

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.core.model import Token
from spark_apps.delivery import Delivery, SinkEntry, SinkStep, Writer
from spark_apps.delivery.hooks import Hooks
from spark_apps.pipelines import AtMostOnce, ExactlyOnce, outputs

STEPS = {0: SinkStep(Token(1, 1), 0, 2)}
WRITER = Writer("c", "orders", "id", "a")
HOOKS = Hooks()


class Runner:
    """Records the terms; the ownership has one batch under way."""

    topic = "orders"

    def __init__(self) -> None:
        self.agreed: list[object] = []
        self.refused: list[object] = []
        self.ownership = SimpleNamespace(
            writer=WRITER, batches=SimpleNamespace(adds=lambda: STEPS, refuse=self.refused.append)
        )

    def agree(self, *terms: object, idle_s: float = inf, keeps_state: bool = False) -> None:
        assert not keeps_state
        self.agreed.append(terms if idle_s == inf else (*terms, idle_s))

    def edit(self, change: Any) -> Any:
        return change(self.ownership)


class Rows:
    """The used part of a DataFrame."""

    def __init__(self, *columns: str) -> None:
        self.columns = list(columns)
        self.writeStream = SimpleNamespace(foreachBatch=lambda write: write)


def agree(runner: Runner, output: object, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(outputs, "check_writer", lambda _: None)
    return outputs.agreed_writer(cast(Any, runner), cast(Any, output), HOOKS)


def test_a_writer_is_at_least_once_and_may_be_declared_at_most_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, writer = Runner(), object()
    assert agree(runner, writer, monkeypatch) is writer
    assert agree(runner, AtMostOnce(cast(Any, writer)), monkeypatch) is writer
    assert runner.agreed == [(Delivery.AT_LEAST_ONCE, None, HOOKS), (Delivery.AT_MOST_ONCE, None, HOOKS)]


def test_exactly_once_writes_what_the_batch_adds_and_says_what_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    rows, refused = pa.table({"partition": [0, 0]}), {0: SinkEntry(Token(2, 1), "b", 0)}

    def write(*given: object) -> dict[int, SinkEntry]:
        written.append(given)
        return refused

    runner, sink = Runner(), SimpleNamespace(write=write)
    write_batch = agree(runner, ExactlyOnce(cast(Any, Rows("partition")), cast(Any, sink)), monkeypatch)
    assert runner.agreed == [(Delivery.EXACTLY_ONCE, sink, HOOKS)]
    write_batch(SimpleNamespace(toArrow=lambda: rows), 7)
    assert written == [(WRITER, STEPS, rows)]
    assert runner.refused == [refused]


def test_what_is_made_of_each_batch_is_written_if_it_keeps_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    sink = SimpleNamespace(write=lambda *given: written.append(given[2]))
    sums = [pa.table({"partition": [0], "sum": [7]}), pa.table({"sum": [8]})]
    batch = cast(Any, Rows("partition", "text"))
    made = cast(Any, SimpleNamespace(toArrow=lambda: sums.pop(0)))
    write_batch = agree(Runner(), ExactlyOnce(batch, cast(Any, sink), lambda _: made), monkeypatch)
    write_batch(batch, 7)
    with pytest.raises(Refused, match="rows of topic orders have no column 'partition' \\(they have sum\\)"):
        write_batch(batch, 8)
    assert written == [pa.table({"partition": [0], "sum": [7]})]


def test_rows_without_their_partition_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner()
    with pytest.raises(Refused, match="rows of topic orders have no column 'partition' \\(they have text\\)"):
        agree(runner, ExactlyOnce(cast(Any, Rows("text")), cast(Any, None)), monkeypatch)
    assert runner.agreed == []


@pytest.mark.parametrize("output", [None, AtMostOnce(cast(Any, None)), cast(Any, StreamingQuery)(None)])
def test_what_is_no_writer_is_refused_with_what_to_return(output: object) -> None:
    runner = Runner()
    with pytest.raises(Refused, match=r"pipeline gave a (NoneType|StreamingQuery) .* return the DataStreamWriter"):
        outputs.agreed_writer(cast(Any, runner), cast(Any, output), HOOKS)
    assert runner.agreed == []
