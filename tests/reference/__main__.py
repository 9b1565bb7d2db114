"""Writes the page of error codes."""

from tests.reference.errors import PAGE, errors

if __name__ == "__main__":
    PAGE.write_text(errors())
