"""Writes the tables of the results in `benchmarks/results` into README.md, the pages of `docs` and `benchmarks/results/README.md`."""

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import (
    autoscale,
    dag_parsing,
    demo,
    fence,
    figures,
    lakehouse,
    latency,
    look,
    pause_predictions,
    pipeline,
    rebalance,
    scale,
    scale_simulated,
    sinks,
    source,
    state,
    weighted,
)
from benchmarks.handoff_lanes import OF_KAFKA
from benchmarks.handoff_report import OURS, SPARK, TITLES, beyond_tick, joined, number, ordered, three, tick_ms_of
from benchmarks.result import grid

PROJECT = Path(__file__).resolve().parent.parent
README, MEASUREMENTS, FURTHER = (
    PROJECT / name
    for name in (
        "README.md",
        "docs/measurements.md",
        "benchmarks/results/README.md",
    )
)
RESULTS = PROJECT / "benchmarks" / "results"
Result = Mapping[str, Any]
PARTITIONS = 12
"""Partitions of the first two tables; the last file has all."""
BESIDE = ("kip848-1s", "cooperative-quick")
"""Contenders beside ours in the README: Kafka's protocols with short heartbeats."""
FIGURES = "figures"
HAND_OFFS, COMPARED, UNDER_AIRFLOW = "hand-offs", "hand-offs, compared", "hand-offs under Airflow"
HAND_OFF_RESULTS = ("handoff", "handoff-spark", "handoff-airflow", "handoff-spark-airflow")
EVENTS = {
    "join": "join",
    "leave": "clean leave",
    "rolling": "rolling restart",
    "crash": "kill -9, reported by the launcher",
    "silent": "unreported kill -9",
    "gone": "a lost host",
}
TITLES_OF_KINDS = {**EVENTS, "crash": "kill -9"}
DETAILS = (
    "events",
    "moved",
    "quartiles",
    "worst",
    "sum",
    "others",
    "quartiles",
    "worst",
    "control",
    "worst",
    "stall",
    "worst",
)
COUNTS = {"moves": "moves", "needless": "needless", "lost": "lost", "duplicated": "doubled"}


def table(results: Sequence[Mapping[str, Any]], partitions: int) -> str:
    """Return Markdown, with the circumstances above: the first result's, and different machines of the others.

    Raises `SystemExit` if this number of partitions was not measured.
    """
    first = results[0]
    if not _cells(first, partitions):
        measured = sorted({str(cell["partitions"]) for cell in first["summary"]}, key=int)
        sys.exit(f"{partitions} partitions were not measured, only {', '.join(measured)}: give --partitions")
    titles = [
        "",
        "events of each kind, at least",
        "usual",
        *EVENTS.values(),
        "partitions that stay, at worst",
        "target",
    ]
    rows = [_row(one, of, partitions, first) for of in results for one in TITLES]
    killed = {name for of in results for name, kind in _cells(of, partitions) if kind == "crash"}
    return "\n".join(
        [
            f"Extra pause in milliseconds: a partition's total stall, minus the usual stall of the undisturbed partition; "
            f"median (worst). The plain loop ran our transitions, except where the row names Airflow. {partitions} partitions, {_where(first)}. "
            f"{_elsewhere(results)}{_when([call for of in results for call in of['calls']])}.",
            "",
            grid(titles, filter(None, rows), ("target",)),
            "",
            _sessions({name: s for of in results for name, s in of["sessions_s"].items() if name in killed}),
        ]
    )


def _title(contender: str, result: Mapping[str, Any], first: Mapping[str, Any], loop: str = "") -> str:
    """Return a row's title.

    The contender, its transitions' runner, and the machine's processor if different from the first.
    """
    machine = f"on {result['processor']}" if _machine(result) != _machine(first) else ""
    batches = f"a batch every {result['batch_interval_s']:g} s" if contender == SPARK else ""
    by = "under Airflow" if result.get("airflow") else loop
    return ", ".join(filter(None, (TITLES[contender], batches, by, machine)))


def _machine(result: Mapping[str, Any]) -> str:
    return f"{result['cores']} cores ({result['processor']}), {result['memory_gib']} GiB"


