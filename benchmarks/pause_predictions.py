"""Share of moved partitions' real pauses inside a preview's interval: plain consumers that join and leave under load.

    python -m benchmarks.pause_predictions [--moves 200] [--json FILE]

Before each join and each leave, the preview predicts the moves and their pauses, from the moves before. Afterwards the
history has the measured pause. Both run against real servers of this script.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import Any

from confluent_kafka import Producer

from benchmarks.circumstances import circumstances, told
from benchmarks.plain_loop import looping
from benchmarks.result import grid, options, report, verdict, whole
from benchmarks.servers import served, until
from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.machine.what_if import SiteChange
from coordinator_tasks.core.machine.world import Policy
from coordinator_tasks.core.measure.pause_prediction import Interval, Prediction
from coordinator_tasks.core.model import Actor
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets.redeployment import all_stable
from coordinator_tasks.service.nodes import history, store, topics
from coordinator_tasks.service.plan import pauses, preview
from coordinator_tasks.wiring import Settings, open_coordinator
from spark_apps.agent.process.consumer_process import ConsumerSettings
from spark_apps.plain import PlainConsumer, Record

TOPIC, PARTITIONS, PER_SECOND = "predicted", 12, 50.0
LIMIT_S = 120.0
MEASURE_S = 10.0
HELD = 0.8
"""Intended share of pauses inside an interval."""
ACTOR = Actor("command", "benchmark")
FAILURES = (AssertionError, CoordinatorError, RuntimeError, TimeoutError)
"""Nothing came in time, a consumer or the loop has ended, or a server does not answer."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One move: its prediction, and its partition's pause. `pause_s` `None`: no record waited.

    `said` `None`: too few earlier moves. `load`: of the machine, before the move.
    """

    said: Prediction | None
    pause_s: float | None
    load: float


def judged(moves: Iterable[Moved]) -> list[tuple[Interval, float]]:
    """Return interval and pause of the moves that have both."""
    return [(one.said.total, one.pause_s) for one in moves if one.said is not None and one.pause_s is not None]


class Consumer:
    """A plain consumer in a thread."""

    def __init__(self, settings: Settings, name: str) -> None:
        self.plain = PlainConsumer(ConsumerSettings(settings, name), _ignore)
        self.thread = threading.Thread(target=self.plain.run, daemon=True)
        self.thread.start()

    def leave(self) -> None:
        self.plain.leave(30.0)
        self.thread.join(LIMIT_S)


def _ignore(_topic: str, _records: Sequence[Record]) -> None:
    """The sink."""


@contextmanager
def traffic(kafka: str) -> Iterator[None]:
    """Records into every partition, so many a second each."""
    stop = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": kafka, "linger.ms": 2, "log_level": "1"})
        while not stop.wait(1 / PER_SECOND):
            for partition in range(PARTITIONS):
                producer.produce(TOPIC, b"x" * 100, partition=partition)
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(LIMIT_S)


def owners(c: Coordinator) -> int:
    """How many consumers own something; 0 = the topic is not Stable."""
    node = store.load_nodes(c.zk, c.paths, [TOPIC]).get(TOPIC)
    return len({*node.assignments.values()}) if node is not None and all_stable(c) else 0


def tried(c: Coordinator, change: SiteChange, act: Callable[[], object], sharing: int) -> list[Moved]:
    """Predict, act, and measure; `sharing`: number of owners in the end.

    A pause with only a known minimum is left out.
    """
    load = os.getloadavg()[0]
    (said,) = preview.preview(c, change, [TOPIC])
    predicted = {m.partition: m.pause if m.pause is not None and not m.pause.rough else None for m in said.moves}
    act()
    until(lambda: owners(c) == sharing, f"{sharing} consumers share the topic")
    pauses.complete_within(c, [TOPIC], MEASURE_S)
    newest = history.rebalances(c, [TOPIC], 1)[0].pauses
    measured = newest.measured if newest is not None else ()
    return [
        Moved(predicted[one.partition], one.wait_s, load)
        for one in measured
        if one.partition in predicted and not one.least
    ]


def run(zookeeper: str, kafka: str, wanted: int, moves: list[Moved]) -> None:
    """Join and leave until enough moves were predicted and measured."""
    client = {"bootstrap.servers": kafka, "log_level": "1"}
    settings = Settings("predictions", zookeeper, client, policy=Policy(settle_s=0.2))
    ConfluentKafkaAdmin(client).create_topic(TOPIC, PARTITIONS)
    with ExitStack() as stack:
        c = stack.enter_context(open_coordinator(settings))
        topics.add_topic(c, TOPIC, "predicted", actor=ACTOR)
        stack.enter_context(looping(stack.enter_context(open_coordinator(settings))))
        staying = [Consumer(settings, name) for name in ("a", "b")]
        until(lambda: owners(c) == 2, "two consumers share the topic")
        stack.enter_context(traffic(kafka))
        for number in count():
            if len(judged(moves)) >= wanted:
                break
            # An id that returns repeatedly gets no partitions for a while.
            guests: list[Consumer] = []
            name = f"guest-{number}"
            moves += tried(c, SiteChange(join=1), lambda of=guests, name=name: of.append(Consumer(settings, name)), 3)
            moves += tried(c, SiteChange(leave=(name,)), guests[0].leave, 2)
            print(f"{len(judged(moves))} of {wanted} moves", file=sys.stderr)
        for consumer in staying:
            consumer.leave()


def summed_up(moves: Sequence[Moved]) -> dict[str, Any]:
    """Return the share of pauses inside their interval, of the moves that have both."""
    known, loads = judged(moves), [one.load for one in moves]
    inside = sum(said.low_s <= pause_s <= said.high_s for said, pause_s in known)
    return {
        "measured": len(moves),
        "nothing_waited": sum(one.pause_s is None for one in moves),
        "judged": len(known),
        "inside": inside,
        "share": round(inside / len(known), 3),
        "below": sum(pause_s < said.low_s for said, pause_s in known),
        "above": sum(pause_s > said.high_s for said, pause_s in known),
        "pause_ms_median": round(1000 * median(pause_s for _, pause_s in known), 1),
        "interval_ms_median": round(1000 * median(said.high_s - said.low_s for said, _ in known), 1),
        "off_ms_median": round(1000 * median(abs(said.median_s - pause_s) for said, pause_s in known), 1),
        "load_least": round(min(loads), 2),
        "load_median": round(median(loads), 2),
        "load_most": round(max(loads), 2),
    }


def markdown(*results: Mapping[str, Any]) -> str:
    """Return a row for each result; its line above the table has the same place among the lines."""
    lines, rows = [], []
    for one in results:
        said, asked = one["summary"], one["asked"]
        load = f"{said['load_least']:.1f}, {said['load_median']:.1f}, {said['load_most']:.1f}"
        how = f"{asked['partitions']} partitions with {asked['per_second']:g} records/s each"
        lines.append(told(one["circumstances"], f"Load {load}: {how}"))
        share = f"{100 * said['share']:.0f} %"
        counts = (str(said["judged"]), f"{said['inside']} ({share})", str(said["below"]), str(said["above"]))
        times = (f"{said[f'{name}_ms_median']:,.0f}" for name in ("pause", "interval", "off"))
        rows.append([load, *counts, *times, verdict((said["share"] >= HELD, f"≥ {100 * HELD:.0f} % inside"))])
    counted = ("moves", "inside the interval", "shorter", "longer")
    timed = ("pause, median ms", "interval, median ms wide", "median off by, median ms")
    titles = ("load of the machine (least, median, most)", *counted, *timed, "target")
    return f"{' '.join(lines)}\n\n{grid(titles, rows, ('target',))}"


def main() -> None:
    """Measure, and show the result."""
    parser = options(__doc__)
    parser.add_argument("--moves", type=whole, default=200)
    given = parser.parse_args()
    moves, failures = list[Moved](), list[str]()
    with served("predictions") as (_, zookeeper, kafka):
        try:
            run(zookeeper, kafka, given.moves, moves)
        except FAILURES as error:  # earlier measurements are not lost
            failures.append(str(error) or type(error).__name__)
    asked = {"partitions": PARTITIONS, "per_second": PER_SECOND}
    summary = summed_up(moves) if judged(moves) else {}
    result = {"circumstances": circumstances(), "asked": asked, "failed": failures, "summary": summary}
    report(result, markdown, given.json)
    if failures:
        sys.exit(f"ended early: {'; '.join(failures)}")


if __name__ == "__main__":
    main()
