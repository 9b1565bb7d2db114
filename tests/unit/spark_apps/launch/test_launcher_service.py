"""The launcher service: launched consumers, their command and environment, and a stop of all."""

import fcntl
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_tasks import logs, wiring
from coordinator_tasks.adapters.discovery import ZooKeeperRegistry, claim_incarnation
from coordinator_tasks.core.codecs.member_codec import encode_fleet
from coordinator_tasks.core.errors import BadSettings, StoreUnavailable
from coordinator_tasks.core.model import Ending, Fleet, Member
from coordinator_tasks.core.ports import Create, SetData
from coordinator_tasks.run_folder import RunFolder, write_private
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes import directives, fleet
from coordinator_tasks.service.nodes.fleet import Launch
from coordinator_tasks.service.watch import overview
from coordinator_tasks.settings import Settings, plain_settings, read_settings_file, settings_of
from spark_apps.launch import launcher, launcher_service
from spark_apps.launch.launcher_service import Attempts, Host, look
from tests.fakes.cluster import Cluster
from tests.fakes.zookeeper import FakeZooKeeper

SETTINGS = Settings(
    "site", "zk:2181", {"bootstrap.servers": "broker:9092", "sasl.password": "s3cret"}, status_token="t0ken"
)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A launcher with a long-running program as spark-submit."""
    submit = tmp_path / "submit"
    submit.write_text("#!/bin/sh\nexec sleep 60\n")
    submit.chmod(0o755)
    made = Host(tmp_path / "base", "spark://master:7077", str(submit), stop_limit_s=5)
    yield made
    assert launcher_service.stop_all(made, "site") == []


@pytest.fixture
def cluster() -> Cluster:
    return Cluster("site")


@pytest.fixture
def zk(cluster: Cluster) -> FakeZooKeeper:
    return cluster.zk


@pytest.fixture
def c(cluster: Cluster) -> Coordinator:
    return cluster.coordinator


def serve_at_once(c: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher_service, "open_coordinator", lambda _: nullcontext(c))
    monkeypatch.setattr(launcher_service, "LOOK_S", 0.01)


def folder_of(host: Host, consumer: str) -> RunFolder:
    return RunFolder.of(host.base, "site", consumer)


def wait_until_ended(host: Host, consumer: str) -> None:
    """Processes of a failed launcher live on for a moment, and are not launched again meanwhile."""
    deadline_s = time.monotonic() + 60
    while launcher_service.running(folder_of(host, consumer)):
        assert time.monotonic() < deadline_s, f"{consumer} does not end"
        time.sleep(0.05)


def test_missing_consumers_are_launched_once_and_stopped_with_the_service(c: Coordinator, host: Host) -> None:
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a", "consumer-b")))
    attempts = Attempts()
    assert look(c, host, SETTINGS, attempts, 0) == ("consumer-a", "consumer-b")
    assert launcher_service.running(folder_of(host, "consumer-a"))
    assert look(c, host, SETTINGS, attempts, 1_000) == (), "they live, though they have not registered yet"
    assert launcher_service.stop_all(host, "site") == []
    assert not launcher_service.running(folder_of(host, "consumer-a"))


def test_a_consumer_whose_end_is_not_reported_yet_is_not_said_to_run(host: Host) -> None:
    """ZooKeeper is away: the launcher retries, and holds the lock."""
    folder = folder_of(host, "consumer-a")
    folder.begin()
    assert "consumer-a has not ended; its launcher" in launcher_service.why_left(folder)
    folder.write_ended(0, "", time.time())
    assert "consumer-a has ended, and ZooKeeper has not been told; its launcher" in launcher_service.why_left(folder)


def test_a_lock_that_cannot_be_opened_ends_neither_the_service_nor_the_others(
    c: Coordinator, host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """A former user's lock: the folder, not its content, was given to the present user."""
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a", "consumer-b")))
    folder_of(host, "consumer-a").make()
    folder_of(host, "consumer-a").lock.mkdir()
    assert look(c, host, SETTINGS, Attempts(), 0) == ("consumer-b",)
    assert "consumer-a cannot be launched: launcher: the run folder" in caplog.text
    assert launcher_service.stop_all(host, "site") == []
    assert not launcher_service.running(folder_of(host, "consumer-b"))


