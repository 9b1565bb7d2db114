"""How long the live page of a large cluster takes in a browser: to its first paint, to its data, and of the main thread at each update.

    PYTHONPATH=.:plugins python -m benchmarks.live_page [--rounds 5] [--updates 5] [--json FILE]

The answers of a thousand consumers and ten thousand partitions are made up, with an hour of trend; a tenth of the partitions
has another owner in each. A headless Chromium opens the page in each round and stays for some updates, one every three seconds.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.circumstances import in_rounds, noted, told
from benchmarks.result import grid, output, report, verdict, whole
from coordinator_tasks.core.text.partition_text import counted
from tests.integration.browser import Browser, looking_at
from tests.integration.live_answers import CONSUMERS, PARTITIONS, WATCH, Synthetic, pages_of

PAINT, READY, UPDATE, THREAD, LONGEST = "first paint", "data shown", "update", "main thread", "longest task"
SAID = {
    PAINT: "from the address to the first paint",
    READY: "from the address until all data is shown",
    UPDATE: "an update of page and tables",
    THREAD: "processor time of the main thread for each update",
    LONGEST: "the longest task of a round's updates",
}
TARGETS_MS = {PAINT: 1_000.0, THREAD: 200.0, LONGEST: 200.0}
MADE = "answers made up, headless Chromium"


def measure(rounds: int, updates: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {name: [] for name in SAID}
    for _ in range(rounds):
        reader = Synthetic()
        with (
            tempfile.TemporaryDirectory(prefix="live-") as folder,
            pages_of(reader) as address,
            looking_at(address, Path(folder) / "profile", WATCH) as browser,
        ):
            one_round(browser, updates, found)
    return {"milliseconds": {name: [round(one, 1) for one in values] for name, values in found.items()}}


def one_round(browser: Browser, updates: int, found: dict[str, list[float]]) -> None:
    """Open the page, and stay for so many updates."""
    run = browser.driver.execute_script
    browser.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
    browser.open("/live")
    browser.until(lambda: said(browser, "now") > 0, "the first data")
    found[PAINT].append(float(run("return performance.getEntriesByName('first-contentful-paint')[0].startTime")))
    found[READY].append(said(browser, "ready-ms"))
    run("window.longest = 0")
    first, busy_ms = said(browser, "now"), thread_ms(browser)
    for number in range(1, updates + 1):
        browser.until(lambda n=number: said(browser, "now") >= first + n, "an update")  # type: ignore[misc]
        found[UPDATE].append(said(browser, "update-ms"))
    found[THREAD].append((thread_ms(browser) - busy_ms) / updates)
    found[LONGEST].append(float(run("return window.longest")))


def said(browser: Browser, name: str) -> float:
    """Return the page's own measurements."""
    return float(browser.find("#live-root").get_attribute(f"data-{name}") or "nan")


def thread_ms(browser: Browser) -> float:
    """The processor time of the main thread so far."""
    metrics = browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return 1_000 * next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


def rows_of(result: Mapping[str, Any]) -> list[list[str]]:
    """Return median and worst of each, with its target."""
    return [[SAID[name], *_figures(values), _target(name, values)] for name, values in result["milliseconds"].items()]


def _figures(values: Sequence[float]) -> tuple[str, str]:
    return f"{median(values):,.0f}", f"{max(values):,.0f}"


def _target(name: str, values: Sequence[float]) -> str:
    limit = TARGETS_MS.get(name)
    return "–" if limit is None else verdict((max(values) < limit, f"below {limit:,.0f} ms"))


def show(result: Mapping[str, Any]) -> None:
    table = Table(title=f"{CONSUMERS:,} consumers, {PARTITIONS:,} partitions, milliseconds")
    for name in ("", "median", "worst", "target"):
        table.add_column(name, justify="right" if name in ("median", "worst") else "left")
    for row in rows_of(result):
        table.add_row(*row)
    Console().print(table)


def markdown(result: Mapping[str, Any]) -> str:
    size = f"{CONSUMERS:,} consumers × {PARTITIONS:,} partitions, ms"
    how = f"{in_rounds(result['rounds'])} of {counted(result['updates'], 'update')}, {MADE}"
    return f"{told(result, how)}\n\n{grid((size, 'median', 'worst', 'target'), rows_of(result), ('target',))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=whole, default=5)
    parser.add_argument("--updates", type=whole, default=5)
    parser.add_argument("--json", type=output)
    given = parser.parse_args()
    with noted(rounds=given.rounds, updates=given.updates) as result:
        result.update(measure(given.rounds, given.updates))
    report(result, show, given.json)


if __name__ == "__main__":
    main()
