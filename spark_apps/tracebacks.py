"""Finds the error in a text or a log, without the stacks of Python and of the JVM around it."""

import re
from collections.abc import Iterable

from coordinator_tasks.core.text.partition_text import cut

TRACEBACK = "Traceback (most recent call last):"
_THREAD = 'Exception in thread "main" '
_SAID = ("error: ", "Error: ", _THREAD)
"""Beginnings of lines in which our commands, Spark and the JVM give the reason of their end."""
_LEFT = " has left: "
"""Part of the line with the reason of a consumer's forced leave (`agent.process`)."""
_CALLING = "An error occurred while calling "
"""Py4J's text in the line before any error of the JVM."""
_CAUSES = (": ", "Caused by: ")
READER = ("DataLost: ", "ReadFailed: ", "BadSettings: ", "AgentCallFailed: ", "OffsetMalformed: ")
"""Beginnings of the texts of the reader's errors in the JVM, whose exception classes are Java's own."""
READER_CLASSES = ("java.io.IOException", "java.lang.IllegalArgumentException", "java.lang.IllegalStateException")
_TASK = re.compile(
    r"(?:\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: )?Job aborted due to stage failure: "
    r"Task \d+ in stage [\d.]+ failed \d+ times, most recent failure: "
    r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^)]*\): (.+)"
)
"""Spark's first line about a query that ended by a task's error, up to that error."""
MOST_CHARS = 1_000


def reason(error: BaseException) -> str:
    """Return the cause in the text of an error of Spark.

    The cause is the error of the last Python traceback, else the JVM's deepest cause, else the first line.
    """
    lines = str(error).splitlines()
    first = next((line.strip() for line in lines if line.strip()), type(error).__name__)
    task = _TASK.fullmatch(first)
    return cut(_last(lines, with_sentences=False, from_jvm=True) or (_shown(task[1]) if task else first), MOST_CHARS)


def last_error(log: str) -> str:
    """Return the last error in a log: the end of a traceback, or a program's line with the reason of its end."""
    return cut(_last(log.splitlines(), with_sentences=True), MOST_CHARS)


def _last(lines: Iterable[str], *, with_sentences: bool, from_jvm: bool = False) -> str:
    """Return the last error. `from_jvm`: the lines begin inside a stack of the JVM, whose deepest cause comes last."""
    found, inside, indent = "", False, 0
    for line in lines:
        if line.endswith(TRACEBACK):
            inside, from_jvm = True, False
            # An executor's traceback is indented by Spark as a whole.
            indent = len(line) - len(TRACEBACK) if line.strip() == TRACEBACK else 0
        elif inside and line[indent : indent + 1].strip():
            found, inside, from_jvm = _shown(line.strip()), False, _CALLING in line
        elif from_jvm and line.startswith(_CAUSES):
            found = _shown(line.partition(": ")[2])
        elif with_sentences and not inside and (said := _sentence(line)):
            found, from_jvm = said, line.startswith(_THREAD)
        elif line[:1].isdigit():
            from_jvm = False  # a log line after the stack
    return found


def _shown(line: str) -> str:
    kind, colon, text = line.partition(": ")
    return text if kind in READER_CLASSES and text.startswith(READER) else f"{kind.rpartition('.')[2]}{colon}{text}"


def _sentence(line: str) -> str:
    if _LEFT in line:
        return line.partition(_LEFT)[2]
    return next((line.removeprefix(start) for start in _SAID if line.startswith(start)), "")
