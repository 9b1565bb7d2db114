"""A fleet may launch only allowed applications, code, settings, variables, folders and addresses.

A pattern covers no name of a setting for code or log-ins.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator_tasks.allowed_launches import HARMLESS_CONF, OWN_APPLICATIONS, AllowedLaunches
from coordinator_tasks.core.model import Fleet
from spark_apps import main
from spark_apps.arguments import add_consumer_arguments

OWN = OWN_APPLICATIONS[0]
PIPELINE = ("--pipeline", "orders=spark_apps.pipelines.orders:build")


def problem(fleet: Fleet, **allowed: str) -> str:
    return AllowedLaunches(**allowed).problem(fleet)


def of(*arguments: str) -> Fleet:
    return Fleet("billing", OWN, ("a",), arguments)


def test_our_own_application_with_its_documented_arguments_is_allowed() -> None:
    documented = (
        *("--listen", "0.0.0.0:0", "--topics", "orders", "--set", "database=sqlite:////data/x.sqlite", "--set=gate=b"),
        *(*PIPELINE, "--default=spark_apps.pipelines.audit:build", "--option", "kafka.fetch.max.wait.ms=20"),
        *("--option", "maxOffsetsPerTrigger=100", "--pattern", "(?:a|b=)+=spark_apps.pipelines.orders:build"),
    )
    conf = {
        "spark.cores.max": "2",
        "spark.dynamicAllocation.maxExecutors": "9",
        "spark.sql.session.timeZone": "Europe/Berlin",
    }
    environment = {"TZ": "Europe/Berlin", "LC_ALL": "C.UTF-8", "PIPELINE_delivery": "exactly-once"}
    fleet = Fleet("billing", OWN, ("a",), documented, conf, environment=environment)
    assert problem(fleet, folders="/data", settings="gate") == ""
    named = ("--set", "database=shop", "--set", "schemaRegistry=main", "--advertise", "host")
    assert problem(of(*named)) == ""


@pytest.mark.parametrize(
    "application",
    [
        "/tmp/main.py",
        OWN + "x",
        f"{OWN}/../../evil.py",
        "--jars=/tmp/evil.jar",
        "",
        "\x00" * 300,
    ],
)
def test_another_application_is_refused_and_what_to_do_is_said(application: str) -> None:
    said = problem(Fleet("billing", application, ("a",)))
    assert said.startswith("fleet 'billing' is not launched: this site does not allow the application ")
    assert "allowed.applications (COORDINATOR_ALLOWED_APPLICATIONS)" in said
    assert len(said) < 500


def test_the_site_allows_applications_by_patterns() -> None:
    allowed = " /opt/shop/*.py,local:///opt/apps/*/main.py"
    for good in ("/opt/shop/a.py", "local:///opt/apps/x/main.py"):
        assert problem(Fleet("billing", good, ("a",)), applications=allowed) == ""
    for bad in ("/opt/shop/x/a.py", "/opt/shop/../evil.py", "local:///opt/apps/../main.py", "/tmp/opt/shop/a.py"):
        assert problem(Fleet("billing", bad, ("a",)), applications=allowed)


@pytest.mark.parametrize(
    "name",
    [
        *("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions", "spark.jars", "spark.jars.packages"),
        *("spark.submit.pyFiles", "spark.files", "spark.archives", "spark.plugins", "spark.extraListeners"),
        *("spark.pyspark.python", "spark.executorEnv.PYTHONPATH", "spark.yarn.dist.files"),
        *("spark.yarn.appMasterEnv.LD_PRELOAD", "spark.kubernetes.container.image", "spark.driver.extraClassPath"),
        *("spark.sql.extensions", "spark.sql.streaming.streamingQueryListeners", "spark.eventLog.dir", "spark.master"),
        *("spark.hadoop.fs.file.impl", "spark.cores.max=2 --conf spark.jars", "SPARK.cores.max", ""),
    ],
)
def test_a_spark_setting_that_can_run_code_is_refused_unless_the_site_allows_it(name: str) -> None:
    fleet = Fleet("billing", OWN, ("a",), PIPELINE, {"spark.cores.max": "1", name: "x"})
    assert "does not allow the Spark setting" in problem(fleet)
    assert "COORDINATOR_ALLOWED_CONF" in problem(fleet, conf="spark.other.*")
    allowed = problem(fleet, conf=f"spark.other.*,{name}" if name else "*")
    assert allowed == "" if re.fullmatch("[A-Za-z0-9._]+", name) else "its name has other characters" in allowed


def test_no_harmless_setting_names_code_or_files() -> None:
    words = (
        *("jar", "class", "java", "file", "dir", "path", "env", "python", "plugin", "listener", "extension"),
        *("image", "url"),
    )
    assert [one for one in HARMLESS_CONF if any(word in one.lower() for word in words)] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("--pipeline", "orders=os:system"),
        ("--pipeline=orders=os:system",),
        ("--pattern", "a=b=evil:x"),
        ("--default", "evil:a=spark_apps.pipelines.orders:build"),
        ("--listener", "evil:Class"),
        ("--interceptor", "evil:Class"),
        (*PIPELINE, "--pipeline", "other=spark_apps.main:main"),
        ("--pipeline", "orders=evil:spark_apps.pipelines.orders:build"),
    ],
)
def test_arguments_name_allowed_code_only(arguments: Sequence[str]) -> None:
    assert "COORDINATOR_ALLOWED_CODE" in problem(of(*arguments))


def test_the_site_allows_code_by_patterns() -> None:
    assert problem(of("--default", "shop.pipelines.a:build"), code="shop.pipelines.*") == ""
    assert problem(of("--default", "evil:shop.pipelines.a"), code="*.pipelines.*")


@pytest.mark.parametrize(
    "argument", ["--kafka", "--zookeeper", "--settings", "--discovery", "--cluster", "--consumer", "--run-folder"]
)
def test_arguments_that_say_where_a_consumer_logs_in_are_refused(argument: str) -> None:
    for given in ((argument, "evil:9092"), (f"{argument}=evil:9092",), (argument[:6], "x"), (*PIPELINE, argument, "x")):
        assert "says where a consumer logs in or who it is" in problem(of(*given)), given


@pytest.mark.parametrize(
    "option",
    [
        "kafkaSettingsFile=/etc/passwd",
        "KAFKASETTINGSFILE=x",
        "kafka.bootstrap.servers=evil:9092",
        "kafka.plugin.library.paths=/tmp/evil",
        "Kafka.ssl.ca.location=x",
    ],
)
def test_options_that_say_where_a_consumer_logs_in_are_refused(option: str) -> None:
    for given in (("--option", option), (f"--option={option}",), (f"--opt={option}",)):
        assert "is refused" in problem(of(*given))


def test_of_our_application_s_arguments_exactly_those_are_judged(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["--help"])
    known = set(re.findall(r"(--[a-z-]+)", capsys.readouterr().out)) - {"--help"}
    judged = {name for name in known if problem(of(name, "x"))}
    log_in = {"--cluster", "--consumer", "--discovery", "--kafka", "--run-folder", "--settings", "--zookeeper"}
    code = {"--default", "--interceptor", "--listener", "--pattern", "--pipeline"}
    assert judged == log_in | code | {"--advertise", "--checkpoints", "--set"}


@pytest.mark.parametrize("arguments", [("--set=x.json",), ("--set", "x.json"), ("--sett=x",), ("--kafk=x",)])
def test_a_consumer_completes_no_name(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A site's script without `--set` would take `--set` for `--settings`."""
    parser = argparse.ArgumentParser()
    add_consumer_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--consumer", "a", *arguments])
    assert "unrecognized arguments" in capsys.readouterr().err


