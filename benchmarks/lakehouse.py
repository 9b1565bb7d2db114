"""Batches into Delta Lake and Iceberg: by Spark's own writers, and by our sinks through the driver and by files of executors.

    python -m benchmarks.lakehouse [--rounds 15] [--folder build/lakehouse] [--json FILE]

Each way appends the same cached rows of 12 partitions, with 150 characters of text, to a table of its own, in turns within
one run: milliseconds per batch, from the frame to the end of the commit. A batch of 12 rows shows the cost of a commit.
Spark's writers run on the Spark that their jars work with; `folder` gets an environment for each. Iceberg's tables are in an
SQL catalog in a SQLite file, Delta's writer stores an application transaction with each batch.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.circumstances import PROJECT, in_rounds, noted, told
from benchmarks.lakehouse_batches import WAYS
from benchmarks.result import grid, options, ranged, report, whole
from coordinator_tasks.java import find_java
from tests.clusters.environments import Environment, build_wheel, new_environment

FORMATS = {
    "delta": ("Delta Lake", "4.2.0", "io.delta:delta-spark_4.1_2.13:4.3.0"),
    "iceberg": (
        "Iceberg",
        "4.1.0",
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0",
    ),
}
"""Title, Spark, and the jars of Spark's own writer."""
LIMIT_S = 3_000.0


def environment(folder: Path, spark: str) -> Environment:
    """Return the environment with this Spark; the first call makes it."""
    made = Environment(folder / f"spark-{spark}")
    if not made.python.exists():
        with TemporaryDirectory() as wheels:
            new_environment(made.folder)
            made.install(
                f"pyspark=={spark}", "pandas>=2.2,<3", "sqlalchemy>=2", f"{build_wheel(Path(wheels))}[delta,iceberg]"
            )
    return made


def measure(kind: str, folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Return a cell for each size of a batch."""
    title, spark, jars = FORMATS[kind]
    made = environment(folder, spark)
    env = {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": str(made.python), "JAVA_HOME": str(find_java().home)}
    with TemporaryDirectory() as tables:
        command = ("python", "-m", "benchmarks.lakehouse_batches", kind, tables, str(rounds), jars)
        *_, last = made.run(*command, env=env, limit_s=LIMIT_S).splitlines()
    return [{"format": title, "spark": spark, "jars": jars, **cell} for cell in json.loads(last)]


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each format and size: the median of each way, and its quickest and slowest batch."""
    rows = [
        [f"{cell['format']}, Spark {cell['spark']}", f"{cell['rows']:,}", *(ranged(cell["ms"][way]) for way in WAYS)]
        for cell in result["cells"]
    ]
    how = (in_rounds(result["rounds"]), "milliseconds for each batch: median (least to most)")
    return f"{told(result, *how)}\n\n{grid(('table', 'rows in a batch', *WAYS), rows)}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rounds", type=whole, default=15)
    parser.add_argument("--folder", type=Path, default=PROJECT / "build" / "lakehouse")
    given = parser.parse_args()
    with noted(rounds=given.rounds, cells=[]) as result:
        for kind in FORMATS:
            result["cells"] += measure(kind, given.folder.absolute(), given.rounds)
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
