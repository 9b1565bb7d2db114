"""The fields of log lines: a real line of each kind has exactly the fields in the page's table."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coordinator_plugin import hook
from coordinator_plugin.confirmation import ConfirmationWait, Patience, WaitKind
from coordinator_plugin.operators import TransitionOperator
from coordinator_plugin.upkeep import ActionOperator
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from coordinator_tasks import logs
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import transitions
from spark_apps.agent.process.journal import Journal, TopicAccount
from tests.fakes.cluster import PERSON
from tests.world.site import Site, stable_site

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8").split("| lines about one topic |")[1].split("\n\n")[0]
Lines = list[dict[str, Any]]
BESIDE = "cannot be called outside"
"""Airflow's warning about a task run by a test."""
RUN: Any = {
    "ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", try_number=1),
    "dag_run": SimpleNamespace(triggering_user_name="ada"),
}


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Lines]]:
    """The log lines since the last call, as read by a program: our lines, then lines of Airflow's tasks with Airflow's fields."""
    root, level, former = logging.getLogger(), logging.getLogger().level, logs._process.fields
    monkeypatch.setattr(logs._process, "fields", {})
    logs.set_up("json")

    with capture_logs(processors=[merge_contextvars]) as of_tasks:

        def found() -> Lines:
            lines = [*(json.loads(line) for line in capsys.readouterr().err.splitlines()), *of_tasks]
            of_tasks.clear()
            return [line for line in lines if BESIDE not in line["event"]]

        capsys.readouterr()
        yield found
    root.removeHandler(logs._handler)
    root.setLevel(level)
    logs._process.fields, logs._process.epoch_of, logs._process.json = former, None, False


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """Consumer b has joined, and a partition is to be closed for b."""
    made = stable_site("a")
    made.with_policy(settle_s=0.0)
    made.starts("b")
    monkeypatch.setattr(hook.CoordinatorHook, "open", lambda _: nullcontext(made.coordinator))
    return made


class Plan(TransitionOperator):
    step = staticmethod(transitions.plan)


def documented(kind: str) -> set[str]:
    """The fields in the table for lines of this kind."""
    (row,) = re.findall(rf"^\| {re.escape(kind)} \|.*\| (.*) \|$", TABLE, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row))


def fields(line: dict[str, Any]) -> dict[str, Any]:
    return {name: line[name] for name in logs.FIELDS if name in line}


def stored(site: Site) -> dict[str, Any]:
    """The topic's present fields in ZooKeeper."""
    record = site.history()[-1]
    return {"cluster": "shop", "topic": "orders", "epoch": record.epoch, "rebalance": record.rebalance}


def run(operator: Any, **params: Any) -> None:
    operator.execute({**RUN, "params": {"cluster": "", **params}})


def test_a_line_about_a_step_has_the_written_epoch_and_rebalance(site: Site, said: Callable[[], Lines]) -> None:
    run(Plan(task_id="plan"))
    lines = [one for one in said() if one["event"].startswith("orders: ")]
    assert [one["event"].split(",")[0] for one in lines][:1] == ["orders: Stable -> Closing"]
    assert {json.dumps(fields(one)) for one in lines} == {json.dumps(stored(site))}
    assert stored(site).keys() == documented("a step: a plan, a start, the end of a rebalance")


def test_a_line_about_a_wait_has_the_fields_of_the_awaited_step(site: Site, said: Callable[[], Lines]) -> None:
    run(Plan(task_id="plan"))
    said()
    wait = ConfirmationWait(WaitKind.CLOSED, ["orders"], Patience(0.0, 60.0), logging.getLogger("shop").info)
    wait.poll(site.coordinator)
    (line,) = said()
    assert line["event"].endswith("(waits for a)")
    assert fields(line) == stored(site)
    assert stored(site).keys() == documented("who is waited for")


def test_a_line_about_partitions_taken_up_has_incarnation_and_epoch(said: Callable[[], Lines]) -> None:
    journal = Journal(lambda: {"orders": TopicAccount((), frozenset({0, 1}), 7)})
    logs.know(cluster="shop", consumer="a", incarnation=12, epoch_of=journal.epoch_of)
    journal.look(1.0)
    (line,) = said()
    assert line["event"] == "takes up partitions 0-1"
    assert fields(line) == {"cluster": "shop", "consumer": "a", "incarnation": 12, "topic": "orders", "epoch": 7}
    assert fields(line).keys() == documented("what a consumer reports, takes up and gives away")


def test_a_line_about_an_action_has_its_topic(site: Site, said: Callable[[], Lines]) -> None:
    form = {"group_id": "g", "start": "earliest", "strategy": ""}
    run(ActionOperator(task_id="act", action="add_topic"), topic="orders", dry_run=False, **form)
    lines = said()
    assert lines
    assert [fields(line) for line in lines] == [{"cluster": "shop", "topic": "orders"}] * len(lines)
    assert {"cluster", "topic"} == documented("what a person has asked for")


def test_a_line_about_a_reset_of_offsets_has_the_written_epoch_and_rebalance(
    site: Site, said: Callable[[], Lines]
) -> None:
    site.settles()
    said()
    with logs.about(cluster="shop"):
        positions.reset(site.coordinator, "orders", "earliest", [0], why="", actor=PERSON)
    line = said()[-1]
    assert fields(line) == stored(site)
    assert stored(site).keys() == documented("a reset of offsets, which is a step as well")
