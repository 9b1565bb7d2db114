"""Findings of the hand-off benchmark: summaries, targets, and a table.

    python -m benchmarks.handoff_report FILE... [--json FILE]

joins the results of several calls, each of other cells or rounds, and shows them.

`--against FILE` shows two results side by side. A run is one event of a lane, with pairs of stalls in milliseconds, the
event's and the control's, of each moved and each unmoved partition; `None` = a stall that never ended. The partitions
of an event are not independent of each other, so figures are taken over events: of each event its median and its worst
partition.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.handoff_lanes import FENCED, OF_THREE, OURS, SESSIONS_S, SPARK
from benchmarks.result import output, report
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
MOVED_MS = {OURS: (50.0, 200.0), FENCED: (50.0, 200.0), OF_THREE: (50.0, 200.0), SPARK: (300.0, 1000.0)}
"""Median and worst that a hand-off may add."""
UNMOVED_MS = {OURS: (10.0, 50.0), FENCED: (10.0, 50.0), OF_THREE: (10.0, 50.0), SPARK: (50.0, 250.0)}
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
        "moved_ms": [[_ms(one) for one in pair] for pair in found.moved.values()],
        "unmoved_ms": [[_ms(one) for one in pair] for pair in found.unmoved.values()],
        "waited_ms": [[_ms(one) for one in pair] for pair in found.waited.values()],
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
            "moved": beyond([one["moved_ms"] for one in own]),
            "unmoved": beyond([one["unmoved_ms"] for one in own]),
            "waited": beyond([one["waited_ms"] for one in own]),
            "stall": _spread([[_number(pair[0]) for pair in one["moved_ms"]] for one in own]),
            "control": _spread([[_number(pair[1]) for pair in (*one["moved_ms"], *one["unmoved_ms"])] for one in own]),
            "moves": sum(one["moves"] for one in own),
            "needless": sum(one["needless"] for one in own),
            "lost": sum(one["lost"] for one in own),
            "duplicated": sum(one["duplicated"] for one in own),
            "settled_s": median(one["settled_s"] for one in own),
            "own_cores": max(one["own_cores"] for one in own),
            "busy": max(one["busy"] for one in own),
        }
        for (partitions, kind, contender), own in cells.items()
    ]


def judged(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result with its summary and the targets."""
    cells = summary(result["runs"])
    return {**result, "summary": cells, "targets": targets(cells, airflow=bool(result.get("airflow")))}


