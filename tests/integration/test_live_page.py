"""The live page over data that a test makes, in a real browser: its size, its links and its words."""

import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from coordinator_ui import live
from coordinator_ui.access import may_read_cluster
from coordinator_ui.routes import make_app
from selenium import webdriver

from tests.integration.browser import CHROMIUM, DRIVER, FLAGS, Browser

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
CONSUMERS, PARTITIONS = 1_000, 10_000
PAINT_MS, UPDATE_MS = 1_000, 200
WATCH = """
window.longest = 0;
new PerformanceObserver((list) => { for (const one of list.getEntries()) window.longest = Math.max(window.longest, one.duration); }).observe({ type: "longtask", buffered: true });
"""


def synthetic(round_: int) -> dict[str, Any]:
    """One topic; a tenth of the partitions has another owner in each answer."""
    chance = random.Random(7)
    owners = [f"consumer-{number:04}" for number in range(CONSUMERS)]
    moved = [(p + round_) % CONSUMERS if p % 10 == 0 else p % CONSUMERS for p in range(PARTITIONS)]
    lags = [chance.randrange(1_000_000) + round_ for _ in range(PARTITIONS)]
    topic = {
        "topic": "orders",
        "state": "Stable",
        "says": "Every partition is where it should be.",
        "since": 1.0,
        "epoch": round_,
        "partitions": PARTITIONS,
        "unowned": "",
        "moving": "",
        "blockers": {},
        "overrides": [],
        "problem": "",
        "lag": sum(lags),
        "lag_s": 10,
        "rate": 1,
        "speed": 2,
        "drain_s": 5,
        "advice": "",
        "trend": [1, 2, 3],
    }
    consumer = {
        "presence": "live",
        "host": "10.0.0.1",
        "address": "http://10.0.0.1:9001",
        "release": "0.3.0",
        "code": "",
        "rack": "r1",
        "capacity": 1.0,
        "incarnation": 1,
        "registered": 1.0,
        "answers": True,
        "absent_since": None,
        "health": "ok",
        "asked": "",
        "isolated": False,
        "draining": False,
        "wanted": True,
        "notes": [],
        "partitions": 10,
        "lag": 5,
    }
    return {
        "cluster": "shop",
        "now": 1_000_000.0 + round_,
        "problem": "",
        "states": list(live.STATES),
        "topics": [topic],
        "owners": owners,
        "moves": [],
        "left_out": 0,
        "consumers": [{"consumer": name, **consumer} for name in owners],
        "partitions": {
            "topic": [0] * PARTITIONS,
            "partition": list(range(PARTITIONS)),
            "owner": moved,
            "state": [0] * PARTITIONS,
            "lag": lags,
            "lag_s": [one / 100 for one in lags],
            "rate": [1.5] * PARTITIONS,
            "speed": [2.5] * PARTITIONS,
            "drain_s": [lag / 7 for lag in lags],
        },
    }


class Synthetic:
    """A reader that gives the next answer."""

    def __init__(self) -> None:
        self.answers = 0

    async def read(self, _cluster: str, _read: Any) -> tuple[None, dict[str, Any]]:
        self.answers += 1
        return None, synthetic(self.answers)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop")
    app = make_app(Synthetic())  # type: ignore[arg-type]
    app.dependency_overrides[may_read_cluster] = lambda: None
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def browser(address: str, tmp_path: Path) -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    yield Browser(driver, address)
    driver.quit()


def told(browser: Browser, name: str) -> float:
    return float(browser.find("#live-root").get_attribute(f"data-{name}") or "nan")


def test_ten_thousand_partitions_of_a_thousand_consumers_stay_fluid(browser: Browser) -> None:
    browser.open("/live")
    browser.until(lambda: told(browser, "now") > 0, "the first data")
    script = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
    painted_ms, ready_ms = float(browser.driver.execute_script(script)), told(browser, "ready-ms")
    rows = browser.driver.execute_script("return document.querySelectorAll('.virtual .space .row').length")
    browser.driver.execute_script("window.longest = 0")
    first = told(browser, "now")
    browser.until(lambda: told(browser, "now") >= first + 3, "three updates")
    longest_ms = float(browser.driver.execute_script("return window.longest"))
    update_ms = told(browser, "update-ms")
    print(
        f"first paint {painted_ms:.0f} ms, data shown {ready_ms:.0f} ms, update {update_ms:.0f} ms, longest task {longest_ms:.0f} ms"
    )
    assert painted_ms < PAINT_MS
    assert rows < 100, "only the rows in view are elements"
    assert max(update_ms, longest_ms) < UPDATE_MS


def test_rows_follow_the_scroll_bar_to_the_last_partition(browser: Browser) -> None:
    browser.open("/live")
    browser.until(lambda: told(browser, "now") > 0, "the first data")
    browser.driver.execute_script("const box = document.querySelector('.virtual'); box.scrollTop = box.scrollHeight")

    def last() -> bool:
        cells = browser.driver.execute_script(
            "return [...document.querySelectorAll('.virtual')[0].querySelectorAll('.space .row:not([hidden])')].map((row) => row.children[0].textContent)"
        )
        return str(PARTITIONS - 1) in cells

    browser.until(last, "the last partition")
