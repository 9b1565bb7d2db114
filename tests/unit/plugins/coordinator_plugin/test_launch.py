"""What a launch hands to spark-submit, on each master."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk.exceptions import AirflowException, TaskDeferred
from coordinator_plugin import cluster_mode, launch
from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.launch import LaunchConsumerOperator

from coordinator_tasks import settings
from coordinator_tasks.core.errors import Refused
from coordinator_tasks.devstack.reader_jar import SOURCES
from tests.fakes.cluster import Cluster

PASSWORD, TOKEN = "planted-password", "planted-token"


class Submitted:
    """Takes the place of spark-submit: its command and environment."""

    def __init__(self) -> None:
        self.command: list[str] = []
        self.environment: dict[str, str] = {}
        self.said = ""
        self.code = 0

    def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], _limit_s: float
    ) -> subprocess.CompletedProcess[str]:
        self.command, self.environment = list(command), dict(environment)
        told = json.dumps({"started": True, "pid": 1, "log": "driver.log", "folder": "."})
        return subprocess.CompletedProcess(self.command, self.code, told, self.said)

    def conf(self) -> dict[str, str]:
        given = [self.command[at + 1] for at, word in enumerate(self.command) if word == "--conf"]
        return dict(one.split("=", 1) for one in given)

    def after(self, word: str) -> str:
        return self.command[self.command.index(word) + 1]


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Submitted:
    found = Submitted()
    monkeypatch.setattr(launch, "_run", found)
    monkeypatch.setattr(launch, "let_go_problem", str)
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setattr(cluster_mode, "provider_problem", lambda _: "")
    return found


def launch_of(
    monkeypatch: pytest.MonkeyPatch, base: Path, master: str, mode: str, *, token: str = TOKEN, **given: Any
) -> LaunchConsumerOperator:
    connections = {
        "ZOOKEEPER_DEFAULT": {"conn_type": "generic", "host": "z:1", "extra": {"status_token": token} if token else {}},
        "KAFKA_DEFAULT": {
            "conn_type": "kafka",
            "host": "k:1",
            "login": "alice",
            "password": PASSWORD,
            "extra": {"security.protocol": "SASL_SSL"},
        },
        "SPARK_DEFAULT": {"conn_type": "spark", "host": master, "extra": {"deploy-mode": mode}},
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    return LaunchConsumerOperator(
        task_id="launch", consumer="a", cluster="main", application="main.py", base=str(base), **given
    )


Launched = Callable[..., LaunchConsumerOperator]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Launched:
    """Launches a consumer on this master in this mode."""

    def launch_on(master: str, mode: str = "cluster", **given: Any) -> LaunchConsumerOperator:
        operator = launch_of(monkeypatch, tmp_path, master, mode, **given)
        operator._launch(CoordinatorHook("main"))
        return operator

    return launch_on


def test_the_reader_in_the_jvm_asks_for_the_same_variables() -> None:
    source = (SOURCES / "partitioncoordinator/spark/SettingsFile.java").read_text()
    assert f'FILE_VARIABLE = "{cluster_mode.FILE_VARIABLE}"' in source
    assert f'SECRET_VARIABLE = "{cluster_mode.SECRET_VARIABLE}"' in source


def test_on_yarn_executors_find_settings(submitted: Submitted, launched: Launched) -> None:
    launched("yarn", "cluster")
    assert {Path(one).name for one in submitted.after("--files").split(",")} == {"settings.json", "kafka.json"}
    assert submitted.conf()[f"spark.executorEnv.{cluster_mode.FILE_VARIABLE}"] == "kafka.json"
    assert submitted.conf()[f"spark.yarn.appMasterEnv.{cluster_mode.FILE_VARIABLE}"] == "kafka.json"
    assert submitted.conf()["spark.yarn.appMasterEnv.COORDINATOR_SETTINGS"] == "settings.json"


def test_in_client_mode_only_yarn_ships_kafkas_settings_to_executors(submitted: Submitted, launched: Launched) -> None:
    launched("yarn", "client", files="own.txt")
    assert [Path(one).name for one in submitted.after("--files").split(",")] == ["own.txt", "kafka.json"]
    launched("spark://m:7077", "client")
    assert "--files" not in submitted.command, "Spark's own file server would hand them to anybody"


def test_on_yarn_only_the_fleet_starts_a_consumer_again(submitted: Submitted, launched: Launched) -> None:
    launched("yarn", "cluster")
    assert submitted.conf()["spark.yarn.maxAppAttempts"] == "1"
    launched("yarn", "cluster", conf={"spark.yarn.maxAppAttempts": "3"})
    assert submitted.conf()["spark.yarn.maxAppAttempts"] == "3"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://api:6443"])
def test_a_drivers_container_has_memory_for_python(submitted: Submitted, launched: Launched, master: str) -> None:
    launched(master, "cluster")
    assert submitted.conf()["spark.driver.minMemoryOverhead"] == "1g"
    launched(master, "cluster", conf={"spark.driver.minMemoryOverhead": "384m"})
    assert submitted.conf()["spark.driver.minMemoryOverhead"] == "384m"


@pytest.mark.usefixtures("submitted")
@pytest.mark.parametrize(
    ("master", "mode", "waits_for"),
    [("yarn", "client", "main/a"), ("yarn", "cluster", ""), ("k8s://https://api:6443", "cluster", "")],
)
def test_a_launch_is_waited_for_in_the_run_folder_only_where_the_driver_runs_beside_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shop: Cluster, master: str, mode: str, waits_for: str
) -> None:
    operator = launch_of(monkeypatch, tmp_path, master, mode)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({})
    trigger: Any = deferred.value.trigger
    assert trigger.folder == (str(tmp_path / waits_for) if waits_for else "")


def test_on_kubernetes_secrets_are_named(submitted: Submitted, launched: Launched, tmp_path: Path) -> None:
    launched("k8s://https://api:6443", "cluster")
    conf = submitted.conf()
    reference = "spark.kubernetes.{}.secretKeyRef.{}".format
    assert conf[reference("driver", settings.CONTENT_VARIABLE)] == "coordinator-main:settings.json"
    assert conf[reference("driver", cluster_mode.SECRET_VARIABLE)] == "coordinator-main:kafka.json"
    assert conf[reference("executor", cluster_mode.SECRET_VARIABLE)] == "coordinator-main:kafka.json"
    assert reference("executor", settings.CONTENT_VARIABLE) not in conf, "executors need no ZooKeeper"
    assert "--files" not in submitted.command
    assert not [one for one in conf if one.endswith(("COORDINATOR_SETTINGS", cluster_mode.FILE_VARIABLE))]
    assert not list(tmp_path.rglob("*.json"))


def test_a_site_names_the_secret_of_its_cluster() -> None:
    conf = cluster_mode.kubernetes_conf("Main", {cluster_mode.KUBERNETES_SECRET_VARIABLE: "shop"})
    assert {value.partition(":")[0] for name, value in conf.items() if "secretKeyRef" in name} == {"shop"}


@pytest.mark.parametrize(
    ("master", "listen", "word"), [("yarn", "0.0.0.0:0", "host"), ("k8s://https://api:6443", "0.0.0.0:7070", "address")]
)
def test_a_driver_elsewhere_listens_openly(
    submitted: Submitted, launched: Launched, master: str, listen: str, word: str
) -> None:
    launched(master, "cluster")
    assert (submitted.after("--listen"), submitted.after("--advertise")) == (listen, word)
    launched(master, "cluster", application_args=["--listen=10.0.0.1:80"])
    assert "--advertise" not in submitted.command


def test_a_driver_elsewhere_has_a_token(submitted: Submitted, launched: Launched) -> None:
    with pytest.raises(Refused, match="no status token is set: set status_token in the extra"):
        launched("yarn", "cluster", token="")
    assert not submitted.command
    launched("yarn", "cluster", token="", application_args=["--listen", "127.0.0.1:0"])
    assert submitted.command


@pytest.mark.parametrize(
    ("master", "mode"),
    [("yarn", "cluster"), ("yarn", "client"), ("k8s://https://a:1", "cluster"), ("spark://m:1", "client")],
)
def test_no_secret_is_shown(submitted: Submitted, launched: Launched, master: str, mode: str) -> None:
    launched(master, mode)
    shown = json.dumps([submitted.command, submitted.environment])
    assert PASSWORD not in shown
    assert TOKEN not in shown


@pytest.mark.parametrize(
    ("said", "link"),
    [
        (
            "\t queue: default\n\t tracking URL: http://rm:8088/proxy/application_1_0001/\n\t user: airflow\n",
            "http://rm:8088/proxy/application_1_0001/",
        ),
        ("\t tracking URL: N/A\n", ""),
        ("\t tracking URL: javascript:alert(1)\n", ""),
        ("", ""),
    ],
)
def test_a_task_links_to_yarns_page(submitted: Submitted, launched: Launched, said: str, link: str) -> None:
    submitted.said = said
    operator = launched("yarn", "cluster")
    (found,) = operator.operator_extra_links
    assert (found.name, found.get_link(operator, ti_key=None)) == ("Spark application", link)


def test_a_failed_launch_says_its_cause(submitted: Submitted, launched: Launched) -> None:
    trace = "\tat io.netty.Handler.run(Handler.java:1)\n" * 40
    submitted.code = 1
    submitted.said = (
        f"Exception in thread main\n{trace}Caused by: java.io.IOException: no route\n{trace}\t... 20 more\n"
    )
    with pytest.raises(AirflowException, match=r"exit code 1: java\.io\.IOException: no route$"):
        launched("yarn", "cluster")
    assert len(cluster_mode.without_traces(submitted.said).splitlines()) == 2
    assert cluster_mode.cause("first\nlast\n") == "last"
    assert cluster_mode.cause("") == "it said nothing"


def test_a_program_that_takes_too_long_or_is_not_there_is_one_sentence() -> None:
    with pytest.raises(
        AirflowException, match=r"^the launch by sleep took longer than 0\.1 s, and was ended; look at the cluster"
    ):
        launch._run(["sleep", "60"], os.environ, 0.1)
    with pytest.raises(Refused, match=r"^no-such-program cannot be started \(No such file or directory\); check that"):
        launch._run(["no-such-program", "x"], os.environ, 5.0)


def test_a_missing_kubernetes_provider_is_said_first(monkeypatch: pytest.MonkeyPatch, launched: Launched) -> None:
    monkeypatch.setattr(cluster_mode, "_installed", lambda _: False)
    with pytest.raises(Refused, match=r"'spark_default' names Kubernetes.*apache-airflow-providers-cncf-kubernetes"):
        launched("k8s://https://api:6443", "cluster")
