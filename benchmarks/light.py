"""Many light consumers in one process, each with a ZooKeeper session, a registration, watches and an interface.

They speak the whole protocol by the production rules and codecs, repeat the reads of the agent's poll, and read no
records. Two parts are shared that separate processes would do separately: the topic node is decoded once, and a single
HTTP server answers for all. The sessions are made here because a client library's threads for a thousand sessions would
dominate the measurement.
"""

import asyncio
import os
import time
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from kazoo.exceptions import EXCEPTIONS, BadVersionError, KazooException, NoNodeError
from kazoo.protocol.serialization import (
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Ping,
    ReplyHeader,
    SetData,
    Transaction,
    Watch,
    int_int_struct,
    int_struct,
)
from kazoo.security import OPEN_ACL_UNSAFE

from coordinator_tasks.core.codecs.codec import decode_node, decode_release, encode_release
from coordinator_tasks.core.codecs.member_codec import (
    decode_claim,
    decode_directive,
    encode_claim,
    encode_directive,
    encode_member,
)
from coordinator_tasks.core.codecs.status_codec import encode_status
from coordinator_tasks.core.model import (
    ConsumerStatus,
    Directive,
    Draining,
    Ending,
    IdClaim,
    Member,
    Release,
    RunningPartition,
    Token,
    TopicNode,
    TopicStatus,
)
from coordinator_tasks.core.names import Paths
from coordinator_tasks.core.protocol import claims, holding
from spark_apps.agent.process.agent import AgentTiming
from spark_apps.agent.zookeeper.view import LEARNT_AT_ONCE, poll_after_s

POLL_S = AgentTiming().poll_s
SESSION_MS = 10_000
AT_ONCE = 50
EPHEMERAL = 1
NOTICE, PONG = -1, -2  # request numbers that ZooKeeper gives to watches and pings


@dataclass
class Traffic:
    """Requests of all sessions to ZooKeeper; bytes on the connections."""

    operations: int = 0
    watches: int = 0
    sent: int = 0
    received: int = 0


class Session:
    """A ZooKeeper session over one connection; `seen` collects the paths with fired watches."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, traffic: Traffic) -> None:
        self._reader, self._writer, self._traffic = reader, writer, traffic
        self._pending: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._number = 0
        self.seen: set[str] = set()
        self.wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, host: str, port: int, traffic: Traffic) -> "Session":
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        session = cls(reader, writer, traffic)
        session._frame(bytes(Connect(0, 0, SESSION_MS, 0, b"\0" * 16, False).serialize()))
        await session._answer()
        session._tasks = [asyncio.create_task(session._read()), asyncio.create_task(session._ping())]
        return session

    async def call(self, operation: Any) -> Any:
        """Ask; raises kazoo's exceptions."""
        return await self.post(operation)

    def post(self, operation: Any) -> "asyncio.Future[Any]":
        """Send a request without waiting, so that many requests go out at once."""
        self._number += 1
        future = asyncio.get_running_loop().create_future()
        self._pending.append((operation, future))
        self._traffic.operations += 1
        self._frame(int_int_struct.pack(self._number, operation.type) + bytes(operation.serialize()))
        return future

    async def close(self) -> None:
        self._frame(int_int_struct.pack(self._number + 1, Close.type))
        for task in self._tasks:
            task.cancel()
        self._writer.close()

    def _frame(self, payload: bytes) -> None:
        self._traffic.sent += len(payload) + int_struct.size
        self._writer.write(int_struct.pack(len(payload)) + payload)

    async def _answer(self) -> bytes:
        (size,) = int_struct.unpack(await self._reader.readexactly(int_struct.size))
        self._traffic.received += size + int_struct.size
        return await self._reader.readexactly(size)

    async def _read(self) -> None:
        while True:
            data = await self._answer()
            header, offset = ReplyHeader.deserialize(data, 0)
            if header.xid == NOTICE:
                self._traffic.watches += 1
                self.seen.add(Watch.deserialize(data, offset)[0].path)
                self.wake.set()
            elif header.xid != PONG:
                operation, future = self._pending.popleft()
                if header.err:
                    future.set_exception(EXCEPTIONS[header.err]())
                else:
                    future.set_result(operation.deserialize(data, offset))

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(SESSION_MS / 3000)
            self._frame(int_int_struct.pack(PONG, Ping.type))


