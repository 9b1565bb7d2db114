"""The forms of Airflow's own pages as a person fills them in, and the question about a large plan as a person answers it.

The pages of `docs/howto` show them, and the README a topic before, during and after a join.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.allowed_launches import OWN_APPLICATIONS
from coordinator_tasks.core.measure.budget import Budget
from coordinator_tasks.core.model import Committed, Fleet
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import fleet, history
from coordinator_tasks.service.plan import plans_to_approve
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator
from tests.airflow_calls import wait_for_run
from tests.integration.airflow_site import added, airflow_of, all_stable, cluster_of, eventually
from tests.integration.browser import CHROMIUM, DRIVER, Browser, signed_in
from tests.integration.screenshots import MARGIN, keep
from tests.integration.stub_consumer import StubConsumer

pytestmark = [
    pytest.mark.integration,
    pytest.mark.clusters,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
TOPIC, GROUP, PARTITIONS = "visits", "visits-billing", 12
OLD, NEW = ("billing-1", "billing-2"), "billing-3"
RUN_LIMIT_S = 180.0
OTHER, APPLICATION = "payments", "/opt/shop/main.py"
SITE = {
    "COORDINATOR_BUDGET_MOVES": "3",
    "COORDINATOR_BUDGET_APPROVERS": "admin",
    "COORDINATOR_ALLOWED_APPLICATIONS": APPLICATION,
}
STUCK_AFTER_S = 3
WIDE, FORM_HIGH = 960, 1_480
FORMS: dict[str, dict[str, Any]] = {
    "add_topic": {"topic": OTHER, "group_id": "payments-billing"},
    "remove_topic": {"topic": TOPIC, "why": "it moved to another site"},
    "set_strategy": {"topic": TOPIC, "strategy": "weighted"},
    "set_fleet": {
        "app": "reports",
        "application": APPLICATION,
        "consumers": ["reports-1", "reports-2"],
        "arguments": ["--topics=reports"],
    },
    "drain": {"consumer": "billing-2", "why": "new host"},
    "isolate": {"consumer": "billing-2", "why": "does not answer"},
    "pause": {"topic": TOPIC, "partitions": [3]},
    "pin": {"topic": TOPIC, "consumer": "billing-2", "partitions": [3]},
    "preview": {"topics": [TOPIC], "join": 1},
    "roll_back": {"topic": TOPIC, "rebalance": "", "why": "slow since then"},
    "expect_restart": {"consumer": "billing-2", "within": 10, "why": "new kernel"},
    "scale": {"app": "billing", "count": 4, "why": "month end"},
    "reset_offsets": {"topic": TOPIC, "to": "earliest", "partitions": [3], "why": "wrong prices"},
    "upgrade": {"app": "billing", "version": "1.5.0", "code": "1.5.0"},
}
"""What is filled in; an empty rebalance = that of the join."""


@pytest.fixture(scope="module")
def settings(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka) -> Settings:
    return replace(cluster_of(zookeeper, kafka), cluster="main", budget=Budget(moves=3, approvers=("admin",)))


@pytest.fixture(scope="module")
def airflow(settings: Settings, airflow_factory: Callable[..., EmbeddedAirflow]) -> Iterator[EmbeddedAirflow]:
    dags = {"rebalance", "reconcile", "approve_plan", "stuck_topic", *FORMS}
    soon = {"policy": {"stuck_after_s": STUCK_AFTER_S}}
    with airflow_of(settings, airflow_factory, dags, zookeeper=soon, env=SITE) as server:
        yield server


@pytest.fixture(scope="module")
def c(settings: Settings, airflow: EmbeddedAirflow) -> Iterator[Coordinator]:
    assert airflow.base_url
    with open_coordinator(settings) as coordinator:
        yield coordinator


@pytest.fixture(scope="module")
def consumers(settings: Settings, c: Coordinator) -> Iterator[tuple[StubConsumer, StubConsumer]]:
    """The consumers of a fleet share a topic: both are there before its first plan, which needs no approval."""
    for topic, count in ((TOPIC, PARTITIONS), (OTHER, 4)):
        ConfluentKafkaAdmin(settings.kafka).create_topic(topic, count)
    fleet.set_fleet(c, Fleet("billing", OWN_APPLICATIONS[0], OLD))
    with StubConsumer(settings, OLD[0]) as first, StubConsumer(settings, OLD[1]) as second:
        eventually(lambda: added(c, TOPIC, GROUP))
        eventually(lambda: all_stable(c, [TOPIC]))
        ConfluentGroupOffsets(settings.kafka, GROUP).commit(TOPIC, {3: Committed(0)})
        yield first, second


@pytest.fixture(scope="module")
def browser(airflow: EmbeddedAirflow, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with signed_in(airflow, tmp_path_factory.mktemp("chromium") / "profile") as browser:
        yield browser


@pytest.fixture(scope="module")
def joined(
    settings: Settings,
    consumers: tuple[StubConsumer, StubConsumer],
    c: Coordinator,
    airflow: EmbeddedAirflow,
    browser: Browser,
) -> Iterator[str]:
    """The rebalance by which a third consumer has got its share, after a person has approved its plan in the browser."""
    look(browser, "before", "Stable", set(OLD))
    with StubConsumer(settings, NEW) as third:
        plan = eventually(lambda: waiting(c))
        airflow.client.trigger("reconcile")
        run = eventually(lambda: waiting_run(airflow, "approve_plan", {"digest": plan}))
        for giver in consumers:
            giver.deaf = True
        approve(browser, run)
        look(browser, "during", "Closing", {*OLD, NEW})
        look_at_the_question(browser, airflow)
        for giver in consumers:
            giver.deaf = False
        eventually(lambda: len(third.running(TOPIC)) == PARTITIONS // 3 and all_stable(c, [TOPIC]))
        look(browser, "after", "Stable", {*OLD, NEW})
        yield history.rebalances(c, [TOPIC], 1)[0].rebalance


def look(browser: Browser, name: str, state: str, consumers: set[str]) -> None:
    """The page of the topic: its state, and a row of the grid for each consumer."""
    browser.leave()

    def shown() -> bool:
        browser.open(f"/coordinator/clusters/main/topics/{TOPIC}")
        rows = {one.text for one in browser.find_all("table.grid tbody th")}
        return state in browser.find("h1").text and rows == consumers

    browser.until(shown, f"{state} of {consumers}")
    keep(browser, name, browser.find("main"), "table.grid", wide=WIDE, margin=MARGIN)


def look_at_the_question(browser: Browser, airflow: EmbeddedAirflow) -> None:
    """What Airflow asks about a topic that is stuck: it names who holds it up, and what may be done."""

    def asked() -> str:
        airflow.client.trigger("reconcile")
        return waiting_run(airflow, "stuck_topic", {"topic": TOPIC, "consumer": OLD[0]})

    button = at_the_question(browser, "stuck_topic", eventually(asked), "isolate")
    shown = button.find_element(By.XPATH, "ancestor::div[contains(., 'billing-1')][1]")
    assert "has acted on epoch" in shown.text
    keep(browser, "stuck", shown, wide=WIDE, margin=MARGIN)


def waiting(c: Coordinator) -> str:
    """The name of the plan that waits."""
    found = plans_to_approve.waiting(c, [TOPIC]).get(TOPIC)
    return found.digest if found is not None and NEW in found.why else ""


def waiting_run(airflow: EmbeddedAirflow, dag: str, about: dict[str, str]) -> str:
    """The run of a DAG that asks a person about this; empty = not yet."""
    for run in airflow.client.dag_runs(dag):
        for task in airflow.client.task_instances(dag, run["dag_run_id"]):
            asks = task["task_id"] == "ask" and task["state"] in ("awaiting_input", "deferred")
            if asks and about.items() <= run["conf"].items():
                return str(run["dag_run_id"])
    return ""


def at_the_question(browser: Browser, dag: str, run: str, answer: str) -> WebElement:
    """The button of an answer, on Airflow's page of the question."""
    browser.open(f"/dags/{dag}/runs/{run.replace('+', '%2B')}/tasks/ask/required_actions")
    return browser.until(lambda: [one for one in browser.find_all("button") if one.text == answer], answer)[0]