ENGINE = "postgresql://w@db/shop?sslmode=require&sslcert=/etc/c.pem&sslkey=/tmp/evil.so:key"
PLACES = [
    f"database={ENGINE}",
    "database=postgresql://w@db/shop?host%61ddr=203.0.113.9",
    "database=postgresql://w@203.0.113.9,db/shop",
    "database=postgres://w@db/shop?service=x",
    "database=host=db passfile=/etc/shadow",
    "database=sqlite:////opt/spark/conf/x.sqlite",
    "database=sqlite:////data/../opt/spark/conf/x.sqlite",
    "database=sqlite:////data/link/x.sqlite",
    "database=sqlite:////data/spark-env.sh",
    "database=sqlite:////data",
    "database=sqlite:///x.sqlite",
    "database=sqlite:////data/x\n.sqlite",
    "database=",
    "Database=shop",
    "schemaRegistry=http://203.0.113.9:8081",
    "schemaRegistry=file:///etc/passwd",
    "schemaRegistry=HTTP://x",
    "schemaRegistryPassword=x",
    "auditFolder=/opt/spark/conf",
    "auditFolder=/data/link",
    "auditFolder=relative",
    "unknown=1",
    "database",
]


@pytest.mark.parametrize("text", PLACES)
def test_a_fleet_names_places_of_the_site_and_gives_no_other(text: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/opt")
    text = text.replace("/data", str(tmp_path))
    name, _, value = text.partition("=")
    as_variable = Fleet("billing", OWN, ("a",), environment={f"PIPELINE_{name}": value})
    for fleet in (of("--set", text), of(f"--set={text}"), of("--set", "delivery=x", "--set", text), as_variable):
        for allowed in ({}, {"folders": f"/elsewhere,{tmp_path}"}, {"folders": str(tmp_path), "environment": "*"}):
            assert problem(fleet, **allowed).startswith("fleet 'billing' is not launched: ")


def test_a_fleet_that_gives_an_address_is_told_what_to_write_instead() -> None:
    said = problem(of("--set", f"database={ENGINE}"))
    assert "write database=NAME" in said
    assert "databases.NAME (COORDINATOR_DATABASES_NAME) where consumers are launched" in said
    assert "evil" not in said
    assert "allowed.settings (COORDINATOR_ALLOWED_SETTINGS)" in problem(of("--set", "gate=1"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--checkpoints", "/opt/spark/conf"),
        ("--checkpoints=s3a://evil/x",),
        ("--check", "/opt"),
        ("--advertise", "https://203.0.113.9"),
        ("--adv=https://proxy@203.0.113.9/",),
        ("--advertise", "https://proxy/x/../y"),
    ],
)
def test_checkpoints_and_the_advertised_address_are_those_of_the_site(arguments: Sequence[str]) -> None:
    assert problem(of(*arguments), folders="/data", addresses="https://proxy*")
    assert (
        problem(
            of("--checkpoints", "/data/x", "--advertise", "https://proxy:1"),
            folders="/data",
            addresses="https://proxy:*",
        )
        == ""
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.driver.memory", "${env:KAFKA_PASSWORD}"),
        ("spark.executor.memory", "1g -javaagent:/tmp/evil.jar"),
        ("spark.dynamicAllocation.x", "a\nspark.jars=/tmp/evil.jar"),
        ("spark.sql.ansi.enabled", "${system:user.home}"),
        ("spark.sql.extensions", "evil.Extensions"),
        ("spark.sql.streaming.streamingQueryListeners", "evil.Listener"),
        ("spark.log4jHotPatch.enabled", "x"),
        ("spark.executorEnv.LD_PRELOAD", "/tmp/evil.so"),
        ("spark.kubernetes.driver.secrets.other", "/mnt"),
    ],
)
def test_a_broad_pattern_allows_no_setting_that_loads_code_and_no_value_of_the_host(name: str, value: str) -> None:
    fleet = Fleet("billing", OWN, ("a",), (), {name: value})
    assert problem(fleet, conf="spark.*,*")
    assert problem(Fleet("billing", OWN, ("a",), (), {"spark.sql.ansi.enabled": "true"}), conf="spark.sql.*") == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, "x")
            for name in ("LD_PRELOAD", "PYTHONPATH", "PYTHONSTARTUP", "PATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
        ),
        *((name, "x") for name in ("PGHOSTADDR", "PGSERVICEFILE", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "https_proxy")),
        *((name, "x") for name in ("SSL_CERT_FILE", "OPENSSL_CONF", "BASH_ENV", "JDK_JAVA_OPTIONS", "OPENLINEAGE_URL")),
        ("COORDINATOR_SETTINGS", "/tmp/x"),
        ("ASSIGNED_KAFKA_SETTINGS_FILE", "/tmp/x"),
        ("TZ", ":/etc/shadow"),
        ("TZ", "/etc/shadow"),
        ("LC_ALL", "../../tmp/evil"),
    ],
)
def test_a_broad_pattern_of_the_site_allows_no_variable_that_loads_code_or_logs_in(name: str, value: str) -> None:
    assert problem(Fleet("billing", OWN, ("a",), environment={name: value}), environment="*")
    written_out = problem(Fleet("billing", OWN, ("a",), environment={name: "x"}), environment=name)
    assert bool(written_out) == name.startswith(("COORDINATOR_", "ASSIGNED_"))


