"""The diagrams of the site: every Mermaid block of a page is drawn ahead, and the site shows the kept drawing in its place.

`python -m tests.diagrams` draws them into `docs/images/diagrams/`. It needs npm, which fetches Mermaid, and Chromium. The build of the
site calls `on_page_markdown` (`mkdocs.yml`) and needs neither: the theme itself would fetch Mermaid in the reader's browser.
"""

import hashlib
import html
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FOLDER = DOCS / "images" / "diagrams"
MERMAID = "12.3.0"
BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SETTINGS = {
    "startOnLoad": False,
    "deterministicIds": True,
    "fontFamily": "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif",
    "htmlLabels": False,  # plain SVG: HTML within a picture is not shown everywhere
    "flowchart": {"htmlLabels": False},
    "sequence": {
        "mirrorActors": False,
        "wrap": True,
        "width": 130,
        "actorMargin": 50,
        "diagramMarginX": 10,
        "messageMargin": 20,
    },
}
PAGE = """<!doctype html><meta charset="utf-8"><script src="{script}"></script><body><script>
mermaid.initialize({settings});
mermaid.render("{name}", {source}).then(
  drawn => {{ document.body.innerHTML = "<pre>" + new Option(drawn.svg).innerHTML + "</pre>"; }},
  error => {{ document.body.textContent = error; }});
</script>"""


@dataclass(frozen=True, slots=True)
class Diagram:
    """One block of a page; `title`: the heading that it stands under."""

    file: Path
    title: str
    source: str

    @property
    def mark(self) -> str:
        """What the drawing of this source begins with."""
        return f"<!-- {hashlib.sha256(self.source.encode()).hexdigest()} -->\n"

    @property
    def is_drawn(self) -> bool:
        return self.file.is_file() and self.file.read_text().startswith(self.mark)


def diagrams(page: str, text: str) -> Iterator[tuple[re.Match[str], Diagram]]:
    """Every block of a page with its place in the text; `page`: its path below `docs`."""
    for number, block in enumerate(BLOCK.finditer(text), 1):
        title = HEADING.findall(text, 0, block.start())[-1]
        name = f"{page.removesuffix('.md').replace('/', '-')}-{number}"
        yield block, Diagram(FOLDER / f"{name}.svg", title, block[1])


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs: each block becomes its drawing. Raises `ValueError`, which ends the build, if that is not of this source."""
    for block, one in reversed(list(diagrams(page.file.src_uri, markdown))):
        if not one.is_drawn:
            raise ValueError(f"{one.file.name} is not drawn from {page.file.src_uri}: run python -m tests.diagrams")
        up = "../" * page.file.src_uri.count("/")
        shown = f"![{one.title}]({up}images/diagrams/{one.file.name})"
        markdown = markdown[: block.start()] + shown + markdown[block.end() :]
    return markdown


def draw(one: Diagram, script: Path, folder: Path) -> None:
    """Keep the drawing that Chromium makes of it."""
    page = folder / f"{one.file.stem}.html"
    settings, source = json.dumps(SETTINGS), json.dumps(one.source)
    page.write_text(PAGE.format(script=script, settings=settings, name=one.file.stem, source=source))
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    command = ["chromium", *flags, "--virtual-time-budget=20000", "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    drawn = re.search(r"<pre>(.*)</pre>", shown, re.DOTALL)
    if drawn is None:
        raise SystemExit(f"{one.file.name}: {shown[-2000:]}")
    one.file.parent.mkdir(exist_ok=True)
    svg = html.unescape(drawn[1])
    width, height = re.findall(r'viewBox="\S+ \S+ (\S+) (\S+)"', svg)[0]
    svg = svg.replace('width="100%"', f'width="{width}" height="{height}"', 1)
    one.file.write_text(one.mark + svg.replace('style="', 'style="background: white; ', 1) + "\n")


def main() -> None:
    wanted = [
        one
        for path in sorted(DOCS.rglob("*.md"))
        for _, one in diagrams(str(path.relative_to(DOCS)), path.read_text())
        if not one.is_drawn
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["npm", "pack", "--silent", f"mermaid@{MERMAID}"], cwd=folder, check=True)
        with tarfile.open(folder / f"mermaid-{MERMAID}.tgz") as package:
            package.extractall(folder, filter="data")
        for one in wanted:
            draw(one, folder / "package" / "dist" / "mermaid.min.js", folder)
            print(one.file.relative_to(ROOT))


if __name__ == "__main__":
    main()
