"""Templates of a consumer, a znode or a form have no effect, although Airflow renders the tasks."""

import json
import runpy
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models import TaskInstance
from airflow.providers.common.compat.sdk import DagRunTriggerException
from airflow.providers.standard.operators import hitl
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    ParamValidationError,
    TaskAwaitingInput,
    TaskDeferred,
)
from airflow.sdk.execution_time.context import MacrosAccessor, OutletEventAccessors
from airflow.sdk.execution_time.task_runner import _render_map_index, _serialize_rendered_fields
from coordinator_plugin import hook, launch
from coordinator_plugin.forms import FORMS
from coordinator_plugin.site_options import OPTIONS

from coordinator_tasks.adapters.discovery import claim_incarnation
from coordinator_tasks.core.codecs import codec
from coordinator_tasks.core.model import ConsumerStatus, Fleet, Silence, State, TopicStatus, Unreachable
from coordinator_tasks.core.names import MAX_TOPIC_CHARS
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.service.nodes import directives, fleet, topics
from coordinator_tasks.service.plan import transitions
from tests.fakes.cluster import PERSON, Cluster

DAGS = Path(__file__).parents[3] / "dags"
PLANTED, EFFECT = "{{ 'ran' ~ 'as' ~ 'template' }}", "ranastemplate"


@pytest.fixture(scope="module")
def dags() -> dict[str, DAG]:
    found = (one for file in sorted(DAGS.glob("*.py")) for one in runpy.run_path(str(file)).values())
    return {one.dag_id: one for one in found if isinstance(one, DAG)}


@pytest.fixture
def touched(tmp_path: Path) -> Path:
    return tmp_path / "touched"


@pytest.fixture
def template(touched: Path) -> str:
    return f"{{{{ macros.uuid.os.system('touch {touched}') }}}}{PLANTED}"


@dataclass
class Instance:
    """A task instance with Airflow's context, and all its visible results."""

    dag: DAG
    task_id: str
    conf: Mapping[str, Any] = field(default_factory=dict)
    xcoms: Mapping[str, Any] = field(default_factory=dict)
    map_index: int = -1
    left: dict[str, Any] = field(default_factory=dict)
    task: Any = None
    run_id: str = "run"
    try_number: int = 1
    id: str = "7"

    @property
    def dag_id(self) -> str:
        return self.dag.dag_id

    def xcom_pull(self, task_ids: str, **_: Any) -> Any:
        return self.xcoms[task_ids]

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[f"xcom {key}"] = value

    def get_dr_count(self, *_: Any, **__: Any) -> int:
        return 0

    def get_dag(self, _: str) -> SimpleNamespace:
        return SimpleNamespace(is_paused=False)

    def run(self) -> "Instance":
        """Render and execute as Airflow's task runner."""
        self.task = self.dag.get_task(self.task_id).prepare_for_execution()
        run = SimpleNamespace(
            conf=self.conf,
            run_id=self.run_id,
            run_type="manual",
            triggering_user_name="ada",
            start_date=datetime.now(UTC),
        )
        context: Any = {
            "dag": self.dag,
            "dag_run": run,
            "inlet_events": defaultdict(lambda: SimpleNamespace(after=lambda _: [])),
            "outlet_events": OutletEventAccessors(),
            "triggering_asset_events": {},
            "macros": MacrosAccessor(),
            "map_index_template": self.task.map_index_template,
            "params": process_params(self.dag, self.task, dict(self.conf), suppress_exception=False),
            "run_id": self.run_id,
            "task": self.task,
            "ti": self,
            "task_instance": self,
        }
        self.task.render_template_fields(context, self.dag.get_template_env())
        self.left["rendered"] = _serialize_rendered_fields(self.task)
        try:
            self.left["xcom"] = self.task.execute(context)
        except DagRunTriggerException as started:
            self.left["run"] = {"id": started.dag_run_id, "conf": started.conf}
        except TaskDeferred as deferred:
            self.left["trigger"] = deferred.trigger.serialize()
        except (TaskAwaitingInput, AirflowSkipException, AirflowFailException) as ended:
            self.left["ended"] = str(ended)
        self.left["events"] = [
            [event.extra for event in context["outlet_events"][one].asset_alias_events] for one in self.task.outlets
        ]
        self.left["label"] = _render_map_index(context, self, _NO_LOG)  # type: ignore[arg-type]
        return self


