"""A consumer without Spark, and the replay of its dead letters by the same program, while the consumer goes on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_apps.delivery.database import Database
from tests import letters_program
from tests.integration.agent_site import Site, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def partitions() -> int:
    return 2


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_the_program_that_consumes_replays_its_letters_too(
    site: Site, request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = str(request.getfixturevalue("postgres").url) if database == "postgresql" else f"sqlite:///{tmp_path}/rows"
    program, environ = (letters_program.__file__, site.topic, url), {**os.environ, **site.environment}

    def typed(*words: str) -> tuple[int, list[str]]:
        command = [sys.executable, "-m", "coordinator_tasks", "dead-letters", *words]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120, check=False)
        print(f"\n$ coordinator dead-letters {' '.join(words)}\n{done.stdout}{done.stderr}exit code {done.returncode}")
        return done.returncode, done.stdout.splitlines()

    def produce(*values: bytes) -> None:
        for value in values:
            site.producer.produce(site.topic, value, partition=0)
        site.producer.flush()

    def rows() -> list[tuple[int, int]]:
        with Database(url).transaction() as cursor:
            return cursor.query('SELECT "offset", number FROM amounts WHERE topic = ? ORDER BY 1', [site.topic])

    consumer = subprocess.Popen([sys.executable, *program], env=environ)
    try:
        wait_for(lambda: site.zk.find(site.paths.member("a")), "the consumer registers")
        site.assign(dict.fromkeys(range(2), "a"))
        produce(b"10", b"one", b"30", b"nothing")
        wait_for(lambda: site.positions().get(0) == 4, "the records pass")
        assert typed("list", url, "--topic", site.topic)[1][-1].split()[1:3] == ["0", "3"]
        chosen = ("replay", "--topic", site.topic, "--program", *program)
        assert typed(*chosen) == (
            1,
            [
                "partition 0, offset 1 failed again: ValueError: invalid literal for int() with base 10: b'one'",
                "partition 0, offset 3 failed again: ValueError: invalid literal for int() with base 10: b'nothing'",
                "0 dead letters replayed, 2 failed again",
            ],
        )
        assert typed(*chosen, "words")[1][-1] == "1 dead letter replayed, 1 failed again"
        produce(b"50")
        wait_for(lambda: site.positions().get(0) == 5, "the consumer goes on")
        assert rows() == [(0, 10), (1, 1), (2, 30), (4, 50)]
        assert typed("show", url, site.topic, "0", "3")[1][6] == "tries        3"
    finally:
        consumer.terminate()
        consumer.wait(60)
