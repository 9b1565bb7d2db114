"""From Airflow's own pages a stranger learns which partitions moved, from whom to whom, why, and how long it took."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from coordinator_tasks.adapters.kafka import ConfluentKafkaAdmin
from coordinator_tasks.allowed_launches import AllowedLaunches
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.model import Fleet
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import action_log, history
from coordinator_tasks.service.nodes.fleet import set_fleet
from coordinator_tasks.service.nodes.history import Rebalance
from coordinator_tasks.service.watch import lag_moments
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from spark_apps.dead_letters import LetterPlace, table
from spark_apps.delivery import Writer
from spark_apps.delivery.database import Database
from spark_apps.delivery.database_sink import DatabaseSink
from tests import letters_program
from tests.integration.agent_site import Site, Traffic
from tests.integration.airflow_site import added, airflow_of, all_stable, cluster_of, eventually
from tests.integration.browser import CHROMIUM, DRIVER, Browser, signed_in
from tests.integration.real_site import Consumer, Ledger
from tests.integration.screenshots import folder, keep
from tests.integration.stub_consumer import StubConsumer
from tests.letters_bench import TOKEN, letter

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
ROOT = Path(__file__).parents[2]
TOPIC, WORDS = "orders", "words"
PARTITIONS = 12


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    allowed = AllowedLaunches(applications=letters_program.__file__)
    return replace(cluster_of(zookeeper, kafka), cluster="retail", allowed=allowed)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    """A host with consumers' pages: each says which one it is, and who sent the browser there."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"page {self.path} from {self.headers.get('Referer', 'nowhere')}".encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the database `shop`, which Airflow's hosts know."""
    return f"sqlite:///{tmp_path_factory.mktemp('letters')}/shop.sqlite"


@pytest.fixture(scope="module")
def airflow(
    settings: Settings, elsewhere: str, letters: str, airflow_factory: Callable[..., EmbeddedAirflow]
) -> Iterator[EmbeddedAirflow]:
    logs = {"log_url": f"{elsewhere}/logs/{{cluster}}/{{consumer}}/{{incarnation}}"}
    dags = {"rebalance", "drain", "drop_dead_letters", "replay_dead_letters"}
    host = {
        "COORDINATOR_DATABASES_SHOP": letters,
        "COORDINATOR_ALLOWED_APPLICATIONS": settings.allowed.applications,
        "COORDINATOR_LAUNCHER_SERVICE": "yes",  # nothing starts the consumers of a fleet
    }
    with airflow_of(settings, airflow_factory, dags, zookeeper=logs, env=host) as server:
        yield server


@pytest.fixture(scope="module")
def coordinator(settings: Settings, airflow: EmbeddedAirflow) -> Iterator[Coordinator]:
    assert airflow.base_url
    with open_coordinator(settings) as coordinator:
        yield coordinator


def newest(c: Coordinator) -> str:
    """The cause of the last rebalance, once it has ended."""
    last = history.rebalances(c, [TOPIC], 1)[0]
    return last.cause if last.ended_at else ""


def shared(c: Coordinator) -> bool:
    """Whether both have their half; the second may have come after the first plan."""
    if not all_stable(c, [TOPIC]):
        return False
    owners = codec.decode_node("", c.zk.get(c.paths.topic(TOPIC)).data).assignments.values()
    return set(owners) == {"ann", "bob"}


@pytest.fixture(scope="module")
def join(settings: Settings, elsewhere: str, coordinator: Coordinator) -> Iterator[Rebalance]:
    """`ann` and `bob` share the topic, `cy` joins them; Airflow wakes by itself and does the rest."""
    ConfluentKafkaAdmin(settings.kafka).create_topic(TOPIC, PARTITIONS)
    eventually(lambda: added(coordinator, TOPIC, "readers"))
    here = (TOPIC,)
    with StubConsumer(settings, "ann", here, spark_ui=f"{elsewhere}/ui/ann"), StubConsumer(settings, "bob", here):
        eventually(lambda: shared(coordinator))
        with StubConsumer(settings, "cy", here) as cy:
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


def test_a_stranger_finds_from_the_navigation_what_moved_why_and_how_long_it_took(
    browser: Browser, join: Rebalance
) -> None:
    browser.open("/")
    browser.click("Topics")
    browser.enter()
    browser.click(TOPIC)
    browser.until(lambda: browser.find("h1").text.startswith(f"Topic {TOPIC}"), "the topic's page")
    entry = entry_of_the_join(browser)

    assert len(join.moves) == PARTITIONS // 3
    assert join.cause == "joined: cy"
    assert "Why: cy joined" in entry.text
    assert f"{PARTITIONS // 3} partitions moved" in entry.text
    assert "Stable in " in entry.text
    assert "hand-off: its one possible owner releases it" in entry.text
    assert "Stable → Closing → Starting → Stable" in entry.text


def test_the_story_of_the_rebalance_names_the_tasks_that_ran_it_and_leads_to_their_logs(
    browser: Browser, join: Rebalance
) -> None:
    browser.enter()
    browser.click(f"The whole story of rebalance {join.rebalance}")
    browser.until(lambda: "Step by step" in browser.find("main").text, "the story")
    browser.unfold()
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


# All rebalances, live, and asking ---------------------------------------------------------------------------------------


@pytest.fixture(params=["light", "dark"] if folder() else ["dark"])
def theme(browser: Browser, request: pytest.FixtureRequest) -> str:
    """Airflow's own colour mode; both where pictures are wanted."""
    browser.leave()
    browser.open("/")
    browser.driver.execute_script(f"localStorage.setItem('theme', '{request.param}')")
    return str(request.param)