def _elsewhere(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on the machines of rows that name theirs; empty if all were measured on the same machine."""
    others = sorted({_machine(one) for one in results} - {_machine(results[0])})
    return f"Rows that name a processor were measured on another machine: {'; '.join(others)}. " if others else ""


def _sessions(seconds: Mapping[str, float]) -> str:
    """Return the sessions, the shortest first, each with its contenders."""
    each = [
        f"{s:g} s: {'; '.join(title for name, title in TITLES.items() if seconds.get(name) == s)}"
        for s in sorted(set(seconds.values()))
    ]
    told = f"Sessions, after which a dead consumer is missed: {'. '.join(each)}."
    return told if each else "Nobody was killed in these runs."


def one_number(results: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: the README's sentence on the extra pause of a join, beside two of Kafka's protocols; "" if one was not measured."""
    first = results[0]
    cells, tick_ms = _cells(first, PARTITIONS), tick_ms_of(first)
    if any((one, "join") not in cells for one in (OURS, *BESIDE)):
        return ""
    ours, *others = (_middle(cells[one, "join"]["moved"], tick_ms) for one in (OURS, *BESIDE))
    beside = " and ".join(f"{pause} ms with {TITLES[one]}" for one, pause in zip(BESIDE, others, strict=True))
    return (
        f"A plain consumer joins: the median (worst) extra pause of a moved partition is {ours} ms in the plain loop, beside {beside}. "
        f"*< tick*: less than the {tick_ms:g} ms between two records. {PARTITIONS} partitions, {_machine(first)}."
    )


def _undisturbed(cells: Collection[Mapping[str, Any]]) -> str:
    """Return the control's median and worst beside these events. A cell that stands for others too counts once."""
    quiet = {one["kind"]: one["control"] for one in cells}.values()
    return f"{number(median(one['median'] for one in quiet))} ({number(max(one['worst'] for one in quiet))})"


def _cells(result: Mapping[str, Any], partitions: int) -> dict[tuple[str, str], Mapping[str, Any]]:
    """By contender and kind. Kafka waits for the session however a consumer dies: what was not measured shows another death."""
    cells = {(c["contender"], c["kind"]): c for c in result["summary"] if c["partitions"] == partitions}
    for died, alike in (("silent", "crash"), ("gone", "silent")):
        same = {(name, died): cell for (name, kind), cell in cells.items() if kind == alike and name in OF_KAFKA}
        cells = same | cells
    return cells


def _row(contender: str, result: Mapping[str, Any], partitions: int, first: Mapping[str, Any]) -> list[str]:
    """Return the cells of a contender, with the events that miss a target; empty if not measured."""
    cells, tick_ms = _cells(result, partitions), tick_ms_of(result)
    own = {kind: cells[contender, kind] for kind in EVENTS if (contender, kind) in cells}
    if not own:
        return []
    moved = [_middle(own[kind]["moved"], tick_ms) if kind in own else "–" for kind in EVENTS]
    stay = [one["unmoved"] for one in own.values() if one["unmoved"]["n"]]
    worst = None if any(one["worst"] is None for one in stay) else max((one["worst"] for one in stay), default=0.0)
    others = beyond_tick(worst, tick_ms) if stay else "–"
    asked = [one for one in result["targets"] if (one["partitions"], one["contender"]) == (partitions, contender)]
    of_kinds = {kind: [_limit_of(one) for one in asked if one["kind"] == kind and not one["met"]] for kind in EVENTS}
    missed = [f"{TITLES_OF_KINDS[kind]} ({', '.join(limits)})" for kind, limits in of_kinds.items() if limits]
    target = f"**missed**: {', '.join(missed)}" if missed else "met" if asked else "–"
    events = str(min(one["runs"] for one in own.values()))
    return [_title(contender, result, first), events, _undisturbed(own.values()), *moved, others, target]


def _limit_of(target: Mapping[str, Any]) -> str:
    """Return the name of an event's limit: `moved median`, or `others worst`, of the staying partitions."""
    return str(target["what"]).replace("unmoved", "others")


def _middle(spread: Mapping[str, Any], tick_ms: float) -> str:
    if not spread["n"]:
        return "–"
    return f"{beyond_tick(spread['median'], tick_ms)} ({beyond_tick(spread['worst'], tick_ms)})"


def details(result: Mapping[str, Any], partitions: int) -> str:
    """Return Markdown: all findings of every kind and contender."""
    names = (*DETAILS, *COUNTS.values(), "settled s")
    rows = [f"| {partitions} partitions | {' | '.join(names)} | target |", f"|---|{'--:|' * len(names)}---|"]
    asked = [target for target in result["targets"] if target["partitions"] == partitions]
    tick_ms = tick_ms_of(result)
    for cell in ordered([cell for cell in result["summary"] if cell["partitions"] == partitions]):
        whole = [_whole(cell[name], of) for name in ("control", "stall") for of in ("median", "worst")]
        counts = [f"{cell[name]:,}" for name in COUNTS]
        title = f"{TITLES_OF_KINDS[cell['kind']]}: {TITLES[cell['contender']]}"
        waited = cell["waited"]
        found = (
            str(cell["runs"]),
            *three(cell["moved"], tick_ms),
            beyond_tick(waited["median"], tick_ms) if waited["n"] else "–",
            *three(cell["unmoved"], tick_ms),
            *whole,
            *counts,
            f"{cell['settled_s']:.1f}",
            _target([one for one in asked if (one["contender"], one["kind"]) == (cell["contender"], cell["kind"])]),
        )
        rows.append(f"| {title} | {' | '.join(found)} |")
    missed = [f"{one['kind']}, {TITLES[one['contender']]}, {one['what']}" for one in asked if not one["met"]]
    said = f"{len(asked) - len(missed)} of {len(asked)} targets are met; missed: {'; '.join(missed) or 'none'}."
    return "\n".join([*rows, "", said])


def _target(asked: Sequence[Mapping[str, Any]]) -> str:
    """Return whether a row meets its targets, and the missed targets with their milliseconds."""
    missed = [f"{_limit_of(one)} {one['limit_ms']:,.0f}" for one in asked if not one["met"]]
    return f"**missed**: {', '.join(missed)}" if missed else "met" if asked else "–"


def _whole(spread: Mapping[str, Any], of: str) -> str:
    return number(spread[of]) if spread["n"] else "–"


def _where(result: Mapping[str, Any]) -> str:
    """Return the machine of the measurement, and its resolution."""
    tick = f"a record every {tick_ms_of(result):g} ms (the tick)"
    return f"{_machine(result)}, {tick}"


def _when(calls: Sequence[Mapping[str, Any]]) -> str:
    """Return the time of the measurement, and the page with the rest, if any."""
    if len(calls) == 1:
        early = "; it ended early" if "ended" in calls[0] else ""
        return f"Measured {_days(calls)} at commit {calls[0]['commit']}, load {' to '.join(_loads(calls[0]))}{early}"
    return f"Measured {_days(calls)} in {len(calls)} calls; commit and load of each stand in the full tables"


def _days(calls: Iterable[Mapping[str, Any]]) -> str:
    found = sorted({call["measured_on"] for call in calls})
    return f"on {found[0]}" if len(found) == 1 else f"from {found[0]} to {found[-1]}"


def _loads(call: Mapping[str, Any]) -> tuple[str, str]:
    return f"{call['load_before']:.1f}", f"{call['load_after']:.1f}"


def _calls(result: Mapping[str, Any]) -> str:
    """Return Markdown: rounds, contenders, kinds and time of each call."""
    rows = [
        (
            ", ".join(TITLES_OF_KINDS[one] for one in call["kinds"]),
            f"{call['rounds']}, then ended early" if "ended" in call else str(call["rounds"]),
            "; ".join(TITLES[one] for one in call["contenders"]),
            call["measured_on"],
            call["commit"],
            *_loads(call),
        )
        for call in result["calls"]
    ]
    return grid(("events", "rounds", "of", "on", "commit", "load before", "after"), rows, ("of", "on", "commit"))


def placed(text: str, made: str, place: str) -> str:
    """Return the text with this table between the place's markers. Raises `SystemExit` without them."""
    first, last = f"<!-- {place}: begin -->", f"<!-- {place}: end -->"
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        sys.exit(f"there is no place for the table: put the lines {first} and {last} where it belongs")
    return f"{before}{begin}\n{made}\n{end}{after}"


def _in_readme(*results: Result | None) -> str:
    return "" if results[0] is None else one_number(_of_calls(results))


def _in_comparison(*results: Result | None) -> str:
    return "" if results[0] is None else table(_of_calls(results), PARTITIONS)


def _of_calls(results: Sequence[Result | None]) -> list[Mapping[str, Any]]:
    """Return the existing results, judged."""
    return [joined([one]) for one in results if one is not None]


def in_full(result: Result) -> str:
    """Return Markdown: the calls of a measurement, and all findings. Shown in a separate page."""
    whole = joined([result])
    partitions = sorted({cell["partitions"] for cell in whole["summary"]})
    return "\n\n".join([f"{_where(whole)}.", _calls(whole), *(details(whole, one) for one in partitions)])


class Place(NamedTuple):
    """Place of a table, and its results: `make` gets None for missing results.

    Without any of them, and if `make` returns "", the text stays unchanged.
    """

    file: Path
    name: str
    results: tuple[str, ...]
    make: Callable[..., str]


PLACES = (
    Place(FURTHER, "demo", ("demo",), demo.markdown),
    Place(README, HAND_OFFS, ("handoff",), _in_readme),
    Place(FURTHER, COMPARED, HAND_OFF_RESULTS, _in_comparison),
    Place(FURTHER, "hand-offs at 200 records/s", ("handoff-often",), _in_comparison),
    Place(FURTHER, HAND_OFFS, ("handoff",), in_full),
    Place(FURTHER, UNDER_AIRFLOW, ("handoff-airflow",), in_full),
    Place(FURTHER, "hand-offs of Spark applications", ("handoff-spark",), in_full),
    Place(FURTHER, "hand-offs of Spark applications under Airflow", ("handoff-spark-airflow",), in_full),
    Place(FURTHER, "hand-offs, 192 partitions", ("handoff-192",), in_full),
    Place(FURTHER, "rebalance", ("rebalance",), rebalance.markdown),
    Place(FURTHER, "source", ("source",), source.markdown),
    Place(FURTHER, "source, longer", ("source-long",), source.markdown),
    Place(FURTHER, "latency", ("latency",), latency.markdown),
    Place(FURTHER, "latency, small", ("latency-small",), latency.markdown),
    Place(FURTHER, "idle", ("idle",), latency.idle_markdown),
    Place(FURTHER, "scale, plain", ("scale-plain",), scale.markdown),
    Place(FURTHER, "scale", ("scale",), scale.markdown),
    Place(FURTHER, "scale, 50,000 partitions", ("scale-50000",), scale.markdown),
    Place(FURTHER, "scale, several topics", ("scale-topics",), scale.markdown),
    Place(FURTHER, "scale, the same simulated", ("scale-topics-simulated",), scale_simulated.markdown),
    Place(FURTHER, "scale, simulated", ("scale-simulated",), scale_simulated.markdown),
    Place(FURTHER, "a look", ("look",), look.markdown),
    Place(FURTHER, "DAGs", ("dag_parsing",), dag_parsing.markdown),
    Place(FURTHER, "weighted", ("weighted",), weighted.markdown),
    Place(
        FURTHER,
        "predicted pauses",
        ("pause_predictions", "pause_predictions_busy"),
        pause_predictions.markdown,
    ),
    Place(FURTHER, "growth policies", ("autoscale",), autoscale.markdown),
    Place(FURTHER, "fence", ("fence",), fence.markdown),
    Place(FURTHER, "sinks", ("sinks",), sinks.markdown),
    Place(FURTHER, "lakehouse", ("lakehouse",), lakehouse.markdown),
    Place(FURTHER, "a whole pipeline", ("pipeline",), pipeline.markdown),
    Place(FURTHER, "state", ("state",), state.markdown),
)


def tables(texts: Mapping[Path, str]) -> dict[Path, str]:
    """Return the texts with the tables of the results; unmeasured results keep their table."""
    made = dict(texts)
    found: dict[str, str] = {}
    for place in PLACES:
        results = [kept(name) for name in place.results]
        table_of_it = place.make(*results) if any(results) else ""
        if table_of_it:
            made[place.file] = placed(made[place.file], table_of_it, place.name)
            found[place.name] = table_of_it
    chosen = figures.markdown(found)
    if chosen and MEASUREMENTS in made:
        made[MEASUREMENTS] = placed(made[MEASUREMENTS], chosen, FIGURES)
    return made


def kept(name: str) -> Result | None:
    """Return the result of this name; `None` = missing."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def pages() -> dict[Path, str]:
    """Return the texts of all files with a place."""
    return {file: file.read_text() for file in {MEASUREMENTS, *(place.file for place in PLACES)}}


def main() -> None:
    for file, text in tables(pages()).items():
        file.write_text(text)


if __name__ == "__main__":
    main()
