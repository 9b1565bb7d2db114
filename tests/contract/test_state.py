"""State in one transaction with rows and positions, on each database."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from coordinator_tasks.core.model import StateOnReset, Token
from spark_apps.delivery.dialects import postgresql
from spark_apps.state import ProcessorFailed, StateChanged, StateDamaged, StatePartitionsAdded, StateRefused
from tests.postgres_server import sink_url
from tests.stateful_bench import COUNT, NEW, OLD, Bench, Counting, bench, keys

__all__ = ["bench"]


@pytest.fixture(params=["sqlite", "postgresql", "postgresql-staged", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "postgresql-staged":
        monkeypatch.setattr(postgresql, "STAGED_ROWS", 1)
    return sink_url(request, tmp_path)


def test_a_new_owner_goes_on_with_the_state_of_the_former_owner(bench: Bench) -> None:
    bench.claim("a", OLD, 0, 1)
    bench.write("a", OLD, [*keys(0, "xxy"), *keys(1, "x")])
    entry = bench.claim("b", NEW, 0)
    assert entry[0].offset == 3
    bench.write("b", NEW, keys(0, "xz"))
    bench.write("a", OLD, keys(1, "x"))
    assert bench.totals() == [("x", "1"), ("x", "2"), ("x", "2"), ("x", "3"), ("y", "1"), ("z", "1")]


def test_a_fenced_owner_changes_no_state(bench: Bench) -> None:
    bench.claim("a", OLD, 0, 1)
    bench.write("a", OLD, [*keys(0, "x"), *keys(1, "x")])
    bench.claim("b", NEW, 0)
    before = bench.stored()
    assert set(bench.write("a", OLD, [*keys(0, "xy"), *keys(1, "y")])) == {0}
    after = bench.stored()
    changed = [row for row in after if row not in before and row[0] != "$partition"]
    assert changed == [after[-1]], "the other partition of the batch went on"
    bench.write("b", NEW, keys(0, "x"))
    assert bench.totals() == [("x", "1"), ("x", "1"), ("x", "2"), ("y", "1")]


def test_a_batch_that_fails_leaves_rows_positions_and_state(bench: Bench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "x"))
    before, bench.failing = bench.stored(), True
    with pytest.raises(ZeroDivisionError):
        bench.write("a", OLD, keys(0, "xyz"))
    assert bench.stored() == before
    bench.failing = False
    bench.write("a", OLD, keys(0, "xyz"))
    assert bench.totals() == [("x", "1"), ("x", "2"), ("y", "1"), ("z", "1")]


def test_a_topic_that_was_created_again_begins_without_state(bench: Bench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "xx"))
    bench.offsets.clear()
    bench.claim("a", NEW, topic_id="id-2")
    bench.write("a", NEW, keys(0, "x"), topic_id="id-2")
    assert bench.totals() == [("x", "1"), ("x", "2")]


@pytest.mark.parametrize(
    ("keeps", "said", "counts"),
    [
        (True, None, ["3", "4"]),
        (False, None, ["1", "2"]),
        (False, StateOnReset.KEEP, ["3", "4"]),
        (True, StateOnReset.RESET, ["1", "2"]),
    ],
)
def test_a_reset_of_offsets_keeps_or_deletes_the_state_of_its_partition(
    url: str, keeps: bool, said: StateOnReset | None, counts: list[str]
) -> None:
    bench = Bench(url, keeps_on_reset=keeps)
    bench.states = {} if said is None else {0: said}
    bench.claim("a", OLD, 0, 1)
    bench.write("a", OLD, keys(0, "xx") + keys(1, "y"))
    for epoch, count, other in ((6, counts[0], "2"), (7, counts[1], "3")):
        before = Counter(bench.totals())
        for _ in range(2):  # a claim is retried, and a later claim is no second reset
            bench.claim("a", Token(epoch, 1, "g1"), 0, 1, seeks={0: 6})
        bench.offsets[0] = 0 if epoch == 6 else bench.offsets[0]
        bench.write("a", Token(epoch, 1, "g1"), keys(0, "x") + keys(1, "y"))
        assert Counter(bench.totals()) - before == Counter([("x", count), ("y", other)])
    bench.close()


def test_the_first_claim_of_a_partition_in_a_database_is_remembered(bench: Bench) -> None:
    assert bench.claim("a", OLD, 0)[0].first_epoch == OLD.epoch
    later = bench.claim("b", NEW, 0, 1)
    assert (later[0].first_epoch, later[1].first_epoch) == (OLD.epoch, NEW.epoch)
    bench.execute(
        "DELETE FROM consumer_state WHERE cluster = ?", bench.cluster
    )  # as an earlier release leaves the table
    newer, newest = Token(NEW.epoch + 1, 1, "g1"), Token(NEW.epoch + 2, 1, "g1")
    assert bench.claim("a", newer, 0)[0].first_epoch == NEW.epoch
    assert bench.claim("a", newest, 0, topic_id="id-2")[0].first_epoch == newest.epoch


class Evolving(StatefulProcessor):
    """Keeps a value of a schema that the test chooses."""

    def __init__(self, schema: T.StructType, dropped: str = "", name: str = "count") -> None:
        self.schema, self.dropped, self.name = schema, dropped, name

    def init(self, handle: StatefulProcessorHandle) -> None:
        if self.dropped:
            handle.deleteIfExists(self.dropped)
        self.count = handle.getValueState(self.name, self.schema)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        before = self.count.get()
        after = 1 if before is None else before[0] + 1
        self.count.update((after, *[None] * (len(self.schema.names) - 1)))
        yield Row(key=key[0], count=after)


INTS = T.StructType().add("count", T.IntegerType())


@pytest.mark.parametrize(
    "later",
    [
        T.StructType().add("count", T.LongType()),
        T.StructType().add("count", T.IntegerType()).add("last", T.StringType()),
    ],
    ids=["wider", "a new nullable column"],
)
def test_a_wider_number_and_a_new_nullable_column_read_the_earlier_state(url: str, later: T.StructType) -> None:
    bench = Bench(url, Evolving(INTS))
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "x"))
    bench.deploy("b", Evolving(later))
    bench.claim("b", NEW)
    bench.write("b", NEW, keys(0, "x"))
    assert bench.totals() == [("x", "1"), ("x", "2")]
    with pytest.raises(StateChanged, match="state count"):
        bench.claim("a", Token(6, 1, "g1"))
    assert bench.claim("b", Token(7, 1, "g1"))[0].offset == 2
    bench.close()


@pytest.mark.parametrize(
    ("later", "problem"),
    [
        (
            Evolving(T.StructType().add("count", T.ShortType())),
            "column count of state count was stored as INT, and is declared SMALLINT",
        ),
        (Evolving(T.StructType().add("count", T.StringType())), "was stored as INT, and is declared STRING"),
        (Evolving(T.StructType().add("number", T.IntegerType())), "column count of state count has become number"),
        (
            Evolving(T.StructType().add("count", T.IntegerType()).add("last", T.LongType(), nullable=False)),
            "column last of state count is new and declared NOT NULL",
        ),
        (Evolving(T.StructType().add("count", T.IntegerType(), nullable=False)), "may be null in stored rows"),
        (Evolving(INTS, name="other"), r"state count is no longer declared: call handle.deleteIfExists\('count'\)"),
    ],
    ids=["narrower", "another type", "renamed", "not null", "no longer nullable", "gone"],
)
def test_another_change_of_the_schema_is_refused_by_name_and_changes_nothing(
    url: str, later: Evolving, problem: str
) -> None:
    bench = Bench(url, Evolving(INTS))
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "x"))
    before = bench.stored()
    bench.deploy("b", later)
    with pytest.raises(StateChanged, match=problem):
        bench.claim("b", NEW)
    bench.write("a", OLD, keys(0, "x"))
    assert (len(bench.stored()), bench.totals()) == (len(before), [("x", "1"), ("x", "2")]), "the owner goes on"
    bench.close()


def test_a_variable_that_the_processor_gives_up_is_deleted(url: str) -> None:
    bench = Bench(url, Evolving(INTS))
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "xy"))
    bench.deploy("b", Evolving(INTS, "count", "other"))
    bench.claim("b", NEW)
    bench.write("b", NEW, keys(0, "x"))
    assert sorted(name for (name,) in bench.stored("name")) == ["$partition", "other"]
    bench.close()


class Misbehaving(StatefulProcessor):
    """Does with the first row of a key what the key says."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.value = handle.getValueState("value", T.StructType().add("text", T.StringType()))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Any]:  # noqa: N802, N803
        self.value.update(("seen",))
        match key[0]:
            case "raises":
                raise ZeroDivisionError("division by zero")
            case "large":
                self.value.update(("x" * 10_000_000,))
            case "type":
                self.value.update((5,))
            case "late":
                self.handle.getValueState("another", COUNT)
            case "timer":
                self.handle.registerTimer(5)
            case "names":
                yield Row(key=key[0], total=1)
            case "output":
                yield Row(key=key[0], count="one")
            case "tuple":
                yield key[0]
            case "pandas":
                yield pd.DataFrame({"key": [key[0]], "count": [1]})
        yield Row(key=key[0], count=1)