def changed(results: Sequence[Any]) -> Sequence[Any]:
    """Return a transaction's results; raises if refused."""
    for one in results:
        if isinstance(one, KazooException):
            raise one
    return results


@dataclass
class Pictures:
    """The topic node, decoded once per version, and reduced for each consumer to its own entries."""

    path: str
    _zxid: int = 0
    _whole: TopicNode | None = None
    _shares: dict[str, tuple[dict[int, str], dict[int, Any]]] = field(default_factory=dict)

    def share(self, data: bytes, zxid: int, consumer: str) -> TopicNode:
        if zxid != self._zxid or self._whole is None:
            self._whole, self._zxid, self._shares = decode_node(self.path, data), zxid, {}
            for partition, owner in self._whole.assignments.items():
                self._of(owner)[0][partition] = owner
            for partition, entry in self._whole.handoff.items():
                for who in {entry.giver, entry.taker}:
                    self._of(who)[1][partition] = entry
        assignments, handoff = self._of(consumer)
        since = {p: self._whole.since[p] for p in assignments}
        return replace(self._whole, assignments=assignments, since=since, handoff=handoff)

    def _of(self, consumer: str) -> tuple[dict[int, str], dict[int, Any]]:
        return self._shares.setdefault(consumer, ({}, {}))


@dataclass
class Fleet:
    """State shared by all consumers of the process."""

    zookeeper: tuple[str, int]
    paths: Paths
    topics: Sequence[str]
    traffic: Traffic = field(default_factory=Traffic)
    consumers: dict[str, "Light"] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)  # loopback address → consumer
    port: int = 0

    def __post_init__(self) -> None:
        self.pictures = {topic: Pictures(self.paths.topic(topic)) for topic in self.topics}

    def address(self, consumer: str) -> str:
        """Return a separate address in 127.0.0.0/8: a registered address has no path."""
        host = next((host for host, name in self.hosts.items() if name == consumer), None)
        if host is None:
            number = len(self.hosts) + 1
            host = f"127.1.{number // 250}.{number % 250 + 1}"
            self.hosts[host] = consumer
        return f"http://{host}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve the interfaces, one per loopback address."""
        host = writer.get_extra_info("sockname")[0]
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                one = self.consumers.get(self.hosts.get(host, ""))
                body, code = (one.status(), "200 OK") if one is not None else (b"", "404 Not Found")
                head = f"HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class Light:
    """A consumer between its start and its clean leave."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet, self.name = fleet, name
        self.topic = topic_of(name, fleet.topics)
        self.incarnation = 0
        self._picture: TopicNode | None = None
        self._running: dict[int, Token] = {}
        self._releases: dict[int, Release] = {}
        self._released: dict[int, int] = {}
        self._versions: dict[int, int] = {}  # of the nodes of owned partitions, so that a release needs no read
        self._poll_at = self._topic_at = 0.0
        self._leaving = False
        self.left = asyncio.Event()

    async def start(self) -> None:
        """A session, an incarnation, the registration; then the first read of the topic."""
        self._session = await Session.open(*self.fleet.zookeeper, self.fleet.traffic)
        paths = self.fleet.paths
        claim = claims.drawn(await self._claim(), step=1)
        self.incarnation = claim.incarnation
        member = Member(self.name, claim.incarnation, self.fleet.address(self.name), "boot", topics=(self.topic,))
        registered = claims.registered(claim, member, time.time())
        created = Create(paths.member(self.name), encode_member(member), OPEN_ACL_UNSAFE, EPHEMERAL)
        changed(await self._session.call(Transaction([created, self._write(claim, encode_claim(registered))])))
        self.fleet.consumers[self.name] = self
        self._session.seen.add(paths.topic(self.topic))
        self._session.wake.set()
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(_check)

    async def leave(self) -> None:
        """Write its own draining mark; the rest follows from the coordinator's plans."""
        self._leaving = True
        path = self.fleet.paths.directive(self.name)
        draining = Draining(self.name, "asked to end", time.time(), self.incarnation)
        try:
            data, stat = await self._session.call(GetData(path, None))
            found = replace(decode_directive(path, data, self.name, stat.version), draining=draining)
            await self._session.call(SetData(path, encode_directive(found), stat.version))
        except NoNodeError:
            marked = encode_directive(Directive(self.name, draining=draining))
            await self._session.call(Create(path, marked, OPEN_ACL_UNSAFE, 0))
        self._session.wake.set()
        await self.left.wait()

    async def _claim(self) -> IdClaim:
        path = self.fleet.paths.id(self.name)
        try:
            data, stat = await self._session.call(GetData(path, None))
        except NoNodeError:
            return IdClaim(self.name, 0)
        return decode_claim(path, data, self.name, stat.version)

    def _write(self, claim: IdClaim, data: bytes) -> Any:
        path = self.fleet.paths.id(self.name)
        return Create(path, data, OPEN_ACL_UNSAFE, 0) if claim.version < 0 else SetData(path, data, claim.version)

    async def _run(self) -> None:
        while not self.left.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._session.wake.wait(), max(0.0, self._poll_at - time.monotonic()))
            self._session.wake.clear()
            seen, self._session.seen = self._session.seen, set()
            if polling := time.monotonic() >= self._poll_at:
                seen |= await self._poll()
            await self._look(seen)
            await self._act()
            if polling:
                await self._learn()
            if self._leaving and self._is_free():
                await self._end()

    async def _poll(self) -> set[str]:
        """Read the directive and the topics' names; return further paths to read again."""
        now, paths = time.monotonic(), self.fleet.paths
        self._poll_at = now + POLL_S
        asked = [GetData(paths.directive(self.name), True), GetChildren(paths.assignments, True)]
        for answer in [self._session.post(one) for one in asked]:
            with suppress(NoNodeError):
                await answer
        awaited = holding.takes_over(self._picture, self.name, self.incarnation, False)
        due = {paths.partition(self.topic, p) for p in awaited if p not in self._releases}
        return due | ({paths.topic(self.topic)} if now >= self._topic_at else set())

    async def _learn(self) -> None:
        """Read the nodes of owned partitions, some at every poll."""
        self._versions = {p: version for p, version in self._versions.items() if p in self._running}
        await self._read([p for p in self._running if p not in self._versions][:LEARNT_AT_ONCE])

    async def _read(self, partitions: Sequence[int]) -> None:
        paths = {p: self.fleet.paths.partition(self.topic, p) for p in partitions}
        for partition, answer in [(p, self._session.post(GetData(path, None))) for p, path in paths.items()]:
            self._versions[partition] = (await answer)[1].version

    async def _look(self, seen: set[str]) -> None:
        topic, mine = self.topic, (self.name, self.incarnation)
        if self.fleet.paths.topic(topic) in seen and (node := await self._topic()) is not None:
            self._topic_at = time.monotonic() + poll_after_s(len(node[0]))
            share = self.fleet.pictures[topic].share(node[0], node[1].mzxid, self.name)
            if holding.accepts(self._picture, share) is holding.Reading.ACT:
                self._picture = share
        wanted = {p: self.fleet.paths.partition(topic, p) for p in holding.takes_over(self._picture, *mine, False)}
        fresh = [p for p, path in wanted.items() if path in seen or p not in self._releases]
        for partition, answer in [(p, self._session.post(GetData(wanted[p], True))) for p in fresh]:
            release = decode_release(wanted[partition], (await answer)[0])
            if release is not None:
                self._releases[partition] = release
        self._releases = {p: r for p, r in self._releases.items() if p in wanted}

    async def _topic(self) -> tuple[bytes, Any] | None:
        """Read the topic node with a watch; nothing, with a watch as well, while the node is empty."""
        path = self.fleet.paths.topic(self.topic)
        try:
            found: tuple[bytes, Any] = await self._session.call(GetData(path, True))
        except NoNodeError:
            with suppress(NoNodeError):
                await self._session.call(Exists(path, True))
                self._session.seen.add(path)  # the node was made in between
                self._session.wake.set()
            return None
        return found if found[0] else None

    async def _act(self) -> None:
        picture, mine = self._picture, (self.name, self.incarnation)
        granted = holding.grants(picture, *mine, self._releases, False)
        owed = holding.owes_release(picture, *mine, False)
        todo = holding.changes(granted, self._running, (), owed, self._released)
        kept = {p: token for p, token in self._running.items() if p not in todo.stop}
        self._running = kept | {grant.partition: grant.token for grant in todo.start}
        due = holding.changes(granted, self._running, (), owed, self._released).release
        if due and picture is not None:
            await self._release(picture, {p: owed[p].epoch for p in due})

    async def _release(self, picture: TopicNode, epochs: dict[int, int]) -> None:
        """Read unknown versions first, all at once; then write one transaction."""
        await self._read([p for p in epochs if p not in self._versions])
        writes = []
        for partition, epoch in epochs.items():
            token = Token(max(0, epoch - 1), self.incarnation, picture.generation)
            release = Release(epoch, self.name, self.incarnation, 0, picture.generation, token)
            path = self.fleet.paths.partition(self.topic, partition)
            writes.append(SetData(path, encode_release(release), self._versions.pop(partition)))
        try:
            changed(await self._session.call(Transaction(writes)))
            self._released |= epochs
        except BadVersionError:
            self._session.wake.set()

    def _is_free(self) -> bool:
        picture = self._picture
        if picture is None or self._running:
            return False
        owed = holding.owes_release(picture, self.name, self.incarnation, False)
        given = all(self._released.get(p) == entry.epoch for p, entry in owed.items())
        return given and self.name not in picture.assignments.values()

    async def _end(self) -> None:
        claim = await self._claim()
        ended = encode_claim(claims.ended(claim, self.incarnation, Ending.LEFT))
        writes = [self._write(claim, ended), Delete(self.fleet.paths.member(self.name), -1)]
        try:
            changed(await self._session.call(Transaction(writes)))
        except BadVersionError:  # the coordinator has noted something: once more
            self._session.wake.set()
            return
        del self.fleet.consumers[self.name]
        await self._session.close()
        self.left.set()

    def status(self) -> bytes:
        """Return the answer of its interface."""
        found = {}
        if self._picture is not None:
            picture = self._picture
            running = {p: RunningPartition(0, token, started=True) for p, token in self._running.items()}
            held = holding.may_hold(picture, self.name, self.incarnation, False)
            found[self.topic] = TopicStatus(picture.generation, picture.epoch, held, running)
        cluster = self.fleet.paths.cluster
        return encode_status(ConsumerStatus(self.name, cluster, self.incarnation, "boot", "ok", found))


