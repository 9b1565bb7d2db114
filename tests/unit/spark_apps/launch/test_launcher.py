"""The launcher on real processes: let go, SIGTERM passed on, the whole tree reaped, the end reported."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from coordinator_tasks.core.errors import Refused, StoreUnavailable
from coordinator_tasks.run_folder import RunFolder, write_private
from spark_apps.launch import launcher
from spark_apps.launch.launcher import LaunchRequest, report_end
from spark_apps.tracebacks import last_error

ROOT = Path(__file__).parents[4]

# In place of spark-submit: a parent of the consumer's own Python, with the child's exit code.
JVM = ("/bin/sh", "-c", '"$@"; exit $?', "jvm")
DRIVER = """
import pathlib, signal, subprocess, sys, time
folder = pathlib.Path(sys.argv[-1])
helper = subprocess.Popen(["sleep", "600"], start_new_session=True)  # a tree that has left its session
def leave(*_):
    (folder / "left").write_text("cleanly")
    helper.kill()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
(folder / "incarnation").write_text("7\\n")
(folder / "helper").write_text(str(helper.pid))
print("driver is up", flush=True)
time.sleep(600)
"""


class Launched:
    """One launcher with its consumer; `patched` launchers write the report to a file in place of ZooKeeper."""

    def __init__(self, base: Path, *command: str, options: tuple[str, ...] = ()) -> None:
        self.folder = RunFolder.of(base, "shop", "c1")
        self.patch = base / "patched.py"
        self.patch.write_text(
            "import sys, pathlib\n"
            "from spark_apps.launch import launcher\n"
            "launcher.DRIVER_GRACE_S = 1.0\n"
            "def told(request, incarnation):\n"
            "    from coordinator_tasks.service.nodes import fleet\n"
            "    (request.folder.path / 'told').write_text(str(incarnation))\n"
            "    (request.folder.path / 'why').write_text(request.folder.reason())\n"
            "launcher._write_end = told\n"
            "launcher.PROGRAM = (sys.executable, __file__)\n"
            "sys.exit(launcher.main())\n"
        )
        self.arguments = ["--cluster", "shop", "--consumer", "c1", "--base", str(base), *options, "--", *command]

    def start(self, packages: Path = ROOT) -> dict[str, object]:
        done = subprocess.run(
            [sys.executable, str(self.patch), *self.arguments],
            env={**os.environ, "PYTHONPATH": str(packages)},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        if done.returncode:
            raise Refused(done.stderr)
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    def number_in(self, name: str) -> int:
        return int((self.folder.path / name).read_text())


def eventually(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "not within the limit"
        time.sleep(0.05)


@pytest.fixture
def consumer(tmp_path: Path) -> Iterator[Launched]:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    folder = RunFolder.of(tmp_path, "shop", "c1").path
    command = (*JVM, sys.executable, str(script), "--run-folder", str(folder))
    launched = Launched(tmp_path, *command)
    yield launched
    for process in psutil.process_iter():
        try:
            if str(tmp_path) in " ".join(process.cmdline()) and process.pid != os.getpid():
                process.kill()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue


def up(consumer: Launched) -> tuple[int, int, int]:
    """Launcher, driver and helper, once all are there."""
    answer = consumer.start()
    assert answer["started"] is True
    pid = int(str(answer["pid"]))
    eventually((consumer.folder.path / "helper").exists)
    tree = {process.pid: process for process in psutil.Process(pid).children(recursive=True)}
    driver = next(p for p, process in tree.items() if process.cmdline()[1].endswith("driver.py"))
    return pid, driver, consumer.number_in("helper")


def test_the_caller_is_free_at_once_and_a_second_launch_of_a_living_one_changes_nothing(consumer: Launched) -> None:
    began = time.monotonic()
    first, driver, _ = up(consumer)
    assert time.monotonic() - began < 30, "the consumer itself runs on"
    assert os.getsid(first) != os.getsid(os.getpid())
    assert psutil.Process(first).ppid() != os.getpid()
    again = consumer.start()
    assert (again["started"], again["pid"]) == (False, first)
    assert psutil.pid_exists(driver)
    assert "driver is up" in consumer.folder.log.read_text()


def test_a_launcher_whose_caller_is_gone_supervises_the_consumer_all_the_same(tmp_path: Path) -> None:
    """The caller may be killed, or give up, before the answer."""
    folder = RunFolder.of(tmp_path, "shop", "c1")
    folder.make()
    alone = (
        "import os, pathlib, sys\n"
        "from coordinator_tasks.run_folder import RunFolder\n"
        "from spark_apps.launch import launcher\n"
        "reader, writer = os.pipe()\n"
        "os.close(reader)\n"
        "folder = RunFolder(pathlib.Path(sys.argv[1]))\n"
        "launcher._stand_alone(launcher.LaunchRequest('shop', 'c1', folder, ('sh', '-c', 'exit 7')), writer)\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", alone, str(folder.path)], env=environ, timeout=20, check=True)
    eventually(lambda: folder.exit_code() == 7)


def test_kill_9_of_the_driver_ends_the_whole_tree_and_is_reported(consumer: Launched) -> None:
    launcher_pid, driver, helper = up(consumer)
    os.kill(driver, signal.SIGKILL)
    eventually((consumer.folder.path / "told").exists)
    assert consumer.number_in("told") == 7
    assert consumer.folder.exit_code() not in (None, 0)
    eventually(lambda: not psutil.pid_exists(helper))
    eventually(lambda: not psutil.pid_exists(launcher_pid))


def test_the_modules_of_the_report_are_imported_before_the_consumer_ends(consumer: Launched) -> None:
    told = "def told(request, incarnation):\n"
    early = "    (request.folder.path / 'early').write_text(str('coordinator_tasks.wiring' in sys.modules))\n"
    consumer.patch.write_text(consumer.patch.read_text().replace(told, told + early))
    _, driver, _ = up(consumer)
    os.kill(driver, signal.SIGKILL)
    eventually((consumer.folder.path / "told").exists)
    assert (consumer.folder.path / "early").read_text() == "True"


def test_the_modules_of_the_report_are_few_since_every_consumer_has_a_launcher() -> None:
    code = "import sys; from spark_apps.launch import launcher as l; l._import_report(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "coordinator_tasks.wiring" in loaded
    assert not {"httpx", "structlog", "rich", "numpy"} & {*loaded}


def test_sigterm_reaches_the_consumer_itself_so_that_it_can_leave_cleanly(consumer: Launched) -> None:
    launcher_pid, _, _ = up(consumer)
    os.kill(launcher_pid, signal.SIGTERM)
    eventually((consumer.folder.path / "told").exists)
    assert (consumer.folder.path / "left").read_text() == "cleanly"
    assert consumer.folder.exit_code() == 0


def test_a_consumer_that_does_not_leave_is_ended_at_the_limit(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    launched = Launched(tmp_path, sys.executable, "-c", deaf, options=("--stop-limit", "1"))
    pid = int(str(launched.start()["pid"]))
    eventually(lambda: "up" in launched.folder.log_tail())
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: launched.folder.exit_code() == -signal.SIGKILL)


def test_a_consumer_that_hangs_after_its_announced_leave_is_ended_with_all_processes(tmp_path: Path) -> None:
    folder = RunFolder.of(tmp_path, "shop", "c1")
    hangs = (
        "import pathlib, signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "helper = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        f"folder = pathlib.Path({str(folder.path)!r})\n"
        "(folder / 'helper').write_text(str(helper.pid))\n"
        "(folder / 'incarnation').write_text('7')\n"
        "(folder / 'leaving.json').write_text('{\"reason\": \"partition 3 does not stop\"}')\n"
        "time.sleep(600)\n"
    )
    launched = Launched(tmp_path, sys.executable, "-c", hangs, options=("--stop-limit", "1"))
    launched.start()
    eventually((folder.path / "why").exists)
    ended = "still there 1 s after it announced its leave"
    assert folder.reason() == f"killed by SIGKILL: partition 3 does not stop: {ended}"
    assert not psutil.pid_exists(launched.number_in("helper"))


def test_a_full_disk_leaves_no_half_a_consumer_and_its_end_is_reported(consumer: Launched) -> None:
    launcher_pid, driver, helper = up(consumer)
    resource.prlimit(launcher_pid, resource.RLIMIT_FSIZE, (0, 0))  # as on a full disk, a file is made and takes no byte
    os.kill(driver, signal.SIGKILL)
    eventually((consumer.folder.path / "told").exists)
    assert not psutil.pid_exists(helper)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("INFO up\n", ""),
        ("Traceback (most recent call last):\n  File x\n    y()\nKeyError: 'x'\nINFO gone\n", "KeyError: 'x'"),
        (
            "java.lang.X: Traceback (most recent call last):\n  File x\na.b.Lost: no\n\tat org.Y\nerror: set a token\n",
            "set a token",
        ),
        ("error: old\nTraceback (most recent call last):\n  File x\na.b.Lost: no\n", "Lost: no"),
        ("1 ERROR x consumer a has left: topic orders: no progress\n", "topic orders: no progress"),
        ('Exception in thread "main" org.apache.X: no master\n\tat z\n', "org.apache.X: no master"),
        (
            'Exception in thread "main" org.X: failed\n\tat z\nCaused by: a.B: why\n1 WARN q\nCaused by: a.C: later\n',
            "B: why",
        ),
        ("Traceback (most recent call last):\n  File x\n", ""),
        (
            "Error from python worker:\n  Traceback (most recent call last):\n    File x\n  zipimport.ZipImportError: bad header\n"
            "PYTHONPATH was:\n  /x\n",
            "ZipImportError: bad header",
        ),
    ],
    ids=[
        "nothing",
        "a traceback",
        "a sentence",
        "a traceback after it",
        "a leave",
        "the JVM's",
        "its cause",
        "a torn traceback",
        "an indented traceback",
    ],
)
def test_the_last_error_of_a_log_is_found(log: str, said: str) -> None:
    assert last_error(log) == said


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (0, ""),
        (1, "exit code 1"),
        (-90, "killed by signal 90"),
    ],
)
def test_how_a_consumer_ended_is_said_in_words(tmp_path: Path, code: int, how: str) -> None:
    assert launcher.reason_of(code, RunFolder(tmp_path)) == how


@pytest.mark.parametrize(("code", "how"), [(137, "exit code 137 (SIGKILL)"), (-9, "killed by SIGKILL")])
def test_a_kill_is_not_explained_by_an_older_error_of_the_log(tmp_path: Path, code: int, how: str) -> None:
    folder = RunFolder(tmp_path)
    folder.log.write_text("Traceback (most recent call last):\nBrokenPipeError: [Errno 32] Broken pipe\n")
    assert launcher.reason_of(code, folder) == how
    assert "BrokenPipeError" in launcher.reason_of(1, folder)
    folder.write_leaving("topic t: no progress for 300 s", 1.0)
    assert launcher.reason_of(code, folder) == f"{how}: topic t: no progress for 300 s"


def test_it_survives_the_death_of_everybody_around_its_caller(consumer: Launched) -> None:
    command = [sys.executable, str(consumer.patch), *consumer.arguments]
    caller = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, time; subprocess.run({command!r}); time.sleep(600)"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    eventually((consumer.folder.path / "helper").exists)
    os.killpg(caller.pid, signal.SIGKILL)
    caller.wait(10)
    time.sleep(0.5)
    assert psutil.pid_exists(consumer.number_in("helper"))
    assert not (consumer.folder.path / "told").exists()


def test_a_run_folder_that_takes_no_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    launched = Launched(tmp_path, "true")
    launched.folder.ended.mkdir(parents=True)  # a folder cannot be removed as a file
    with pytest.raises(
        Refused, match=r"launcher: the run folder \S+/c1 cannot be used: .*ended\.json.*; free space on its disk, "
    ):
        launched.start()


def test_the_lock_names_the_former_process_no_longer_before_anything_is_started(tmp_path: Path) -> None:
    """A stop goes to the process named in the lock; the number may belong to another process by then."""
    launched = Launched(tmp_path, "no-such-program")
    launched.folder.make()
    launched.folder.lock.write_text("4194304")
    with pytest.raises(Refused):
        launched.start()
    assert launched.folder.lock.read_text() != "4194304"


def test_a_clean_end_before_an_incarnation_is_not_reported(tmp_path: Path) -> None:
    launched = Launched(tmp_path, "true")
    launched.start()
    eventually(lambda: "nothing to report" in launched.folder.log_tail())
    assert not (launched.folder.path / "told").exists()


def test_a_failed_end_before_an_incarnation_is_reported_with_its_reason(tmp_path: Path) -> None:
    launched = Launched(tmp_path, sys.executable, "-c", "import no_such_package")
    launched.start()
    eventually(lambda: "reported the end of a start without an incarnation" in launched.folder.log_tail())
    assert launched.number_in("told") == 0
    why = "exit code 1: ModuleNotFoundError: No module named 'no_such_package'"
    assert (launched.folder.path / "why").read_text() == why


def test_the_reason_of_an_end_has_no_secret(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    kafka = {"sasl.password": "hunter22", "ssl.key.location": "/etc/key"}
    write_private(folder.settings, {"status_token": "t0ken", "status_token_file": "/run/t", "kafka": kafka})
    folder.log.write_text("error: no login with hunter22, t0ken of /run/t, /etc/key at amqp://me:pw@host\n")
    assert launcher.reason_of(1, folder) == (
        "exit code 1: no login with [hidden], [hidden] of /run/t, /etc/key at amqp://[hidden]@host"
    )


def test_every_line_of_the_launcher_is_json_where_the_settings_say_so(tmp_path: Path) -> None:
    launched = Launched(tmp_path, sys.executable, "-c", "raise SystemExit(3)")
    launched.folder.make()
    write_private(launched.folder.settings, {"log_format": "json"})
    launched.start()
    eventually(lambda: "reported the end" in launched.folder.log_tail())
    lines = [json.loads(line) for line in launched.folder.log_tail().splitlines()]
    assert [one["event"] for one in lines] == [
        "all processes of c1 have ended, exit code 3",
        "reported the end of a start without an incarnation",
    ]
    assert {(one["cluster"], one["consumer"], one["level"], one["logger"]) for one in lines} == {
        ("shop", "c1", "info", "spark_apps.launch.launcher")
    }


def test_an_end_is_reported_with_the_modules_that_are_installed_then(tmp_path: Path) -> None:
    """The installation is upgraded while the consumer runs; the launcher has imported the former modules."""
    packages = tmp_path / "packages"
    for name in ("coordinator_tasks", "spark_apps"):
        shutil.copytree(ROOT / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    launched = Launched(tmp_path, sys.executable, "-c", DRIVER, str(RunFolder.of(tmp_path, "shop", "c1").path))
    launched.start(packages)
    eventually((launched.folder.path / "helper").exists)
    errors = packages / "coordinator_tasks" / "core" / "errors.py"
    errors.write_text(errors.read_text() + "\n\nclass OfTheNextRelease(Refused):\n    pass\n")
    library = packages / "coordinator_tasks" / "service" / "nodes" / "fleet.py"
    library.write_text("from coordinator_tasks.core.errors import OfTheNextRelease\n" + library.read_text())
    os.kill(launched.number_in("helper"), signal.SIGKILL)
    os.kill(int(launched.folder.lock.read_text()), signal.SIGTERM)
    eventually(lambda: (launched.folder.path / "told").exists() or "not reported" in launched.folder.log_tail())
    assert launched.number_in("told") == 7
    assert "Traceback" not in launched.folder.log_tail()


@pytest.fixture
def ended(tmp_path: Path) -> LaunchRequest:
    folder = RunFolder.of(tmp_path, "shop", "c1")
    folder.path.mkdir(parents=True)
    folder.incarnation.write_text("3\n")
    return LaunchRequest("shop", "c1", folder, ("true",), report_limit_s=5.0)


def failing(times: int, tries: list[int]) -> Callable[[LaunchRequest, int], None]:
    """A report that fails so often, since ZooKeeper is away."""

    def report(_: LaunchRequest, incarnation: int) -> None:
        tries.append(incarnation)
        if len(tries) <= times:
            raise StoreUnavailable("ZooKeeper does not answer")

    return report


def test_the_report_is_tried_again_up_to_its_limit(ended: LaunchRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    assert report_end(ended, failing(2, tries))
    assert tries == [3, 3, 3]
    monkeypatch.setattr(launcher, "REPORT_PAUSE_MAX_S", 0.1)
    assert not report_end(replace(ended, report_limit_s=0.3), failing(1_000, []))


def test_a_start_without_an_incarnation_is_reported_once_and_delays_no_launch(ended: LaunchRequest) -> None:
    ended.folder.incarnation.unlink()
    ended.folder.write_ended(1, "exit code 1", 0.0)
    tries: list[int] = []
    assert not report_end(ended, failing(1_000, tries))
    assert tries == [0]


def test_what_others_say_makes_no_new_line_in_the_log(ended: LaunchRequest, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(_: LaunchRequest, __: int) -> None:
        raise Refused("x\n2026-11-25T01:02:03Z launcher forged\x1b[2J")

    assert not report_end(ended, refused)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r"cannot be reported: x\n2026-11-25T01:02:03Z launcher forged\u001b[2J")
