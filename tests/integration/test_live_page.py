"""The live page over data that a test makes, in a real browser: its size, its links and its words."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import HTTPException
from selenium.webdriver.common.by import By

from tests.integration.browser import CHROMIUM, DRIVER, Browser, looking_at
from tests.integration.live_answers import CONSUMERS, PARTITIONS, Synthetic, pages_of, synthetic

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]


@pytest.fixture
def reader() -> Synthetic:
    return Synthetic()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with looking_at("", tmp_path_factory.mktemp("chromium") / "profile") as found:
        yield found


@pytest.fixture
def browser(chromium: Browser, reader: Synthetic) -> Iterator[Browser]:
    """In a desk's window; the pages have an address of their own in each test."""
    chromium.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    with pages_of(reader) as chromium.base_url:
        yield chromium


def told(browser: Browser, name: str) -> float:
    return float(browser.find("#live-root").get_attribute(f"data-{name}") or "nan")


def test_of_ten_thousand_partitions_only_the_rows_in_view_are_elements_also_behind_updates_and_at_the_end(
    browser: Browser,
) -> None:
    browser.open("/live")
    browser.until(lambda: told(browser, "now") > 0, "the first data")
    first = told(browser, "now")
    browser.until(lambda: told(browser, "now") >= first + 3, "three updates")
    assert len(browser.find_all(".plot .u-wrap")) == 3, "an hour is drawn: what is read, records and seconds behind"
    assert browser.driver.execute_script("return document.querySelectorAll('.virtual .space .row').length") < 100
    browser.driver.execute_script("const box = document.querySelector('.virtual'); box.scrollTop = box.scrollHeight")

    def last() -> bool:
        cells = browser.driver.execute_script(
            "return [...document.querySelectorAll('.virtual')[0].querySelectorAll('.space .row:not([hidden])')].map((row) => row.children[0].textContent)"
        )
        return str(PARTITIONS - 1) in cells

    browser.until(last, "the last partition")


def test_a_focus_in_the_table_of_topics_outlives_updates(browser: Browser) -> None:
    browser.open("/live")
    link = browser.find("[aria-label=Topics] tbody a[href*='/ask/freeze']")
    browser.driver.execute_script("arguments[0].focus()", link)
    first = told(browser, "now")
    browser.until(lambda: told(browser, "now") >= first + 2, "two updates")
    assert browser.driver.switch_to.active_element == link


def legend(browser: Browser) -> list[str]:
    """The lines of the charts."""
    return [one.text for one in browser.find_all(".plot .u-series .u-label") if one.text not in ("Time", "Value")]


def test_the_trend_of_a_consumer_is_one_click_away_and_a_former_owners_line_ends_at_once(
    browser: Browser, reader: Synthetic
) -> None:
    browser.open("/live")
    browser.until(lambda: len(browser.find_all(".plot .u-wrap")) == 3, "the charts of the topic")
    browser.find("[aria-label=Consumers] .space button").click()
    browser.until(lambda: "of consumer-0000, by topic" in browser.find("main").text, "the consumer's")
    browser.until(lambda: legend(browser) == ["orders"] * 3, "its topic")

    moved = synthetic(1)
    moved["partitions"]["owner"][7] = 3
    reader.make = lambda round_: {**moved, "now": 1_000_000.0 + round_}
    row = "[aria-label=Partitions] .space .row:nth-child(8) button"
    browser.until(lambda: browser.find(row).click() or True, "its trend")
    browser.until(lambda: legend(browser) == ["consumer-0007", "consumer-0003"] * 3, "the former and the present owner")
    ends = browser.driver.execute_script(
        "return [...document.querySelectorAll('.plot .u-series .u-value')].map((one) => one.textContent)"
    )
    assert len(ends) == 9


