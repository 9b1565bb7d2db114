"""Tables of the hand-off benchmark.

    python -m benchmarks.handoff_report FILE... [--json FILE]

joins the results of several calls, each of other cells or rounds, and prints the tables.
"""

import argparse
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.handoff_lanes import OF_KAFKA, OURS, SPARK
from benchmarks.handoff_summary import TITLES, joined, judged, tick_ms_of
from benchmarks.result import grid, options, report

PARTITIONS = 12
"""Partitions of the comparison and the sentence."""
BESIDE = ("kip848-1s", "cooperative-quick")
"""Contenders beside ours in the README: Kafka's protocols with short heartbeats."""
EVENTS = {
    "join": "join",
    "leave": "clean leave",
    "rolling": "rolling restart",
    "crash": "kill -9, reported by the launcher",
    "silent": "unreported kill -9",
    "gone": "a lost host",
}
TITLES_OF_KINDS = {**EVENTS, "crash": "kill -9"}
_REST = ("quartiles", "worst")
DETAILS = ("events", "moved", *_REST, "sum", "others", *_REST, "control", "worst", "stall", "worst")
COUNTS = {"moves": "moves", "needless": "needless", "lost": "lost", "duplicated": "doubled"}


def compared(*measured_results: Mapping[str, Any]) -> str:
    """Return Markdown, with the circumstances above: the first result's, and different machines of the others."""
    results = [judged(one) for one in measured_results]
    first = results[0]
    titles = (
        "",
        "events of each kind, at least",
        "usual",
        *EVENTS.values(),
        "partitions that stay, at worst",
        "target",
    )
    rows = [_row(one, of, first) for of in results for one in TITLES]
    killed = {name for of in results for name, kind in _cells(of) if kind == "crash"}
    return "\n".join(
        [
            f"Extra pause in milliseconds: a partition's total stall, minus the usual stall of the undisturbed partition; "
            f"median (worst). The plain loop ran our transitions, except where the row names Airflow. {PARTITIONS} partitions, {_where(first)}. "
            f"{_elsewhere(results)}{_when([call for of in results for call in of['calls']])}.",
            "",
            grid(titles, filter(None, rows), ("target",)),
            "",
            _sessions({name: s for of in results for name, s in of["sessions_s"].items() if name in killed}),
        ]
    )


def _title(contender: str, result: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    """Return the contender, the transitions' runner, and the machine's processor if different from the first."""
    machine = f"on {result['processor']}" if _machine(result) != _machine(first) else ""
    batches = f"a batch every {result['batch_interval_s']:g} s" if contender == SPARK else ""
    by = "under Airflow" if result.get("airflow") else ""
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
    return f"Sessions, after which a dead consumer is missed: {'. '.join(each)}."


def one_number(result: Mapping[str, Any]) -> str:
    """Markdown: the README's sentence on the extra pause of a join, beside two of Kafka's protocols."""
    first = judged(result)
    cells, tick_ms = _cells(first), tick_ms_of(first)
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


def _cells(result: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """By contender and kind. Kafka waits for the session however a consumer dies: what was not measured shows another death."""
    cells = {(c["contender"], c["kind"]): c for c in result["summary"] if c["partitions"] == PARTITIONS}
    for died, alike in (("silent", "crash"), ("gone", "silent")):
        same = {(name, died): cell for (name, kind), cell in cells.items() if kind == alike and name in OF_KAFKA}
        cells = same | cells
    return cells


def _row(contender: str, result: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    """Return the cells of a contender, with the events that miss a target; empty if not measured."""
    cells, tick_ms = _cells(result), tick_ms_of(result)
    own = {kind: cells[contender, kind] for kind in EVENTS if (contender, kind) in cells}
    if not own:
        return []
    moved = [_middle(own[kind]["moved"], tick_ms) if kind in own else "–" for kind in EVENTS]
    stay = [one["unmoved"] for one in own.values() if one["unmoved"]["n"]]
    worst = None if any(one["worst"] is None for one in stay) else max((one["worst"] for one in stay), default=0.0)
    others = beyond_tick(worst, tick_ms) if stay else "–"
    asked = [one for one in result["targets"] if (one["partitions"], one["contender"]) == (PARTITIONS, contender)]
    of_kinds = {kind: [_limit_of(one) for one in asked if one["kind"] == kind and not one["met"]] for kind in EVENTS}
    missed = [f"{TITLES_OF_KINDS[kind]} ({', '.join(limits)})" for kind, limits in of_kinds.items() if limits]
    target = _verdict(missed, asked)
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
    titles = (f"{partitions} partitions", *DETAILS, *COUNTS.values(), "settled s", "target")
    rows = []
    asked = [target for target in result["targets"] if target["partitions"] == partitions]
    tick_ms = tick_ms_of(result)
    for cell in ordered([cell for cell in result["summary"] if cell["partitions"] == partitions]):
        both = [cell[name] for name in ("control", "stall")]
        counts = [f"{cell[name]:,}" for name in COUNTS]
        title = f"{TITLES_OF_KINDS[cell['kind']]}: {TITLES[cell['contender']]}"
        waited = cell["waited"]
        own = [one for one in asked if (one["contender"], one["kind"]) == (cell["contender"], cell["kind"])]
        late = [f"{_limit_of(one)} {one['limit_ms']:,.0f}" for one in own if not one["met"]]
        found = (
            title,
            str(cell["runs"]),
            *three(cell["moved"], tick_ms),
            beyond_tick(waited["median"], tick_ms) if waited["n"] else "–",
            *three(cell["unmoved"], tick_ms),
            *(number(one[of]) if one["n"] else "–" for one in both for of in ("median", "worst")),
            *counts,
            f"{cell['settled_s']:.1f}",
            _verdict(late, own),
        )
        rows.append(found)
    missed = [f"{one['kind']}, {TITLES[one['contender']]}, {one['what']}" for one in asked if not one["met"]]
    said = f"{len(asked) - len(missed)} of {len(asked)} targets are met; missed: {'; '.join(missed) or 'none'}."
    return f"{grid(titles, rows, ('target',))}\n\n{said}"


def _verdict(missed: Sequence[str], asked: Collection[object]) -> str:
    return f"**missed**: {', '.join(missed)}" if missed else "met" if asked else "–"


def _where(result: Mapping[str, Any]) -> str:
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


def in_full(result: Mapping[str, Any]) -> str:
    """Return Markdown: the calls of a measurement, and all findings. Shown in a separate page."""
    whole = judged(result)
    partitions = sorted({cell["partitions"] for cell in whole["summary"]})
    return "\n\n".join([f"{_where(whole)}.", _calls(whole), *(details(whole, one) for one in partitions)])


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


def beyond_tick(value: float | None, tick_ms: float) -> str:
    """Return milliseconds beyond the control; values below the producer's tick are indistinguishable from 0."""
    return "< tick" if value is not None and value < tick_ms else number(value)


def number(value: float | None) -> str:
    """Milliseconds for a table."""
    return "∞" if value is None else f"{round(value):,}"


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
    parser = options(__doc__)
    parser.add_argument("files", type=result_of, nargs="+", metavar="FILE")
    given = parser.parse_args()
    report(joined(given.files), in_full, given.json)


if __name__ == "__main__":
    main()
