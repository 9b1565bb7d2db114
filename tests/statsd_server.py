"""A server of StatsD on loopback."""

import socket
import threading


class StatsdServer:
    """Keeps what is sent to it: name → values with their kinds (`4|g`), in order."""

    def __init__(self) -> None:
        self.sent: dict[str, list[str]] = {}
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def _keep(self) -> None:
        while line := self._socket.recv(4096).decode():
            name, _, value = line.rpartition(":")
            self.sent.setdefault(name, []).append(value)

    def close(self) -> None:
        """Take what has come, and end."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()
