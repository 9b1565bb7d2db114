"""Writes the pages."""

from tests.reference import FOLDER, PAGES


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, made in PAGES.items():
        (FOLDER / f"{name}.md").write_text(made())


if __name__ == "__main__":
    main()
