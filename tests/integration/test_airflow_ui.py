"""From Airflow's own pages a stranger learns which partitions moved, from whom to whom, why, and how long it took."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from coordinator_ui.access import may_read_cluster
from coordinator_ui.reading import PAGE_LIMIT_S, Reader
from coordinator_ui.routes import make_app
from fastapi.testclient import TestClient
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.errors import KafkaUnavailable
from coordinator_tasks.core.model import Actor
from coordinator_tasks.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.embedded.kafka import EmbeddedKafka
from coordinator_tasks.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service import history, topics
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.history import Rebalance
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.integration.airflow_site import airflow_of, all_stable, cluster_of, eventually
from tests.integration.browser import CHROMIUM, DRIVER, Browser, signed_in
from tests.integration.stub_consumer import StubConsumer

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
ROOT = Path(__file__).parents[2]
TOPIC = "orders"
PARTITIONS = 12


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    return cluster_of(zookeeper, kafka)


@pytest.fixture(scope="module")
def airflow(settings: Settings, airflow_factory: Callable[..., EmbeddedAirflow]) -> Iterator[EmbeddedAirflow]:
    with airflow_of(settings, airflow_factory, {"rebalance"}) as server:
        yield server


@pytest.fixture(scope="module")
def coordinator(settings: Settings, airflow: EmbeddedAirflow) -> Iterator[Coordinator]:
    assert airflow.base_url
    with open_coordinator(settings) as coordinator:
        yield coordinator


def added(c: Coordinator) -> bool:
    """A fresh broker makes its groups topic first, which may take longer than one request waits."""
    try:
        topics.add_topic(c, TOPIC, "readers", actor=Actor("command", "ada"))
    except KafkaUnavailable:
        return False
    return True


def newest(c: Coordinator) -> str:
    """The cause of what was done last, once the topic is Stable."""
    return history.records(c, TOPIC, 1)[0].cause if all_stable(c, [TOPIC]) else ""


def shared(c: Coordinator) -> bool:
    """Whether both have their half; the second may have come after the first plan."""
    if not all_stable(c, [TOPIC]):
        return False
    owners = codec.decode_node("", c.zk.get(c.paths.topic(TOPIC)).data).assignments.values()
    return set(owners) == {"ann", "bob"}


@pytest.fixture(scope="module")
def join(settings: Settings, coordinator: Coordinator) -> Iterator[Rebalance]:
    """`ann` and `bob` share the topic, `cy` joins them; Airflow wakes by itself and does the rest."""
    ConfluentKafkaAdmin(settings.kafka).create_topic(TOPIC, PARTITIONS)
    eventually(lambda: added(coordinator))
    with StubConsumer(settings, "ann"), StubConsumer(settings, "bob"):
        eventually(lambda: shared(coordinator))
        with StubConsumer(settings, "cy") as cy:
            eventually(lambda: "cy" in newest(coordinator))
            cy.lag = 7
            (found,) = (one for one in history.rebalances(coordinator, [TOPIC]) if "cy" in one.cause)
            yield found


@pytest.fixture(scope="module")
def browser(airflow: EmbeddedAirflow, join: Rebalance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert join.ended_at
    with signed_in(airflow, tmp_path_factory.mktemp("chromium") / "profile") as browser:
        yield browser


def entry_of_the_join(browser: Browser) -> WebElement:
    """The entry that says that `cy` joined."""
    return next(one for one in browser.find_all("article.entry") if "cy joined" in one.text)


def told_moves(entry: WebElement) -> set[tuple[int, str, str]]:
    """(partition, from, to) of every row that a reader sees."""
    found = set()
    for row in entry.find_elements(By.CSS_SELECTOR, "table.moves tbody tr"):
        numbers, giver, taker = (cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")[:3])
        found |= {(partition, giver, taker) for partition in listed(numbers)}
    return found


def listed(numbers: str) -> list[int]:
    """`0–2, 7` → 0, 1, 2, 7."""
    ends = [one.split("–") for one in numbers.split(", ")]
    return [number for pair in ends for number in range(int(pair[0]), int(pair[-1]) + 1)]


def told_seconds(text: str) -> float:
    """`2.3 s`, `1 min 7 s` → seconds."""
    found = re.search(r"moved in ((?:[\d.]+ (?:ms|s|min)\b ?)+)", text)
    assert found, text
    units = {"ms": 0.001, "s": 1.0, "min": 60.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+) (\w+)", found[1]))


def test_nobody_sees_anything_without_signing_in(airflow: EmbeddedAirflow, settings: Settings, join: Rebalance) -> None:
    pages = (
        "/",
        f"/clusters/{settings.cluster}/topics/{TOPIC}",
        f"/clusters/{settings.cluster}/topics/{TOPIC}/rebalances/{join.rebalance}",
        "/runs/rebalance/x",
    )
    for path in pages:
        answer = httpx.get(f"{airflow.base_url}/coordinator{path}")
        assert answer.status_code == 401
        assert TOPIC not in answer.text


def test_a_stranger_finds_from_the_navigation_what_moved_from_whom_to_whom_why_and_how_long_it_took(
    browser: Browser, join: Rebalance
) -> None:
    browser.open("/")
    browser.click("Topics")
    browser.enter()
    browser.click(TOPIC)
    browser.until(lambda: browser.find("h1").text.startswith(f"Topic {TOPIC}"), "the topic's page")
    entry = entry_of_the_join(browser)

    assert told_moves(entry) == {(move.partition, move.giver, move.taker) for move in join.moves}
    assert len(join.moves) == PARTITIONS // 3
    assert join.cause == "joined: cy"
    assert "Why: cy joined" in entry.text
    assert f"{PARTITIONS // 3} partitions moved" in entry.text
    assert told_seconds(entry.text) == pytest.approx(join.lasted_s, abs=0.06 if join.lasted_s < 60 else 1.0)
    assert "hand-off: its one possible owner releases it" in entry.text
    assert "Stable → Closing → Starting → Stable" in entry.text


def test_the_grid_shows_who_runs_what_by_the_consumers_own_word(browser: Browser, coordinator: Coordinator) -> None:
    browser.enter()
    node = coordinator.zk.get(coordinator.paths.topic(TOPIC))
    owners = codec.decode_node("", node.data).assignments
    rows = {row.find_element(By.TAG_NAME, "th").text: row for row in browser.find_all("table.grid tbody tr")}
    told = {
        partition: name
        for name, row in rows.items()
        for partition, cell in enumerate(row.find_elements(By.TAG_NAME, "td")[:PARTITIONS])
        if cell.text == "runs"
    }
    assert told == dict(owners)


def test_the_story_of_the_rebalance_names_the_tasks_that_ran_it_and_leads_to_their_logs(
    browser: Browser, join: Rebalance
) -> None:
    browser.enter()
    browser.click(f"The whole story of rebalance {join.rebalance}")
    browser.until(lambda: "Step by step" in browser.find("main").text, "the story")
    story = browser.find("main").text
    for record in join.records:
        assert f"{record.source} → {record.target}" in story
        assert f"{record.actor.task}, try {record.actor.attempt}" in story
    last = join.records[-1].actor
    browser.click(f"{last.task}, try {last.attempt}")
    browser.leave()
    page = f"/tasks/{last.task}?"
    browser.until(lambda: page in browser.driver.current_url, "Airflow's page of the task")
    assert f"/dags/{last.dag}/runs/" in browser.driver.current_url
    browser.until(lambda: TOPIC in browser.find("main, #root").text, "the log of the task")


def test_the_page_of_a_run_has_a_tab_with_what_that_run_moved(browser: Browser, join: Rebalance) -> None:
    planner = join.records[0].actor
    browser.leave()
    browser.open(f"/dags/{planner.dag}/runs/{planner.run.replace('+', '%2B')}")
    browser.click("Moved partitions")
    browser.enter()
    assert told_moves(entry_of_the_join(browser)) == {(move.partition, move.giver, move.taker) for move in join.moves}


def test_a_zookeeper_that_dies_is_told_within_the_limit_and_is_read_again_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATOR_CLUSTERS", "shop")
    with EmbeddedZooKeeper(tmp_path) as own:
        nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": "1"}
        settings = Settings("shop", own.connect_string, nowhere, session_timeout_s=4.0, answer_timeout_s=2.0)
        app = make_app(Reader(lambda name: (name, lambda: open_coordinator(settings))))
        app.dependency_overrides[may_read_cluster] = lambda: None
        client = TestClient(app, root_path="/coordinator")
        assert client.get("/").status_code == 200
        own.kill()
        began_s = time.monotonic()
        down = client.get("/")
        assert (down.status_code, "does not answer" in down.text) == (503, True)
        assert time.monotonic() - began_s < PAGE_LIMIT_S + 1
        own.start()
        eventually(lambda: client.get("/").status_code == 200)


def test_pages_follow_airflows_dark_mode_and_let_nothing_foreign_in(browser: Browser) -> None:
    browser.leave()
    colours = {}
    for mode in ("light", "dark"):
        browser.driver.execute_script(f"localStorage.setItem('theme', '{mode}')")
        browser.open("/plugin/rebalances")
        browser.enter()
        browser.find("h1")
        colours[mode] = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert colours["light"] == "rgb(255, 255, 255)"
    assert colours["dark"] != colours["light"]
    assert [line for line in browser.said() if "Content Security Policy" in line] == []


# All rebalances, live, and asking ---------------------------------------------------------------------------------------


def keep(browser: Browser, name: str) -> None:
    """A screenshot for the documents, where `SCREENSHOTS` names a folder."""
    if folder := os.environ.get("SCREENSHOTS"):
        high = min(1_900, browser.driver.execute_script("return document.documentElement.scrollHeight"))
        metrics = {"width": 1280, "height": high, "deviceScaleFactor": 1, "mobile": False}
        browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.driver.save_screenshot(str(Path(folder) / f"{name}.png"))
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture(params=["light", "dark"])
def theme(browser: Browser, request: pytest.FixtureRequest) -> str:
    """Airflow's own colour mode."""
    browser.leave()
    browser.open("/")
    browser.driver.execute_script(f"localStorage.setItem('theme', '{request.param}')")
    return str(request.param)