def measured(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result without the additions of `judged`: the content of a file."""
    return {name: it for name, it in result.items() if name not in ("summary", "targets")}


def joined(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several calls as one; `calls` has the circumstances, contenders and kinds of each.

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
    return judged({**shared, "calls": [call for one in results for call in calls(one)], "runs": runs})


def calls(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a joined result; a single call is its own."""
    if "calls" in result:
        return list(result["calls"])
    runs = result["runs"]
    own = {
        **{name: result[name] for name in OF_A_CALL},
        "rounds": len({run["round"] for run in runs}),
        "contenders": [one for one in TITLES if any(run["contender"] == one for run in runs)],
        "kinds": list(dict.fromkeys(run["kind"] for run in runs)),
        **{name: result[name] for name in ("ended",) if name in result},
    }
    return [own]


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
    """Return median and worst that an event of this kind may add."""
    session_ms = SESSIONS_S[contender] * 1000
    ours = SPARK if contender == SPARK else OURS
    found = {
        "crash": REPORTED_MS[ours][airflow],
        "silent": session_ms + UNREPORTED_MS[airflow],
        "gone": session_ms + GONE_FENCED_MS if contender == FENCED else GONE_MS,
    }
    return (found[kind], found[kind]) if kind in found else MOVED_MS[contender]


# For people ----------------------------------------------------------------------------------------------------------


def show(result: Mapping[str, Any]) -> None:
    """Show the tables, and the missed targets."""
    console = Console(width=180)
    for partitions in dict.fromkeys(cell["partitions"] for cell in result["summary"]):
        console.print(_table(result, partitions))
    for call in calls(result):
        if "ended" in call:
            console.print(f"ended early: {call['ended']}")
    for target in result["targets"]:
        found = "without end" if target["found_ms"] is None else f"{target['found_ms']:,.0f} ms"
        place = f"{target['partitions']} partitions, {target['kind']}, {target['contender']}"
        word = "met" if target["met"] else "MISSED"
        console.print(f"{word}: {place}: {target['what']} {found}, target {target['limit_ms']:,.0f} ms")


def _table(result: Mapping[str, Any], partitions: int) -> Table:
    loads = ", ".join(f"{one['load_before']:.1f} to {one['load_after']:.1f}" for one in calls(result))
    title = (
        f"{partitions} partitions, medians in milliseconds beyond the control, {result['cores']} cores, load {loads}"
    )
    table = Table(title=title)
    names = ("", "n", "moved", "quartiles", "worst", "sum", "unmoved", "quartiles", "worst", "control")
    for name in (*names, "worst", "moves", "needless", "lost", "doubled", "settled", "cores", "busy"):
        table.add_column(name, justify="right" if name else "left")
    tick_ms = tick_ms_of(result)
    for cell in ordered([one for one in result["summary"] if one["partitions"] == partitions]):
        moved, unmoved, control = (cell[name] for name in ("moved", "unmoved", "control"))
        counts = (f"{cell[name]:,}" for name in ("moves", "needless", "lost", "duplicated"))
        table.add_row(
            f"{cell['kind']}: {cell['contender']}",
            str(cell["runs"]),
            *(
                *three(moved, tick_ms),
                beyond_tick(cell["waited"]["median"], tick_ms) if cell["waited"]["n"] else "–",
                *three(unmoved, tick_ms),
                number(control.get("median")),
                number(control.get("worst")),
            ),
            *(*counts, f"{cell['settled_s']:.1f} s", f"{cell['own_cores']:.1f}", f"{cell['busy']:.0%}"),
        )
    return table


def ordered(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells by kind, Kafka's protocols first."""
    kinds = list(dict.fromkeys(["join", "leave", "rolling", *(cell["kind"] for cell in cells)]))
    contenders = tuple(TITLES)
    return sorted(cells, key=lambda cell: (kinds.index(cell["kind"]), contenders.index(cell["contender"])))


def three(spread: Mapping[str, Any], tick_ms: float) -> tuple[str, str, str]:
    """Median, quartiles, and the worst."""
    if not spread["n"]:
        return "–", "–", "–"
    low, high, middle, worst = (beyond_tick(spread[name], tick_ms) for name in ("low", "high", "median", "worst"))
    return middle, low if low == high else f"{low} to {high}", worst


def tick_ms_of(result: Mapping[str, Any]) -> float:
    """Milliseconds between two records of a partition: no stall is known better."""
    return float(1000 / result["per_second"])


def beyond_tick(value: float | None, tick_ms: float) -> str:
    """Return milliseconds beyond the control; values below the producer's tick are indistinguishable from 0."""
    return "< tick" if value is not None and value < tick_ms else number(value)


def number(value: float | None) -> str:
    """Milliseconds for a table."""
    return "∞" if value is None else f"{round(value):,}"


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Table:
    """Return the table of common measurements: medians of the moved partitions, in milliseconds beyond the control."""
    table = Table("", "before", "n", "after", "n", title="moved partitions, median and quartiles in milliseconds")
    earlier = {_cell(one): one for one in before["summary"]}
    for one in ordered(after["summary"]):
        if (old := earlier.get(_cell(one))) is None:
            continue
        columns = []
        for result, cell in ((before, old), (after, one)):
            middle, spread, _ = three(cell["moved"], tick_ms_of(result))
            columns += [f"{middle} ({spread})", str(cell["runs"])]
        table.add_row(f"{one['partitions']} partitions, {one['kind']}: {one['contender']}", *columns)
    return table


def _cell(one: Mapping[str, Any]) -> tuple[int, str, str]:
    return one["partitions"], one["kind"], one["contender"]


def result_of(text: str) -> dict[str, Any]:
    """Parse an option with a result file."""
    try:
        found = json.loads(Path(text).read_text())
        problem = "" if isinstance(found, dict) and "runs" in found else "it has no runs"
    except (OSError, ValueError) as error:
        problem = str(error)
    if problem:
        raise argparse.ArgumentTypeError(f"{text} is no result of benchmarks.handoff: {problem}")
    return dict(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=result_of, nargs="+", metavar="FILE")
    parser.add_argument("--json", type=output)
    parser.add_argument("--against", type=result_of, metavar="FILE", help="an earlier result, shown beside this one")
    given = parser.parse_args()
    result = joined(given.files)
    report(measured(result), lambda _: show(result), given.json)
    if given.against is not None:
        Console(width=180).print(difference(joined([given.against]), result))


if __name__ == "__main__":
    main()