_NO_LOG: Any = SimpleNamespace(debug=lambda *_, **__: None)


def without_effect(touched: Path, *instances: Instance) -> bool:
    """Whether no command ran, and no shown text has the rendered template."""
    shown = json.dumps([one.left for one in instances], default=str)
    assert not touched.exists(), "a command has run"
    assert EFFECT not in shown
    return True


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, template: str) -> Iterator[Cluster]:
    """A topic that waits for its consumer, with a template in every text of consumers and znodes."""
    cluster = Cluster()
    cluster.kafka.create_topic("orders", 4)
    topics.add_topic(cluster.coordinator, "orders", "g", actor=PERSON)
    member = cluster.join("a")
    cluster.statuses.answers["a"] = ConsumerStatus("a", cluster.name, member.incarnation, "boot", "ok")
    transitions.plan(cluster.coordinator, ["orders"], PERSON)
    state = cluster.paths.state("orders")
    lied = json.loads(cluster.zk.get(state).data) | {"cause": template, "rebalance": template}
    lied["restarts"] = {template: 1}
    honest = json.loads(cluster.zk.get(cluster.paths.member("a")).data)
    incarnation = claim_incarnation(cluster.zk, cluster.paths, "b", 1)
    other: dict[str, Any] = {"consumer": "b", "incarnation": incarnation, "address": f"http://b:1/{template}"}
    cluster.zk.transact(
        [
            SetData(state, json.dumps(lied).encode()),
            SetData(
                cluster.paths.member("a"),
                json.dumps(honest | {"rack": template, "attributes": {"zone": template}}).encode(),
            ),
            Create(cluster.paths.member("b"), json.dumps(honest | other).encode()),
            Create(f"{cluster.paths.members}/{PLANTED}", b"{}"),
        ]
    )
    directives.isolate(cluster.coordinator, "b", by=template, why=template)
    fleet.set_fleet(
        cluster.coordinator, Fleet("billing", template, ("late",), (f"--x={template}",), {"spark.x": template})
    )
    cluster.clock.sleep(cluster.policy.stuck_after_s + 1)
    monkeypatch.setattr(hook.CoordinatorHook, "open", lambda _: nullcontext(cluster.coordinator))
    plain = {"cluster": "shop", "zookeeper": "z:2181", "kafka": {"bootstrap.servers": "b:9092"}}
    monkeypatch.setattr(hook.CoordinatorHook, "plain_settings", lambda _: plain)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    monkeypatch.setenv(OPTIONS["run_base"].variable, str(tmp_path))
    monkeypatch.setenv(OPTIONS["let_go"].variable, "yes")
    yield cluster
    assert codec.decode_state(state, cluster.zk.get(state).data).state is State.STARTING


def silent(template: str) -> Unreachable:
    return Unreachable(Silence.BROKEN, f"http://a:1/{template} answers with HTTP 404")


def foreign(template: str) -> Unreachable:
    return Unreachable(Silence.FOREIGN, f"http://a:1 is {template!r} of cluster {template!r}, incarnation 1")


def chatty(template: str) -> ConsumerStatus:
    told = TopicStatus(template, 0, {}, {}, reports=(template,), last_batch={template: 1.0})
    return ConsumerStatus("a", "shop", 1, template, template, {"orders": told}, (template,))


