"""`ports.StatusClient` over HTTP: asks all consumers at once. Each consumer has its own time limit."""

import asyncio
import logging
import math
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar

import certifi

from coordinator_tasks.adapters.http_exchange import BadAnswer, NotConnected, Peer
from coordinator_tasks.adapters.look_budget import MOST_OTHERS, READ_CPU_S, Allowance, NoBudget, SharedBytes, in_order
from coordinator_tasks.core.codecs.status_codec import decode_status
from coordinator_tasks.core.errors import Malformed, Refused
from coordinator_tasks.core.fleet.interface_addresses import PLAIN, is_plain
from coordinator_tasks.core.model import Answer, Member, Silence, Unreachable
from coordinator_tasks.core.names import MAX_ID_BYTES, STATUS_PATH, check_topic
from coordinator_tasks.private_files import stamp
from coordinator_tasks.status_tokens import StatusTokens
from coordinator_tasks.tls_files import TlsFiles, bad_certificate

DEFAULT_LIMIT_S = 2.0
MAX_CONNECTIONS = 256
"""Maximum connections to owners of partitions. All other consumers get the same number together."""
OWNERS_LIMITS = 4
"""Requests to owners may begin during this multiple of an answer's time limit, other requests during one limit."""
SILENT_S = 5.0
"""Seconds until a silent consumer is asked again that has no partitions and has never answered: steps ask often."""
IDLE_S = 60.0  # seconds until the client of an unused address is closed
V = TypeVar("V")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """An answer that is not decoded yet, with the times of request and arrival."""

    code: int
    body: bytes
    asked_s: float
    answered_s: float


class _Lane:
    """Connections of the owners, or of all others. Neither a crowd nor slow host names of one lane delay the other."""

    def __init__(self, connections: int, limits: float) -> None:
        self.limits = limits
        self.places = asyncio.Semaphore(connections)
        self.peers: dict[str, Peer] = {}
        self.asked_at: dict[str, float] = {}  # address -> time of the last request
        # A slow name resolution blocks a thread. With few threads, other names would have to wait.
        self.names = ThreadPoolExecutor(connections, thread_name_prefix="consumer-names")

    def forget(self, until: float) -> None:
        """Close connections without a request since `until`: their consumers are dead, or have a new port."""
        for address in [address for address, at in self.asked_at.items() if at <= until]:
            del self.asked_at[address]
            self.peers.pop(address).close()

    def close(self) -> None:
        self.forget(math.inf)
        self.names.shutdown(wait=False, cancel_futures=True)


