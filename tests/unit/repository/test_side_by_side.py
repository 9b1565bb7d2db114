"""Which worker gets which file of tests."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.side_by_side import SideBySide, starts_airflow

FILES = (
    "tests/contract/test_wiring.py",
    "tests/faults/test_checker.py",
    "tests/faults/test_spans.py",
    "tests/integration/test_airflow_forms.py",
    "tests/integration/test_real_kafka.py",
    "tests/unit/repository/test_side_by_side.py",
)
TESTS = tuple(f"{file}::test_{number}" for file in FILES for number in range(4))


@dataclass(eq=False)
class Worker:
    """Remembers what it is to run."""

    gateway: Any
    given: list[int] = field(default_factory=list)
    shutting_down: bool = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(TESTS[one].partition("::")[0] for one in self.given))


@pytest.fixture
def workers() -> list[Worker]:
    return [Worker(SimpleNamespace(id=f"gw{number}")) for number in range(3)]


def begun(workers: list[Worker]) -> SideBySide:
    config = SimpleNamespace(
        getvalue=lambda _: ["popen"] * len(workers), option=SimpleNamespace(loadscopereorder=False)
    )
    made = SideBySide(config)
    for one in workers:
        made.add_node(one)
    for one in workers:
        made.add_node_collection(one, TESTS)
    made.schedule()
    return made


def run_one(made: SideBySide, worker: Worker, number: int) -> None:
    made.mark_test_complete(worker, worker.given[number])


def test_the_worker_aside_waits_for_the_tests_of_deaths_and_then_takes_files_from_the_end_without_an_airflow(
    workers: list[Worker],
) -> None:
    first, second, aside = workers
    made = begun(workers)
    assert (first.files, second.files, aside.files) == ([FILES[0]], [FILES[1]], [])
    for number in (0, 1):
        run_one(made, first, number)
    assert first.files == [FILES[0], FILES[2]], "the last of the tests of deaths"
    assert aside.files == [FILES[5]]
    for number in (0, 1):
        run_one(made, aside, number)
    assert aside.files == [FILES[5], FILES[4]]
    for number in (2, 3, 4, 5):
        run_one(made, aside, number)
    assert aside.shutting_down, "only an Airflow is left"
    for number in (0, 1):
        run_one(made, second, number)
    assert second.files == [FILES[1], FILES[3]]
    assert sorted(first.given + second.given + aside.given) == list(range(len(TESTS)))


def test_two_workers_share_all_files(workers: list[Worker]) -> None:
    made = begun(workers[:2])
    for number in range(len(TESTS)):
        for one in workers[:2]:
            if number < len(one.given):
                run_one(made, one, number)
    assert made.tests_finished
    assert sorted(workers[0].given + workers[1].given) == list(range(len(TESTS)))


def test_a_file_that_starts_an_airflow_is_known_by_what_it_uses() -> None:
    assert starts_airflow("tests/integration/test_every_action.py")
    assert not starts_airflow("tests/integration/test_real_kafka.py")
