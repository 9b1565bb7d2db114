"""Every action of an operator by its form in a real Airflow, on real ZooKeeper and Kafka.

What each of them does stands in `action_table`. The plain loop plans the topics. Commands do the same by the same declarations
(`tests/unit/dags/test_new_action.py`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx
import pytest
from confluent_kafka import Producer
from coordinator_plugin.forms import FORMS

from coordinator_tasks.adapters.kafka import ConfluentGroupOffsets, ConfluentKafkaAdmin
from coordinator_tasks.core.model import ActionRecord, Actor, Committed, Fleet
from coordinator_tasks.devstack.embedded.airflow import EmbeddedAirflow
from coordinator_tasks.devstack.embedded.errors import AirflowUnavailable
from coordinator_tasks.devstack.embedded.kafka import EmbeddedKafka
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.service.actions.action import ONCE
from coordinator_tasks.service.actions.declarations import ACTIONS
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.fleets.redeployment import all_stable
from coordinator_tasks.service.nodes import action_log, fleet, history
from coordinator_tasks.service.offsets import positions
from coordinator_tasks.service.plan import plans_to_approve
from coordinator_tasks.settings import Settings
from coordinator_tasks.wiring import open_coordinator, settings_from_environment
from tests.airflow_access import signed_in
from tests.airflow_calls import FINAL_STATES, clear_tasks, xcom
from tests.integration.action_table import APPLICATION, BUDGET_MOVES, TABLE, WHY, Nodes, owners
from tests.integration.airflow_site import ROOT, added, airflow_of, cluster_of, eventually
from tests.integration.stub_consumer import StubConsumer

pytestmark = [pytest.mark.integration, pytest.mark.clusters, pytest.mark.timeout(900)]
LIMIT_S = 120.0
STEP_S = 0.25
PARTITIONS = {"approved": 8, "upgraded": 4}
"""Of these topics; the others have two."""
OF_ALL = ("added", "removed", "strategy", "paused", "frozen", "reset", "imported")
"""Topics that no action moves. All topics are planned as one, so a topic whose partitions an action moves has consumers of its own."""
CONSUMERS: Mapping[str, tuple[str, ...]] = {
    "a": OF_ALL,
    "b": OF_ALL,
    "c-1": ("approved", "back"),
    "d-1": ("drained",),
    "e-1": ("none",),
    "g-1": ("grown",),
    "i-1": ("isolated",),
    "p-1": ("pinned",),
    "p-2": ("pinned",),
    "rd-1": ("none",),
    "rd-2": ("none",),
    "s": ("drained",),
    "t": ("isolated",),
    "u-1": ("upgraded",),
}
"""Who is there from the beginning, and the topics that each of them wants."""
LATER = {"c-2": ("approved", "back")}
FLEETS = {
    "drained": ["d-1"],
    "grown": ["g-1"],
    "redeployed": ["rd-1", "rd-2"],
    "scaled": ["sc-1"],
    "upgraded": ["u-1"],
}
PERSON, STRANGER = "admin", "guest"
"""Accounts in Airflow: the second one may start forms, and may not approve."""
BUDGET = {"COORDINATOR_BUDGET_MOVES": str(BUDGET_MOVES), "COORDINATOR_BUDGET_APPROVERS": PERSON}
FOLDERS = ("config", "directives", "fleet", "upgrades", "history/:growth", "assignments")
REFUSED_AGAIN = ("upgrade", "redeploy")
"""Actions whose second request is refused, while a second try of the same task is none."""
Asked: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of an action and its parameters."""


# A site --------------------------------------------------------------------------------------------------------------


