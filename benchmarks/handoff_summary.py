"""Findings of the hand-off benchmark: summaries, and targets.

A run is one event of a lane, with pairs of stalls in milliseconds, the event's and the control's, of each moved and each
unmoved partition; `None` = a stall that never ended. The partitions of an event are not independent of each other, so
figures are taken over events: of each event its median and its worst partition.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from statistics import median
from typing import Any

from benchmarks.handoff_lanes import FENCED, OF_THREE, OURS, SESSIONS_S, SPARK
from benchmarks.stalls import Impact
from coordinator_tasks.core.text.partition_text import agreed, counted

Pairs = Sequence[Sequence[float | None]]
TITLES = {
    "eager": "eager `range`",
    "cooperative": "`cooperative-sticky`",
    "cooperative-quick": "`cooperative-sticky`, heartbeat 0.5 s",
    "cooperative-static": "`cooperative-sticky`, heartbeat 0.5 s, static members",
    "kip848-5s": "KIP-848, heartbeat 5 s",
    "kip848-1s": "KIP-848, heartbeat 1 s",
    "java-cooperative": "Java, `cooperative-sticky`, heartbeat 0.5 s",
    "java-kip848": "Java, KIP-848, heartbeat 1 s",
    OURS: "ours, plain clients",
    FENCED: "ours, plain clients, `fence=transactional`",
    OF_THREE: "ours, plain clients, three ZooKeeper servers",
    SPARK: "ours, Spark applications",
}
MOVED_MS = {**dict.fromkeys((OURS, FENCED, OF_THREE), (50.0, 200.0)), SPARK: (300.0, 1000.0)}
"""Median and worst that a hand-off may add."""
UNMOVED_MS = {**dict.fromkeys((OURS, FENCED, OF_THREE), (10.0, 50.0)), SPARK: (50.0, 250.0)}
"""Differences that count as equal to the control: less than half a tick, and an occasional pause of any process."""
OF_A_CALL = ("measured_on", "commit", "load_before", "load_after", "took_s")
MACHINE = ("cores", "processor", "memory_gib")
WAYS = ("airflow", "per_second", "batch_interval_s")
"""Options of a measurement, common to joined results."""
REPORTED_MS = {OURS: (400.0, 1500.0), SPARK: (700.0, 1800.0)}
"""A death reported by the launcher: under the plain loop, and under Airflow."""
UNREPORTED_MS = (1000.0, 3000.0)
"""The same beyond the session, without a report."""
GONE_MS, GONE_FENCED_MS = 15_000.0, 2000.0
"""Of a lost host; with a broker that refuses the dead consumer, beyond the session."""


def line_of(kind: str, contender: str, found: Impact, took_s: float) -> dict[str, Any]:
    """Return a run for the JSON file."""
    return {
        "kind": kind,
        "contender": contender,
        **{
            f"{name}_ms": [[_ms(one) for one in pair] for pair in getattr(found, name).values()]
            for name in ("moved", "unmoved", "waited")
        },
        "moves": found.changes,
        "needless": found.needless,
        "lost": found.lost,
        "duplicated": found.duplicated,
        "settled_s": round(took_s, 1),
    }


def _ms(seconds: float) -> float | None:
    return round(seconds * 1000, 1) if isfinite(seconds) else None


def summary(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return an entry for each number of partitions, kind and contender, over all its runs."""
    cells: dict[tuple[int, str, str], list[Mapping[str, Any]]] = {}
    for one in runs:
        cells.setdefault((one["partitions"], one["kind"], one["contender"]), []).append(one)
    return [
        {
            "partitions": partitions,
            "kind": kind,
            "contender": contender,
            "runs": len(own),
            **{name: beyond([one[f"{name}_ms"] for one in own]) for name in ("moved", "unmoved", "waited")},
            "stall": _spread([[_number(pair[0]) for pair in one["moved_ms"]] for one in own]),
            "control": _spread([[_number(pair[1]) for pair in (*one["moved_ms"], *one["unmoved_ms"])] for one in own]),
            **{name: sum(one[name] for one in own) for name in ("moves", "needless", "lost", "duplicated")},
            "settled_s": median(one["settled_s"] for one in own),
        }
        for (partitions, kind, contender), own in cells.items()
    ]


