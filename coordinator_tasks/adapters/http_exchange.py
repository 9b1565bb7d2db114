"""Requests over HTTP/1.1 to one address, on kept connections; h11 encodes and decodes the protocol.

A general HTTP client takes three times the processor time for a small answer, and a coordinator asks a thousand
consumers at once. Proxies, cookies, redirects and compression are not supported.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import h11

MAX_HEAD_BYTES = 16 * 1024
KEPT_S = 5.0
"""Seconds for which an idle connection is kept.

A consumer closes an idle connection after 10 s, so a request on an older connection might fail.
"""
_READ_BYTES = 64 * 1024
_PORTS = {"http": 80, "https": 443}


class BadAnswer(Exception):
    """The answer is not HTTP, or does not match the request."""


class NotConnected(Exception):
    """No address of the host accepted the connection. `errors` has one error for each address."""

    def __init__(self, errors: list[OSError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: h11.Connection
    idle_since_s: float = 0.0

    def end(self) -> None:
        """Abort at once. After a mere close, the connection stays open until a stuck consumer has read all data."""
        self.writer.transport.abort()


class Peer:
    """One address, as `http(s)://host:port` with or without a path. Any other text raises `ValueError`.

    `tls` returns the context for a new https connection. The executor `names` resolves host names.
    """

    def __init__(self, address: str, tls: Callable[[], ssl.SSLContext], names: Executor) -> None:
        found = urlsplit(address)
        if found.scheme not in _PORTS or not found.hostname:
            raise ValueError("it is no address of a consumer's interface")
        self._host, self._port = found.hostname, found.port or _PORTS[found.scheme]
        self._path, self._tls = found.path, tls if found.scheme == "https" else None
        self._names = names
        self._named = found.netloc.rpartition("@")[2]
        self._idle: list[_Connection] = []

    async def get(self, path: str, headers: dict[str, str], take: Callable[[int], None]) -> tuple[int, bytes]:
        """Return code and body. Raises `NotConnected`, `BadAnswer` and `OSError`.

        `take` gets the size of each part of the body, and may raise to end the exchange.
        """
        connection = await self._connection()
        kept = False
        try:
            code = await self._ask(connection, "GET", path, headers)
            body = await _body(connection, take)
            kept = connection.protocol.our_state is connection.protocol.their_state is h11.DONE
        except h11.ProtocolError as error:
            raise BadAnswer(str(error)) from error
        finally:
            if kept:
                connection.protocol.start_next_cycle()
                connection.idle_since_s = time.monotonic()
                self._idle.append(connection)
            else:
                connection.end()
        return code, body

    async def post(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Send a body. Return the code; the body of the answer is not read. Raises as `get`."""
        connection = await self._connection()
        try:
            return await self._ask(connection, "POST", path, {**headers, "Content-Length": str(len(body))}, body)
        except h11.ProtocolError as error:
            raise BadAnswer(str(error)) from error
        finally:
            connection.end()

    async def reach(self) -> None:
        """Open a new connection and close it. Raises `NotConnected` and `OSError`."""
        _, writer = await self._connected(None)
        writer.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().writer.close()

    async def _ask(
        self, connection: _Connection, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> int:
        named = {"Host": self._named, "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        request = h11.Request(method=method, target=self._path + path, headers=list(named.items()))
        protocol, writer = connection.protocol, connection.writer
        parts = [protocol.send(request), protocol.send(h11.Data(data=body)), protocol.send(h11.EndOfMessage())]
        writer.write(b"".join(part for part in parts if part))
        await writer.drain()
        while not isinstance(event := await _event(connection), h11.Response):
            if not isinstance(event, h11.InformationalResponse):
                raise BadAnswer("the connection ended without an answer")
        encoding = dict(event.headers).get(b"content-encoding", b"identity").decode("latin-1")
        if encoding != "identity":
            raise BadAnswer(f"the answer is encoded as {encoding[:40]!r}, and identity was asked for")
        return event.status_code

    async def _connection(self) -> _Connection:
        while self._idle:
            one = self._idle.pop()
            kept_s = time.monotonic() - one.idle_since_s
            if kept_s < KEPT_S and not one.reader.at_eof() and one.reader.exception() is None:
                return one
            one.writer.close()
        reader, writer = await self._connected(self._tls() if self._tls else None)
        return _Connection(reader, writer, h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES))

    async def _connected(self, tls: ssl.SSLContext | None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to the host's first address that accepts."""
        errors: list[OSError] = []
        for host in await self._addresses():
            try:
                name = self._host if tls else None
                return await asyncio.open_connection(host, self._port, ssl=tls, server_hostname=name)
            except OSError as error:
                errors.append(error)
        raise NotConnected(errors)

    async def _addresses(self) -> list[str]:
        try:
            resolve = partial(socket.getaddrinfo, self._host, self._port, type=socket.SOCK_STREAM)
            found = await asyncio.get_running_loop().run_in_executor(self._names, resolve)
        except OSError as error:
            raise NotConnected([error]) from error
        return list(dict.fromkeys(str(one[4][0]) for one in found))


async def _body(connection: _Connection, take: Callable[[int], None]) -> bytes:
    parts: list[bytes] = []
    while isinstance(event := await _event(connection), h11.Data):
        take(len(event.data))
        parts.append(bytes(event.data))
    return b"".join(parts)


async def _event(connection: _Connection) -> object:
    """Return the answer's next part. Other tasks get a turn first: a consumer may send tiny parts without end."""
    await asyncio.sleep(0)
    while (event := connection.protocol.next_event()) is h11.NEED_DATA:
        connection.protocol.receive_data(await connection.reader.read(_READ_BYTES))
    return event
