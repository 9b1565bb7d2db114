"""A TCP proxy on loopback whose connections can be cut, and which can refuse or swallow everything."""

import socket
import threading
import time
from contextlib import suppress
from typing import Self

CHUNK = 65_536


class Proxy:
    """Forwards to `host:port`; `address` is what clients are told. Answers come `answers_after_s` late."""

    def __init__(self, target: str, answers_after_s: float = 0.0) -> None:
        self._answers_after_s = answers_after_s
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._refusing = threading.Event()
        self._swallowing = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._refusing.set()
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Break off every connection, in the middle of whatever it carries."""
        with self._lock:
            cut, self._open = self._open, set()
        for one in cut:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def refuse(self) -> None:
        """Cut everything, and break off whoever comes, until `let_through`."""
        self._refusing.set()
        self.cut()

    def swallow(self) -> None:
        """Cut everything, let in whoever comes, and pass nothing on, until `let_through`."""
        self._swallowing.set()
        self.cut()

    def let_through(self, *, keep: bool = False) -> None:
        """`keep`: connections whose bytes were swallowed stay open, and never get an answer."""
        self._refusing.clear()
        if self._swallowing.is_set():
            self._swallowing.clear()
            if not keep:
                self.cut()  # they come again

    @property
    def open(self) -> int:
        """The number of open sockets."""
        with self._lock:
            return len(self._open)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refusing.is_set():
                    client.close()
                elif self._swallowing.is_set():
                    with self._lock:
                        self._open.add(client)
                else:
                    self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        with self._lock:
            self._open |= {client, server}
        for source, sink, late_s in ((client, server, 0.0), (server, client, self._answers_after_s)):
            threading.Thread(target=self._pump, args=(source, sink, late_s), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, late_s: float) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                time.sleep(late_s)
                sink.sendall(data)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
