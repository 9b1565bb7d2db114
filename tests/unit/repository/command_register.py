"""Who runs the commands of the pages: every line of a command block that no test here types is in this register.

`test_command_blocks.py` types our own commands (`python -m coordinator_tasks`) on a shop in memory, and the blocks that need a
shell alone. Another line needs an entry: a pattern for the line, and the test that runs it or the reason why none does.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SHELLS = ("", "sh", "bash", "console")
"""Marks of a command block. What a program prints is marked `text`, and code by its language."""
MEASURES = (
    "a measurement: minutes or hours on a machine with nothing else on it; tests/unit/benchmarks checks its report"
)
SUITE = "it runs the tests themselves, or hours of them"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `number` counts the lines of its page from 1; `lines` are its commands, continued ones joined."""

    page: str
    number: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.page}:{self.number}"

    @property
    def lines(self) -> list[str]:
        joined = re.sub(r"\\\n\s*", "", self.text)
        return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


@dataclass(frozen=True, slots=True)
class Entry:
    """`test` runs the lines that match; an empty one = no test does, for `reason`."""

    page: str
    pattern: str
    test: str = ""
    reason: str = ""


REGISTER = (
    Entry("README.md", r"make (demo|test)$", reason="`make demo` is minutes on real servers, `make test` is this run"),
    Entry("CONTRIBUTING.md", r"make (check|test|test-all|help) ", reason=SUITE),
    Entry("docs/consumers.md", r"export PATH=|spark-submit ", "tests/integration/test_real_spark.py"),
    Entry(
        "docs/consumers.md",
        r"curl ",
        reason="PORT is the reader's; tests/integration/test_agent_plain.py asks that address",
    ),
    Entry("docs/existing-job.md", r"\s*\.venv/bin/python -c ", "tests/unit/repository/test_existing_job.py"),
    Entry("docs/existing-job.md", r"\s*kafka-consumer-groups", "tests/integration/test_real_offsets.py"),
    Entry("docs/install.md", r"", "tests/clusters/test_install_page.py"),
    Entry("docs/operations.md", r".*airflow db clean ", reason="it deletes runs from the database of a site's Airflow"),
    Entry(
        "docs/measurements.md",
        r"(PYTHONPATH=\. )?\.venv/bin/python (-m benchmarks\.|benchmarks/)",
        reason=MEASURES,
    ),
    Entry("docs/operations.md", r"airflow pools ", reason="Airflow's own command; the pool is the site's choice"),
    Entry("docs/operations.md", r"\s*export PATH=", "tests/integration/test_real_spark.py"),
    Entry("docs/allowed.md", r"export COORDINATOR_ALLOWED", "tests/unit/coordinator_tasks/test_allowed_launches.py"),
    Entry("docs/operations.md", r".*spark_apps\.launch\.launcher_service", "tests/integration/test_real_fleet.py"),
    Entry("docs/kubernetes.md", r"for pod in |kubectl rollout", "tests/clusters/test_kubernetes_consumers.py"),
    Entry("docs/kubernetes.md", r"\s*kubectl ", "tests/clusters/test_kubernetes_pods.py"),
    Entry("docs/operations.md", r"cp docs/compose|chmod 600|docker compose ", "tests/clusters/test_compose.py"),
    Entry("docs/secrets.md", r"NEW=|\(umask 077", "tests/integration/test_token_rotation.py"),
    Entry("docs/secrets.md", r"\s*\.venv/bin/python -c .*getpass", "tests/integration/test_real_accounts.py"),
    Entry("docs/metrics.md", r".*coordinator_tasks metrics ", "tests/integration/test_monitoring.py"),
    Entry("docs/operations.md", r".*coordinator_tasks run$", "tests/unit/coordinator_tasks/cli/test_cli.py"),
    Entry("docs/howto/doctor.md", r".*coordinator_tasks doctor$", "tests/integration/test_doctor.py"),
    Entry("docs/howto/drain.md", r"systemctl ", reason="the site's own way to restart a process"),
    Entry(
        "docs/howto/approve.md",
        r".*coordinator_tasks approve ",
        "tests/unit/coordinator_tasks/service/plan/test_approvals.py",
    ),
    Entry(
        "docs/state-machine.md",
        r".*tests\.state_diagram",
        "tests/unit/repository/test_state_diagram.py",
    ),
    Entry(
        "docs/tutorial.md",
        r"make demo KEEP=1$",
        reason="minutes on real servers; tests/unit/coordinator_tasks/devstack/demo checks what it says",
    ),
    Entry("docs/tutorial.md", r"", "tests/integration/test_tutorial.py"),
    Entry("docs/versions.md", r"make clusters", reason=SUITE),
)


def pages() -> list[Path]:
    """Every page for a person."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> list[Block]:
    """The command blocks of all pages: those marked as a shell's, and the unmarked ones."""
    found = []
    for page in pages():
        text = page.read_text()
        for one in re.finditer(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            if one[1] in SHELLS:
                number = text[: one.start()].count("\n") + 1
                found.append(Block(str(page.relative_to(ROOT)), number, one[2]))
    return found


def entry_of(page: str, line: str) -> Entry | None:
    """The first entry for this line."""
    return next((one for one in REGISTER if one.page == page and re.match(one.pattern, line)), None)
