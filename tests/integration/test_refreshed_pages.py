"""Pages that bring themselves up to date while a person reads or types, and a form that was sent, in a real browser."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coordinator_ui.data import live, topic_summary
from fastapi import FastAPI

from coordinator_tasks.core.model import State
from coordinator_tasks.core.ports import Create
from coordinator_tasks.service.nodes import topics
from tests.fakes.cluster import PERSON, Cluster
from tests.integration.browser import CHROMIUM, DRIVER, Browser, looking_at, served
from tests.unit.plugins.pages_site import a_hand_off, pages_of, stable, write

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
COUNT = """
window.fetched = 0;
const before = window.fetch;
window.fetch = (...given) => { window.fetched += 1; return before(...given); };
const wait = window.setTimeout;
window.setTimeout = (what, ms) => wait(what, Math.min(ms, 300));
"""
"""Counts what a page asks for, and has it ask more often."""


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop")
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 40)
    topics.add_topic(cluster.coordinator, "orders", "readers", actor=PERSON)
    cluster.join("a")
    stable(cluster, {0: "a"})
    a_hand_off(cluster)
    return cluster


@pytest.fixture
def browser(shop: Cluster, tmp_path: Path) -> Iterator[Browser]:
    with served(pages_of(shop).app) as address, looking_at(address, tmp_path / "profile", COUNT) as found:  # type: ignore[arg-type]
        yield found


def moved(shop: Cluster, topic: str) -> None:
    record = shop.zk.get(shop.paths.record("orders", 0)).data
    shop.zk.ensure(shop.paths.history(topic))
    shop.zk.transact([Create(f"{shop.paths.history(topic)}/", record, sequence=True)])


def fetched(browser: Browser) -> int:
    return int(browser.driver.execute_script("return window.fetched"))


def test_what_is_typed_into_a_filter_stays_while_the_page_refreshes(browser: Browser, shop: Cluster) -> None:
    browser.open("/rebalances")
    browser.find("input[name=topic]").send_keys("ord")
    browser.driver.execute_script("document.activeElement.blur()")
    seen = fetched(browser)
    browser.until(lambda: fetched(browser) >= seen + 3, "three further looks")
    assert browser.find("input[name=topic]").get_attribute("value") == "ord"
    moved(shop, "bills")
    browser.until(lambda: "bills" in browser.find("main").text, "the list goes on")
    assert browser.find("input[name=topic]").get_attribute("value") == "ord"


def test_a_reader_stays_where_he_is_while_the_page_refreshes(browser: Browser) -> None:
    browser.driver.set_window_size(500, 900)
    browser.open("/clusters/shop/topics/orders")
    run = browser.driver.execute_script
    run("document.querySelectorAll('.scroll')[0].scrollLeft = 60; window.old = document.querySelector('main')")
    run("document.querySelector('main .act').focus({ preventScroll: true })")
    browser.until(lambda: run("return !window.old.isConnected"), "another look")
    assert run("return document.querySelectorAll('.scroll')[0].scrollLeft") == 60
    assert run("return document.activeElement.textContent") == "preview"


def test_a_page_of_what_is_over_is_not_asked_for_again(browser: Browser, shop: Cluster) -> None:
    write(shop, State.STABLE, State.CLOSING, 950_000.0, rebalance="3-abc")
    browser.open("/clusters/shop/topics/orders/rebalances/3-abc")
    browser.until(lambda: fetched(browser) >= 2, "further looks")
    write(shop, State.CLOSING, State.STABLE, 950_001.0, rebalance="3-abc")
    browser.until(lambda: "it is under way" not in browser.find("main").text, "the end")
    seen = fetched(browser)
    time.sleep(1.5)
    assert fetched(browser) <= seen + 1
    assert not browser.find("#live-label").is_displayed()


def test_a_sentence_stands_in_for_the_content_until_it_is_read(
    shop: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, summaries = threading.Event(), topic_summary.summaries

    def slow(*given: Any) -> Any:
        free.wait(60)
        return summaries(*given)

    monkeypatch.setattr(live, "summaries", slow)
    app: FastAPI = pages_of(shop, shell_after_s=0.1).app  # type: ignore[assignment]
    with served(app) as address, looking_at(address, tmp_path / "profile") as browser:
        browser.open("/actions")
        run = browser.driver.execute_script
        run(f"window.other = window.open('{address}/')")  # the driver would wait until a page of its own is whole
        shown = (
            "const there = window.other.document.querySelector('.waiting');"
            "return Boolean(there) && window.other.getComputedStyle(there).display !== 'none'"
        )
        try:
            browser.until(lambda: run(shown), "the sentence")
            assert run("return window.other.document.querySelector('.waiting').textContent").startswith("Topics: shop")
            assert not run("return window.other.document.querySelector('h1')")
        finally:
            free.set()
        browser.until(lambda: run("return window.other.document.querySelector('h1') !== null"), "the content")
        assert not run(shown)


def test_a_page_that_cannot_be_asked_for_again_says_its_age_and_why(browser: Browser) -> None:
    browser.open("/")
    run, age = browser.driver.execute_script, browser.find("#as-of")
    began = age.text
    assert re.fullmatch(r"As of \d\d:\d\d:\d\d UTC", began)
    browser.until(lambda: age.text != began, "a later look")
    run("window.real = window.fetch; window.fetch = () => Promise.reject(new Error())")
    browser.until(
        lambda: age.text.endswith("; Airflow's API server does not answer, and is asked again"), "why it is old"
    )
    seen = age.text
    assert seen.startswith("As of ")
    time.sleep(1.0)
    assert age.text == seen
    run("window.fetch = window.real")
    browser.until(lambda: re.fullmatch(r"As of \d\d:\d\d:\d\d UTC", age.text), "it goes on")
    run("window.fetch = () => Promise.resolve(new Response('<main>Not Found</main>', { status: 404 }))")
    browser.until(lambda: not age.text, "an error has no age")
    run("window.fetch = () => Promise.reject(new Error())")
    browser.until(lambda: age.text == "Airflow's API server does not answer, and is asked again", "why it is old")


ACCEPTED = """
const ask = window.fetch;
window.fetch = (address, given) => given && given.method === "POST"
  ? Promise.resolve(new Response(JSON.stringify({ dag_run_id: "r1" }))) : ask(address, given);
HTMLAnchorElement.prototype.click = function () { window.opened = this.getAttribute("href"); };
"""
"""Airflow takes the run, and its page does not come yet."""


def test_a_form_that_airflow_has_taken_is_not_sent_again(browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ACCEPTED})
    browser.open("/clusters/shop/ask/drain?consumer=a&why=disk")
    button = browser.find("form#ask button")
    button.click()
    opened = browser.until(lambda: browser.driver.execute_script("return window.opened"), "the page of the run")
    assert opened.endswith("/dags/drain/runs/r1/plugin/moved_partitions")
    time.sleep(0.2)
    assert not button.is_enabled()


def test_the_button_says_what_it_does_when_somebody_comes_back_to_a_form(browser: Browser) -> None:
    browser.open("/clusters/shop/ask/drain?consumer=a&why=disk")
    browser.find("#field-dry_run").click()
    browser.open("/")
    browser.driver.back()
    assert not browser.find("#field-dry_run").is_selected()
    browser.until(lambda: browser.find("form#ask button").text == "Do it", "the button of what is no dry run")
