"""The site of the documents: the build succeeds with valid links and anchors, and no page fetches from outside."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import diagrams, reference
from tests.reference.errors import PAGE, errors

ROOT = Path(__file__).parents[3]


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(config),
        "--site-dir",
        str(site),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


def test_no_page_fetches_anything_from_outside(site: Path) -> None:
    fetched = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//[^"]*"|<link[^>]* rel="stylesheet"[^>]*href="(?:https?:)?//'
    )
    assert [
        f"{page.name}: {hit[0]}" for page in site.rglob("*.html") for hit in fetched.finditer(page.read_text())
    ] == []


# The diagrams ------------------------------------------------------------------------------------------------------------


def test_a_diagram_that_was_changed_and_not_drawn_ends_the_build() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="state-machine.md"))
    text = (ROOT / "docs" / "state-machine.md").read_text()
    assert "images/diagrams/state-machine-1.svg" in diagrams.on_page_markdown(text, page)
    with pytest.raises(ValueError, match=r"run python -m tests\.diagrams"):
        diagrams.on_page_markdown(text.replace("[*] --> Initial", "[*] --> Stable"), page)


# The reference -----------------------------------------------------------------------------------------------------------


def test_the_site_has_the_pages_that_are_made_from_the_code(site: Path) -> None:
    assert {page.stem for page in (site / "reference").glob("*.html")} == set(reference.PAGES)


def test_the_page_of_error_codes_is_what_the_code_says() -> None:
    assert errors() == PAGE.read_text(), "run .venv/bin/python -m tests.reference"
