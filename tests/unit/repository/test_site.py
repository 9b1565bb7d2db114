"""The site of the documents: it builds, its links and anchors lead somewhere, and its pages fetch nothing from outside."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from selenium import webdriver

from tests import diagrams, reference
from tests.integration.browser import CHROMIUM, DRIVER, FLAGS

ROOT = Path(__file__).parents[3]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "tests/README.md", "CHANGELOG.md")
"""Pages that are no part of the site and link into it."""
MOST_BYTES = 80_000
"""Of a screenshot."""
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
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {docs}\nnav: [index.md]\nhooks: []\n")
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


# The diagrams ------------------------------------------------------------------------------------------------------------


def drawn_on_pages() -> dict[str, set[str]]:
    """Page → the files that its diagrams are shown by."""
    pages = {one: one.read_text() for one in (ROOT / "docs").rglob("*.md")}
    shown = {
        str(one.relative_to(ROOT / "docs").with_suffix(".html")): {
            found.file.name for _, found in diagrams.diagrams(str(one.relative_to(ROOT / "docs")), text)
        }
        for one, text in pages.items()
    }
    return {page: files for page, files in shown.items() if files}


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium and chromedriver are not installed")
def test_a_browser_without_a_network_shows_every_diagram(site: Path, tmp_path: Path) -> None:
    wanted = drawn_on_pages()
    assert sum(map(len, wanted.values())) > 3
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        for page, files in wanted.items():
            driver.get((site / page).as_uri())
            shown = driver.execute_script(
                "return [...document.images].filter(one => one.naturalWidth > 100 && one.width > 100).map(one => one.src)"
            )
            assert files <= {one.rsplit("/", 1)[-1] for one in shown}, page
    finally:
        driver.quit()


def test_no_diagram_stays_a_text_or_is_left_to_the_theme(site: Path) -> None:
    text = "".join(page.read_text() for page in site.rglob("*.html"))
    assert [
        one for one in ('class="mermaid"', "language-mermaid", "stateDiagram", "sequenceDiagram") if one in text
    ] == []


def test_every_kept_drawing_is_of_a_page() -> None:
    kept = {one.name for one in diagrams.FOLDER.iterdir()}
    assert kept == set().union(*drawn_on_pages().values())


def test_a_diagram_that_was_changed_and_not_drawn_ends_the_build() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="state-machine.md"))
    text = (ROOT / "docs" / "state-machine.md").read_text()
    assert "images/diagrams/state-machine-1.svg" in diagrams.on_page_markdown(text, page)
    with pytest.raises(ValueError, match=r"run python -m tests\.diagrams"):
        diagrams.on_page_markdown(text.replace("[*] --> Initial", "[*] --> Stable"), page)


# The reference -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", reference.PAGES, ids=lambda page: page.stem)
def test_a_page_of_the_reference_is_what_the_code_says(page: Path) -> None:
    assert reference.PAGES[page]() == page.read_text(), "run .venv/bin/python -m tests.reference"


def test_the_reference_has_every_route_of_a_consumers_interface() -> None:
    served = "".join(one.read_text() for one in (ROOT / "spark_apps" / "agent" / "interface").glob("*.py"))
    paths = {one.replace("\\.", ".") for one in re.findall(r'r?"(/(?:v1/)?[a-z]+)[/"]', served)}
    assert paths >= {"/v1/status", "/v1/health", "/v1/topics"}
    assert paths == {path.removesuffix("/[TOPIC]") for _, path, _ in reference.CONSUMER_ROUTES}


def test_no_screenshot_is_large() -> None:
    large = {one.name: one.stat().st_size for one in (ROOT / "docs").rglob("*.png") if one.stat().st_size > MOST_BYTES}
    assert large == {}, "tests.integration.screenshots makes them small"
