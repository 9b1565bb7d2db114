"""State that moves with a partition, and obstacles, on SQLite; on each database: `contract/test_state.py`."""

from pathlib import Path

import pytest
from pyspark.sql import types as T  # noqa: N812

from spark_apps.state import StateChanged
from tests.stateful_bench import NEW, OLD, Bench, Counting, keys


def bench_of(folder: Path) -> Bench:
    made = Bench(f"sqlite:///{folder}/rows.sqlite")
    made.claim("a", OLD, 0, 1)
    made.write("a", OLD, [*keys(0, "x"), *keys(1, "x")])
    return made


def test_a_fenced_owner_changes_no_state(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    bench.claim("b", NEW, 0)
    assert set(bench.write("a", OLD, [*keys(0, "xx"), *keys(1, "x")])) == {0}
    bench.write("b", NEW, keys(0, "x"))
    assert bench.totals() == [("x", "1"), ("x", "1"), ("x", "2"), ("x", "2")]
    bench.close()


def test_an_application_with_another_schema_does_not_take_the_partition(tmp_path: Path) -> None:
    class Other(Counting):
        def init(self, handle):  # type: ignore[no-untyped-def]
            self.count = handle.getValueState("count", T.StructType().add("count", T.StringType()))

    bench = bench_of(tmp_path)
    bench.deploy("b", Other())
    with pytest.raises(StateChanged, match="was stored as BIGINT, and is declared STRING"):
        bench.claim("b", NEW)
    assert bench.write("a", OLD, keys(0, "x")) == {}
    bench.close()


def test_partitions_have_states_of_their_own_and_so_have_operators(tmp_path: Path) -> None:
    bench = bench_of(tmp_path)
    bench.deploy("b", Counting(), operator="another")
    bench.claim("b", NEW)
    bench.write("b", NEW, keys(0, "x"))
    assert bench.totals() == [("x", "1"), ("x", "1"), ("x", "1")]
    bench.close()
