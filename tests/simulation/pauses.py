"""Checks the pauses in the history against the times of covered batches, known only to the simulation."""

from collections.abc import Callable, Mapping

from coordinator_tasks.core.codecs.history_codec import decode_record
from coordinator_tasks.core.measure.pauses import TICK_S
from coordinator_tasks.core.model import Move, Pause, Record
from spark_apps.records.batches import Range
from tests.simulation.consumer import Consumer

Expect = Callable[[str, bool, str], None]
RULE = "a pause is true"


class Pauses:
    """`covers`: topic and partition → consumer → times of its covered batches."""

    def __init__(self, expect: Expect) -> None:
        self._expect = expect
        self._covers: dict[tuple[str, int], dict[str, list[float]]] = {}
        self._records: dict[str, dict[str, Record]] = {}  # topic → path → stored record

    def on_cover(self, one: Consumer, topic: str, ranges: Mapping[int, Range], now: float) -> None:
        for partition in ranges:
            self._covers.setdefault((topic, partition), {}).setdefault(one.consumer, []).append(now)

    def on_record(self, topic: str, path: str, data: bytes | None) -> None:
        """A record was written, or written again, or is gone: a restored ZooKeeper has an older history."""
        records = self._records.setdefault(topic, {})
        if data is None:
            records.pop(path, None)
            return
        record = records[path] = decode_record(path, data, -1)
        same = [one for _, one in sorted(records.items()) if one.rebalance == record.rebalance]
        moves = {move.partition: move for one in same for move in one.moves}
        for one in record.pauses.measured if record.pauses is not None else ():
            move = moves.get(one.partition)
            if move is not None:  # the records before were lost with ZooKeeper
                self._judge(topic, one, move)

    def _judge(self, topic: str, one: Pause, move: Move) -> None:
        covers = self._covers.get((topic, one.partition), {})
        for what, at, who in (("last", one.last_at, move.giver), ("first", one.first_at, move.taker)):
            if at is None or not one.error_s:
                continue
            off_s = min((abs(at - true) for true in covers.get(who, ())), default=float("inf"))
            told = f"the {what} record of {topic}-{one.partition} at {who}: {at:.3f}, off by {off_s:.3f} s"
            self._expect(RULE, off_s <= one.error_s + TICK_S, f"{told}, which is more than {one.error_s:.3f} s")