@dataclass
class ActionSite:
    """A cluster with the topics, consumers and fleets of the table; `words` are those that stand in braces there."""

    settings: Settings
    environment: Mapping[str, str]
    c: Coordinator
    stack: ExitStack
    words: dict[str, str] = field(default_factory=dict)

    @property
    def nodes(self) -> Nodes:
        """What stands in ZooKeeper."""
        zk, base, found = self.c.zk, self.c.paths.base, {}
        for folder in FOLDERS:
            names = zk.children(f"{base}/{folder}") if zk.find(f"{base}/{folder}") is not None else []
            for name in names:
                node = zk.find(f"{base}/{folder}/{name}")
                if node is not None and node.data:
                    found[f"{folder}/{name}"] = json.loads(node.data)
        return found

    def resolved(self, value: Any) -> Any:
        """The value with the words of this site."""
        match value:
            case str():
                return self.words.get(value, value)
            case list() | tuple():
                return type(value)(self.resolved(one) for one in value)
            case dict():
                return {name: self.resolved(one) for name, one in value.items()}
        return value

    def starts(self, consumer: str, wanted: tuple[str, ...]) -> None:
        stub = StubConsumer(self.settings, consumer, wanted, step_s=STEP_S)
        stub.lag = 0
        self.stack.enter_context(stub)

    @property
    def everything(self) -> dict[str, Any]:
        """Every znode of the cluster with its version, and what is committed of each topic.

        Left out is how far everything is behind, which the loop keeps by itself, a moment a minute.
        """
        zk, found, group = self.c.zk, dict[str, Any](), self.words["{group}"]
        tree = [self.c.paths.base]
        for path in tree:
            node = zk.find(path)
            if node is not None:
                found[path] = node.data, node.stat.version
                tree += [f"{path}/{child}" for child in zk.children(path) if child != ":lag"]
        wanted = {topic: range(PARTITIONS.get(topic, 2)) for topic in sorted(names())}
        return {**found, "committed": self.c.kafka.committed({group: wanted})[group]}

    def prepare(self) -> None:
        """Everything that the table names, until all of it stands still."""
        c = self.c
        group = self.words["{group}"] = f"group-{self.settings.cluster}"
        self.words["{paused}"] = f"by {PERSON}: {WHY}"
        for app, consumers in FLEETS.items():
            fleet.set_fleet(c, Fleet(app, APPLICATION, tuple(consumers), code="v1"))
        for consumer, wanted in CONSUMERS.items():
            self.starts(consumer, wanted)
        for topic in sorted(names() - {"added"}):
            eventually(lambda topic=topic: added(c, topic, group))
        for topic in ("reset", "imported"):
            ConfluentGroupOffsets(self.settings.kafka, group).commit(topic, dict.fromkeys((0, 1), Committed(80)))
        self.stack.enter_context(planning(self.environment))
        settled = {topic: sorted(who for who, all_of in CONSUMERS.items() if topic in all_of) for topic in OF_ALL[1:]}
        settled |= {"back": ["c-1"], "drained": ["d-1", "s"], "isolated": ["i-1", "t"], "pinned": ["p-1", "p-2"]}
        settled |= {"approved": ["c-1"], "grown": ["g-1"], "upgraded": ["u-1"]}
        eventually(lambda: self.stand(settled))
        self.starts("c-2", LATER["c-2"])
        eventually(lambda: self.stand({"back": ["c-1", "c-2"]}))
        self.words["{rebalance}"] = history.rebalances(c, ["back"], 1)[0].rebalance
        self.words["{digest}"] = eventually(lambda: plans_to_approve.waiting(c, ["approved"]))["approved"].digest

    def stand(self, settled: Mapping[str, list[str]]) -> bool:
        """Whether these topics are Stable with these owners, and all others Stable."""
        nodes = self.nodes
        return all(owners(topic)(nodes) == who for topic, who in settled.items()) and all_stable(self.c)

    def shown(self, names: Sequence[str]) -> dict[str, Any]:
        """What is to be seen of these actions."""
        nodes = self.nodes
        return {name: TABLE[name].shows(nodes) for name in names}

    def given(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters for this site, with a reason if the action takes one."""
        reason = {"why": WHY} if any(one.name == "why" for one in ACTIONS[name].parameters) else {}
        return {**reason, **self.resolved(dict(given))}


def names() -> set[str]:
    """The topics of the table."""
    found = {topic for wanted in (*CONSUMERS.values(), *LATER.values()) for topic in wanted}
    return found - {"none"}


@contextmanager
def planning(environment: Mapping[str, str]) -> Iterator[None]:
    """`coordinator run` as a process of its own."""
    loop = subprocess.Popen(
        [sys.executable, "-m", "coordinator_tasks", "run"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert loop.poll() is None, "the loop has ended"
        loop.terminate()
        assert loop.wait(15) == 0, "SIGTERM ends the loop"
    finally:
        loop.kill()
        loop.wait()


# Forms ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Told:
    """How an action has ended, and all that it has said; `run` of Airflow, if there was one."""

    done: bool
    said: str
    run: str = ""


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms in Airflow: each call starts a run, and its result waits for the action's task."""

    site: ActionSite
    airflow: EmbeddedAirflow
    question: dict[str, Any] = field(default_factory=dict)
    refusals: list[httpx.Response] = field(default_factory=list)
    """What Airflow has said to the stranger's answer."""

    def ask(self, name: str, given: Mapping[str, Any]) -> Callable[[], Told]:
        action = ACTIONS[name]
        conf = {one.name: given[one.name] for one in action.parameters if one.form is not None and one.name in given}
        match name:
            case "approve":
                return self._answered({one: given[one] for one in ("topic", "digest")})
            case "autoscale":
                return self._looked()
            case _:
                return self._begun(name, name, conf if action.reads else {**conf, "dry_run": False})

    def again(self, name: str, run: str) -> Told:
        """Clear the task, so that Airflow tries it once more."""
        clear_tasks(self.airflow.client, name, run, [name])
        return self._ended(name, name, run)

    def _answered(self, plan: Mapping[str, str]) -> Callable[[], Told]:
        """The run in which a person answers: `reconcile` begins it for a plan that waits, a person for any other one."""
        client, dag, task = self.airflow.client, "approve_plan", "ask"
        asked = [one["conf"] for one in client.dag_runs(dag)]
        if plan["digest"] != self.site.words["{digest}"] or plan in asked:
            return self._begun(dag, task, plan)
        client.set_paused("reconcile", False)

        def ended() -> Told:
            run = eventually(lambda: [one for one in client.dag_runs(dag) if one["conf"] == plan])[0]["dag_run_id"]
            client.set_paused("reconcile", True)
            return self._ended(dag, task, run)

        return ended

    def _looked(self) -> Callable[[], Told]:
        """A person asks for a look; `reconcile`, which asks each minute, is paused."""
        self.airflow.client.set_paused("autoscale", False)
        return self._begun("autoscale", "look", {})

    def _begun(self, dag: str, task: str, conf: Mapping[str, Any]) -> Callable[[], Told]:
        try:
            run = self.airflow.client.trigger(dag, conf)
        except AirflowUnavailable as error:
            refusal = Told(False, str(error))
            return lambda: refusal
        return lambda: self._ended(dag, task, run)

    def _ended(self, dag: str, task: str, run: str) -> Told:
        client = self.airflow.client

        def ended() -> str:
            found = {one["task_id"]: one["state"] for one in client.task_instances(dag, run)}
            if found.get("ask") in ("awaiting_input", "deferred"):
                self._approve(run)
            state = found.get(task) or ""
            return state if state in (*FINAL_STATES, "skipped", "upstream_failed") else ""

        try:
            state = eventually(ended, LIMIT_S)
        except AssertionError as late:
            return Told(False, f"{task} of {dag} has not ended {late}", run)
        if state == "success":
            return Told(True, "\n".join(xcom(client, dag, run, task)), run)
        path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/1"
        return Told(False, json.dumps(client.request("GET", path, params={"full_content": True})), run)

    def _approve(self, run: str) -> None:
        path = f"/dags/approve_plan/dagRuns/{run}/taskInstances/ask/-1/hitlDetails"
        with suppress(AirflowUnavailable):  # the question is not there yet, or answered already
            self.question.update(self.airflow.client.request("GET", path))
            answer = {"chosen_options": ["Approve"], "params_input": {}}
            passwords = json.loads((self.airflow.home / "passwords.json").read_text())
            with signed_in(self.airflow.base_url, STRANGER, passwords[STRANGER]) as stranger:
                self.refusals.append(stranger.patch(f"/api/v2{path}", json=answer))
            self.airflow.client.request("PATCH", path, json=answer)


# What is done --------------------------------------------------------------------------------------------------------


@dataclass
class Result:
    """What came of one action: told and shown at first, and a second time."""

    before: Any
    told: list[Told] = field(default_factory=list)
    shown: list[Any] = field(default_factory=list)


@dataclass
class Everything:
    """All results. `untouched`: what bad input has changed; `others`: further requests by a key for each."""

    forms: Forms
    results: dict[str, Result] = field(default_factory=dict)
    untouched: set[str] = field(default_factory=set)
    others: dict[str, Told] = field(default_factory=dict)

    def ask(self, asked: Mapping[str, Asked]) -> dict[str, Told]:
        """Ask for all of these at once; key → the result."""
        given = self.forms.site.given
        wait = {key: self.forms.ask(name, given(name, more)) for key, (name, more) in asked.items()}
        return {key: told() for key, told in wait.items()}

    def turn(self, rows: Sequence[str], beside: Mapping[str, Asked]) -> None:
        """Do these actions, wait for what they do, and do them again."""
        site = self.forms.site
        self.results |= {name: Result(before=shown) for name, shown in site.shown(rows).items()}
        mine = {name: (name, TABLE[name].given) for name in rows}
        told = self.ask({**mine, **beside})
        self.others |= {key: told[key] for key in beside}
        wanted = {name: site.resolved(TABLE[name].after) for name in rows}
        with suppress(AssertionError):  # the test of the action says what is missing
            eventually(lambda: site.shown(rows) == wanted, LIMIT_S)
        self._keep(told, rows)
        self._keep(self.ask(mine), rows)

    def _keep(self, told: Mapping[str, Told], rows: Sequence[str]) -> None:
        for name, shown in self.forms.site.shown(rows).items():
            self.results[name].told.append(told[name])
            self.results[name].shown.append(shown)


def has_form(name: str) -> bool:
    """Whether a person can give it something in Airflow: `autoscale` has a DAG without parameters."""
    return bool(ACTIONS[name].form) or name == "approve"


def bad_of(name: str, *, later: bool) -> dict[str, Asked]:
    """The bad input of an action, by a key for each."""
    row = TABLE[name]
    return {
        f"bad {name} {number}": (name, {**row.given, **one.given})
        for number, one in enumerate(row.bad)
        if one.later is later
    }


@pytest.fixture(scope="module")
def everything(
    zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, airflow_factory: Callable[..., EmbeddedAirflow]
) -> Iterator[Everything]:
    """All actions are done, again, and with bad input, turn by turn."""
    make_topics({"bootstrap.servers": kafka.bootstrap_servers})
    with ExitStack() as stack:
        site = opened(zookeeper, kafka, stack)
        env = {**BUDGET, "COORDINATOR_DAGS_PAUSED": "true"}
        users = {"core.simple_auth_manager_users": f"{PERSON}:admin,{STRANGER}:op"}
        dags = {"approve_plan", "autoscale", "reconcile", *FORMS}
        site.prepare()
        airflow = stack.enter_context(airflow_of(site.settings, airflow_factory, dags, env=env, options=users))
        for dag in sorted(dags - {"autoscale", "reconcile"}):
            airflow.client.set_paused(dag, False)
        found = Everything(Forms(site, airflow))
        do_everything(found)
        yield found


def make_topics(servers: Mapping[str, str]) -> None:
    """The topics of the table, with 100 records in each partition of those whose offsets are changed."""
    admin, producer = ConfluentKafkaAdmin(servers), Producer({**servers})
    for topic in sorted(names()):
        admin.create_topic(topic, PARTITIONS.get(topic, 2))
    for topic in ("reset", "imported"):
        for number in range(200):
            producer.produce(topic, b"x", partition=number % 2)
    producer.flush()


def opened(zookeeper: EmbeddedZooKeeper, kafka: EmbeddedKafka, stack: ExitStack) -> ActionSite:
    """A new cluster, whose settings stand in the environment."""
    environment = {
        "COORDINATOR_CLUSTER": cluster_of(zookeeper, kafka).cluster,
        "COORDINATOR_ZOOKEEPER": zookeeper.connect_string,
        "COORDINATOR_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        **BUDGET,
        "COORDINATOR_POLICY_SETTLE_S": "0.2",
    }
    settings = settings_from_environment(environment)
    return ActionSite(settings, environment, stack.enter_context(open_coordinator(settings)), stack)


def do_everything(found: Everything) -> None:
    site, turns = found.forms.site, dict[int, list[str]]()
    for name, row in TABLE.items():
        turns.setdefault(row.turn, []).append(name)
    found.turn(turns[0], {})
    before = site.everything
    bad = {key: asked for name in TABLE if has_form(name) for key, asked in bad_of(name, later=False).items()}
    found.others |= found.ask(bad)
    after = site.everything
    found.untouched = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    found.turn(turns[1], {})
    found.turn(turns[2], {})
    for name in REFUSED_AGAIN:
        found.others[f"tried {name}"] = found.forms.again(name, found.results[name].told[0].run)
    back = {f"back {name}": (name, {**row.given, **row.back}) for name, row in TABLE.items() if row.back}
    found.turn(turns[3], back)
    found.turn(turns[4], bad_of("upgrade", later=True))
    found.turn(turns[5], {})


# What is asked of each of them ---------------------------------------------------------------------------------------


def test_every_action_stands_in_the_table() -> None:
    assert TABLE.keys() == ACTIONS.keys()
    assert all(row.bad for name, row in TABLE.items() if has_form(name))


@pytest.mark.parametrize("name", TABLE)
def test_it_has_its_effect(everything: Everything, name: str) -> None:
    row, found, site = TABLE[name], everything.results[name], everything.forms.site
    assert found.told[0].done, found.told[0].said
    assert row.says in found.told[0].said
    assert (found.before, found.shown[0]) == (site.resolved(row.before), site.resolved(row.after))
    if row.back:
        taken_back = everything.others[f"back {name}"]
        assert taken_back.done, taken_back.said
        assert site.shown([name])[name] == site.resolved(row.before)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.changed[0]])
