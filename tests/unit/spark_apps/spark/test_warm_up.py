"""When a warm-up is tried again, and when it is given up; which record a rehearsal fetches.

The batches themselves run in `test_spark_source`.
"""

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator_tasks.core.errors import Refused
from spark_apps.records.batches import Range
from spark_apps.spark import warm_up as module
from spark_apps.spark.warm_up import FIRST_LIMIT_S, NO_RECORD, SLOW_START, newest_record, warm_up
from tests.fakes.kafka import FakeKafka

SPARK = cast(Any, SimpleNamespace(sparkContext=SimpleNamespace(master="spark://h:7077")))


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """The errors of the next attempts. An attempt without an error reads a batch. Each attempt takes twenty seconds."""
    ends: list[BaseException | None] = []
    now = [0.0]

    def run(_: object, _options: object, done: list[int], over: Callable[[], bool]) -> BaseException | None:
        now[0] += 20.0
        if ends:
            return ends.pop(0)
        if not over():
            done.append(0)
        return None

    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(module, "source", SimpleNamespace(bound=lambda *_: nullcontext()))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return ends


def slow() -> BaseException:
    return RuntimeError(f"[STREAM_FAILED] Query terminated with exception: {SLOW_START}.\n=== Streaming Query ===")


def test_a_python_process_that_is_slow_to_start_is_tried_again(attempts: list[BaseException | None]) -> None:
    attempts += [slow(), slow(), slow()]
    assert warm_up(SPARK, "k:1") == 1
    assert not attempts


def test_another_error_is_refused_at_once_with_its_reason(attempts: list[BaseException | None]) -> None:
    missing = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'spark_apps'"
    attempts += [slow(), RuntimeError(missing), slow()]
    says = r"No module named 'spark_apps'; check .*a script of your own sends our packages by .*session\.ship_packages"
    with pytest.raises(Refused, match=f"ModuleNotFoundError: {says}"):
        warm_up(SPARK, "k:1")
    assert len(attempts) == 1


def test_it_is_given_up_at_its_limit_with_the_last_error(attempts: list[BaseException | None]) -> None:
    attempts += [slow() for _ in range(int(FIRST_LIMIT_S))]
    with pytest.raises(Refused, match=SLOW_START):
        warm_up(SPARK, "k:1")
    attempts[:] = [None] * int(FIRST_LIMIT_S)
    with pytest.raises(Refused, match="none was read within 180 s"):
        warm_up(SPARK, "k:1")


def test_a_rehearsal_fetches_the_last_record_of_a_partition_that_has_any() -> None:
    kafka = FakeKafka()
    kafka.create_topic("orders", 3)
    offsets = kafka.offsets("g")
    assert newest_record(offsets, "orders") == NO_RECORD
    assert newest_record(offsets, "unknown") == NO_RECORD
    kafka.append("orders", 1, 7)
    assert newest_record(offsets, "orders") == Range(1, 6, 7, 0)
