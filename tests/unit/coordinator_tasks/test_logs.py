"""Log lines say what they are about: as text for a person, and as one object of JSON for a program."""

import json
import logging
import threading
from collections.abc import Iterator

import pytest

from coordinator_tasks import logs

log = logging.getLogger("shop.orders")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What a test sets up ends with it."""
    root, level = logging.getLogger(), logging.getLogger().level
    yield
    root.removeHandler(logs._handler)
    root.setLevel(level)
    logs._process.__init__()  # type: ignore[misc]


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def objects(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in said(capsys)]


def test_json_has_every_field_of_the_process_the_block_and_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json")
    logs.know(cluster="main", consumer="a", incarnation=7)
    with logs.about(topic="orders", epoch=3):
        log.warning("it %s", "moves", extra={"rebalance": "r-1", "other": "left out"})
    (line,) = objects(capsys)
    at = str(line.pop("timestamp"))
    assert at.endswith("Z")
    assert line == {
        "event": "it moves",
        "level": "warning",
        "logger": "shop.orders",
        "cluster": "main",
        "consumer": "a",
        "incarnation": 7,
        "topic": "orders",
        "epoch": 3,
        "rebalance": "r-1",
    }


def test_text_has_them_behind_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up()
    logs.know(cluster="main")
    log.info("it moves", extra={"topic": "orders", "epoch": 3})
    (line,) = said(capsys)
    assert line[23:] == " INFO shop.orders it moves [cluster=main topic=orders epoch=3]"


def test_a_line_that_names_a_topic_gets_its_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json")
    logs.know(epoch_of={"orders": 9}.get)  # type: ignore[arg-type]
    for topic in ("orders", "other"):
        log.warning("x", extra={"topic": topic})
    log.warning("x", extra={"topic": "orders", "epoch": 4})
    assert [line.get("epoch") for line in objects(capsys)] == [9, None, 4]


def test_a_thread_of_a_topic_names_it_and_no_other_thread_does(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up("json")
    thread = threading.Thread(target=logs.within(log.warning, topic="orders"), args=("there",))
    thread.start()
    thread.join()
    log.warning("here")
    assert [(line["event"], line.get("topic")) for line in objects(capsys)] == [("there", "orders"), ("here", None)]


def test_an_exception_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("json", "text"):
        logs.set_up(form)
        try:
            int("broken\nhere")
        except ValueError:
            log.exception("it failed")
    first, *rest = said(capsys)
    assert "ValueError: invalid literal" in json.loads(first)["exception"]
    assert rest[0].endswith("ERROR shop.orders it failed")
    assert rest[-1].startswith("ValueError: invalid literal")


def test_text_of_others_makes_no_second_line_and_reaches_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("text", "json"):
        logs.set_up(form)
        log.warning("a name\n2026-11-25 01:02:03.004 WARNING x forged\r\x1b[2J\x9b2J", extra={"topic": "or\u202eders"})
        logs.say_error("x\ny\x1b[2J")
    text, told, *in_json = said(capsys)
    assert text.endswith(r"WARNING x forged\r\u001b[2J\u009b2J [topic=or\u202eders]")
    assert told == r"error: x\ny\u001b[2J"
    assert all(line.isprintable() for line in in_json)
    assert json.loads(in_json[0])["topic"] == "or\u202eders"


def test_no_line_of_an_exception_looks_like_one_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up()
    error = ValueError("broken\n2026-11-25 01:02:03.004 WARNING x forged\n\tat a.b\x1b[2J")
    log.warning("it failed", exc_info=error)
    _, of_error, forged, java = said(capsys)
    assert of_error == "ValueError: broken"
    assert forged == "  2026-11-25 01:02:03.004 WARNING x forged"
    assert java == r"        at a.b\u001b[2J"
