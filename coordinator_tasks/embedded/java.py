"""The Java of the embedded servers, and how they are started."""

from __future__ import annotations

from coordinator_tasks import java
from coordinator_tasks.embedded.errors import JavaUnavailable
from coordinator_tasks.java import Java

# Local servers are short-lived: the first compiler only and the serial collector start fastest and use the least.
QUICK_START_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def find_java() -> Java:
    """The first usable Java; JavaUnavailable names every candidate that was refused, and why."""
    try:
        return java.find_java()
    except java.JavaUnavailable as error:
        raise JavaUnavailable(str(error)) from error