def test_the_history_says_who_why_and_what_it_was_before(everything: Everything, name: str) -> None:
    row, site = TABLE[name], everything.forms.site
    found = asked_for(site, name)
    assert len(found) == 1 + row.renews + bool(row.back), "neither bad input nor the same again is recorded"
    first = found[-1]
    check_actor(first.actor, name)
    assert first.why == site.given(name, {}).get("why", "") or name in ("approve", "autoscale")
    (change,) = [one for one in first.changes if (one.node, one.field) == row.changed]
    was = json.loads(change.before or "null")
    if isinstance(was, dict) and isinstance(row.was, dict):
        was = {key: was.get(key) for key in row.was}
    assert was == site.resolved(row.was)
    assert change.after != change.before


def asked_for(site: ActionSite, name: str) -> list[ActionRecord]:
    """The records of an action, newest first."""
    given = site.resolved(dict(TABLE[name].given))
    about = next(given[one] for one in ("topic", "consumer", "app") if one in given)
    return [one for one in action_log.asked(site.c, about, 500) if one.action == name]


def check_actor(actor: Actor, name: str) -> None:
    dag = "approve_plan" if name == "approve" else name
    assert (actor.kind, actor.dag, actor.who) == ("airflow", dag, PERSON)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.reset])
def test_the_history_of_a_topic_says_who_has_reset_it_why_and_from_where(everything: Everything, name: str) -> None:
    row, site = TABLE[name], everything.forms.site
    plans = [
        (record.plan, record.actor, one.cause)
        for one in history.rebalances(site.c, [row.reset])
        for record in one.records
        if record.plan is not None and record.plan.strategy == positions.RESET
    ]
    mine = [one for one in plans if bool(one[0].undoes) == (name == "undo_offsets")]
    assert len(mine) == 1 + row.renews
    plan, actor, cause = mine[-1]
    check_actor(actor, name)
    assert {str(partition): offset for partition, offset in plan.was_at.items()} == row.was
    assert cause.endswith(f"(by {actor.who}: {WHY})")


