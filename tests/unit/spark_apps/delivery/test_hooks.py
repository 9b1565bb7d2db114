"""Interceptors: allowed changes; no fault of an interceptor stops the stream."""

import logging
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.delivery.hooks import ConsumerInterceptor, ConsumerRebalanceListener, Hooks, intercepted

BATCH = pa.RecordBatch.from_pydict({"offset": [0, 1, 2], "value": [b"a", b"b", None]})


class Dropping(ConsumerInterceptor):
    """Leaves out records without a value."""

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.is_valid(batch["value"]))


class Failing(ConsumerInterceptor):
    """Raises at every call."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        raise self.error


class Renaming(ConsumerInterceptor):
    """Gives other columns."""

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.rename_columns(["offset", "body"])


class Noting(ConsumerInterceptor):
    """Records all calls."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_consume(self, topic: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.seen.append((topic, batch.num_rows))
        return batch


def test_interceptors_see_what_the_ones_before_left() -> None:
    noting = Noting()
    (found,) = intercepted(iter([BATCH]), "orders", [Dropping(), noting])
    assert found["offset"].to_pylist() == [0, 1]
    assert noting.seen == [("orders", 2)]


@pytest.mark.parametrize("wrong", [Failing(ZeroDivisionError), Failing(SystemExit), Renaming()])
def test_a_wrong_interceptor_is_left_out_and_logged(
    wrong: ConsumerInterceptor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        (found,) = intercepted(iter([BATCH]), "orders", [wrong, Dropping()])
    assert found["offset"].to_pylist() == [0, 1]
    assert type(wrong).__name__ in caplog.text


def test_executors_get_only_the_interceptors_that_see_records() -> None:
    class Telling(ConsumerInterceptor):
        def on_commit(self, topic: str, offsets: object) -> None:
            """No part is for executors."""

    dropping = Dropping()
    assert Hooks(interceptors=[Telling(), dropping]).consuming == (dropping,)


def test_lost_is_revoked_unless_overwritten_as_in_kafka() -> None:
    class Flushing(ConsumerRebalanceListener):
        def on_partitions_revoked(self, topic: str, offsets: object) -> None:
            seen.append((topic, offsets))

    seen: list[object] = []
    Flushing().on_partitions_lost("orders", {2: 10})
    assert seen == [("orders", {2: 10})]


@pytest.mark.parametrize("wrong", [Dropping, object()], ids=["a class", "something else"])
def test_hooks_that_could_not_be_called_are_refused(wrong: Any) -> None:
    with pytest.raises(Refused, match="is no ConsumerInterceptor; give an object of a class that extends it"):
        Hooks(interceptors=[wrong])
    with pytest.raises(Refused, match="is no ConsumerRebalanceListener; give an object"):
        Hooks(wrong)