def owners_now(coordinator: Coordinator) -> dict[int, str]:
    node = coordinator.zk.get(coordinator.paths.topic(TOPIC))
    return dict(codec.decode_node("", node.data).assignments)


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
    assert [line for line in browser.said() if "Content Security Policy" in line] == []


@contextmanager
def window_of(browser: Browser, width: int) -> Iterator[None]:
    """A desk's window of this width, or a phone's."""
    phone = width < 640
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        yield
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def opened_beside(browser: Browser, css: str) -> str:
    """What the page says that a click on this link opens in a tab of its own."""
    here = browser.driver.current_window_handle
    browser.find(css).click()
    browser.until(lambda: len(browser.driver.window_handles) == 2, "a second tab")
    (other,) = set(browser.driver.window_handles) - {here}
    browser.driver.switch_to.window(other)
    said = browser.until(lambda: browser.find("body").text, "the page")
    assert browser.driver.execute_script("return window.opener") is None
    browser.driver.close()
    browser.driver.switch_to.window(here)
    return said


@pytest.mark.parametrize("width", [1_280, 390], ids=["desk", "phone"])
def test_a_consumers_spark_ui_and_log_open_beside_airflow(
    browser: Browser, coordinator: Coordinator, join: Rebalance, width: int
) -> None:
    cluster, ann = coordinator.paths.cluster, coordinator.discovery.members()["ann"]
    rebalance = f"/clusters/{cluster}/topics/{TOPIC}/rebalances/{join.rebalance}"
    with window_of(browser, width):
        browser.leave()
        browser.open("/plugin/partitions_live")
        browser.enter()
        links = "[aria-label=Consumers] .space .row:first-child a[target=_blank]"
        browser.find(links)
        wide = "return [document.documentElement, ...document.querySelectorAll(arguments[0])].map((one) => one.scrollWidth - one.clientWidth)"
        boxes = ".scroll" if width < 640 else ".scroll, .virtual"
        assert set(browser.driver.execute_script(wide, boxes)) == {0}, "nothing is out of sight"
        for number, said in ((1, "/ui/ann"), (2, f"/logs/{cluster}/ann/{ann.incarnation}")):
            browser.leave()
            browser.enter()
            assert opened_beside(browser, f"{links}:nth-of-type({number})") == f"page {said} from nowhere"
        browser.open(f"/coordinator{rebalance}")
        assert opened_beside(browser, ".facts a[target=_blank]") == "page /ui/ann from nowhere"


def test_an_action_starts_from_the_row_that_it_is_about_and_only_by_the_button(
    browser: Browser, airflow: EmbeddedAirflow, settings: Settings
) -> None:
    browser.open("/coordinator/live")
    browser.find("[aria-label=Consumers] .space a").click()
    browser.until(lambda: browser.find("h1").text == "drain", "the form")
    assert browser.find("#field-consumer").get_attribute("value") == "ann"
    assert "ann" in [one.get_attribute("value") for one in browser.find_all("#list-consumer option")]
    browser.find("#field-why").send_keys("new disk")
    assert airflow.client.dag_runs("drain") == []
    browser.find("form#ask button").click()
    (run,) = eventually(lambda: airflow.client.dag_runs("drain"))
    assert run["conf"] == {"cluster": settings.cluster, "consumer": "ann", "why": "new disk", "dry_run": True}
    browser.until(lambda: "/dags/drain/runs/" in browser.driver.current_url, "Airflow's page of the run")
    eventually(lambda: airflow.client.dag_runs("drain")[0]["state"] == "success")
    browser.enter()
    browser.until(lambda: "Dry run: nothing was changed" in browser.find("main").text, "the result")