BAD = {
    "raises": "processor Misbehaving failed in partition 0 at key ('raises',): ZeroDivisionError: division by zero",
    "large": "state value has 10,000,008 bytes under one key, and 1,000,000 are allowed",
    "type": "column text of state value of operator state is a int, and is declared STRING",
    "late": "state another of operator state is declared outside of init",
    "timer": "uses timers in the time mode None: only event-time timers are supported",
    "names": "a row of 2 columns (key, total), and key, count are declared",
    "output": "the rows of the processor of operator state do not fit the declared output",
    "tuple": "the processor returns a str in place of a row of key, count",
    "pandas": "the form of transformWithStateInPandas; return rows",
    "k" * 1_100: "the key has 1,104 bytes, and 1,000 are allowed",
}


@pytest.mark.parametrize("key", BAD, ids=[*list(BAD)[:-1], "long key"])
def test_a_processor_that_misbehaves_is_one_clear_error_and_nothing_is_lost(url: str, key: str) -> None:
    bench = Bench(url, Misbehaving())
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "x"))
    before = bench.stored()
    with pytest.raises((ProcessorFailed, StateRefused)) as caught:
        bench.write("a", OLD, [(0, {"key": "y"}), (0, {"key": key})])
    assert BAD[key] in str(caught.value)
    assert len(str(caught.value)) < 500
    assert bench.stored() == before
    bench.write("a", OLD, keys(0, "y"))
    assert bench.totals() == [("x", "1"), ("y", "1")]
    bench.close()


