"""The tokens of the consumers' interfaces: a token from the settings, or a file's tokens, read again after changes."""

import logging
import threading
from pathlib import Path

from coordinator_tasks.core.errors import BadSettings, Refused
from coordinator_tasks.private_files import read_private, stamp

log = logging.getLogger(__name__)


def is_token(text: str) -> bool:
    """Return whether the text fits into an HTTP header: visible ASCII characters without a space."""
    return text.isascii() and text.isprintable() and " " not in text


class StatusTokens:
    """The tokens, for use by any thread. A consumer accepts all tokens; the coordinator sends the first.

    `file` has one token per line. While the file is unusable, the former tokens stay valid. If it is unusable at the
    start, `BadSettings` is raised.
    """

    def __init__(self, token: str = "", file: str = "") -> None:
        self._known: tuple[str, ...] = (token,) if token else ()
        self._file = file
        self._stamp = stamp(file)
        self._lock = threading.Lock()
        if file:
            self._known = self._read()

    def all(self) -> tuple[str, ...]:
        """Return all valid tokens; empty if no token is required."""
        with self._lock:
            if self._file and (now := stamp(self._file)) != self._stamp:
                self._stamp = now
                try:
                    self._known = self._read()
                    log.info("the file of status tokens %s was read again; it has %d", self._file, len(self._known))
                except Refused as error:
                    log.warning("the former status tokens stay valid: %s", error)
            return self._known

    def _read(self) -> tuple[str, ...]:
        try:
            text = read_private(Path(self._file), "the file of status tokens")
        except (OSError, UnicodeDecodeError) as error:
            raise BadSettings(
                f"the file of status tokens {self._file} cannot be read: {error}; check status_token_file"
            ) from error
        tokens = tuple(line for line in text.splitlines() if line)
        if not tokens or not all(map(is_token, tokens)):
            problem = "a line with characters that an HTTP header does not take" if tokens else "no token"
            raise BadSettings(
                f"the file of status tokens {self._file} has {problem}; write one token of visible ASCII characters in each line"
            )
        return tokens