def pressed(browser: Browser, airflow: EmbeddedAirflow, dag: str, button: str) -> str:
    """Press the button of a form, and read the result on the page of the run."""
    ready = "return document.readyState === 'complete'"  # the script takes the button over
    browser.until(
        lambda: browser.driver.execute_script(ready) and button in browser.find("form#ask button").text, button
    )
    runs = len(airflow.client.dag_runs(dag))
    browser.find("form#ask button").click()
    browser.leave()
    eventually(lambda: len(airflow.client.dag_runs(dag)) == runs + 1)
    eventually(lambda: {run["state"] for run in airflow.client.dag_runs(dag)} == {"success"})

    def said() -> str:
        browser.enter()  # Airflow may have drawn the frame anew
        over = any(end in browser.find("h1").text for end in ("nothing was changed", "is done"))
        return browser.find("main").text if over else ""

    return browser.until(said, "the result")


def test_a_dead_letter_is_dropped_from_its_page_after_a_dry_run_and_no_other_is(
    browser: Browser, airflow: EmbeddedAirflow, settings: Settings, coordinator: Coordinator, letters: str, theme: str
) -> None:
    one, database = letter(TOPIC, 0, 0), Database(letters)
    places = {(settings.cluster, 0, 1207), (settings.cluster, 4, 99), ("another", 0, 1207)}
    with database.transaction() as cursor:
        table.prepare(cursor)
        made = [replace(one.place, cluster=name, partition=p, offset=offset) for name, p, offset in places]
        table.put_letters(cursor, [replace(one, place=place) for place in made])

    browser.open(f"/coordinator/clusters/{settings.cluster}/dead-letters")
    browser.find("h1")
    keep(browser, f"dead-letters-{theme}")
    browser.click("1207")
    browser.until(lambda: "offset 1207" in browser.find("h1").text, "the letter")
    keep(browser, f"dead-letter-{theme}")
    browser.click("drop-dead-letters")
    browser.until(lambda: browser.find("h1").text == "drop-dead-letters", "the form")
    keep(browser, f"drop-{theme}")
    chosen = f"1 dead letter of topic {TOPIC}, partition 0, offset 1207 in the database shop"
    assert f"{chosen} would be dropped" in pressed(browser, airflow, "drop_dead_letters", "dry run")
    browser.click("Open its form")
    browser.find("#field-dry_run").click()
    assert f"{chosen} dropped" in pressed(browser, airflow, "drop_dead_letters", "Do it")
    with database.transaction() as cursor:
        left = {
            (found.place.cluster, found.place.partition, found.place.offset) for found in table.find(cursor, 9).letters
        }
    assert left == places - {(settings.cluster, 0, 1207)}
    last = action_log.asked(coordinator)[0]
    assert (last.action, last.about, last.actor.who) == ("drop_dead_letters", TOPIC, airflow.username)


