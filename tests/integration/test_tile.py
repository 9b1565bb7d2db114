"""The tile of Airflow's home page in a real browser, drawn by a React of a few lines."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from coordinator_tasks.core.model import Fleet
from coordinator_tasks.service.nodes import topics
from coordinator_tasks.service.nodes.fleet import set_fleet
from tests.fakes.cluster import PERSON, Cluster
from tests.integration.browser import CHROMIUM, DRIVER, Browser, looking_at, served
from tests.unit.plugins.pages_site import pages_of, stable

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
REACT = """
const wait = window.setTimeout, states = [];
window.setTimeout = (what, ms) => wait(what, Math.min(ms, 300));
let place = 0, begun = false;
const draw = () => { place = 0; document.body.replaceChildren(globalThis.AirflowPlugin() || ""); };
globalThis.React = {
  createElement: (name, _, ...children) => {
    const made = document.createElement(name);
    made.append(...children.filter((one) => one !== null));
    return made;
  },
  useEffect: (act) => { if (!begun) { begun = true; act(); } },
  useState: (first) => {
    const mine = place++;
    if (!(mine in states)) states[mine] = first;
    return [states[mine], (value) => { states[mine] = value; draw(); }];
  },
};
"""
"""As much of React as the tile needs, and it asks more often."""
LOADED = "const done = arguments[0]; import('/tile.js').then(() => { draw(); done(); })"


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Browser]:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop")
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 4)
    topics.add_topic(cluster.coordinator, "orders", "readers", actor=PERSON)
    cluster.join("a")
    stable(cluster, dict.fromkeys(range(4), "a"))
    set_fleet(cluster.coordinator, Fleet("app", "app.py", tuple(f"c{number}" for number in range(7))))
    app = pages_of(cluster).app
    assert isinstance(app, FastAPI)
    app.dependency_overrides[get_user] = lambda: None
    app.add_api_route("/home", lambda: HTMLResponse("<body></body>"))
    with served(app) as address, looking_at(address, tmp_path / "profile", REACT) as found:
        found.open("/home")
        found.driver.execute_async_script(LOADED)
        yield found


def test_a_tile_that_cannot_be_asked_for_again_says_its_age_and_why(browser: Browser) -> None:
    said, run = browser.find("body"), browser.driver.execute_script
    browser.until(lambda: "The only topic is Stable" in said.text, "the tile")
    assert "As of" not in said.text
    run("window.real = window.fetch; window.fetch = () => Promise.reject(new Error())")
    silent = r"As of \d\d:\d\d:\d\d UTC: Airflow's API server does not answer, and is asked again"
    browser.until(lambda: re.search(silent, said.text), "its age")
    assert "The only topic is Stable" in said.text
    run("window.fetch = window.real")
    browser.until(lambda: "As of" not in said.text, "it goes on")
