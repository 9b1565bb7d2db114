"""A consumer without Spark, as a person writes one: numbers in a table, and dead letters for texts that are no number.

With the argument `half`, the process dies in its first transaction. With `words`, words are numbers too.
"""

import os
import sys
from typing import Any

from coordinator_tasks.settings import settings_from_environment
from spark_apps import ConsumerSettings, Database, DatabaseSink, OnError, Output, PlainConsumer, RowSink
from spark_apps.delivery import Delivery

AMOUNTS = RowSink("amounts", {"number": "INTEGER NOT NULL"})
WORDS = {b"one": 1, b"two": 2} if "words" in sys.argv else {}


def store(cursor: Any, rows: Any) -> None:
    found = [(row["topic"], row["partition"], row["offset"], row["value"]) for row in rows.to_pylist()]
    AMOUNTS.append(cursor, [(*place, WORDS.get(value) or int(value)) for *place, value in found])
    if "half" in sys.argv:
        os._exit(9)


if __name__ == "__main__":
    topic, url = sys.argv[1:3]
    sink = DatabaseSink(Database(url), AMOUNTS.prepare, store)
    output = Output(delivery=Delivery.EXACTLY_ONCE, store=sink, on_error=OnError("dead-letter", share=1.0))
    settings = ConsumerSettings(settings_from_environment(), "a", topics=(topic,))
    raise SystemExit(PlainConsumer(settings, output).run())
