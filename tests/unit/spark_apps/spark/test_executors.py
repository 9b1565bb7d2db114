"""Conditions for an application without executors."""

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_apps.spark.executors import ASK_S, LOST_S, WITHOUT_S, Executors


class Spark:
    """A session with the driver and `executors` more in the list of executors."""

    def __init__(self, master: str, **settings: str) -> None:
        self.executors, self.asked, self.now = 2, 0, 0.0
        tracker = SimpleNamespace(getExecutorInfos=self.infos)
        java = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker))
        configured = {name.replace("_", "."): value for name, value in settings.items()}
        conf = SimpleNamespace(get=configured.get)
        self.sparkContext = SimpleNamespace(master=master, _jsc=java, getConf=lambda: conf)

    def infos(self) -> list[object]:
        self.asked += 1
        return [object()] * (self.executors + 1)

    def watch(self) -> Executors:
        return Executors(cast(Any, self), lambda: self.now)


def over(spark: Spark, watch: Executors, seconds: float, *, busy: bool = False) -> str:
    """The report after so long, with four looks a second."""
    said = ""
    for _ in range(int(seconds * 4)):
        spark.now += 0.25
        said = watch.missing(busy=busy)
    return said


def test_an_application_without_executors_for_a_while_is_told_so_until_it_has_some_again() -> None:
    spark = Spark("spark://h:7077")
    watch = spark.watch()
    assert over(spark, watch, 60) == ""
    assert spark.asked <= 60 / ASK_S + 1, "not at every step"
    spark.executors = 0
    assert over(spark, watch, WITHOUT_S - ASK_S) == ""
    assert over(spark, watch, 2 * ASK_S).startswith("the application has had no executor for 1")
    spark.executors = 1
    assert over(spark, watch, 2 * ASK_S) == ""


def test_an_application_without_its_former_executors_starts_anew_but_not_before_the_first_executor() -> None:
    spark, waiting = Spark("spark://h:7077"), Spark("spark://h:7077")
    watch, first = spark.watch(), waiting.watch()
    waiting.executors = 0
    over(waiting, first, 2 * LOST_S)
    assert first.lost() == ""
    over(spark, watch, 60)
    spark.executors = 0
    over(spark, watch, LOST_S - ASK_S)
    assert watch.lost() == ""
    over(spark, watch, 2 * ASK_S)
    assert watch.lost().startswith("the application has lost its executors 9")
    spark.executors = 1
    over(spark, watch, ASK_S)
    assert watch.lost() == ""


@pytest.mark.parametrize("on", ["true", "True", " true "], ids=["lower case", "as Airflow's JSON gives it", "blanks"])
def test_with_dynamic_allocation_only_a_batch_needs_executors(on: str) -> None:
    spark = Spark("yarn", spark_dynamicAllocation_enabled=on)
    spark.executors = 0
    watch = spark.watch()
    assert over(spark, watch, 60) == ""
    assert "no executor" in over(spark, watch, 60, busy=True)


def test_a_jvm_that_hangs_keeps_nobody_waiting() -> None:
    spark, answers = Spark("spark://h:7077"), threading.Event()
    spark.infos = lambda: [answers.wait(20)]  # type: ignore[method-assign]
    watch = spark.watch()
    began = time.monotonic()
    assert over(spark, watch, 60) == "", "what is not known is not told"
    assert time.monotonic() - began < 5
    answers.set()
    watch.close()
