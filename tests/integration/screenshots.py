"""Screenshots for the documents, in a quarter of their size: 32 colours are nearly all that a page of text has.

`SCREENSHOTS=docs/images pytest tests/integration/test_airflow_ui.py` makes those of the pages anew, and with
`SCREENSHOTS=docs/images/howto` and `test_airflow_forms.py` those of the forms and of the README.
"""

import base64
import os
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from selenium.webdriver.remote.webelement import WebElement

from tests.integration.browser import Browser

COLOURS = 32
WIDE, HIGH, MARGIN = 1_280, 2_600, 12
_RGB, _PAETH = 3, 4
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


RECT = """
const [what, last] = arguments;
document.activeElement.blur();
what.scrollIntoView({block: what.clientHeight > innerHeight ? "start" : "nearest"});
const box = what.getBoundingClientRect();
const bottom = last ? document.querySelector(last).getBoundingClientRect().bottom : box.bottom;
return [box.left + scrollX, box.top + scrollY, box.width, bottom - box.top];
"""


def folder() -> str:
    """The folder that `SCREENSHOTS` names; empty = no pictures are wanted."""
    return os.environ.get("SCREENSHOTS", "")


def keep(
    browser: Browser,
    name: str,
    what: WebElement | None = None,
    last: str = "",
    *,
    wide: int = WIDE,
    most: int = 1_600,
    margin: int = 0,
) -> None:
    """A picture for the documents, where `SCREENSHOTS` names a folder: of the page, or of `what` with a margin.

    `last`: the element that it ends with; `wide`: of the window; `most`: the height at which it is cut.
    """
    if not folder():
        return
    metrics = {"width": wide, "height": HIGH, "deviceScaleFactor": 1, "mobile": wide < WIDE // 2}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    left, top, width, height = browser.driver.execute_script(RECT, what or browser.find("body"), last)
    clip = {
        "x": max(0, left - margin),
        "y": max(0, top - margin),
        "width": width + 2 * margin,
        "height": min(most, height + 2 * margin),
        "scale": 1,
    }
    shot = browser.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    (Path(folder()) / f"{name}.png").write_bytes(small(base64.b64decode(shot["data"])))
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def small(png: bytes) -> bytes:
    """The same picture with a palette of its most frequent colours; each other one becomes the nearest of these.

    `png` is as Chromium makes it: 8 bits of red, green and blue, not interlaced.
    """
    chunks = list(_chunks(png))
    width, height, *kind = struct.unpack(">IIBBBBB", chunks[0][1])
    if kind != [8, 2, 0, 0, 0]:
        raise ValueError(f"this is no picture of 8 bits of red, green and blue: {kind}")
    rows = [
        [row[at : at + _RGB] for at in range(0, len(row), _RGB)]
        for row in _rows(width * _RGB, zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT")))
    ]
    found = Counter(colour for row in rows for colour in row)
    palette = [colour for colour, _ in found.most_common(COLOURS)]
    place = {colour: min(range(len(palette)), key=lambda at: _apart(palette[at], colour)) for colour in found}
    lines = b"".join(b"\0" + bytes(place[colour] for colour in row) for row in rows)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", head), (b"PLTE", b"".join(palette)), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(name, data) for name, data in parts)


def _apart(one: bytes, other: bytes) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(png):
        length, name = struct.unpack(">I4s", png[at : at + 8])
        yield name, png[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _rows(size: int, filtered: bytes) -> Iterator[bytes]:
    """The rows of pixels, without the filters of PNG."""
    before = bytes(size)
    for at in range(0, len(filtered), size + 1):
        row = bytearray(filtered[at + 1 : at + 1 + size])
        for i, value in enumerate(row):
            left, up, corner = (row[i - _RGB], before[i], before[i - _RGB]) if i >= _RGB else (0, before[i], 0)
            row[i] = (value + _guess(filtered[at], left, up, corner)) & 255
        before = bytes(row)
        yield before


def _guess(kind: int, left: int, up: int, corner: int) -> int:
    """By PNG's numbers: nothing, left, up, their average, Paeth's choice."""
    if kind == _PAETH:
        return min((left, up, corner), key=lambda one: abs(left + up - corner - one))
    return (0, left, up, (left + up) // 2)[kind]