def test_a_template_among_the_arguments_of_an_ordinary_operator_would_run(touched: Path, template: str) -> None:
    """Proof that the other tests of this file would notice a rendering."""
    with DAG("ordinary") as dag:
        TriggerDagRunOperator.partial(task_id="wake", trigger_dag_id="x").expand_kwargs([{"conf": {"s": template}}])
    done = Instance(dag, "wake", map_index=0)
    with pytest.raises(AssertionError, match="a command has run"):
        without_effect(touched, done.run())
    touched.unlink()
    with pytest.raises(AssertionError, match=EFFECT):
        without_effect(touched, Instance(dag, "wake", map_index=0, left={"x": f"0{EFFECT}"}))


def test_the_label_of_a_run_for_the_longest_topic_fits_into_airflows_database(dags: dict[str, DAG]) -> None:
    """PostgreSQL refuses a longer value, and the task would fail after starting the run."""
    column: Any = TaskInstance.__table__.columns["rendered_map_index"]
    topic = "t" * MAX_TOPIC_CHARS
    found = [{"trigger_dag_id": "stuck_topic", "conf": {"topic": topic, "consumer": "a"}}]
    woken = Instance(dags["reconcile"], "wake", xcoms={"look": found}, map_index=0).run()
    assert woken.left["label"] == f"stuck_topic {topic}"[: column.type.length]


@pytest.mark.parametrize("answer", [silent, foreign, chatty])
def test_what_a_consumer_says_is_asked_about_as_it_is(
    shop: Cluster, dags: dict[str, DAG], touched: Path, template: str, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **shown: asked.append(shown))
    shop.statuses.answers["a"] = answer(template)
    look = Instance(dags["reconcile"], "look").run()
    found = look.left["xcom"]
    wakes = [Instance(dags["reconcile"], "wake", xcoms={"look": found}, map_index=n).run() for n in range(len(found))]
    (stuck,) = [one for one in wakes if one.left["label"] == "stuck_topic orders"]
    assert stuck.left["run"]["conf"] == {"topic": "orders", "consumer": "a"}
    ask = Instance(dags["stuck_topic"], "ask", stuck.left["run"]["conf"]).run()
    (shown,) = asked
    ask.left["shown"] = {name: value for name, value in shown.items() if name in ("subject", "body", "options")}
    assert without_effect(touched, look, *wakes, ask)
    assert shown["subject"] == "orders is held up by a"
    (line,) = [line for line in shown["body"].splitlines() if template in line]
    assert line.startswith("    a "), "a code block shows it as it is"


