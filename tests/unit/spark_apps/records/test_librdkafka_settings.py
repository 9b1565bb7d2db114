"""The reader in the JVM decides on each setting of librdkafka: `tests/jvm/ClientSettingsTest.java` reads this list."""

import ctypes
import re
from pathlib import Path

from confluent_kafka import cimpl

LIST = Path(__file__).parents[3] / "jvm" / "librdkafka-settings.txt"
ROW = re.compile(r"^([a-z_.]+) +\| +[*CP] +\|[^|]*\|(.*)\| (?:low|medium|high) +\|(.*)$", re.MULTILINE)
"""Name, default and meaning."""


def settings_of_librdkafka(scratch: Path) -> dict[str, str]:
    """Return each setting that is a text, with its default, from the library's own table."""
    system, library = ctypes.CDLL(None), ctypes.CDLL(cimpl.__file__)
    system.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(system.fopen(str(scratch).encode(), b"w"))
    library.rd_kafka_conf_properties_show(file)
    system.fclose(file)
    found: dict[str, str] = {}
    for name, default, says in ROW.findall(scratch.read_text()):
        if "see dedicated API" not in says:
            found.setdefault(name, default.strip())
    return found


def test_the_list_has_each_setting_of_librdkafka(tmp_path: Path) -> None:
    expected = "".join(
        f"{name}={default}\n" for name, default in sorted(settings_of_librdkafka(tmp_path / "table").items())
    )
    assert LIST.read_text() == expected, "decide on the new settings in ClientSettings.java"