def test_a_file_in_place_of_a_folder_ends_nothing(c: Coordinator, host: Host, caplog: pytest.LogCaptureFixture) -> None:
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a",)))
    host.base.mkdir()
    (host.base / "site").touch()
    assert look(c, host, SETTINGS, Attempts(), 0) == ()
    assert "consumer-a cannot be launched: the folder" in caplog.text
    assert launcher_service.stop_all(host, "site") == []


def test_a_disk_that_takes_nothing_more_does_not_end_the_service_and_is_said_once(
    c: Coordinator, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rounds, stop, alive = list[int](), threading.Event(), host.base / launcher_service.ALIVE

    def look(*_: object) -> None:
        rounds.append(1)
        alive.unlink(missing_ok=True)
        if not alive.is_symlink():
            alive.symlink_to("/no/such/folder/file")
        if len(rounds) == 3:
            stop.set()

    monkeypatch.setattr(launcher_service, "open_coordinator", lambda _: nullcontext(c))
    monkeypatch.setattr(launcher_service, "look", look)
    monkeypatch.setattr(launcher_service, "LOOK_S", 0.01)
    launcher_service.serve(host, SETTINGS, stop)
    assert len(rounds) == 3
    assert [one.getMessage() for one in caplog.records] == [
        f"{alive} cannot be written: No such file or directory; correct the folder's rights or its disk, "
        "a health check fails meanwhile"
    ]


AS_THE_FIRST_PROCESS = """
import sys, threading, time, psutil
from pathlib import Path
from coordinator_tasks.core.errors import StoreUnavailable
from coordinator_tasks.run_folder import RunFolder
from coordinator_tasks.service.nodes.fleet import Launch
from coordinator_tasks.settings import Settings
from spark_apps.launch import launcher_service, process_tree
process_tree.become_subreaper()
host = launcher_service.Host(Path(sys.argv[1]), "local", "true")
settings = Settings("site", "zk:2181", {"bootstrap.servers": "broker:9092"})
def away(_):
    raise StoreUnavailable("away")
launcher_service.open_coordinator, launcher_service.LOOK_S = away, 0.05
for consumer in ("a", "b"):
    one = Launch("sales", consumer, "app.py")
    launcher_service.launch(one, RunFolder.of(host.base, "site", consumer), host, settings)
stop, until_s = threading.Event(), time.monotonic() + 10
print(len(psutil.Process().children()))
threading.Thread(target=launcher_service.serve, args=(host, settings, stop)).start()
while psutil.Process().children() and time.monotonic() < until_s:
    time.sleep(0.05)
print(len(psutil.Process().children()))
stop.set()
"""


def test_launchers_that_have_ended_do_not_stay_below_the_first_process_of_a_container(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_THE_FIRST_PROCESS, str(tmp_path / "base")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["2", "0"]


def test_nobody_else_is_launched(c: Coordinator, zk: FakeZooKeeper, host: Host) -> None:
    everybody = ("live", "draining", "isolated", "silent", "ended")
    fleet.set_fleet(c, Fleet("sales", "app.py", everybody))
    fleet.set_fleet(c, Fleet("other", "other.py", ("elsewhere",)))
    for consumer in everybody:
        claim_incarnation(zk, c.paths, consumer, 1)
    ZooKeeperRegistry(zk, c.paths, c.clock).register(Member("live", 1, "http://127.0.0.1:1", "boot"))
    directives.drain(c, "draining", "kim", "new host")
    directives.isolate(c, "isolated", by="kim", why="disk")
    fleet.record_end(c, "ended", 1, Ending.REAPED)
    only_sales = Host(host.base, host.master, host.submit, apps=("sales",), stop_limit_s=5)
    assert look(c, only_sales, SETTINGS, Attempts(), 0) == ("ended",)


def test_a_failure_before_the_incarnation_is_shown_with_its_reason(
    c: Coordinator, zk: FakeZooKeeper, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SimpleNamespace(
        registry=ZooKeeperRegistry(zk, c.paths, c.clock),
        claim_incarnation=lambda consumer: claim_incarnation(zk, c.paths, consumer, 5),
    )
    monkeypatch.setattr(wiring, "open_coordinator", lambda _: nullcontext(c))
    monkeypatch.setattr(wiring, "open_consumer_session", lambda _: nullcontext(session))
    why = "exit code 1: ModuleNotFoundError: No module named 'shop'"
    folder = RunFolder.of(host.base, "site", "a")
    folder.make()
    write_private(folder.settings, plain_settings(SETTINGS))
    folder.write_ended(1, why, 0.0)
    fleet.set_fleet(c, Fleet("sales", "app.py", ("a",)))
    assert launcher.report_end(launcher.LaunchRequest("site", "a", folder, ("true",), report_limit_s=0.0))
    (found,) = overview.consumers(c)
    assert (found.ended, found.presence) == (f"incarnation 5 has ended: {why}", "gone")
    assert folder.drawn() == 5
    assert [one.consumer for one in fleet.missing(c)] == ["a"], "the next start is due"


def test_failed_launches_have_growing_pauses(c: Coordinator, host: Host, caplog: pytest.LogCaptureFixture) -> None:
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a",)))
    broken = Host(host.base, host.master, "/no/such/program", stop_limit_s=5)
    attempts = Attempts()
    assert look(c, broken, SETTINGS, attempts, 0) == ()
    assert "/no/such/program cannot be started" in caplog.text
    caplog.clear()
    assert look(c, broken, SETTINGS, attempts, 4) == ()
    assert caplog.text == "", "its pause is not over"
    wait_until_ended(broken, "consumer-a")
    look(c, broken, SETTINGS, attempts, 5)
    assert "tried again in 10 s" in caplog.text
    wait_until_ended(broken, "consumer-a")


def test_a_round_of_slow_launches_counts_as_alive(c: Coordinator, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The health check kills a service without a sign of life for two minutes, with all consumers of the container."""
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a", "consumer-b")))
    alive = host.base / launcher_service.ALIVE
    signs: list[bool] = []

    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        signs.append(alive.exists())
        alive.unlink(missing_ok=True)
        return subprocess.CompletedProcess([], 0, "{}", "")

    monkeypatch.setattr(subprocess, "run", run)
    look(c, host, SETTINGS, Attempts(), 0)
    assert signs == [True, True]


def test_a_stop_within_a_round_ends_the_launches(c: Coordinator, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher_service, "open_coordinator", lambda _: nullcontext(c))
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a", "consumer-b")))
    stop, launched = threading.Event(), list[str]()

    def launch(one: Launch, *_: object) -> None:
        launched.append(one.consumer)
        stop.set()

    monkeypatch.setattr(launcher_service, "launch", launch)
    launcher_service.serve(host, SETTINGS, stop)
    assert launched == ["consumer-a"]


def test_a_late_launch_is_reported_in_one_sentence_without_the_command(
    c: Coordinator, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(launcher_service, "LAUNCHER_LIMIT_S", 0.01)
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a",), conf={"spark.hadoop.fs.s3a.secret.key": "s3cret"}))
    assert look(c, host, SETTINGS, Attempts(), 0) == ()
    (said,) = [record.message for record in caplog.records]
    took = "the launcher took longer than 0.01 s, and was ended: look at this host's load"
    assert said == f"consumer-a cannot be launched: {took}; tried again in 5 s"


@pytest.mark.parametrize(
    "more", [{"arguments": ("a\0b",)}, {"environment": {"PIPELINE_a=b": "c"}}], ids=["argument", "variable"]
)
def test_a_fleet_that_no_program_can_be_started_with_keeps_no_other_one_from_being_launched(
    c: Coordinator, zk: FakeZooKeeper, host: Host, more: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-b",)))
    written = encode_fleet(
        Fleet("a-fleet", "app.py", ("consumer-a",), **more)
    )  # not by `set_fleet`, which refuses the fleet
    zk.transact([Create(c.paths.fleet("a-fleet"), written)])
    assert look(c, host, SETTINGS, Attempts(), 0) == ("consumer-b",)
    assert "consumer-a cannot be launched" in caplog.text


def test_an_unreadable_fleet_ends_neither_the_service_nor_its_consumers(
    c: Coordinator, zk: FakeZooKeeper, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve_at_once(c, monkeypatch)
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a",)))
    path, stop = c.paths.fleet("sales"), threading.Event()
    good = zk.get(path).data
    zk.transact([SetData(path, b"{")])
    service = threading.Thread(target=launcher_service.serve, args=(host, SETTINGS, stop), daemon=True)
    service.start()
    service.join(0.3)
    assert service.is_alive()
    assert [path in one.getMessage() for one in caplog.records if "left out" in one.getMessage()] == [True]
    zk.transact([SetData(path, good)])
    deadline_s = time.monotonic() + 20
    while not launcher_service.running(folder_of(host, "consumer-a")):
        assert time.monotonic() < deadline_s, "readable again, it goes on"
        time.sleep(0.05)
    stop.set()
    service.join(20)


def test_a_later_refused_session_ends_neither_the_service_nor_its_consumers(
    c: Coordinator, host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened, stop = list[int](), threading.Event()

    def open_coordinator(_: object) -> nullcontext[Coordinator]:
        opened.append(1)
        if len(opened) == 2:
            raise BadSettings("the log-in is refused")
        return nullcontext(c)

    def look(*_: object) -> None:
        if len(opened) == 3:
            stop.set()
        else:
            raise StoreUnavailable("away")

    monkeypatch.setattr(launcher_service, "open_coordinator", open_coordinator)
    monkeypatch.setattr(launcher_service, "look", look)
    monkeypatch.setattr(launcher_service, "LOOK_S", 0.01)
    launcher_service.serve(host, SETTINGS, stop)
    assert [record.message for record in caplog.records] == [
        "launching nothing: away",
        "launching nothing: the log-in is refused",
    ]


def test_what_is_refused_at_the_start_ends_the_service(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise BadSettings("the log-in is refused")

    monkeypatch.setattr(launcher_service, "open_coordinator", refused)
    with pytest.raises(BadSettings):
        launcher_service.serve(host, SETTINGS, threading.Event())


def test_a_run_folder_writable_by_others_is_left_out_and_stops_no_other_consumer(c: Coordinator, host: Host) -> None:
    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a", "consumer-b")))
    open_to_all = folder_of(host, "consumer-a")
    open_to_all.make()
    open_to_all.path.chmod(0o777)
    with open_to_all.lock.open("w") as lock:
        lock.write(str(os.getpid()))
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert look(c, host, SETTINGS, Attempts(), 0) == ("consumer-b",)
        assert not open_to_all.settings.exists()
        assert launcher_service.stop_all(host, "site") == [], "it does not send a signal to the process named there"


def test_secrets_stand_in_private_files_only(c: Coordinator, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Launch("sales", "consumer-a", "app.py", ("--default", "x:y"), {"spark.cores.max": "2"})
    folder = folder_of(host, "consumer-a")
    line = launcher_service.command(one, folder, host, "site")
    monkeypatch.setenv("COORDINATOR_STATUS_TOKEN", "t0ken")
    private = {
        "COORDINATOR_STATUS_TOKEN": "t0ken",
        "AIRFLOW_CONN_KAFKA": "s3cret",
        "_AIRFLOW_WWW_USER_PASSWORD": "s3cret",
    }
    environment = launcher_service.environment(one, folder, "site", {**private, "PATH": "/bin"})
    assert not any(secret in part for secret in ("s3cret", "t0ken") for part in [*line, *environment.values()])
    assert line[-9:] == [
        *("app.py", "--consumer", "consumer-a", "--cluster", "site", "--run-folder", str(folder.path)),
        *("--default", "x:y"),
    ]
    assert ("--conf", "spark.cores.max=2") in itertools.pairwise(line)

    fleet.set_fleet(c, Fleet("sales", "app.py", ("consumer-a",)))
    look(c, host, SETTINGS, Attempts(), 0)
    assert settings_of(read_settings_file(folder.settings)) == SETTINGS
    assert json.loads(folder.kafka.read_text())["sasl.password"] == "s3cret"
    assert folder.kafka.stat().st_mode & 0o077 == 0


def taken_folder(folder: Path) -> list[str]:
    (folder / "base").touch()
    return ["--base", str(folder / "base")]


def full_folder(folder: Path) -> list[str]:
    (folder / launcher_service.ALIVE).symlink_to("/no/such/folder/file")
    return ["--base", str(folder)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (taken_folder, "/base cannot be made: File exists"),
        (full_folder, "No such file or directory; choose another base folder, or correct its rights"),
        (lambda _: ["--conf", "x"], "--conf 'x' is not name=value"),
        (lambda _: ["--conf", "a=1", "--conf", "a=2"], "--conf gives 'a' twice; give it once"),
    ],
    ids=["a file in place of the folder", "a folder that takes no file", "no setting", "a setting that is given twice"],
)
def test_what_cannot_be_served_is_one_line(
    given: Callable[[Path], list[str]],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launcher_service, "settings_from_environment", lambda: SETTINGS)
    monkeypatch.setattr(logs, "set_up", lambda _: None)
    assert launcher_service.main(["--base", str(tmp_path), "--master", "local", *given(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
