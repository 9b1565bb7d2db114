"""The site of the documents: it builds, its links and anchors lead somewhere, and its pages fetch nothing from outside."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import reference

ROOT = Path(__file__).parents[3]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "tests/README.md", "CHANGELOG.md")
"""Pages that are no part of the site and link into it."""
LINK = re.compile(r"\]\(([^)\s#]*)#([^)\s]+)\)")


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
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder


def anchors(page: Path) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', page.read_text()))


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = [one.relative_to(ROOT / "docs").with_suffix(".html") for one in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    assert [str(one) for one in pages if not (site / one).is_file()] == []


@pytest.mark.parametrize("text", ["[gone](gone.md)", "[gone](#gone)", "[gone](/gone)"])
def test_a_link_that_leads_nowhere_ends_the_build(text: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Here\n\n{text}\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {docs}\nnav: [index.md]\n")
    done = build(config, tmp_path / "site")
    assert done.returncode != 0
    assert "gone" in done.stderr


@pytest.mark.parametrize("name", OUTSIDE)
def test_every_anchor_that_a_page_outside_the_site_names_is_there(name: str, site: Path) -> None:
    page = ROOT / name
    found = [(target, anchor) for target, anchor in LINK.findall(page.read_text()) if target.endswith(".md")]
    for target, anchor in found:
        inside = (page.parent / target).resolve().relative_to(ROOT / "docs").with_suffix(".html")
        assert anchor in anchors(site / inside), f"{name}: {target}#{anchor}"


def test_no_page_fetches_anything_from_outside(site: Path) -> None:
    fetched = re.compile(
        r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//[^"]*"|<link[^>]* rel="stylesheet"[^>]*href="(?:https?:)?//'
    )
    assert [
        f"{page.name}: {hit[0]}" for page in site.rglob("*.html") for hit in fetched.finditer(page.read_text())
    ] == []
    assert 'class="mermaid"' not in "".join(page.read_text() for page in site.rglob("*.html")), (
        "the theme would fetch Mermaid"
    )


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    made, kept = reference.PAGES[name](), (reference.FOLDER / f"{name}.md").read_text()
    assert made == kept, "run .venv/bin/python -m tests.reference"


def test_the_reference_has_every_route_of_a_consumers_interface() -> None:
    served = "".join(one.read_text() for one in (ROOT / "spark_apps" / "agent" / "interface").glob("*.py"))
    paths = {one.replace("\\.", ".") for one in re.findall(r'r?"(/(?:v1/)?[a-z]+)[/"]', served)}
    assert paths >= {"/v1/status", "/v1/health", "/v1/topics"}
    assert paths == {path.removesuffix("/[TOPIC]") for _, path, _ in reference.CONSUMER_ROUTES}