def test_a_consumer_says_how_far_behind_it_is_and_when_it_was_last_seen(browser: Browser, reader: Synthetic) -> None:
    unknown = {**dict.fromkeys(("lag", "lag_s", "rate", "speed", "drain_s")), "answers": False, "health": ""}

    def three(round_: int) -> dict[str, Any]:
        whole = synthetic(round_)
        reads, silent, absent = whole["consumers"][:3]
        gone = {"registered": None, "absent_since": whole["now"] - 61, "presence": "absent"}
        return whole | {
            "consumers": [{**reads, "lag_unknown": 1}, {**silent, **unknown}, {**absent, **unknown, **gone}]
        }

    reader.make = three
    browser.open("/live")
    browser.until(lambda: told(browser, "now") > 0, "the first data")
    rows = [one.text.split("\n") for one in browser.find_all("[aria-label=Consumers] .space .row:not([hidden])")]
    seen = [[text for text in row if "ago" in text or "answer" in text] for row in rows]
    assert seen == [["answers now"], ["registered, no answer"], ["1 min 1 s ago"]]
    assert rows[0][rows[0].index("≥ 5") :][:6] == ["≥ 5", "2.5 s", "2", "3", "never", "at this rate"]


def test_a_pin_is_filled_in_with_the_present_owner_whatever_was_shown_before(
    browser: Browser, reader: Synthetic
) -> None:
    def owned(*owners: str, moves: tuple[list[int], ...] = ()) -> Callable[[int], dict[str, Any]]:
        return lambda round_: synthetic(round_) | {"owners": list(owners), "moves": list(moves)}

    def pinned() -> list[str]:
        links = browser.find_all("[aria-label=Partitions] .space a[href*='/ask/pin']")[1:3]
        found = [parse_qs(urlsplit(one.get_attribute("href") or "").query) for one in links]
        return [query.get("consumer", [""])[0] for query in found]

    many = [f"consumer-{number:04}" for number in range(CONSUMERS)]
    reader.make = owned(*many)
    browser.open("/live")
    browser.until(lambda: pinned() == many[1:3], "the owners")
    reader.make = owned(*(f"other-{number:04}" for number in range(CONSUMERS)))
    browser.until(lambda: pinned() == ["other-0001", "other-0002"], "the next owners, at the same places")
    reader.make = owned(*many, moves=([0, 1, 1, 5], [0, 2, -1, 6]))
    browser.until(lambda: pinned() == many[5:7], "who takes them over")


def test_a_cluster_that_is_removed_while_the_page_is_open_is_said_in_sentences(
    browser: Browser, reader: Synthetic
) -> None:
    def removed(_: int) -> dict[str, Any]:
        raise HTTPException(404, "the cluster 'shop' is not known here: choose one of books")

    reader.make = removed
    browser.open("/live")
    said = "the cluster 'shop' is not known here: choose one of books."
    browser.until(lambda: browser.find("p.note.bad").text == said, "why there is nothing")
    reader.make = synthetic
    browser.until(lambda: told(browser, "now") > 0, "the first data")
    reader.make = removed
    browser.until(lambda: browser.find("p.note.bad").text.startswith(f"{said} What stands below is of "), "its age")
    browser.driver.execute_script("window.fetch = () => Promise.reject(new Error())")
    silent = "Airflow's API server does not answer; this page asks it again. What stands below is of "
    browser.until(lambda: browser.find("p.note.bad").text.startswith(silent), "its age while nobody answers")


def test_the_chart_of_a_removed_topic_is_not_shown_as_that_of_another(browser: Browser, reader: Synthetic) -> None:
    browser.open("/live")
    browser.until(lambda: len(browser.find_all(".plot .u-wrap")) == 3, "the charts of the topic")

    def other(round_: int) -> dict[str, Any]:
        whole = synthetic(round_)
        return whole | {"topics": [{**whole["topics"][0], "topic": "bills"}]}

    reader.make = other
    browser.until(lambda: browser.find("section h2").text == "Topic bills", "the topic that is left")
    assert browser.driver.find_elements(By.CSS_SELECTOR, ".plot .u-wrap") == []
    note = "The coordinator has kept no moment of it"
    browser.until(lambda: note in browser.find("section").text, "the trend of bills, which there is none of")