def test_a_value_that_another_program_has_changed_is_named(bench: Bench) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "xy"))
    assert bench.damage("count") == 2
    with pytest.raises(StateDamaged, match=r"partition 0, operator state: the row count of key 91a178 cannot be read"):
        bench.write("a", OLD, keys(0, "x"))
    bench.write("a", OLD, keys(0, "z"))
    assert bench.totals() == [("x", "1"), ("y", "1"), ("z", "1")]


@pytest.mark.parametrize(
    "value", [b"\xc1", b"\x92\xa1{\x00", b"\x92\xa2{}\x00"], ids=["no MessagePack", "no JSON", "no schema"]
)
def test_a_partition_s_row_that_another_program_has_changed_is_named(bench: Bench, value: bytes) -> None:
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "x"))
    bench.damage("$partition", value)
    for act in (lambda: bench.claim("b", NEW), lambda: bench.write("a", OLD, keys(0, "x"))):
        with pytest.raises(StateDamaged, match=r"the row \$partition of key none cannot be read"):
            act()


def test_a_table_that_another_program_has_altered_is_named(tmp_path: Path) -> None:
    bench = Bench(f"sqlite:///{tmp_path}/rows.sqlite")
    bench.claim("a", OLD)
    bench.write("a", OLD, keys(0, "x"))
    bench.execute("ALTER TABLE consumer_state RENAME COLUMN value TO content")
    bench.deploy("b", Counting())
    for act in (lambda: bench.write("a", OLD, keys(0, "x")), lambda: bench.claim("b", NEW)):
        with pytest.raises(StateDamaged, match="the table consumer_state has no column value"):
            act()
    bench.execute("ALTER TABLE consumer_state RENAME COLUMN content TO value")
    bench.write("a", OLD, keys(0, "x"))
    assert bench.totals() == [("x", "1"), ("x", "2")]
    bench.close()