def owners_now(coordinator: Coordinator) -> dict[int, str]:
    node = coordinator.zk.get(coordinator.paths.topic(TOPIC))
    return dict(codec.decode_node("", node.data).assignments)


def test_a_stranger_finds_the_join_among_all_rebalances_with_both_sides_and_the_tasks(
    browser: Browser, join: Rebalance, coordinator: Coordinator, theme: str
) -> None:
    browser.open("/coordinator/rebalances?consumer=cy")
    row = next(one for one in browser.find_all("table.cards tbody tr") if "cy joined" in one.text)
    keep(browser, f"rebalances-{theme}")
    row.find_element(By.CSS_SELECTOR, "a").click()
    browser.until(lambda: join.rebalance in browser.find("main").text, "the rebalance")
    sides = browser.find_all("table[aria-labelledby=sides] tbody tr")
    after = {row.find_element(By.TAG_NAME, "th").text: row.find_elements(By.TAG_NAME, "td")[1].text for row in sides}
    owned = {who: set[int]() for who in after}
    for partition, who in owners_now(coordinator).items():
        owned[who].add(partition)
    assert {
        who: {n for line in text.split("\n")[1:] for part in line.split(" ") for n in listed(part.rstrip(","))}
        for who, text in after.items()
    } == owned
    bands = {one.text for one in browser.find_all(".chart a text")}
    assert {record.actor.task for record in join.records} <= bands | {"confirm_closed", "confirm_started"}
    waits = {one.text for one in browser.find_all("table[aria-labelledby=waits] tbody th")}
    assert waits == {"ann", "bob", "cy"}
    keep(browser, f"rebalance-{theme}")
    assert [line for line in browser.said() if "Content Security Policy" in line] == []