def approve(browser: Browser, run: str) -> None:
    button = at_the_question(browser, "approve_plan", run, "Approve")
    shown = button.find_element(By.XPATH, "ancestor::div[contains(., 'exceeds the budget')][1]")
    keep(browser, "approve", shown, wide=WIDE, margin=MARGIN)
    button.click()


# Forms ---------------------------------------------------------------------------------------------------------------


def open_form(browser: Browser, dag: str) -> WebElement:
    """The form of a DAG, as a person comes to it."""
    browser.leave()
    browser.open(f"/dags/{dag}")
    browser.find("[aria-label='Trigger Dag']").click()
    browser.find("[data-testid=trigger-dag-submit]")
    return browser.find("[role=dialog][data-scope=dialog]")


def fill(browser: Browser, name: str, value: Any) -> None:
    """Type a value into a field: a text, a list one a line, a number, or JSON where the form has an editor."""
    match value:
        case [str(), *_]:
            text = "\n".join(value)
        case list():
            text = str(value)[:-1]  # the editor closes the bracket
        case _:
            text = str(value)
    css = f"input#element_{name}, textarea#element_{name}, [id='number-input:element_{name}'] input, #element_{name} [role=textbox]"
    field = browser.find(css)
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", field)
    keys = ActionChains(browser.driver)
    keys.key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys(Keys.DELETE, text).perform()


def run_of(airflow: EmbeddedAirflow, dag: str) -> dict[str, Any]:
    return next(iter(airflow.client.dag_runs(dag)), {})


@pytest.mark.parametrize("dag", FORMS)
def test_a_person_fills_in_the_form_and_the_run_is_a_dry_run_with_these_values(
    browser: Browser, airflow: EmbeddedAirflow, joined: str, dag: str
) -> None:
    given = {name: value or joined for name, value in FORMS[dag].items()}
    form = open_form(browser, dag)
    for name, value in given.items():
        fill(browser, name, value)
    submit = browser.find("[data-testid=trigger-dag-submit]")
    browser.until(submit.is_enabled, "a form without a complaint")
    keep(browser, dag.replace("_", "-"), form, wide=WIDE, most=FORM_HIGH)
    submit.click()
    run = eventually(lambda: run_of(airflow, dag))
    assert given.items() <= run["conf"].items()
    assert run["conf"].get("dry_run", True)
    assert wait_for_run(airflow.client, dag, run["dag_run_id"], RUN_LIMIT_S) == "success"
