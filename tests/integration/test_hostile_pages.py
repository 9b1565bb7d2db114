"""What consumers, people and znodes say is text on every page, in a real browser: no markup, no script, no turned sentence."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from coordinator_ui.pages.routes import RunResult, run_result

from coordinator_tasks.core.model import (
    Actor,
    ConsumerStatus,
    Explanation,
    Move,
    MoveKind,
    Pause,
    Pauses,
    Reason,
    RunningPartition,
    State,
    Token,
    TopicStatus,
)
from coordinator_tasks.service.nodes import directives, topics
from tests.fakes.cluster import PERSON, Cluster
from tests.integration.browser import CHROMIUM, DRIVER, Browser, looking_at, served
from tests.unit.plugins.pages_site import pages_of, register, stable, write

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed"),
]
MARKUP, CLOSING = '<img src="x" onerror="window.hit = 1">', '"></textarea></script><script>window.hit = 2</script>'
RIGHT_TO_LEFT, LONG = "\u202e\u05e9\u05dc\u05d5\u05dd.gnp", "n" * 200
TEXTS = (MARKUP, CLOSING, RIGHT_TO_LEFT, LONG)
TOPICS = ("orders", "t" * 249, "__proto__", "constructor")
"""The worst that Kafka allows."""
CONSUMERS = ("a", "c" * 64, "constructor")
STORY = "story"
REBALANCE = f"/clusters/shop/topics/orders/rebalances/{STORY}"
SAYS: dict[str, tuple[str, ...]] = {
    "/": TEXTS,
    "/clusters/shop/topics/orders": TEXTS,
    f"/clusters/shop/topics/{TOPICS[1]}": (TOPICS[1],),
    "/clusters/shop/topics/__proto__": ("__proto__",),
    "/rebalances": TEXTS,
    f"/rebalances?cause={quote(CLOSING)}&actor={quote(CLOSING)}": (CLOSING,),
    REBALANCE: TEXTS,
    f"/clusters/shop/topics/orders/rebalances/{quote(MARKUP, safe='')}": (MARKUP,),
    "/live": TEXTS,
    "/actions": (),
    "/audit": (),
    "/dead-letters": (),
    f"/live?topic={TOPICS[1]}": (TOPICS[1],),
    f"/runs/rebalance/{quote(MARKUP, safe='')}": (MARKUP,),
    f"/runs/rebalance/{quote(RIGHT_TO_LEFT, safe='')}": (RIGHT_TO_LEFT,),
    "/runs/drain/x": TEXTS,
    f"/clusters/shop/ask/drain?consumer={quote(CLOSING)}&why={quote(RIGHT_TO_LEFT)}": (),
    f"/clusters/shop/ask/set_fleet?arguments={quote(CLOSING)}&app={quote(MARKUP)}": (),
    f"/clusters/shop/ask/{quote(MARKUP, safe='')}": (MARKUP,),
    f"/clusters/shop/topics/{quote(MARKUP, safe='')}": (MARKUP,),
}
"""Page → what it has to show, letter by letter."""
LOOSE = """
const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walker.nextNode());) {
  if (!/\\u202e/.test(node.data.replace(/\\u2068[^\\u2069]*\\u2069/g, ""))) continue;
  let at = node.parentElement;
  while (getComputedStyle(at).display === "inline" && getComputedStyle(at).unicodeBidi !== "isolate") at = at.parentElement;
  if (getComputedStyle(at).unicodeBidi !== "isolate" && at.textContent.trim() !== node.data.trim()) found.push(at.textContent.trim().slice(0, 80));
  else if (getComputedStyle(at).display !== "inline" && at.textContent.trim() !== node.data.trim()) found.push(at.textContent.trim().slice(0, 80));
}
return found;
"""
"""Blocks with an override that turns what stands behind it."""


def hostile() -> Cluster:
    """A cluster in which every text that somebody can write is one of `TEXTS`."""
    cluster = Cluster()
    for topic in TOPICS:
        cluster.kafka.create_topic(topic, 4)
        topics.add_topic(cluster.coordinator, topic, "readers", actor=PERSON, force=True)
    for consumer in CONSUMERS:
        cluster.join(consumer)
        register(
            cluster,
            consumer,
            rack=MARKUP,
            release=RIGHT_TO_LEFT,
            spark_ui="javascript:window.hit=3",
            application_id=CLOSING,
        )
    stable(cluster, {0: "a", 1: CONSUMERS[1], 2: "constructor"})
    running = {0: RunningPartition(5, Token(1, 1, "g"), started=True, lag_records=7, rate=1.0)}
    said = {"orders": TopicStatus("g", 3, {}, running, reports=TEXTS)}
    cluster.statuses.answers["a"] = ConsumerStatus("a", "shop", 1, "boot", f"stuck: {MARKUP}", said, TEXTS)
    directives.drain(cluster.coordinator, "a", CLOSING, MARKUP)
    directives.isolate(cluster.coordinator, CONSUMERS[1], by=CLOSING, why=LONG)
    for number, text in enumerate(TEXTS):
        told(cluster, text, [text], 900_000.0 + number)
    told(cluster, STORY, TEXTS, 900_005.0)
    return cluster


def told(cluster: Cluster, rebalance: str, texts: Sequence[str], at: float) -> None:
    """A rebalance of a plan for each of these texts, in which everything is this text."""
    states = (State.STABLE, *[State.CLOSING] * len(texts), State.STABLE)
    steps = zip(states[:-1], states[1:], [*texts, texts[0]], strict=True)
    for number, (source, target, text) in enumerate(steps):
        moves = (
            (Move(1, text, text, MoveKind.HANDOFF), Move(2, "", text, MoveKind.START))
            if target is not State.STABLE
            else ()
        )
        more: dict[str, Any] = {"cause": text, "rebalance": rebalance, "confirmed": {text: (1,)}}
        if moves:
            more["plan"] = Explanation(text, text, text, (Reason(text, (1, 2)),))
        else:
            more["pauses"] = Pauses((Pause(1, wait_s=0.5, records=3),), left_out=tuple(texts))
        write(
            cluster, source, target, at + number / 10, *moves, actor=Actor("airflow", text, text, text, text, 1), **more
        )


def result_of(dag_id: str) -> RunResult | None:
    """What the run of an action's DAG has said."""
    return (
        None
        if dag_id == "rebalance"
        else RunResult(TEXTS, over=True, ok=True, done=True, conf={"consumer": "a", "why": CLOSING})
    )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COORDINATOR_CLUSTERS", "shop")
        app: Any = pages_of(hostile()).app
        app.dependency_overrides[run_result] = result_of
        with served(app) as address, looking_at(address, tmp_path_factory.mktemp("chromium") / "profile") as found:
            yield found


@pytest.mark.parametrize("path", SAYS, ids=lambda path: path[:60])
@pytest.mark.parametrize("width", [1_280, 390], ids=["desk", "phone"])
def test_a_page_shows_what_others_wrote_and_is_not_changed_by_it(browser: Browser, path: str, width: int) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 640}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.open(path)
    browser.find("h1")
    run = browser.driver.execute_script
    if path.startswith("/live"):
        browser.until(lambda: run("return !!document.querySelector('[aria-label=Partitions] .space .row')"), "the data")
    text = str(run("return document.body.textContent")).replace("\u2068", "").replace("\u2069", "")
    assert [one for one in SAYS[path] if one not in text] == []
    assert run("return [window.hit, document.images.length, document.querySelectorAll('body script').length]") == [
        None,
        0,
        0,
    ]
    assert run(LOOSE) == []
    assert run("return document.documentElement.scrollWidth") <= width


def test_the_way_of_a_move_can_be_read_beside_long_names(browser: Browser) -> None:
    metrics = {"width": 1_280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.open("/clusters/shop/topics/orders")
    ways = browser.find_all(".moves td:nth-child(4)")
    assert [way.text for way in ways if way.rect["width"] < 180 or way.rect["x"] + way.rect["width"] > 1_280] == []
