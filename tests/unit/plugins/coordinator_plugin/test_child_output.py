"""The end of a program's output, however much the program prints, and the program's time limit."""

import subprocess
import sys
import tracemalloc

import pytest
from coordinator_plugin.child_output import run_to_end

MEGABYTE = 1024 * 1024
LOUD = f"""
import sys
for stream in (sys.stdout, sys.stderr):
    for number in range(20):
        stream.write("x" * {MEGABYTE} + "\\n")
    stream.write("the end of " + stream.name)
sys.exit(7)
"""


def test_a_loud_program_needs_no_memory_and_its_last_words_are_kept() -> None:
    tracemalloc.start()
    try:
        done = run_to_end([sys.executable, "-c", LOUD], {}, 60.0, 1_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert done.returncode == 7
    assert [len(text) for text in (done.stdout, done.stderr)] == [1_000, 1_000]
    assert done.stdout.endswith("x\nthe end of <stdout>")
    assert done.stderr.endswith("x\nthe end of <stderr>")
    assert peak < MEGABYTE, "40 MB were printed"


def test_a_program_that_does_not_end_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_to_end([sys.executable, "-c", "import time; print('x'); time.sleep(100)"], {}, 0.5, 1_000)


def test_bytes_that_are_no_text_are_replaced() -> None:
    text = "import sys; sys.stdout.buffer.write(b'a\\xff')"
    assert run_to_end([sys.executable, "-c", text], {}, 60.0, 1_000).stdout == "a\ufffd"
