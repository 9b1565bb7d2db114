"""Processor time to parse and serialize the DAGs of several clusters in one Airflow, without servers.

    python -m benchmarks.dag_parsing [--clusters 1,20] [--rounds 3] [--json FILE]

Each number of clusters has a process of its own with an empty folder of Airflow. The first parse, which imports our modules,
does not count.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.circumstances import PROJECT, noted, told
from benchmarks.result import grid, of_process, options, report, whole, wholes

RUNS_AN_HOUR = 60
"""Of `reconcile`, for each cluster; no other DAG runs while nothing changes."""


def parsed(rounds: int) -> dict[str, Any]:
    """Parse the DAGs of the environment's clusters."""
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 - only the child has a folder of Airflow
    from airflow.serialization.serialized_objects import DagSerialization  # noqa: PLC0415

    seconds, serializing = [], []
    for _ in range(rounds + 1):
        began = time.process_time()
        bag = DagBag(dag_folder=str(PROJECT / "dags"))
        seconds.append(time.process_time() - began)
        began = time.process_time()
        texts = [json.dumps(DagSerialization.to_dict(dag)) for dag in bag.dags.values()]
        serializing.append(time.process_time() - began)
    if bag.import_errors:
        raise RuntimeError(str(bag.import_errors))
    return {
        "dags": len(texts),
        "bytes": sum(map(len, texts)),
        "parse_s": statistics.median(seconds[1:]),
        "serialize_s": statistics.median(serializing[1:]),
    }


def child(clusters: int, rounds: int) -> dict[str, Any]:
    """Return the figures of a process with so many clusters."""
    with tempfile.TemporaryDirectory() as home:
        env = {
            **os.environ,
            "AIRFLOW_HOME": home,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
            "COORDINATOR_CLUSTERS": ",".join(f"cluster-{number:02d}" for number in range(clusters)),
        }
        asked = ("-m", "benchmarks.dag_parsing", "--rounds", str(rounds), "--child")
        return {"clusters": clusters, **of_process(f"{clusters} clusters", *asked, env=env, cwd=PROJECT)}


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each number of clusters."""
    rows = [
        [
            str(one["clusters"]),
            str(one["dags"]),
            f"{one['parse_s']:.2f}",
            f"{one['serialize_s']:.2f}",
            f"{one['bytes'] / 1_000:,.0f}",
            f"{RUNS_AN_HOUR * one['clusters']:,}",
        ]
        for one in result["figures"]
    ]
    head = ("clusters", "DAGs", "parsing, s", "serializing, s", "KB", "runs an hour, idle")
    how = f"Processor seconds, median of {result['rounds']} rounds"
    return f"{told(result, how)}\n\n{grid(head, rows)}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--clusters", type=wholes, default=(1, 20))
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--child", action="store_true", help="parse the environment's clusters")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(parsed(given.rounds)))
        return
    with noted(rounds=given.rounds) as result:
        result["figures"] = [child(clusters, given.rounds) for clusters in given.clusters]
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
