"""After partitions were added, the state of each key moves to the key's new partition, on each database."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import consistent
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from coordinator_tasks.adapters.partitioners import partitioners
from coordinator_tasks.core.errors import Refused
from spark_apps.delivery.database import Database
from spark_apps.state import StateDamaged, StatePartitionsAdded
from spark_apps.state import rehash as module
from spark_apps.state.rehash import Move, Moves, StatefulTopic, StateNotSettled
from spark_apps.state.table import StateRows
from tests.stateful_bench import NEW, OLD, TIMED_ROWS, Bench, bench

__all__ = ["bench"]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MURMUR2 = partitioners()["murmur2"]
BEFORE, AFTER = 2, 3


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 4)


def placed(
    text: str, count: int, partition_of: Callable[[bytes, int], Any] = MURMUR2
) -> list[tuple[int, dict[str, Any]]]:
    """Return a row for each letter, in the partition to which a producer sends the letter as key."""
    return [(partition_of(letter.encode(), count), {"key": letter}) for letter in text]


def begin(bench: Bench, text: str = LETTERS, partition_of: Callable[[bytes, int], Any] = MURMUR2) -> None:
    """Count each letter once in two partitions, and let the topic grow to three."""
    bench.partition_count = BEFORE
    bench.claim("a", OLD, *range(BEFORE))
    bench.write("a", OLD, placed(text, BEFORE, partition_of))
    bench.partition_count = AFTER


def topic(bench: Bench, **other: Any) -> StatefulTopic:
    bounds = {p: (0, bench.offsets.get(p, 0)) for p in range(bench.partition_count)}
    known = {"cluster": bench.cluster, "name": "orders", "id": "id-1", "partition_count": bench.partition_count}
    return StatefulTopic(**{**known, "bounds": bounds, "committed": {}, **other})


def rehash(bench: Bench, known: Mapping[str, Any] | None = None, *, execute: bool = True, **other: Any) -> list[Moves]:
    with closing(Database(bench.url)) as database:
        return module.rehash(database, topic(bench, **other), known or partitioners(), execute=execute)


def count_all_again(bench: Bench, count: int = AFTER) -> None:
    """Send each letter once more, as producers do now, and check that all counts went on."""
    bench.claim("b", NEW, *range(count))
    bench.write("b", NEW, placed(LETTERS, count))
    assert Counter(bench.totals()) == Counter((letter, number) for letter in LETTERS for number in "12")


def test_each_key_counts_on_in_its_new_partition(bench: Bench) -> None:
    begin(bench)
    (moves,) = rehash(bench)
    moving = Counter((MURMUR2(letter.encode(), BEFORE), MURMUR2(letter.encode(), AFTER)) for letter in LETTERS)
    expected = tuple(Move(*pair, number) for pair, number in sorted(moving.items()) if pair[0] != pair[1])
    assert moves == Moves("state", BEFORE, AFTER, "murmur2", len(LETTERS), 0, expected)
    count_all_again(bench)


def test_an_owner_of_before_goes_on_without_a_new_claim(bench: Bench) -> None:
    begin(bench)
    stays = next(one for one in placed(LETTERS, BEFORE) if one in placed(LETTERS, AFTER))
    with pytest.raises(StatePartitionsAdded):
        bench.write("a", OLD, [stays])
    rehash(bench)
    bench.write("a", OLD, [stays])
    assert (stays[1]["key"], "2") in bench.totals()


def test_a_preview_changes_nothing_and_tells_the_moves(bench: Bench) -> None:
    begin(bench)
    before = bench.stored()
    told = rehash(bench, execute=False)
    assert bench.stored() == before
    assert rehash(bench) == told
    assert rehash(bench) == [], "nothing is left to move"


def test_a_command_that_dies_at_any_step_keeps_the_topic_held_and_is_completed_by_a_repetition(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each repetition gets one step further; the last step lets consumers go on."""
    begin(bench)
    put, move, left = StateRows.put, StateRows.move, [0]

    def dying(step: Any) -> Any:
        def perform(*given: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            step(*given)

        return perform

    monkeypatch.setattr(StateRows, "put", dying(put))
    monkeypatch.setattr(StateRows, "move", dying(move))
    deaths = 0
    while True:
        left[0] = deaths
        try:
            rehash(bench)
            break
        except KeyboardInterrupt:
            deaths += 1
        with pytest.raises(StatePartitionsAdded):
            bench.claim("b", NEW, 0)
        if deaths == AFTER + 3:
            bench.partition_count = 4  # partitions are added once more
    assert deaths > AFTER + 4
    monkeypatch.undo()
    with pytest.raises(StatePartitionsAdded):
        bench.claim("b", NEW, 0)
    rehash(bench)
    count_all_again(bench, 4)


def test_of_two_commands_at_once_the_later_stops(bench: Bench) -> None:
    begin(bench)
    known = partitioners()
    with closing(Database(bench.url)) as database, database.transaction() as cursor:
        (work,) = module._works(cursor, topic(bench))
    rehash(bench)
    with closing(Database(bench.url)) as database, pytest.raises(StateNotSettled, match="another command moves"):
        work.run(database, known["murmur2"])


def test_records_that_are_not_processed_keep_the_state_in_place(bench: Bench) -> None:
    begin(bench)
    before, offsets = bench.stored(), dict(bench.offsets)
    bounds = {0: (0, offsets[0] + 7), 1: (0, offsets[1]), 2: (0, 100)}
    with pytest.raises(StateNotSettled, match="7 offsets of partition 0 are not processed"):
        rehash(bench, bounds=bounds)
    with pytest.raises(StateNotSettled, match="partition 1 has no leader"):
        rehash(bench, bounds={0: (0, offsets[0])})
    with pytest.raises(StateNotSettled, match="a consumer has processed records of partition 0 meanwhile"):
        rehash(bench, bounds={**bounds, 0: (0, offsets[0] - 1)})
    assert bench.stored() == before
    rehash(bench, bounds={**bounds, 0: (0, offsets[0])})


def test_a_partition_without_a_position_in_the_database_stands_at_the_committed_offset(bench: Bench) -> None:
    """A consumer that began at the end of the log has written nothing of a quiet partition."""
    only = [one for one in LETTERS if MURMUR2(one.encode(), BEFORE) == 0]
    begin(bench, "".join(only))
    bounds = {0: (0, bench.offsets[0]), 1: (0, 9)}
    with pytest.raises(StateNotSettled, match="9 offsets of partition 1 are not processed"):
        rehash(bench, bounds=bounds)
    (moves,) = rehash(bench, bounds=bounds, committed={0: 3, 1: 9})
    assert moves.keys == len(only)


def test_state_of_empty_keys_stays_where_the_producers_send_them_anywhere(bench: Bench) -> None:
    bench.partition_count = BEFORE
    bench.claim("a", OLD, *range(BEFORE))
    bench.write("a", OLD, [*placed(LETTERS, BEFORE, consistent), (0, {"key": ""}), (1, {"key": ""})])
    bench.partition_count = AFTER
    (moves,) = rehash(bench)
    assert (moves.partitioner, moves.keys) == ("consistent", len(LETTERS) + 2)
    assert bench.query(
        'SELECT COUNT(*) FROM consumer_state WHERE cluster = ? AND "key" = ?', bench.cluster, b"\x91\xa0"
    ) == [(2,)]


def test_the_partitioner_is_the_one_that_has_placed_all_keys(bench: Bench) -> None:
    begin(bench, partition_of=consistent)
    before = bench.stored()
    with pytest.raises(
        Refused, match=r"no known partitioner sends them \(murmur2: \d+ keys, such as b'.' in partition"
    ):
        rehash(bench, {"murmur2": MURMUR2})
    assert bench.stored() == before
    (moves,) = rehash(bench, execute=False)
    assert moves.partitioner == "consistent"


def test_keys_that_fit_several_partitioners_need_a_choice(bench: Bench) -> None:
    several = [one for one in LETTERS if len({known(one.encode(), BEFORE) for known in partitioners().values()}) == 1]
    begin(bench, "".join(several))
    with pytest.raises(Refused, match="name the producers' partitioner with --partitioner"):
        rehash(bench)
    (moves,) = rehash(bench, {"consistent": consistent})
    assert moves.partitioner == "consistent"


def test_state_of_records_without_a_key_stays(bench: Bench) -> None:
    begin(bench)
    bench.partition_count = BEFORE
    bench.write("a", OLD, [(0, {"key": None}), (1, {"key": None})])
    bench.partition_count = AFTER
    (moves,) = rehash(bench)
    assert (moves.keys, moves.keyless) == (len(LETTERS) + 2, 2)
    bench.claim("b", NEW, 0, 1)
    bench.write("b", NEW, [(0, {"key": None}), (1, {"key": None})])
    assert Counter(total for key, total in bench.totals() if key == "None") == {"1": 2, "2": 2}


def test_a_key_with_state_in_both_partitions_is_refused_by_name(bench: Bench) -> None:
    begin(bench)
    key = next(one for one in LETTERS if (MURMUR2(one.encode(), BEFORE), MURMUR2(one.encode(), AFTER)) == (0, 1))
    bench.partition_count = BEFORE  # the consumer has not noticed the addition yet
    bench.write("a", OLD, [(1, {"key": key})])
    bench.partition_count = AFTER
    before = bench.stored()
    with pytest.raises(Refused, match=r"1 key .* has state in partition 0 and in partition 1"):
        rehash(bench)
    assert bench.stored() == before


class Ringing(StatefulProcessor):
    """Returns a key when its timer fires."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803
        self.handle.registerTimer(20_000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: TimerValues, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        yield Row(key=key[0], count=expiredTimerInfo.getExpiryTimeInMs())


def test_timers_move_with_the_keys_and_the_latest_watermark_counts_everywhere(url: str) -> None:
    bench = Bench(url)
    for name in "ab":
        bench.deploy(name, Ringing(), rows=TIMED_ROWS, time_mode="EventTime")
    bench.partition_count = BEFORE
    bench.claim("a", OLD, *range(BEFORE))
    rows = placed(LETTERS, BEFORE)
    bench.write("a", OLD, [(p, {**row, "at": 15_000 + 1_000 * p}) for p, row in rows])
    bench.partition_count = AFTER
    rehash(bench)
    bench.claim("b", NEW, *range(AFTER))
    bench.write("b", NEW, [(p, {"key": f"late-{p}", "at": 15_000}) for p in range(AFTER)])
    bench.write("b", NEW, [(p, {"key": f"later-{p}", "at": 60_000}) for p in range(AFTER)])
    rung = Counter(row[0] for row in bench.totals())
    assert rung == Counter([*LETTERS, *(f"later-{p}" for p in range(AFTER))]), (
        "each timer fires once; late rows are left out"
    )
    bench.close()


def test_groups_without_kafka_s_key_and_a_database_without_state_are_refused(url: str) -> None:
    bench = Bench(url, by=["amount"], determines_partition=True)
    with pytest.raises(Refused, match="the database has no state of topic 'orders'"):
        rehash(bench)
    bench.partition_count = BEFORE
    bench.claim("a", OLD, 0)
    bench.write("a", OLD, [(0, {"amount": 3})])
    bench.partition_count = AFTER
    with pytest.raises(Refused, match="groups by amount, without Kafka's key"):
        rehash(bench)
    bench.close()


def test_a_key_that_another_program_has_changed_is_named(bench: Bench) -> None:
    begin(bench)
    known = bench.query(
        'SELECT "key" FROM consumer_state WHERE cluster = ? AND name = ? LIMIT 1', bench.cluster, "count"
    )
    changed = 'UPDATE consumer_state SET "key" = ? WHERE cluster = ? AND "key" = ?'
    assert bench.execute(changed, b"\x91\x05", bench.cluster, bytes(known[0][0])) == 1
    with pytest.raises(StateDamaged, match="the row of state of key 9105 cannot be read"):
        rehash(bench)
