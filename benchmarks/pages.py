"""Pages of a large site: server time, bytes, and a browser's time for the first paint and for updates, without servers.

    python -m benchmarks.pages [--size 5000x100000x200] [--json FILE]

The site is that of `benchmarks.scale_simulated`, in memory. One topic has a tenth of all partitions. After all topics
are Stable, a tenth of the consumers joins, and the coordinator plans: each topic is in Closing, and has a history.
*Server* is the processor time of an answer, without Airflow's own checks, the consumers, and HTTP to them. *First paint* and *update* are of a headless Chromium, served by this process; *update* is the longest
task of the browser's main thread in `WATCHED_S` seconds after the content. A page that reads for long paints its head
first; *content* is when the whole page is there, without the data that the live page's script fetches. A page may take
`LIMIT_S`.
"""

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from coordinator_plugin.clusters import clusters
from coordinator_ui.access import Access, access_of
from coordinator_ui.data.reading import ClusterReader
from coordinator_ui.pages.routes import make_app
from fastapi import FastAPI
from fastapi.testclient import TestClient

from benchmarks.circumstances import noted, told
from benchmarks.result import grid, options, report, verdict
from benchmarks.scale_simulated import ACTOR, Site
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.plan import transitions
from coordinator_tasks.service.watch import lag_moments
from tests.integration.browser import looking_at, served

PAINT_S, UPDATE_MS = 1.0, 200.0
ROUNDS, WATCHED_S, LIMIT_S = 2, 15.0, 60.0
LARGE = "large"
SCRIPT = """
window.longest = 0;
new PerformanceObserver((list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); }).observe({ type: "longtask", buffered: false });
"""
PAINT = "return performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime / 1000)[0] ?? null"

CONTENT = (
    "const one = performance.getEntriesByType('navigation')[0]; return one.domComplete ? one.domComplete / 1000 : null"
)


def site_of(size: tuple[int, int, int]) -> Site:
    """Return a site with a history: all Stable, then a tenth of the consumers has joined, and acts on no plan."""
    consumers, partitions, number = size
    site = Site((consumers, partitions - partitions // 10, number - 1), 1)
    site.kafka.create_topic(LARGE, partitions // 10)
    topics.add_topic(site.c, LARGE, "orders", actor=ACTOR)
    site.names.append(LARGE)
    staying = consumers - consumers // 10
    site.join(range(staying))
    site.run(lambda: not site.busy)
    for joining in (range(0), range(0), range(staying, consumers)):
        site.join(joining)
        site.clock.advance(61.0)
        transitions.step(site.c, site.names, ACTOR)
        list(lag_moments.keep(site.c, site.names))
    return site


def app_of(site: Site) -> FastAPI:
    app = make_app(ClusterReader(lambda name: (name, lambda: nullcontext(site.c)), page_limit_s=LIMIT_S))
    app.dependency_overrides[access_of] = lambda: Access(lambda _dag: None)
    app.state.task_spans = lambda _dag_id, _actors: ()
    return app


def addresses(site: Site) -> dict[str, str]:
    """Return page → address below the pages' own."""
    cluster = f"/clusters/{clusters()[0].name}"
    return {
        "overview": cluster,
        f"topic of {site.each:,} partitions": f"{cluster}/topics/{site.names[0]}",
        f"topic of {site.size[1] // 9:,} partitions": f"{cluster}/topics/{LARGE}",
        "live": f"{cluster}/live",
        "live, its data": f"/api/v1{cluster}/live?shown={LARGE}",
        "rebalances": "/rebalances",
        "audit": f"{cluster}/audit",
    }


def answered(site: Site, app: FastAPI, address: str) -> dict[str, Any]:
    """Return status, bytes and processor seconds of an answer."""
    client, seconds = TestClient(app), []
    for _ in range(ROUNDS):
        for shared in (app.state.shared, app.state.audits):
            shared._kept.clear()  # noqa: SLF001
        began, encoding = time.process_time(), site.interfaces.encoding_s
        answer = client.get(address)
        seconds.append(time.process_time() - began - (site.interfaces.encoding_s - encoding))
    return {"status": answer.status_code, "bytes": len(answer.content), "server_s": statistics.median(seconds[1:])}


def looked(app: FastAPI, pages: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield page → what a browser measures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        served(app) as base,
        looking_at(base, Path(folder) / "profile", SCRIPT) as browser,
    ):
        for name, address in pages.items():
            if address.startswith("/api"):
                continue
            browser.open(address)
            paint = browser.until(lambda: browser.driver.execute_script(PAINT), "a paint")
            content = browser.until(lambda: browser.driver.execute_script(CONTENT), "the content")
            browser.driver.execute_script("window.longest = 0")
            time.sleep(WATCHED_S)
            update = browser.driver.execute_script("return window.longest")
            elements = browser.driver.execute_script("return document.getElementsByTagName('*').length")
            yield name, {"paint_s": paint, "content_s": content, "update_ms": update, "elements": elements}


def markdown(result: Mapping[str, Any]) -> str:
    """Return a row for each page."""
    rows = []
    for name, one in result["pages"].items():
        figures, targets = ["–"] * 4, []
        if "paint_s" in one:
            times = (f"{one['paint_s']:.2f}", f"{one['content_s']:.1f}", f"{one['update_ms']:.0f}")
            figures = [*times, f"{one['elements']:,}"]
            targets.append((one["paint_s"] <= PAINT_S, f"paint ≤ {PAINT_S:g} s"))
            targets.append((one["update_ms"] <= UPDATE_MS, f"update ≤ {UPDATE_MS:g} ms"))
        rows.append([name, f"{one['server_s']:.2f}", f"{one['bytes'] / 1000:,.0f}", *figures, verdict(*targets)])
    head = ("page", "server, s", "kB", "first paint, s", "content, s", "update, ms", "elements", "target")
    return f"{told(result, result['size'].replace('x', ' × '))}\n\n{grid(head, rows, ('target',))}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--size", default="5000x100000x200", help="consumers x partitions x topics")
    parser.add_argument("--no-browser", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    logging.disable(logging.INFO)  # of the client's requests
    consumers, partitions, number = map(int, given.size.split("x"))
    site = site_of((consumers, partitions, number))
    app, pages, found = app_of(site), addresses(site), dict[str, dict[str, Any]]()
    with noted(size=given.size, pages=found) as result:
        for name, address in pages.items():
            found[name] = answered(site, app, address)
            print(name, found[name], flush=True)
        for name, seen in () if given.no_browser else looked(app, pages):
            found[name] |= seen
            print(name, seen, flush=True)
    report(result, markdown, given.json)


if __name__ == "__main__":
    main()