@pytest.mark.parametrize("name", TABLE)
def test_the_same_again_changes_nothing_or_says_so(everything: Everything, name: str) -> None:
    row, found = TABLE[name], everything.results[name]
    again = found.told[1]
    assert again.done or (row.again and row.again in again.said), again.said
    assert found.shown[1] == everything.forms.site.resolved(row.after)


@pytest.mark.parametrize("name", REFUSED_AGAIN)
def test_a_task_that_is_tried_again_is_not_refused_for_what_it_has_done(everything: Everything, name: str) -> None:
    told = everything.others[f"tried {name}"]
    assert (told.done, told.said) == (True, ONCE)


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name in TABLE if has_form(name) for number in range(len(TABLE[name].bad))]
)
def test_bad_input_is_refused_with_a_sentence(everything: Everything, name: str, number: int) -> None:
    told = everything.others[f"bad {name} {number}"]
    assert not told.done, told.said
    assert TABLE[name].bad[number].says in told.said


def test_bad_input_changes_nothing(everything: Everything) -> None:
    assert everything.untouched == set()


def test_the_question_about_a_plan_names_it_and_is_answered_only_by_who_may_approve(everything: Everything) -> None:
    forms = everything.forms
    assert forms.question["subject"] == "approved: a plan waits for approval"
    assert "4 partitions would move" in forms.question["body"]
    assert forms.site.words["{digest}"] in forms.question["body"]
    assert [one["id"] for one in forms.question["assigned_users"]] == [PERSON]
    assert {one.status_code for one in forms.refusals} == {403}