def test_topics_whose_names_differ_at_the_end_are_told_apart(browser: Browser, reader: Synthetic) -> None:
    beginning = (
        "prod.eu-central-1.billing_and_invoicing.settlement-reconciliation_events." + "with-currency.tax_rules-" * 6
    )
    names = [f"{beginning}{number:03}"[-249:] for number in range(3)]

    def long(round_: int) -> dict[str, Any]:
        made = synthetic(round_)
        return made | {"topics": [made["topics"][0] | {"topic": name} for name in names]}

    reader.make = long
    browser.open("/live")
    browser.until(lambda: told(browser, "now") > 0, "the first data")
    cut = "return [...document.querySelectorAll('button.name')].filter((one) => one.scrollHeight > one.clientHeight + 1).length"
    assert len(browser.find_all("button.name")) == 3
    assert browser.driver.execute_script(cut) == 0, "all that was shown of each name was what they have in common"


# What others wrote -----------------------------------------------------------------------------------------------------

MARKUP, RIGHT_TO_LEFT, LONG = '<img src="x" onerror="window.hit = 1">', "\u202e\u05e9\u05dc\u05d5\u05dd.gnp", "n" * 200
TEXTS = (MARKUP, RIGHT_TO_LEFT, LONG)
STATUSES = ("OK", "WARN", "STOP", "STALL", "REWIND", None)


def hostile(round_: int) -> dict[str, Any]:
    """Three topics of six partitions and three consumers, named by somebody who means harm."""
    whole = synthetic(round_)
    topic, consumer = whole["topics"][0], whole["consumers"][0]
    said = ("says", "advice")
    notes = ("host", "release", "code", "rack", "asked", "health")
    whole["topics"] = [
        {**topic, **dict.fromkeys(said, text), "topic": text, "overrides": [text], "partitions": len(STATUSES)}
        for text in TEXTS
    ]
    whole["consumers"] = [
        {**consumer, **dict.fromkeys(notes, text), "consumer": text, "notes": [text], "address": f"http://{text}:1"}
        for text in TEXTS
    ]
    whole["consumers"][0] |= {"spark_ui": "javascript:window.hit=1", "driver_log": "data:text/html,x"}
    whole["consumers"][2] |= {"spark_ui": f"http://driver:4040/{LONG}", "driver_log": "https://logs/?a=%3Cb%3E"}
    whole["topics"][0] |= {"unowned": "0", "state": "Starting", "drain_s": None}
    whole["owners"] = list(TEXTS)
    places = [(topic, partition) for topic in range(len(TEXTS)) for partition in range(len(STATUSES))]
    columns = {name: column[: len(places)] for name, column in whole["partitions"].items()}
    whole["partitions"] = columns | {
        "topic": [topic for topic, _ in places],
        "partition": [partition for _, partition in places],
        "owner": [partition % len(TEXTS) for _, partition in places],
        "status": [STATUSES[partition] if topic == 0 else "OK" for topic, partition in places],
    }
    return whole


@pytest.fixture(params=[1_280, 390], ids=["desk", "phone"])
def width(browser: Browser, reader: Synthetic, request: pytest.FixtureRequest) -> int:
    """The hostile page in a window of this width."""
    wide = int(request.param)
    reader.make = hostile
    metrics = {"width": wide, "height": 900, "deviceScaleFactor": 1, "mobile": wide < 640}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.open("/live")
    browser.until(lambda: told(browser, "now") > 0, "the first data")
    return wide


def test_only_addresses_of_pages_are_links(browser: Browser, width: int) -> None:
    links = browser.driver.find_elements(By.CSS_SELECTOR, "[aria-label=Consumers] a[target=_blank]")
    assert [(one.get_attribute("href"), one.text, one.get_attribute("rel")) for one in links] == [
        (f"http://driver:4040/{LONG}", "Spark UI", "noopener noreferrer"),
        ("https://logs/?a=%3Cb%3E", "log", "noopener noreferrer"),
    ]
    for link in links:
        browser.driver.execute_script("arguments[0].scrollIntoView({ inline: 'nearest' })", link)
        box = link.rect
        assert 0 <= box["x"] <= box["x"] + box["width"] <= width, "a person can reach it"
