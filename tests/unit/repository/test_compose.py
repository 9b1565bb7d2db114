"""docker-compose.yaml, checked without Docker: all named things exist, are pinned, and fit together."""

import re
from pathlib import Path
from typing import Any

import yaml
from airflow.configuration import conf
from coordinator_plugin import cluster_mode

from coordinator_tasks import __version__

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docker-compose.yaml").read_text()
EXAMPLE = (ROOT / "docs" / "compose.env.example").read_text()
VARIABLE = re.compile(r"\$\{([A-Z_]+)(:\?[^}]*)?\}")
BUILT = re.compile(rf"partition-coordinator-(airflow|spark):{re.escape(__version__)}")
VERSION = re.compile(r"\d+\.\d+(\.\d+)?")
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
WITHOUT_DIGEST = {"apache/airflow", "apache/spark"}
"""Of their tags no digest was verified; docs/dependencies.md says how a site pins them."""
KUBERNETES = ROOT / "docs" / "kubernetes"

compose: dict[str, Any] = yaml.safe_load(TEXT)
services: dict[str, dict[str, Any]] = compose["services"]
dockerfiles = {s["image"]: s["build"]["dockerfile_inline"] for s in services.values() if "build" in s}


def pin(package: str) -> str:
    found = re.search(rf"^{re.escape(package)}==(\S+) ", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert found, package
    return found[1]


def environment(service: str) -> dict[str, str]:
    """The service's environment with every variable set to `x`."""
    given: dict[str, str] = services[service].get("environment", {})
    return {name: VARIABLE.sub("x", value) for name, value in given.items()}


def bases() -> list[str]:
    """Every foreign image, by name and tag."""
    return [DIGEST.sub("", one) for one in references()]


def references() -> list[str]:
    """Every foreign image, as in the file."""
    found = [s["image"] for s in services.values() if "build" not in s]
    for text in dockerfiles.values():
        found += re.findall(r"^(?:FROM |COPY --from=)(\S+)", text, re.MULTILINE)
    return found


def test_every_image_is_pinned_to_a_version() -> None:
    for image in bases():
        name, _, tag = image.partition(":")
        assert name
        assert VERSION.search(tag), f"{image} names no version"
        assert "latest" not in tag
    assert {one.partition(":")[0] for one in references() if not DIGEST.search(one)} == WITHOUT_DIGEST
    assert all(BUILT.fullmatch(s["image"]) for s in services.values() if "build" in s)
    assert len(dockerfiles) == 2, "one image for Airflow, one for Spark and the launcher"


def test_no_process_of_the_stack_gains_rights() -> None:
    assert {name for name, s in services.items() if s.get("security_opt") == ["no-new-privileges:true"]} == {*services}
    unlimited = {name for name, s in services.items() if s["pids_limit"] < 0}
    assert unlimited == {"launcher"}, "each of its consumers is a JVM of a hundred threads"


def test_kubernetes_runs_the_images_of_this_release() -> None:
    folder = KUBERNETES
    values = yaml.safe_load((folder / "airflow-values.yaml").read_text())
    assert values["airflowVersion"] == pin("apache-airflow")
    airflow = f"{values['defaultAirflowRepository']}:{values['defaultAirflowTag']}"
    built = (folder / "airflow.Dockerfile").read_text()
    assert f"FROM {services['airflow-scheduler']['image']}\n" in built
    assert f"--tag {airflow} " in built
    dockerfile = (folder / "Dockerfile").read_text()
    assert f"FROM {services['launcher']['image']}\n" in dockerfile
    spark = next(one for one in bases() if one.startswith("apache/spark:"))
    assert f"FROM {spark} AS spark\n" in dockerfile
    used = re.findall("image: (.*)", "".join(file.read_text() for file in folder.glob("*.yaml")))
    assert set(used) == {f"partition-coordinator-kubernetes:{__version__}"}
    assert f"--tag {used[0]} " in dockerfile


def test_airflow_on_kubernetes_has_its_executor_the_charts_log_in_and_a_client_of_kubernetes() -> None:
    """The slim image has none of them."""
    values = yaml.safe_load((KUBERNETES / "airflow-values.yaml").read_text())
    built = (KUBERNETES / "airflow-requirements.txt").read_text()
    for provider in (values["executor"].removesuffix("Executor").lower(), "cncf-kubernetes", "fab"):
        assert f"apache-airflow-providers-{provider}==" in built
    added, frozen = (
        dict(re.findall(r"^(\S+)==(\S+) ", text, re.MULTILINE))
        for text in (built, (ROOT / "requirements.txt").read_text())
    )
    assert added.keys() & frozen.keys() == {"python-dateutil"}, "nothing else of the frozen packages is replaced"
    tested = re.findall(r"^(\S+)==(\S+) ", (ROOT / "tests" / "clusters" / "celery.txt").read_text(), re.MULTILINE)
    assert {name: added.get(name, frozen.get(name)) for name, _ in tested} == dict(tested)


def test_airflow_on_kubernetes_launches_in_the_pool_that_is_always_there() -> None:
    """Airflow never runs a task whose pool is missing, and Airflow's chart makes no pool."""
    values = yaml.safe_load((ROOT / "docs" / "kubernetes" / "airflow-values.yaml").read_text())
    assert "COORDINATOR_LAUNCH_POOL" not in {one["name"] for one in values["env"]}


def test_network_policies_on_kubernetes_let_prometheus_read_the_consumers_metrics() -> None:
    """At the status interface alone: Spark's UI has no log-in."""
    text = (ROOT / "docs" / "kubernetes" / "network-policies.yaml").read_text()
    free = {"protocol": "TCP", "port": 32768, "endPort": 60999}
    for policy in yaml.safe_load_all(text):
        executors, readers = policy["spec"]["ingress"]
        (executor,) = executors["from"]
        assert executor == {"podSelector": {"matchLabels": {"spark-role": "executor"}}}
        airflow, prometheus = readers["from"]
        assert airflow == {"podSelector": {"matchLabels": {"tier": "airflow"}}}
        assert prometheus == {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus"}},
        }
        status, *others = readers["ports"]
        assert status == {"protocol": "TCP", "port": cluster_mode.STATUS_PORT}
        assert others == ([free] if policy["metadata"]["name"] == "coordinator-consumers" else [])


def test_versions_are_those_of_the_frozen_requirements() -> None:
    tags = dict(image.split(":", 1) for image in bases())
    assert tags["apache/spark"].startswith(f"{pin('pyspark')}-")
    assert tags["apache/airflow"] == f"slim-{pin('apache-airflow')}-python3.11"
    jars = next((ROOT / "coordinator_tasks" / "devstack" / "embedded").glob("kafka-*.sha256")).stem
    assert f"kafka-{tags['apache/kafka']}" == jars


def test_python_java_and_requirements_are_the_same_everywhere() -> None:
    for text in dockerfiles.values():
        assert re.search(r"^FROM \S+3\.11\S*$", text, re.MULTILINE)
        assert "openjdk-17-jre-headless" in text
        assert "COPY requirements.txt /opt/coordinator/requirements.txt" in text
        assert "install --no-cache-dir --require-hashes --no-deps -r /opt/coordinator/requirements.txt" in text
    spark = {services[name]["image"] for name in ("spark-master", "spark-worker", "launcher")}
    airflow = {s["image"] for name, s in services.items() if name.startswith("airflow-")}
    assert len(spark) == len(airflow) == 1
    assert "java17" in dict(image.split(":", 1) for image in bases())["apache/spark"]


def test_ports_are_open_to_this_machine_only() -> None:
    ports = [port for s in services.values() for port in s.get("ports", [])]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_only_what_is_copied_goes_into_a_build() -> None:
    first, *others = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(\S+) ", "\n".join(dockerfiles.values()), re.MULTILINE)
    assert first == "*"
    assert {one.removeprefix("!") for one in others if one.startswith("!")} == set(copied)


def test_secrets_come_from_an_env_file_without_defaults() -> None:
    used = {name for name, _ in VARIABLE.findall(TEXT)}
    offered = re.findall(r"^([A-Z_]+)=(.*)$", EXAMPLE, re.MULTILINE)
    assert {name for name, _ in offered} == used
    assert all(value == "" for _, value in offered)
    assert all(message.startswith(":?") for _, message in VARIABLE.findall(TEXT)), "a missing one stops the start"
    assert "\n.env\n" in (ROOT / ".gitignore").read_text()
    for service in services.values():
        for name, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|FERNET", name) and not name.endswith("_FILE"):
                assert VARIABLE.search(value), f"{name} has a value that can be read here"


def test_airflow_knows_every_option_that_is_set() -> None:
    described = conf.configuration_description
    for name in environment("airflow-scheduler"):
        if name.startswith("AIRFLOW__"):
            _, section, option = name.lower().split("__")
            options = {key.lower(): value for key, value in described.items()}[section]["options"]
            assert option in {key.lower() for key in options}, name


def test_airflow_lets_the_launcher_launch() -> None:
    assert environment("airflow-scheduler")["COORDINATOR_LAUNCHER_SERVICE"] == "yes"
    assert not {"launcher", "spark-master"} & set(services["airflow-scheduler"]["depends_on"])
    assert not any(name.startswith("airflow") for name in services["launcher"]["depends_on"])
    pool = environment("airflow-scheduler")["COORDINATOR_LAUNCH_POOL"]
    assert f"airflow pools set {pool} " in services["airflow-init"]["command"][-1]
    stop_limit_s = 60 + 30
    assert int(services["launcher"]["stop_grace_period"].removesuffix("s")) > stop_limit_s


def test_every_service_waits_until_what_it_needs_is_healthy_or_has_ended_well() -> None:
    conditions = {one["condition"] for s in services.values() for one in s.get("depends_on", {}).values()}
    assert conditions == {"service_healthy", "service_completed_successfully"}