def test_the_live_page_says_what_zookeeper_and_the_consumers_say(
    browser: Browser, coordinator: Coordinator, theme: str
) -> None:
    browser.open("/coordinator/live")
    truth = {str(p): who for p, who in owners_now(coordinator).items()}

    def shown() -> dict[str, str]:
        rows = browser.find_all("[aria-label=Partitions] .space .row")
        cells = [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "span[role=cell]")] for row in rows]
        return {cell[0]: cell[1] for cell in cells if cell[2] == "runs"}

    browser.until(lambda: shown() == truth, "each partition with its owner")
    topic = browser.find("table[aria-label=Topics] tbody tr").text
    assert "Stable" in topic
    assert f"{7 * list(truth.values()).count('cy')} records" in topic
    consumers = browser.find("[aria-label=Consumers] .space").text
    assert all(name in consumers for name in ("ann", "bob", "cy"))
    keep(browser, f"live-{theme}")
    assert [line for line in browser.said() if "Content Security Policy" in line] == []


@pytest.mark.parametrize("path", ["/", "/live", "/rebalances", "/rebalance", "/ask"])
def test_no_page_is_wider_than_a_phone(browser: Browser, settings: Settings, join: Rebalance, path: str) -> None:
    cluster = f"/clusters/{settings.cluster}"
    paths = {"/rebalance": f"{cluster}/topics/{TOPIC}/rebalances/{join.rebalance}", "/ask": f"{cluster}/ask/pin"}
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.open(f"/coordinator{paths.get(path, path)}")
    browser.find("h1")
    if path == "/live":
        browser.find("[aria-label=Partitions] .space .row")
    wide = browser.driver.execute_script("return document.documentElement.scrollWidth")
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= 390


def test_an_action_starts_from_the_row_that_it_is_about_and_only_by_the_button(
    browser: Browser, airflow: EmbeddedAirflow, settings: Settings
) -> None:
    browser.open("/coordinator/live")
    browser.find("[aria-label=Consumers] .space a").click()
    browser.until(lambda: browser.find("h1").text == "Drain", "the form")
    assert browser.find("#field-consumer").get_attribute("value") == "ann"
    browser.find("#field-why").send_keys("new disk")
    assert airflow.client.dag_runs("drain") == []
    keep(browser, "ask")
    browser.find("form#ask button").click()
    (run,) = eventually(lambda: airflow.client.dag_runs("drain"))
    assert run["conf"] == {"cluster": settings.cluster, "consumer": "ann", "why": "new disk", "dry_run": True}
    browser.until(lambda: "/dags/drain/runs/" in browser.driver.current_url, "Airflow's page of the run")
    eventually(lambda: airflow.client.dag_runs("drain")[0]["state"] == "success")
    browser.enter()
    browser.until(lambda: "Dry run: nothing was changed" in browser.find("main").text, "the result")


def test_the_tile_of_the_dashboard_says_what_needs_somebody(browser: Browser) -> None:
    browser.leave()
    browser.open("/")
    text = browser.until(lambda: browser.find("[data-coordinator-tile]").text, "the tile")
    assert "The only topic is Stable" in text
    assert "3 consumers run" in text
    keep(browser, "tile")
