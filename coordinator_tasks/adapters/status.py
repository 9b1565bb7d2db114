"""`ports.StatusClient` over HTTP: asks all consumers at once, each with its own time limit."""

import asyncio
import logging
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar

import httpx

from coordinator_tasks.adapters.http_exchange import BadAnswer, NotConnected, Peer
from coordinator_tasks.core.codecs.status_codec import MAX_STATUS_BYTES, decode_status
from coordinator_tasks.core.errors import Malformed, Refused
from coordinator_tasks.core.interface_addresses import PLAIN, is_plain
from coordinator_tasks.core.model import Answer, Member, Silence, Unreachable
from coordinator_tasks.core.names import MAX_ID_BYTES, check_topic
from coordinator_tasks.private_files import stamp
from coordinator_tasks.status_tokens import StatusTokens
from coordinator_tasks.tls_files import TlsFiles, bad_certificate

DEFAULT_LIMIT_S = 2.0
MAX_CONNECTIONS = 256
IDLE_S = 60.0  # the client of an address that nobody has asked for so long is closed
STATUS_PATH = "/v1/status"
V = TypeVar("V")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """An answer that nobody has read yet, and when it was asked for and there."""

    code: int
    body: bytes
    asked_s: float
    answered_s: float


class HttpStatusClient:
    """One event loop in one thread, used by any number of callers; `close` ends it.

    `limit_s` is for one whole answer, from connecting to its last byte. At most `connections` consumers are asked at a
    time. A compressed or too long answer is refused while it arrives. Without a token nothing is posted.
    `ca`: the file of the authority that has signed the consumers' certificates; empty = the usual ones. `https_only`: a
    consumer that is registered with plain http is sent nothing, neither token nor request. Raises `Refused`.
    """

    def __init__(
        self,
        cluster: str,
        tokens: StatusTokens | None = None,
        *,
        ca: str = "",
        https_only: bool = False,
        limit_s: float = DEFAULT_LIMIT_S,
        connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._cluster = cluster
        self._tokens = tokens or StatusTokens()
        self._not_told: set[str] = set()  # consumers that could not be handed a node, each logged once
        self._limit_s = limit_s
        self._ca, self._stamp, self._https_only = ca, stamp(ca), https_only
        self._tls = _trusting(ca) if ca else None
        self._loop = asyncio.new_event_loop()
        # A slow name resolution blocks a thread: with few threads, other names would wait for it.
        self._loop.set_default_executor(ThreadPoolExecutor(connections, thread_name_prefix="consumer-names"))
        self._thread = threading.Thread(target=self._loop.run_forever, name="consumer-status", daemon=True)
        self._thread.start()
        self._places = asyncio.Semaphore(connections)
        self._peers: dict[str, Peer] = {}
        self._asked_at: dict[str, float] = {}  # address -> when it was last asked

    def _peer(self, address: str) -> Peer:
        """Raises `ValueError` for what is no address."""
        if address not in self._peers:
            self._peers[address] = Peer(address, self._trusted)
        self._asked_at[address] = time.monotonic()
        return self._peers[address]

    def _trusted(self) -> ssl.SSLContext:
        """For the next connection over https: the file is read again when it changes, as the consumers' certificates are."""
        if self._tls is None:
            # Reading the usual authorities takes longer than all else of opening a coordinator: for https alone.
            self._tls = _trusting("")
        elif (now := stamp(self._ca)) != self._stamp:
            self._stamp = now
            try:
                self._tls = _trusting(self._ca)
            except Refused as error:
                log.warning("the former authorities stay: %s", error)
        return self._tls

    def _authorization(self) -> dict[str, str]:
        tokens = self._tokens.all()
        return {"Authorization": f"Bearer {tokens[0]}"} if tokens else {}

    def _run(self, work: Coroutine[Any, Any, V]) -> V:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def ask(self, members: Collection[Member]) -> Mapping[str, Answer]:
        # Read when all are there: while one is read no other could come, and its time would run out.
        found = self._of_all(members, self._status)
        return {member.consumer: self._read(member, found[member.consumer]) for member in members}

    def unreachable(self, members: Collection[Member]) -> Mapping[str, Unreachable]:
        found = self._of_all(members, self._reach)
        return {consumer: one for consumer, one in found.items() if one is not None}

    def _of_all(
        self, members: Collection[Member], exchange: Callable[[Member], Awaitable[V]]
    ) -> dict[str, V | Unreachable]:
        """What each exchange gives, all at once; forgets idle addresses."""

        async def each() -> list[V | Unreachable]:
            found = await asyncio.gather(*(self._tried(member, exchange) for member in members))
            self._forget_idle()
            return found

        found = self._run(each()) if members else []
        return {member.consumer: one for member, one in zip(members, found, strict=True)}

    def _forget_idle(self) -> None:
        """Close the connections to addresses that are no longer asked: their consumers are dead, or have another port."""
        until = time.monotonic() - IDLE_S
        idle = [address for address, at in self._asked_at.items() if at <= until]
        for address in idle:
            del self._asked_at[address]
            self._peers.pop(address).close()

    async def _status(self, member: Member) -> _Arrived:
        asked_s = time.monotonic()
        if self._https_only and is_plain(member.address):
            await self._reach(member)  # a refused connection proves its end, and sends nothing
            raise BadAnswer(PLAIN)
        code, body = await self._peer(member.address).get(STATUS_PATH, self._authorization(), MAX_STATUS_BYTES)
        return _Arrived(code, body, asked_s, time.monotonic())

    async def _reach(self, member: Member) -> None:
        await self._peer(member.address).reach()

    async def _tried(self, member: Member, exchange: Callable[[Member], Awaitable[V]]) -> V | Unreachable:
        if member.problem:
            return Unreachable(Silence.BROKEN, member.problem)
        try:
            async with self._places, asyncio.timeout(self._limit_s):
                return await exchange(member)
        except TimeoutError:
            return Unreachable(Silence.SILENT, f"{member.address} gave no answer within {self._limit_s:g} s")
        except NotConnected as error:
            if problem := self._of_tls(error):
                return Unreachable(Silence.BROKEN, f"{member.address}: {problem}")
            # Only if every address of the host refuses, nobody listens there.
            refused = all(isinstance(one, ConnectionRefusedError) for one in error.errors)
            return Unreachable(Silence.REFUSED if refused else Silence.SILENT, f"{member.address}: {error}")
        except OSError as error:
            return Unreachable(Silence.SILENT, f"{member.address}: {type(error).__name__} {error}")
        except (BadAnswer, ValueError) as error:
            return Unreachable(Silence.BROKEN, f"{member.address}: {error}")

    def _of_tls(self, error: NotConnected) -> str:
        """What is wrong with the consumer's certificate or TLS; empty if it is something else."""
        for cause in error.errors:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return bad_certificate(cause, self._ca, "status_ca")
            if isinstance(cause, ssl.SSLError):
                return f"it speaks no TLS that we know ({cause.reason}); correct what it registers, or its certificate"
        return ""

    def _read(self, member: Member, found: _Arrived | Unreachable) -> Answer:
        if isinstance(found, Unreachable):
            return found
        if found.code != HTTPStatus.OK:
            hint = "; the token is not the consumer's" if found.code in (401, 403) else ""
            return Unreachable(Silence.BROKEN, f"{member.address} answers with HTTP {found.code}{hint}")
        try:
            status = decode_status(member.address, found.body)
        except Malformed as error:
            return Unreachable(Silence.BROKEN, f"{error.path}: {error.problem}")
        expected = (self._cluster, member.consumer, member.incarnation)
        named = (status.cluster, status.consumer, status.incarnation)
        if named != expected:
            return Unreachable(Silence.FOREIGN, f"{member.address} is {_named(named)}, not {_named(expected)}")
        return replace(status, asked_s=found.asked_s, answered_s=found.answered_s)

    def post_topic(self, member: Member, topic: str, node: bytes) -> bool:
        path = f"/v1/topics/{check_topic(topic)}"
        if self._https_only and is_plain(member.address):
            return False
        if self._tokens.all():
            return self._run(self._post(member.address, path, node))
        if member.consumer not in self._not_told:
            self._not_told.add(member.consumer)
            log.warning(
                "%s cannot reach ZooKeeper and is not handed the node of topic %s, because no status_token is set: it "
                "keeps what it runs until ZooKeeper is back; set the same status_token for coordinator and consumers",
                member.consumer,
                topic,
            )
        return False

    async def _post(self, address: str, path: str, node: bytes) -> bool:
        headers = {"Content-Type": "application/json", **self._authorization()}
        try:
            async with self._places, asyncio.timeout(self._limit_s):
                return (await self._peer(address).post(path, headers, node)) // 100 == 2
        except (OSError, NotConnected, BadAnswer, ValueError):
            return False

    async def _close_peers(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def close(self) -> None:
        self._run(self._close_peers())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _trusting(ca: str) -> ssl.SSLContext:
    if not ca:
        return httpx.create_ssl_context(trust_env=False)
    files = TlsFiles("status_", "TLS to the consumers' interfaces", ca)
    return files.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def _named(identity: tuple[str, str, int]) -> str:
    """For a sentence that is stored and shown: names are cut to the longest valid length."""
    cluster, consumer, incarnation = identity
    return f"{consumer[:MAX_ID_BYTES]!r} of cluster {cluster[:MAX_ID_BYTES]!r}, incarnation {incarnation}"
