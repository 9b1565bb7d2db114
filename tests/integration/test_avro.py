"""Avro records by Spark's own functions, framed by a registry's serialiser and bare, in a Spark of its own."""

import json
import subprocess
import sys

import pytest

from coordinator_tasks.embedded import jars
from coordinator_tasks.embedded.errors import EmbeddedError
from coordinator_tasks.embedded.java import find_java
from tests.integration import avro_application

LIMIT_S = 200


def test_each_record_is_decoded_by_its_own_schema_and_what_is_none_of_the_subject_is_null() -> None:
    try:
        find_java()
        folder = jars.ensure_jars(jars.AVRO)
    except EmbeddedError as error:
        pytest.skip(str(error))
    listed = ",".join(str(jar) for jar in sorted(folder.glob("*.jar")))
    command = [sys.executable, "-m", avro_application.__name__, listed]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "of the first version": {"id": "ab", "quantity": 7},
        "of the second version": {"id": "cd", "quantity": 5},
        "of another subject": None,
        "foreign": None,
        "cut short": {"id": None, "quantity": None},
        "short": None,
        "null": None,
        "bare": {"id": "ab"},
    }