def test_dead_letters_are_replayed_from_their_page_by_the_program_of_a_fleet(
    browser: Browser, airflow: EmbeddedAirflow, settings: Settings, coordinator: Coordinator, letters: str
) -> None:
    fleet = Fleet("sums", letters_program.__file__, ("s-1",), (WORDS, letters, "words"))
    set_fleet(coordinator, fleet)
    places = [LetterPlace(settings.cluster, WORDS, "id-1", 0, at) for at in range(2)]
    sink = DatabaseSink(Database(letters), letters_program.AMOUNTS.prepare, letters_program.store)
    sink.claim(Writer(settings.cluster, WORDS, "id-1", "s-1"), {0: TOKEN}, {})
    with sink.database.transaction() as cursor:
        table.prepare(cursor)
        one = letter(WORDS, 0, 0)
        table.put_letters(cursor, [replace(one, place=places[0], value=b"one"), replace(one, place=places[1])])
    browser.open(f"/coordinator/clusters/{settings.cluster}/dead-letters?topic={WORDS}")
    browser.click("replay-dead-letters")
    browser.until(lambda: browser.find("h1").text == "replay-dead-letters", "the form")
    browser.find("#field-app").send_keys("sums")
    through = f"all dead letters of topic {WORDS} would go through {letters_program.__file__} of fleet sums"
    assert through in pressed(browser, airflow, "replay_dead_letters", "dry run")
    browser.click("Open its form")
    browser.find("#field-dry_run").click()
    said = pressed(browser, airflow, "replay_dead_letters", "Do it")
    assert "partition 0, offset 1 failed again: ValueError: invalid literal for int()" in said
    assert "1 dead letter replayed, 1 failed again" in said
    with sink.database.transaction() as cursor:
        assert cursor.query("SELECT topic, number FROM amounts") == [(WORDS, 1)]
    last = action_log.asked(coordinator)[0]
    assert (last.action, last.about, last.actor.who) == ("replay_dead_letters", WORDS, airflow.username)
    set_fleet(coordinator, replace(fleet, consumers=()))  # other tests wait for no consumer of a fleet


# Consumers that read, and a person who knows nothing --------------------------------------------------------------------

READ = 6


@dataclass
class Read:
    """A topic that is written and read. `drained`: the rebalance by which `eli` gave everything to `dee`."""

    site: Site
    ledger: Ledger
    consumers: dict[str, Consumer]
    drained: Rebalance

    def join(self, name: str) -> None:
        self.consumers[name] = Consumer(self.site, name, self.ledger, topics=(self.site.topic,))


@pytest.fixture(scope="module")
def read(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, airflow: EmbeddedAirflow, coordinator: Coordinator
) -> Iterator[Read]:
    """`dee` and `eli` share the topic until the user of Airflow asks to drain `eli`."""
    cluster = coordinator.paths.cluster
    site = Site(zookeeper.connect_string, kafka.bootstrap_servers, READ, cluster)
    eventually(lambda: added(coordinator, site.topic, site.group))
    found = Read(site, Ledger(), {}, Rebalance("", "", "", 0.0, 0.0, 0.0, (), (), (), ()))
    traffic = Traffic(site, per_second=100.0)

    def both() -> bool:
        node = coordinator.zk.get(coordinator.paths.topic(site.topic)).data
        stable = all_stable(coordinator, [site.topic])
        return stable and set(codec.decode_node("", node).assignments.values()) == set(found.consumers)

    def measured() -> Rebalance | None:
        (newest,) = history.rebalances(coordinator, [site.topic], 1)
        return newest if "eli" in newest.cause and newest.pauses and not newest.pauses.missing else None

    try:
        found.join("dee")
        found.join("eli")
        eventually(both)
        found.ledger.grown(range(READ), "records flow")
        asked = {"cluster": cluster, "consumer": "eli", "why": "new disk", "dry_run": False}
        airflow.client.trigger("drain", asked)
        found.drained = eventually(measured)
        yield found
    finally:
        traffic.close()
        for one in found.consumers.values():
            one.close()
        site.close()


def of_row(topic: str, what: str) -> str:
    """The XPath of something in the topic's row on the live page: rows change places between two questions."""
    return f"//table[@aria-label='Topics']/tbody/tr[.//button[@title='{topic}']]//{what}"


def told_of(browser: Browser, topic: str, label: str) -> str:
    """What the live page says of this topic under this heading."""
    return browser.driver.find_element(By.XPATH, of_row(topic, f"td[@data-label='{label}']")).text


def choose(browser: Browser, topic: str) -> bool:
    browser.driver.find_element(By.XPATH, of_row(topic, "button")).click()
    return True


