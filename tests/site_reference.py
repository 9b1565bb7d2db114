"""The reference in the site: its pages are made from the code, and are not in Git."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tests.reference import PAGES


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Called by mkdocs (`mkdocs.yml`)."""
    for name, made in PAGES.items():
        files.append(File.generated(config, f"reference/{name}.md", content=made()))