@pytest.mark.parametrize(
    "fleet",
    [
        *(
            of(name, "value")
            for name in ("--zookeeper\r", "-\r-kafka", "--default\r", "--set\r", "--kafka\r=x", "-\x00-zookeeper")
        ),
        of("--option", "kaf\rka.sasl.username=x"),
        of("--topics", "orders\x85"),
        Fleet("billing", OWN, ("a",), conf={"spark.dynamicAllocation.x=1\nspark.ui.killEnabled": "true"}),
        Fleet("billing", OWN, ("a",), conf={"spark.dynamicAllocation.x=${env:HOME}": "1"}),
        Fleet("billing", OWN, ("a",), conf={"spark.kubernetes.driver.annotation.example.com/name": "a\rb"}),
        *(Fleet("billing", OWN, ("a",), environment={name: "C"}) for name in ("LC_A=B", "LC_\0", "LC_A\nLD_PRELOAD")),
        Fleet("billing", OWN, ("a",), environment={"SHOP": "a\rb"}),
    ],
)
def test_no_name_is_read_differently_by_a_later_program(fleet: Fleet) -> None:
    """Spark's shell scripts delete every carriage return, so that a checked `--zookeeper\\r` became `--zookeeper`."""
    assert "is refused: it" in problem(fleet, conf="spark.*", environment="*", settings="*", code="*")


HOSTS = ("LOCALDOMAIN", "NETRC", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "SASL_PATH", "R_PROFILE_USER")
OPENINGS = ("remote", "api.mode", "ui.killEnabled", "driver.bindAddress", "acls.enable")


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("environment", name) for name in HOSTS), *(("conf", f"spark.{name}") for name in OPENINGS)],
)
def test_a_pattern_covers_no_name_of_a_host_a_log_in_or_an_opening_of_a_driver(kind: str, name: str) -> None:
    fleet = Fleet("billing", OWN, ("a",), **{kind: {name: "x"}})
    said = "the variable" if kind == "environment" else "the Spark setting"
    assert f"does not allow {said}" in problem(fleet, environment="*", conf="spark.*")
    assert problem(fleet, **{kind: name}) == ""