def test_a_fleet_is_launched_as_it_is_and_stands_in_no_xcom(
    shop: Cluster, dags: dict[str, DAG], touched: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def submit(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return SimpleNamespace(returncode=0, stdout=json.dumps({"started": True, "pid": 1, "log": "l"}), stderr="")

    monkeypatch.setattr(launch, "subprocess", SimpleNamespace(run=submit, DEVNULL=subprocess.DEVNULL))
    missing = Instance(dags["consumers"], "missing", conf={"app": "billing"}).run()
    assert missing.left["xcom"] == [{"consumer": "late"}]
    launched = Instance(dags["consumers"], "launch", xcoms={"missing": missing.left["xcom"]}, map_index=0).run()
    assert without_effect(touched, missing, launched)
    assert launched.left["label"] == "late"
    assert template not in json.dumps([missing.left, launched.left])
    (command,) = commands
    assert {template, f"--x={template}", f"spark.x={template}"} <= set(command)


def test_what_left_its_fleet_is_not_launched(shop: Cluster, dags: dict[str, DAG]) -> None:
    fleet.set_fleet(shop.coordinator, Fleet("billing", "app.py", ()))
    launched = Instance(dags["consumers"], "launch", xcoms={"missing": [{"consumer": "late"}]}, map_index=0).run()
    assert launched.left["ended"] == "late is in no fleet any more: nothing is launched"


def test_a_form_says_it_as_it_is(shop: Cluster, dags: dict[str, DAG], touched: Path, template: str) -> None:
    given = {
        **dict.fromkeys(("group_id", "strategy", "why", "to"), template),
        "topic": "orders",
        "consumer": "a",
        "partitions": [0],
        "parameters": {template: template},
        "app": "billing",
        "application": template,
        "consumers": ["late"],
        "arguments": [template],
        "count": 2,
        "most": 3,
        "pattern": "late-{}",
        "offsets": f"{template},0,1",
        "rebalance": template[template.rindex("{{") :],
        "version": "v2",
        "database": "rows",
        "number": 1,
    }
    forms = [dag for dag_id, dag in dags.items() if "action" in dag.tags]
    assert len(forms) == len(FORMS)
    done = [
        Instance(dag, dag.dag_id, {"dry_run": dry_run} | {n: v for n, v in given.items() if n in dag.params}).run()
        for dag in forms
        for dry_run in ((True, False) if dag.dag_id == "isolate" else (True,))
    ]
    assert without_effect(touched, *done)
    assert template in json.dumps([one.left for one in done])
    assert directives.read_directive(shop.coordinator, "a").isolation.why == template


def test_a_dry_run_has_done_nothing_and_leaves_what_it_would_do(shop: Cluster, dags: dict[str, DAG]) -> None:
    given = {"topic": "orders", "partitions": [0]}
    tried, done = (
        Instance(dags["pause"], "pause", {**given, "dry_run": dry_run}).run().left for dry_run in (True, False)
    )
    assert tried["ended"].startswith("dry run: nothing was changed")
    assert tried["xcom return_value"] == ["partition 0 of orders would be paused"]
    assert done["xcom"] == ["the next plan pauses partition 0 of topic orders"]


@pytest.mark.parametrize("name", ["topic", "consumer"])
@pytest.mark.parametrize("dag_id", ["stuck_topic", "drain", "pin"])
def test_a_name_that_is_a_template_is_refused(
    shop: Cluster, dags: dict[str, DAG], touched: Path, template: str, dag_id: str, name: str
) -> None:
    dag = dags[dag_id]
    given = {"topic": "orders", "consumer": "a", "partitions": [0], name: template}
    fitting = {one: value for one, value in given.items() if one in dag.params}
    if name in fitting:
        with pytest.raises(ParamValidationError):
            Instance(dag, dag.task_ids[0], fitting).run()
    assert not touched.exists()


@pytest.mark.parametrize("task_id", ["plan", "confirm_closed", "start", "confirm_started", "settle", "further_run"])
def test_topics_of_a_run_are_names_and_no_templates(
    shop: Cluster, dags: dict[str, DAG], touched: Path, template: str, task_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(dags["rebalance"].get_task("plan")), "skip", lambda *_: None)
    for named in ([template], ["orders"], []):
        done = Instance(dags["rebalance"], task_id, {"topics": named, "dry_run": task_id == "plan"}).run()
        assert without_effect(touched, done)
        if task_id == "plan" and named == [template]:
            assert "cannot be a topic name" in done.left["ended"]
        elif task_id in ("plan", "start", "settle"):
            assert [one["topic"] for one in done.left["xcom"]] == (named or ["orders"])


def test_a_readmission_is_in_force_with_the_plan_that_it_has_woken(
    shop: Cluster, dags: dict[str, DAG], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(dags["rebalance"].get_task("plan")), "skip", lambda *_: None)
    member = shop.join("z")
    directives.isolate(shop.coordinator, "z", by="ada", why="disk")
    directives.readmit(shop.coordinator, "z", "ada")
    path = shop.paths.topic("orders")
    node = codec.decode_node(path, shop.zk.get(path).data)
    acted = {"orders": TopicStatus(node.generation, node.epoch)}
    shop.statuses.answers["z"] = ConsumerStatus("z", shop.name, member.incarnation, member.boot_id, "ok", acted)
    isolated = []
    for dry_run in (True, False):
        Instance(dags["rebalance"], "plan", {"dry_run": dry_run}).run()
        isolated.append(directives.read_directive(shop.coordinator, "z").isolation is not None)
    assert isolated == [True, False]