def test_the_last_hour_of_a_topic_and_of_a_consumer_is_drawn_in_records_and_seconds(
    browser: Browser, coordinator: Coordinator, read: Read
) -> None:
    topic = read.site.topic

    def kept() -> bool:
        """`reconcile` may have kept the moment of this minute before the drain; then the next minute's counts."""
        assert list(lag_moments.keep(coordinator, [topic])) == []
        last = lag_moments.newest(coordinator)
        one = last.topics.get(topic) if last is not None else None
        return last is not None and one is not None and {last.owner(place) for place in one.owners} == {"dee"}

    eventually(kept, 90.0)
    browser.open(f"/coordinator/live?topic={topic}")

    def drawn() -> list[str]:
        """The lines of the charts; that of the lag is there where there was some."""
        charts = browser.find_all(".plot .uplot")
        return [one.text for chart in charts for one in chart.find_elements(By.CSS_SELECTOR, ".u-label")[1:]]

    browser.until(lambda: set(drawn()) - {"eli"} == {"dee"}, "the owner, in each chart")
    consumers = browser.find_all("[aria-label=Consumers] .space button")
    next(one for one in consumers if one.text == "dee").click()
    browser.until(lambda: set(drawn()) == {topic}, "the topic of the consumer")
    assert [line for line in browser.said() if "Content Security Policy" in line] == []


def test_every_page_is_there_in_both_of_airflows_colour_modes(
    browser: Browser, settings: Settings, join: Rebalance, read: Read, theme: str
) -> None:
    cluster, topic = f"/coordinator/clusters/{settings.cluster}", read.site.topic
    pages = {
        "topics": "/coordinator/",
        "topic": f"{cluster}/topics/{TOPIC}",
        "rebalances": "/coordinator/rebalances",
        "rebalance": f"{cluster}/topics/{topic}/rebalances/{read.drained.rebalance}",
        "ask": f"{cluster}/ask/drain?consumer=ann&why=new%20disk",
        "live": "/coordinator/live",
    }
    light = "rgb(255, 255, 255)"
    for name, path in pages.items():
        browser.open(path)
        browser.find("h1")
        colour = browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (colour == light) == (theme == "light"), name
        if name == "live":
            browser.until(lambda: "keep up" in told_of(browser, topic, "One consumer more"), "what is measured")
            choose(browser, topic)
            keep(browser, f"phone-{theme}", wide=390, most=1_200)
        keep(browser, f"{name}-{theme}")
    planner = join.records[0].actor
    browser.open(f"/dags/{planner.dag}/runs/{planner.run.replace('+', '%2B')}")
    browser.click("Moved partitions")
    browser.enter()
    assert entry_of_the_join(browser)
    browser.leave()
    keep(browser, f"run-{theme}", most=900)
    browser.open("/")
    browser.until(lambda: browser.find("[data-coordinator-tile]").text, "the tile")
    keep(browser, f"tile-{theme}", last="[data-coordinator-tile]", margin=60)
    assert [line for line in browser.said() if "Content Security Policy" in line] == []


def test_a_stranger_learns_what_is_wrong_and_what_to_do_and_that_it_has_helped(browser: Browser, read: Read) -> None:
    topic = read.site.topic
    browser.open("/coordinator/live")
    browser.until(lambda: told_of(browser, topic, "State").startswith("Stable"), "nothing is wrong")
    read.consumers.pop("dee").close()
    wrong = f"Nobody reads {READ} partitions: start a consumer."
    browser.until(lambda: told_of(browser, topic, "Waits for") == wrong, wrong)
    first = browser.find("table[aria-label=Topics] tbody tr").text
    assert topic in first, "what needs somebody stands first"
    assert "not owned" in first
    read.join("fay")
    browser.until(
        lambda: told_of(browser, topic, "Waits for") == "Every partition is where the last plan put it.", "it helped"
    )
    browser.until(lambda: choose(browser, topic), "it is chosen")

    def owners() -> list[str]:
        cells = browser.find_all("[aria-label=Partitions] .space .row:not([hidden]) [role=cell]:nth-child(2)")
        return [one.text for one in cells]

    browser.until(lambda: owners() == ["fay"] * READ, "fay reads everything")


def test_the_tile_shows_the_longest_name_as_text_and_stays_in_its_place(
    browser: Browser, settings: Settings, coordinator: Coordinator, read: Read
) -> None:
    assert read.drained.ended_at
    name = "t" * 249
    ConfluentKafkaAdmin(settings.kafka).create_topic(name, 1)
    eventually(lambda: added(coordinator, name, "others"))
    browser.leave()
    browser.open("/")
    browser.until(lambda: f"{name[:77]}..." in browser.find("[data-coordinator-tile]").text, "the tile")
    tile = browser.find("[data-coordinator-tile]")
    wide = (
        "const tile = arguments[0]; return [tile.scrollWidth - tile.clientWidth, tile.querySelectorAll('img').length]"
    )
    assert browser.driver.execute_script(wide, tile) == [0, 0]
