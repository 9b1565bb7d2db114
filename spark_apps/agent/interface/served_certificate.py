"""The certificate of a consumer's interface. Changed files of the site are loaded again."""

import logging
import socket
import ssl

from coordinator_tasks.core.errors import Refused
from coordinator_tasks.private_files import stamp
from coordinator_tasks.tls_files import TlsFiles

log = logging.getLogger(__name__)


class ServedCertificate:
    """Wraps connections in TLS; used by one thread. Raises `Refused` for unusable files.

    A renewed certificate serves the next connection. While the new files are unusable, the former certificate stays.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp = self._stamped()
        self._context = self._loaded()

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        """Return the connection over TLS, before the handshake."""
        if (now := self._stamped()) != self._stamp:
            self._stamp = now
            try:
                self._context = self._loaded()
                log.info("the certificate in %s is shown from now on", self._files.certificate)
            except Refused as error:
                log.warning("the former certificate stays: %s", error)
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _loaded(self) -> ssl.SSLContext:
        return self._files.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def _stamped(self) -> tuple[tuple[int, ...], ...]:
        return stamp(self._files.certificate), stamp(self._files.key)
