"""A cluster of a thousand consumers and ten thousand partitions on the live page, without one: answers that are made up."""

import random
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from coordinator_ui.access import Access, access_of
from coordinator_ui.data import live
from coordinator_ui.data.trends import Trend, Trends
from coordinator_ui.pages.routes import make_app
from coordinator_ui.texts import words

from coordinator_tasks.core.machine.world import World
from coordinator_tasks.core.measure.lag_moments import EVERY_S, KEPT, LagMoment, TopicMoment
from tests.integration.browser import served

CONSUMERS, PARTITIONS = 1_000, 10_000


def synthetic(round_: int) -> dict[str, Any]:
    """One topic; a tenth of the partitions has another owner in each answer."""
    chance = random.Random(7)
    owners = [f"consumer-{number:04}" for number in range(CONSUMERS)]
    moved = [(p + round_) % CONSUMERS if p % 10 == 0 else p % CONSUMERS for p in range(PARTITIONS)]
    lags = [chance.randrange(1_000_000) + round_ for _ in range(PARTITIONS)]
    topic = {
        "topic": "orders",
        "statuses": {},
        "state": "Stable",
        "says": "Every partition is where the last plan put it.",
        "since": 1.0,
        "epoch": round_,
        "partitions": PARTITIONS,
        "unowned": "",
        "moving": "",
        "blockers": {},
        "overrides": [],
        "problem": "",
        "lag": sum(lags),
        "lag_s": 10,
        "rate": 1,
        "speed": 2,
        "drain_s": 5,
        "late": False,
        "advice": "",
        "trend": [1, 2, 3],
    }
    consumer = {
        "presence": "live",
        "host": "10.0.0.1",
        "address": "http://10.0.0.1:9001",
        "release": "0.3.0",
        "code": "",
        "rack": "r1",
        "capacity": 1.0,
        "incarnation": 1,
        "registered": 1.0,
        "answers": True,
        "absent_since": None,
        "health": "ok",
        "asked": "",
        "isolated": False,
        "draining": False,
        "offers": ["drain", "isolate"],
        "wanted": True,
        "notes": [],
        "spark_ui": "",
        "driver_log": "",
        "partitions": 10,
        "lag": 5,
        "lag_s": 2.5,
        "rate": 2,
        "speed": 3,
        "drain_s": "never",
    }
    return {
        "cluster": "shop",
        "now": 1_000_000.0 + round_,
        "problem": "",
        "trend_problems": [],
        "judged": 1_000_000.0 + round_,
        "states": list(live.STATES),
        "statuses": {status.name: said for status, said in words.LAG_STATUSES.items()},
        "topics": [topic],
        "owners": owners,
        "moves": [],
        "consumers": [{"consumer": name, **consumer} for name in owners],
        "partitions": {
            "topic": [0] * PARTITIONS,
            "partition": list(range(PARTITIONS)),
            "owner": moved,
            "state": [0] * PARTITIONS,
            "lag": lags,
            "lag_s": [one / 100 for one in lags],
            "rate": [1.5] * PARTITIONS,
            "speed": [2.5] * PARTITIONS,
            "drain_s": [lag / 7 for lag in lags],
            "status": ["OK"] * PARTITIONS,
        },
    }


def an_hour() -> Trend:
    """Of the same topic, minute by minute."""
    now, numbers = 1_000_000.0, range(PARTITIONS)
    owners = tuple(f"consumer-{number:04}" for number in range(CONSUMERS))
    columns = TopicMoment(
        "g",
        array("i", numbers),
        array("h", (p % CONSUMERS for p in numbers)),
        array("q", numbers),
        array("q", numbers),
        array("q", numbers),
        array("b", (1 for _ in numbers)),
        array("b", (1 for _ in numbers)),
    )
    return Trend(
        now, tuple(LagMoment(now - EVERY_S * back, owners, {"orders": columns}) for back in range(KEPT, 0, -1))
    )


class Synthetic(Trends):
    """A reader that gives the next answer, and the trends of the hour before."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.make: Callable[[int], dict[str, Any]] = synthetic
        self.trend = an_hour()

    async def read(self, _cluster: str, read: Callable[[Any], Any]) -> Any:
        return read(self)

    def of(self, _: Any) -> Trend:
        return self.trend

    def look(self, *_: Any) -> tuple[live.Now, dict[str, Any]]:
        self.answers += 1
        return live.Now(0.0, "shop", (), (), World(0.0)), self.make(self.answers)


@contextmanager
def pages_of(reader: Synthetic) -> Iterator[str]:
    """The address of pages that show these answers."""
    with patch.dict("os.environ", COORDINATOR_CLUSTERS="shop"), patch.object(live, "look", reader.look):
        app = make_app(reader)  # type: ignore[arg-type]
        app.state.trends = reader
        app.dependency_overrides[access_of] = lambda: Access(lambda _dag: None)
        with served(app) as found:
            yield found