def topic_of(consumer: str, topics: Sequence[str]) -> str:
    """Return the topic that a consumer registers for, by the number in the consumer's name: all topics get as many."""
    return topics[int(consumer[1:]) % len(topics)]


def _check(task: "asyncio.Task[None]") -> None:
    """Print a consumer's failure, otherwise only visible as an absence."""
    if not task.cancelled() and task.exception() is not None:
        traceback.print_exception(task.exception())


async def _all(work: Sequence[Any]) -> None:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(task: Any) -> None:
        async with places:
            await task

    await asyncio.gather(*(one(task) for task in work))


async def _serve(pipe: Connection, host: str, port: int, cluster: str, topics: Sequence[str]) -> None:
    fleet = Fleet((host, port), Paths(cluster), topics)
    # All loopback addresses: each consumer has a separate address.
    server = await asyncio.start_server(fleet.serve, "0.0.0.0", 0, backlog=2048)
    fleet.port = server.sockets[0].getsockname()[1]
    while True:
        order, names = await asyncio.to_thread(pipe.recv)
        if order == "join":
            await _all([Light(fleet, name).start() for name in names])
        elif order == "leave":
            await asyncio.gather(*(fleet.consumers[name].leave() for name in names))
        elif order == "end":
            os._exit(0)  # a clean end of so many connections would take long
        pipe.send(fleet.traffic)


def serve(pipe: Connection, host: str, port: int, cluster: str, topics: Sequence[str]) -> None:
    """Obey until told to end: `("join", names)` answers when all are registered, `("leave", names)` when all have left,
    `("count", ())` at once; every answer is the traffic so far."""
    asyncio.run(_serve(pipe, host, port, cluster, topics))