def joined(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of a file with several calls; `calls` has the circumstances, contenders and kinds of each.

    Raises `SystemExit` for results of different machines or options, since a table compares its rows, and for a run in
    two results, which would count twice.
    """
    machines = {tuple(str(one.get(name)) for name in MACHINE) for one in results}
    if len(machines) > 1:
        sys.exit(f"these were measured on different machines: {'; '.join(map(', '.join, sorted(machines)))}")
    for name in WAYS:
        if len(ways := sorted({str(one.get(name)) for one in results})) > 1:
            sys.exit(
                f"these differ in {name}: {' and '.join(ways)}; join only results that were measured in the same way"
            )
    found = Counter(text for one in results for text in {json.dumps(run) for run in one["runs"]})
    if twice := sum(count > 1 for count in found.values()):
        said = f"{counted(twice, 'run')} {agreed(twice, 'is', 'are')} in more than one of these files, and would count twice"
        sys.exit(f"{said}; name each file once, and none beside one that it was joined into")
    runs = [run for one in results for run in one["runs"]]
    shared = {name: it for name, it in results[0].items() if name not in (*OF_A_CALL, "rounds", "ended")}
    return {**shared, "calls": [call for one in results for call in calls(one)], "runs": runs}


def judged(*results: Mapping[str, Any]) -> dict[str, Any]:
    """Return several calls as one, with the summary and the targets."""
    whole = joined(results)
    cells = summary(whole["runs"])
    return {**whole, "summary": cells, "targets": targets(cells, airflow=bool(whole.get("airflow")))}


def calls(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a joined result; a single call is its own."""
    if "calls" in result:
        return list(result["calls"])
    runs = result["runs"]
    own = {
        "rounds": len({run["round"] for run in runs}),
        "contenders": [one for one in TITLES if any(run["contender"] == one for run in runs)],
        "kinds": list(dict.fromkeys(run["kind"] for run in runs)),
    }
    return [{**{name: result[name] for name in (*OF_A_CALL, "ended") if name in result}, **own}]


def beyond(runs: Sequence[Pairs]) -> dict[str, float | None]:
    """Return the event's addition to the control's stall, partition by partition; see `_spread`."""
    return _spread([[_number(here) - _number(quiet) for here, quiet in pairs] for pairs in runs])


def _spread(runs: Iterable[Sequence[float]]) -> dict[str, float | None]:
    """Over the `n` events: median and quartiles of each event's median partition, and the worst partition of all events."""
    some = [sorted(one) for one in runs if one]
    if not some:
        return {"n": 0}
    middles = [median(one) for one in some]
    low, middle, high = quartiles(middles)
    found = {"median": middle, "low": low, "high": high, "worst": max(one[-1] for one in some)}
    return {"n": len(some), **{name: round(it, 1) if isfinite(it) else None for name, it in found.items()}}


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower quartile, the median, and the upper quartile; each is one of the values, or lies in the middle of two."""
    ordered = sorted(values)
    half = (len(ordered) + 1) // 2
    return median(ordered[:half]), median(ordered), median(ordered[-half:])


def _number(value: float | None) -> float:
    return inf if value is None else value


def targets(cells: Sequence[Mapping[str, Any]], *, airflow: bool = False) -> list[dict[str, Any]]:
    """Every target of our cells: the target, the measured value, and the verdict."""
    return [target for cell in cells if cell["contender"] in UNMOVED_MS for target in _targets(cell, airflow)]


def _targets(cell: Mapping[str, Any], airflow: bool) -> list[dict[str, Any]]:
    contender = cell["contender"]
    limits = [("moved", _moved_ms(contender, cell["kind"], airflow)), ("unmoved", UNMOVED_MS[contender])]
    return [
        {
            **{name: cell[name] for name in ("partitions", "kind", "contender")},
            "what": f"{which} {how}",
            "limit_ms": limit,
            "found_ms": cell[which].get(how),
            "met": _number(cell[which].get(how)) <= limit,
        }
        for which, pair in limits
        for how, limit in zip(("median", "worst"), pair, strict=True)
        if cell[which]["n"]
    ]


def _moved_ms(contender: str, kind: str, airflow: bool) -> tuple[float, float]:
    session_ms = SESSIONS_S[contender] * 1000
    ours = SPARK if contender == SPARK else OURS
    found = {
        "crash": REPORTED_MS[ours][airflow],
        "silent": session_ms + UNREPORTED_MS[airflow],
        "gone": session_ms + GONE_FENCED_MS if contender == FENCED else GONE_MS,
    }
    return (found[kind], found[kind]) if kind in found else MOVED_MS[contender]


def tick_ms_of(result: Mapping[str, Any]) -> float:
    """Milliseconds between two records of a partition: no stall is known better."""
    return float(1000 / result["per_second"])
