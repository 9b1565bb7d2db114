"""Runs JUnit tests of the reader in the JVM: `tests/jvm/*Test.java`, in the package of the sources."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from coordinator_tasks.devstack.embedded.jars import JarSet, Resolution, ensure_jars, pyspark_home
from coordinator_tasks.devstack.java_compiler import compile_sources, kafka_clients, provided_jars
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java

ROOT = Path(__file__).resolve().parents[1]
VERSION = "6.0.3"
JUNIT = JarSet(
    f"JUnit {VERSION}",
    Path(__file__).with_name(f"junit-{VERSION}.sha256"),
    (Resolution(f"org.junit.platform:junit-platform-console-standalone:{VERSION}"),),
)
LIMIT_S = 240.0
NO_TESTS = 2
"""Exit code of JUnit when it finds no test."""


@dataclass(frozen=True, slots=True)
class Result:
    """A Java test; `failure` is empty if the test passed, `skipped` has the reason."""

    name: str
    failure: str
    skipped: str


def run_junit(sources: Sequence[Path], tests: Sequence[Path], folder: Path) -> dict[str, list[Result]]:
    """Compile sources and tests into `folder`, run the tests, and return the results by the simple name of the class."""
    (junit,) = ensure_jars(JUNIT).glob("*.jar")
    classes = folder / "classes"
    compile_sources([*sources, *tests], [*provided_jars(), junit], classes)
    reports = folder / "reports"
    # All of Spark's jars and what Arrow needs, as in an executor; nothing of the tests' own is on an executor's class path.
    path = os.pathsep.join(map(str, [classes, kafka_clients(), *sorted((pyspark_home() / "jars").glob("*.jar"))]))
    # fmt: off
    command = [
        str(find_java().executable), *QUICK_START_OPTIONS, "-Duser.timezone=UTC",
        "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", f"{junit}{os.pathsep}{path}",
        "org.junit.platform.console.ConsoleLauncher", "execute", f"--scan-class-path={classes}",
        "--disable-banner", "--details=none", f"--reports-dir={reports}",
    ]
    # fmt: on
    log = folder / "junit.log"
    with log.open("wb") as output:
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, timeout=LIMIT_S, check=False)
    results: dict[str, list[Result]] = {}
    for report in sorted(reports.glob("TEST-*.xml")):
        for case in ET.parse(report).getroot().iter("testcase"):
            results.setdefault(case.attrib["classname"].rpartition(".")[2].partition("$")[0], []).append(_result(case))
    assert results or done.returncode == NO_TESTS, log.read_text(errors="replace")[-3000:]
    return results


def _result(case: ET.Element) -> Result:
    failure = next((one for kind in ("failure", "error") if (one := case.find(kind)) is not None), None)
    skipped = case.find("skipped")
    return Result(
        case.attrib["name"],
        "" if failure is None else failure.text or failure.attrib.get("message", "failed"),
        "" if skipped is None else skipped.text or skipped.attrib.get("message", "skipped"),
    )