class HttpStatusClient:
    """One event loop in one thread, for any number of callers; `close` ends the loop.

    - `limit_s`: time limit of an answer, from connecting to the last byte.
    - `connections`: at most so many owners are asked at a time, and as many other consumers. `look_budget` sets the
      order, and how many bytes are read. A compressed or too long answer is refused on arrival.
    - `tokens`: without a token nothing is posted.
    - `ca`: the file of the authority that has signed the consumers' certificates; empty means the usual authorities.
    - `https_only`: send neither token nor request to a consumer that has registered plain http.

    Raises `Refused`.
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
        self._not_told: set[str] = set()  # consumers to which a node could not be posted, each logged once
        self._limit_s = limit_s
        self._ca, self._stamp, self._https_only = ca, stamp(ca), https_only
        self._tls = _trusting(ca) if ca else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="consumer-status", daemon=True)
        self._thread.start()
        self._silent: dict[tuple[str, int, str], tuple[float, Unreachable]] = {}  # by `_key`, with the time
        self._owners, self._others = _Lane(connections, OWNERS_LIMITS), _Lane(connections, 1)

    def _peer(self, lane: _Lane, address: str) -> Peer:
        """Return the client of an address. Raises `ValueError` for an invalid address."""
        if address not in lane.peers:
            lane.peers[address] = Peer(address, self._trusted, lane.names)
        lane.asked_at[address] = time.monotonic()
        return lane.peers[address]

    def _trusted(self) -> ssl.SSLContext:
        """Return the context for the next https connection. If the file has changed, it is read again."""
        if self._tls is None:
            # Reading the usual authorities takes longer than everything else in opening a coordinator, so do it only
            # for https.
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

    def ask(self, members: Collection[Member], known: Mapping[str, int] | None = None) -> Mapping[str, Answer]:
        # Decode only after all answers have arrived. Otherwise decoding would delay arrivals beyond their time limits.
        shared, known = SharedBytes(), known or {}

        async def status(lane: _Lane, member: Member) -> _Arrived:
            return await self._status(lane, member, Allowance(shared, known.get(member.consumer)))

        now, former = time.monotonic(), self._silent
        silent = {key: one for key, one in former.items() if now - one[0] < SILENT_S}
        asked = [one for one in members if one.consumer in known or _key(one) not in silent]
        found = self._of_all(asked, known, status)
        found |= {one.consumer: silent[_key(one)][1] for one in members if one.consumer not in found}
        for member in asked:
            answer = found[member.consumer]
            if isinstance(answer, Unreachable) and answer.silence is Silence.SILENT and member.consumer not in known:
                silent[_key(member)] = now, answer
        self._silent = silent
        return self._all_read(members, known, found)

    def unreachable(self, members: Collection[Member]) -> Mapping[str, Unreachable]:
        found = self._of_all(members, {}, self._reach)
        return {consumer: one for consumer, one in found.items() if one is not None}

    def _of_all(
        self,
        members: Collection[Member],
        known: Mapping[str, int],
        exchange: Callable[[_Lane, Member], Awaitable[V]],
    ) -> dict[str, V | Unreachable]:
        """Return consumer → result of its exchange. Close idle connections."""
        order = in_order(members, known)

        async def each() -> list[V | Unreachable]:
            began_s = time.monotonic()
            asked = [(self._owners, one) for one in order.owners] + [(self._others, one) for one in order.others]
            found = await asyncio.gather(*(self._tried(lane, one, exchange, began_s) for lane, one in asked))
            for lane in (self._owners, self._others):
                lane.forget(time.monotonic() - IDLE_S)
            return found

        found = self._run(each()) if members else []
        answers = {one.consumer: answer for one, answer in zip((*order.owners, *order.others), found, strict=True)}
        left_out = f"not asked: one look asks {MOST_OTHERS:,} consumers without partitions"
        return answers | {one.consumer: Unreachable(Silence.UNASKED, left_out) for one in order.left_out}

    async def _status(self, lane: _Lane, member: Member, allowance: Allowance) -> _Arrived:
        asked_s = time.monotonic()
        if self._https_only and is_plain(member.address):
            await self._reach(lane, member)  # a refused connection proves the consumer's end, and nothing is sent
            raise BadAnswer(PLAIN)
        kept = False
        try:
            peer = self._peer(lane, member.address)
            code, body = await peer.get(STATUS_PATH, self._authorization(), allowance.take)
            kept = True
        finally:
            if not kept:
                allowance.give_back()
        return _Arrived(code, body, asked_s, time.monotonic())

    async def _reach(self, lane: _Lane, member: Member) -> None:
        await self._peer(lane, member.address).reach()

    async def _tried(
        self, lane: _Lane, member: Member, exchange: Callable[[_Lane, Member], Awaitable[V]], began_s: float
    ) -> V | Unreachable:
        """Run the exchange. It must begin within the lane's time, and end at most half a limit afterwards."""
        if member.problem:
            return Unreachable(Silence.BROKEN, member.problem)
        until_s = began_s + lane.limits * self._limit_s
        async with lane.places:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return Unreachable(
                    Silence.UNASKED, f"not asked: this look had {lane.limits * self._limit_s:g} s for it"
                )
            return await self._within(min(self._limit_s, left_s + self._limit_s / 2), member, exchange(lane, member))

    async def _within(self, limit_s: float, member: Member, exchange: Awaitable[V]) -> V | Unreachable:
        try:
            async with asyncio.timeout(limit_s):
                return await exchange
        except TimeoutError:
            return Unreachable(Silence.SILENT, f"{member.address} gave no answer within {limit_s:.3g} s")
        except NotConnected as error:
            if problem := self._of_tls(error):
                return Unreachable(Silence.BROKEN, f"{member.address}: {problem}")
            # If every address of the host refuses, no process listens.
            refused = all(isinstance(one, ConnectionRefusedError) for one in error.errors)
            return Unreachable(Silence.REFUSED if refused else Silence.SILENT, f"{member.address}: {error}")
        except OSError as error:
            return Unreachable(Silence.SILENT, f"{member.address}: {type(error).__name__} {error}")
        except NoBudget as error:
            return Unreachable(Silence.UNASKED, f"{member.address}: {error}")
        except (BadAnswer, ValueError) as error:
            return Unreachable(Silence.BROKEN, f"{member.address}: {error}")

    def _of_tls(self, error: NotConnected) -> str:
        """Return the problem with the consumer's certificate or TLS; empty if the error has another cause."""
        for cause in error.errors:
            if isinstance(cause, ssl.SSLCertVerificationError):
                return bad_certificate(cause, self._ca, "status_ca")
            if isinstance(cause, ssl.SSLError):
                return f"it speaks no TLS that we know ({cause.reason}); correct what it registers, or its certificate"
        return ""

    def _all_read(
        self, members: Collection[Member], known: Mapping[str, int], found: dict[str, _Arrived | Unreachable]
    ) -> dict[str, Answer]:
        """Return the answers: owners' first, then by length. So another consumer's long answer delays only itself."""

        def turn(member: Member) -> tuple[bool, int]:
            one = found[member.consumer]
            return not known.get(member.consumer), len(one.body) if isinstance(one, _Arrived) else 0

        answers: dict[str, Answer] = {}
        spent_s = 0.0
        for member in sorted(members, key=turn):
            one = found.pop(member.consumer)
            if not known.get(member.consumer) and spent_s >= READ_CPU_S and isinstance(one, _Arrived):
                one = Unreachable(Silence.UNASKED, f"not read: this look had {READ_CPU_S:g} s of processor for it")
            began_s = time.thread_time()
            answers[member.consumer] = self._read(member, one)
            spent_s += 0.0 if known.get(member.consumer) else time.thread_time() - began_s
        return {member.consumer: answers[member.consumer] for member in members}

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
            async with self._owners.places, asyncio.timeout(self._limit_s):
                return (await self._peer(self._owners, address).post(path, headers, node)) // 100 == 2
        except (OSError, NotConnected, BadAnswer, ValueError):
            return False

    async def _close_peers(self) -> None:
        for lane in (self._owners, self._others):
            lane.close()

    def close(self) -> None:
        self._run(self._close_peers())  # connections close in a later round of the loop
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _key(member: Member) -> tuple[str, int, str]:
    return member.consumer, member.incarnation, member.address


def _trusting(ca: str) -> ssl.SSLContext:
    if not ca:
        return ssl.create_default_context(cafile=certifi.where())
    files = TlsFiles("status_", "TLS to the consumers' interfaces", ca)
    return files.load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def _named(identity: tuple[str, str, int]) -> str:
    """Return an identity as text for storing and display. Names are cut to the longest valid length."""
    cluster, consumer, incarnation = identity
    return f"{consumer[:MAX_ID_BYTES]!r} of cluster {cluster[:MAX_ID_BYTES]!r}, incarnation {incarnation}"
