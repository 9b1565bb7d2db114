"""Every DAG parses without connections, tells what it is for, and imports no client."""

import re
from pathlib import Path
from typing import Any

import pytest
from coordinator_plugin.forms import FORMS

from tests.airflow_process import said_by_airflow

ROOT = Path(__file__).parents[3]
# In a process of its own: Airflow reads its configuration when it is imported, and leaves much behind.
PROGRAM = """
import json, runpy, sys
from pathlib import Path
import airflow.sdk, airflow.serialization.definitions.dag
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization
found = {}
for file in sorted(Path(sys.argv[1]).glob("*.py")):
    for dag in runpy.run_path(str(file)).values():
        if not isinstance(dag, DAG) or dag.dag_id in found:
            continue
        DagSerialization.to_dict(dag)
        dag.validate()
        found[dag.dag_id] = {
            "tags": sorted(dag.tags), "doc": dag.doc_md or "", "catchup": dag.catchup, "max_active_runs": dag.max_active_runs,
            "paused": dag.is_paused_upon_creation, "schedule": str(dag.schedule),
            "limit_s": dag.dagrun_timeout.total_seconds() if dag.dagrun_timeout else None,
            "params": {n: {"value": p.value if p.has_value else None, **p.schema} for n in dag.params
                       if (p := dag.params.get_param(n))},
            "templates": {t.task_id: list(t.template_fields) for t in dag.tasks if t.template_fields},
            "tasks": {t.task_id: {"retries": t.retries, "down": sorted(t.downstream_task_ids), "rule": str(t.trigger_rule.value),
                                  "end": hasattr(t, "end_from_trigger")} for t in dag.tasks},
        }
heavy = [n for n in ("kazoo", "confluent_kafka", "pyspark", "pandas") if n in sys.modules]
print(json.dumps({"dags": found, "heavy": heavy}))
"""


def parse(home: Path, clusters: str = "") -> dict[str, Any]:
    named = {"COORDINATOR_CLUSTERS": clusters} if clusters else {}
    return said_by_airflow(PROGRAM, str(ROOT / "dags"), home=home, path=f"{ROOT}:{ROOT / 'plugins'}", **named)


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return parse(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def dags(parsed: dict[str, Any]) -> dict[str, Any]:
    return dict(parsed["dags"])


READS = {"preview", "upgrade_report"}
UPKEEP = {"rebalance", "reconcile", "consumers", "stuck_topic", "approve_plan", "autoscale"}


def test_each_says_what_it_is_for_and_waits_until_somebody_turns_it_on(dags: dict[str, Any]) -> None:
    for dag_id, dag in dags.items():
        assert "coordinator" in dag["tags"], dag_id
        assert len(dag["doc"]) > 60, dag_id
        assert dag["catchup"] is False, dag_id
        assert dag["paused"] is True, dag_id
        assert "cluster" in dag["params"], dag_id


def test_only_the_reconciliation_begins_by_the_clock_so_an_idle_minute_has_one_run(dags: dict[str, Any]) -> None:
    timed = {dag_id: dag["schedule"] for dag_id, dag in dags.items() if re.fullmatch(r"\d+:\d\d:\d\d", dag["schedule"])}
    assert timed == {"reconcile": "0:01:00"}


def test_every_task_is_tried_again_and_none_uses_the_name_that_airflow_stumbles_over(dags: dict[str, Any]) -> None:
    for dag_id, dag in dags.items():
        for task_id, task in dag["tasks"].items():
            assert task["retries"] >= 2, f"{dag_id}.{task_id}"
            assert not task["end"], f"{dag_id}.{task_id}"


def test_no_argument_of_any_task_is_a_template(dags: dict[str, Any]) -> None:
    assert {dag_id: dag["templates"] for dag_id, dag in dags.items() if dag["templates"]} == {}


def test_forms_have_titles_and_actions_begin_with_a_dry_run(dags: dict[str, Any]) -> None:
    for dag_id, dag in dags.items():
        assert all(param.get("title") for param in dag["params"].values()), dag_id
    for dag_id in FORMS.keys() - READS:
        assert dags[dag_id]["params"]["dry_run"]["value"] is True
    for dag_id in READS:
        assert "dry_run" not in dags[dag_id]["params"], "it changes nothing"
    assert dags["rebalance"]["params"]["dry_run"]["value"] is False
    assert dags["add_topic"]["params"]["start"]["enum"] == ["earliest", "latest", "none"]


def test_a_text_that_may_be_left_empty_may_be_null_or_airflows_form_does_not_let_it_be(dags: dict[str, Any]) -> None:
    fields = [field for dag_id in FORMS for field in dags[dag_id]["params"].values()]
    empty = [field["type"] for field in fields if field["value"] == ""]
    assert empty == [["null", "string"]] * len(empty)
    assert len(empty) > 10


def test_a_run_of_an_upgrade_follows_it_to_its_end(dags: dict[str, Any]) -> None:
    followed = {dag_id for dag_id, dag in dags.items() if "follow" in dag["tasks"]}
    assert followed == {"upgrade", "continue_upgrade", "roll_back_upgrade"}
    assert dags["upgrade"]["tasks"]["upgrade"]["down"] == ["follow"]
    assert dags["upgrade"]["params"]["steps"]["value"] == [5, 50, 100]


def test_a_rebalance_is_a_row_of_few_coarse_tasks(dags: dict[str, Any]) -> None:
    row = ["plan", "confirm_closed", "start", "confirm_started", "settle", "further_run"]
    tasks = dags["rebalance"]["tasks"]
    assert list(tasks) == row
    assert [tasks[task]["down"] for task in row] == [[after] for after in row[1:]] + [[]]
    assert tasks["confirm_started"]["rule"] == "none_failed"  # without a close the two tasks before are skipped
    assert dags["rebalance"]["max_active_runs"] == 4


def test_further_clusters_have_dags_of_their_own(tmp_path: Path) -> None:
    found = parse(tmp_path, "shop,eu=zookeeper_eu/kafka_eu")["dags"]
    assert found.keys() == FORMS.keys() | UPKEEP | {f"{name}__eu" for name in UPKEEP}
    assert found["drain"]["params"]["cluster"]["enum"] == ["shop", "eu"]
    assert found["rebalance__eu"]["params"]["cluster"]["enum"] == ["eu"]
