"""Growth of hand-off stalls and of consumers' work with the partitions per consumer.

    python -m benchmarks.growth [--each 10,30,100,300,1000] [--rounds 3] [--json FILE] [--svg FILE]

Three plain consumers share the partitions and a fourth joins, as in `benchmarks.handoff`, with the same total of
records whatever the partitions. The cores are of the whole benchmark, its producer included, while nothing moves.
"""

import argparse
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.handoff import STAYING, Asked, measure
from benchmarks.handoff_lanes import OURS
from benchmarks.handoff_report import judged, number
from benchmarks.plot import Line, Plot
from benchmarks.result import grid, output, report, whole, wholes

EACH = (10, 30, 100, 300, 1000)
RECORDS_PER_S = 3_000.0
"""To all partitions together."""
CONSUMERS = len(STAYING[False])


def cell(each: int, rounds: int) -> dict[str, Any]:
    """Measure a number of partitions, on separate servers."""
    partitions = each * CONSUMERS
    per_second = RECORDS_PER_S / partitions
    asked = Asked(partitions=(partitions,), rounds=rounds, kinds=("join",), only=(OURS,), per_second=per_second)
    (found,) = judged(measure(asked))["summary"]
    return {"each": each, **found}


def show(result: Mapping[str, Any]) -> None:
    """The table."""
    table = Table(title=f"A join, ours, {result['rounds']} rounds, {RECORDS_PER_S:,.0f} records/s in all, milliseconds")
    for name in ("partitions of each", "moved, beyond the control", "worst", "unmoved", "worst", "settled", "cores"):
        table.add_column(name, justify="right")
    for one in result["cells"]:
        stalls = (number(one[which].get(how)) for which in ("moved", "unmoved") for how in ("median", "worst"))
        table.add_row(f"{one['each']:,}", *stalls, f"{one['settled_s']:.1f} s", f"{one['own_cores']:.2f}")
    Console(width=140).print(table)


def markdown(result: Mapping[str, Any]) -> str:
    """A row for each number of partitions; stalls in milliseconds."""
    rows = [
        [
            f"{one['each']:,}",
            number(1000 * one["each"] * CONSUMERS / RECORDS_PER_S),
            *(number(one[which].get(how)) for which in ("moved", "unmoved") for how in ("median", "worst")),
            number(one["control"].get("median")),
            f"{one['settled_s']:.1f}",
            f"{one['own_cores']:.2f}",
        ]
        for one in result["cells"]
    ]
    titles = ("partitions of each", "tick", "moved", "worst", "others", "worst", "control", "settled s", "cores")
    how = (in_rounds(result["rounds"]), f"{RECORDS_PER_S:,.0f} records/s in all")
    return f"{told(result, *how)}\n\n{grid(titles, rows)}"


def plot(result: Mapping[str, Any]) -> Plot:
    """Return stalls and cores in one picture: both axes are logarithmic."""
    lines = {
        "stall of a moved partition, ms": lambda one: one["stall"].get("median"),
        "the same, the worst": lambda one: one["stall"].get("worst"),
        "the control's, ms": lambda one: one["control"].get("median"),
        "hundredths of a core": lambda one: 100 * one["own_cores"],
    }
    found = [Line(name, tuple((one["each"], of(one) or 0.0) for one in result["cells"])) for name, of in lines.items()]
    return Plot("partitions of each consumer", "a join", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--each", type=wholes, default=list(EACH))
    parser.add_argument("--rounds", type=whole, default=3)
    parser.add_argument("--json", type=output)
    parser.add_argument("--svg", type=output)
    given = parser.parse_args()
    with noted(rounds=given.rounds) as result:
        result["cells"] = [cell(each, given.rounds) for each in given.each]
    if given.svg:
        given.svg.write_text(plot(result).svg())
    report(result, show, given.json)


if __name__ == "__main__":
    main()