class Expiring(StatefulProcessor):
    """Counts within ten seconds of the clock, in a state of each kind."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.value = handle.getValueState("value", COUNT, 10_000)
        self.list = handle.getListState("list", COUNT, 10_000)
        self.map = handle.getMapState("map", COUNT, COUNT, 10_000)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        now = timerValues.getCurrentProcessingTimeInMs()
        (count,) = self.value.get() or (0,)
        self.value.update((count + 1,))
        self.list.appendValue((now,))
        self.map.updateValue((now,), (1,))
        yield Row(key=f"{key[0]} {len(list(self.list.get()))} {len(list(self.map.keys()))}", count=count + 1)


def test_state_with_a_ttl_expires_and_its_rows_are_deleted(url: str) -> None:
    bench = Bench(url, Expiring(), time_mode="ProcessingTime")
    bench.claim("a", OLD)
    for at_s, key in ((1_000, "x"), (1_004, "x"), (1_012, "x"), (1_030, "x")):
        bench.now_s = at_s
        bench.write("a", OLD, keys(0, key))
    assert bench.totals() == [("x 1 1", "1"), ("x 1 1", "1"), ("x 2 2", "2"), ("x 2 2", "3")]
    bench.now_s = 1_041.0
    bench.write("a", OLD, keys(0, "y"))
    assert len(bench.stored()) == 4, "the partition's row, and a row of each variable under y"
    bench.close()


def more_partitions(bench: Bench, before: int = 2) -> None:
    """Let the topic grow to twice its partitions while `a` owns two of them."""
    bench.partition_count = before
    bench.claim("a", OLD, 0, 1)
    bench.write("a", OLD, [*keys(0, "x"), *keys(1, "y")])
    bench.partition_count = 2 * before


def test_partitions_added_to_a_topic_with_state_are_not_taken_and_its_owner_stops(bench: Bench) -> None:
    more_partitions(bench)
    before = bench.stored()
    refusal = "the topic has 4 partitions, and had 2 when the state began"
    for act in (
        lambda: bench.claim("b", NEW, 2),
        lambda: bench.write("a", OLD, keys(0, "x")),
        lambda: bench.claim("a", NEW, 0),
    ):
        with pytest.raises(StatePartitionsAdded, match=refusal):
            act()
    assert (bench.stored(), bench.totals()) == (before, [("x", "1"), ("y", "1")])


def test_a_new_partition_is_refused_before_the_consumer_knows_the_number_of_partitions(bench: Bench) -> None:
    more_partitions(bench)
    bench.partition_count = 2
    with pytest.raises(StatePartitionsAdded):
        bench.claim("b", NEW, 2)


def test_another_operator_begins_with_the_added_partitions_and_without_state(bench: Bench) -> None:
    more_partitions(bench)
    bench.deploy("b", Counting(), operator="again")
    bench.claim("b", NEW, 0, 1, 2)
    bench.write("b", NEW, [*keys(0, "x"), *keys(2, "y")])
    assert bench.totals() == [("x", "1"), ("x", "1"), ("y", "1"), ("y", "1")]


def test_producers_with_a_partitioner_of_their_own_may_get_partitions(url: str) -> None:
    bench = Bench(url, keeps_partition=True)
    more_partitions(bench)
    bench.write("a", OLD, keys(0, "x"))
    bench.claim("b", NEW, 2)
    bench.write("b", NEW, keys(2, "z"))
    assert bench.totals() == [("x", "1"), ("x", "2"), ("y", "1"), ("z", "1")]
    bench.close()


def test_a_state_without_the_number_of_partitions_gets_the_number_once_it_is_known(bench: Bench) -> None:
    bench.claim("a", OLD, 0)
    bench.write("a", OLD, keys(0, "x"))
    bench.partition_count = 4
    bench.write("a", OLD, keys(0, "x"))
    bench.partition_count = 6
    with pytest.raises(StatePartitionsAdded, match="had 4"):
        bench.claim("b", NEW, 0)


def test_a_number_of_partitions_that_another_program_has_changed_is_named(bench: Bench) -> None:
    more_partitions(bench)
    bench.damage("$topic")
    with pytest.raises(StateDamaged, match=r"the row \$topic of key none cannot be read"):
        bench.claim("b", NEW, 0)
