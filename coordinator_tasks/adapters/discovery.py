"""Service discovery in ZooKeeper: an ephemeral node per consumer, and the claim of its id beside it."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from coordinator_tasks.core.codecs.member_codec import decode_claim, decode_member, encode_claim, encode_member
from coordinator_tasks.core.errors import (
    DiscoveryUnavailable,
    IdInUse,
    LookAgain,
    Malformed,
    NodeMissing,
    StoreUnavailable,
)
from coordinator_tasks.core.model import IdClaim, Member
from coordinator_tasks.core.names import Paths, is_consumer
from coordinator_tasks.core.ports import Clock, Create, Delete, Node, Operation, SetData, Watcher, ZooKeeper
from coordinator_tasks.core.protocol.claims import drawn, in_use, predecessor, registered, same_process

MAX_ATTEMPTS = 20  # of a compare-and-set; each one lost means that somebody else made progress
_POLL_S = 0.5
IsGone = Callable[[str], bool]
"""Whether it is certain that a process of this host is over, by its name; it may say no where that is not certain."""
log = logging.getLogger(__name__)


class ZooKeeperDiscovery:
    """`ports.Discovery` on the member nodes of a cluster."""

    def __init__(self, zk: ZooKeeper, paths: Paths) -> None:
        self._zk = zk
        self._paths = paths
        self._strange: frozenset[str] = frozenset()

    def members(self) -> Mapping[str, Member]:
        try:
            self._zk.sync()
            names = self._consumers(self._zk.children(self._paths.members))
            nodes = self._zk.get_many([self._paths.member(name) for name in names])
        except NodeMissing:
            return {}
        except StoreUnavailable as error:
            raise DiscoveryUnavailable(f"the registry of consumers is in ZooKeeper: {error}") from error
        # A node that vanished between the two reads is an absent consumer.
        return {
            name: _read_or_named(self._paths.member(name), node, name)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }

    def _consumers(self, children: Sequence[str]) -> list[str]:
        """Those that can be consumers. Another name is nobody's registration: said once, and left as it is."""
        strange = frozenset(child for child in children if not is_consumer(child))
        for child in sorted(strange - self._strange):
            log.warning(
                "%s/%r is no consumer's registration and is left out; remove the node", self._paths.members, child
            )
        self._strange = strange
        return [child for child in children if child not in strange]

    def watch(self, watcher: Watcher) -> None:
        try:
            if self._zk.find(self._paths.members, watcher) is not None:
                self._zk.children(self._paths.members, watcher)
        except NodeMissing:
            pass  # it vanished in between, and the watch has fired
        except StoreUnavailable as error:
            raise DiscoveryUnavailable(f"the registry of consumers is in ZooKeeper: {error}") from error


class ZooKeeperRegistry:
    """`ports.Registry`: one transaction makes the ephemeral node and brings the claim up to date.

    The claim's version so tells a coordinator, which guards by it, that somebody has registered. `wait_s` is how long
    `register` waits for another incarnation's node to vanish before it raises `IdInUse`. `is_gone` is asked about the
    process that had the id before.
    """

    def __init__(
        self, zk: ZooKeeper, paths: Paths, clock: Clock, wait_s: float = 0.0, is_gone: IsGone = lambda _: False
    ) -> None:
        self._zk = zk
        self._paths = paths
        self._clock = clock
        self._wait_s = wait_s
        self._is_gone = is_gone

    def register(self, member: Member) -> None:
        self._zk.ensure(self._paths.members)
        self._zk.ensure(self._paths.ids)
        deadline_s = time.monotonic() + self._wait_s
        lost: LookAgain | None = None
        attempts = 0
        while attempts < MAX_ATTEMPTS:
            self._zk.sync()
            found = self._zk.find(self._paths.member(member.consumer))
            live = _read(self._paths.member(member.consumer), found, member.consumer) if found else None
            if live is not None and not same_process(live, member):
                self._await_vanishing(live, member, deadline_s)
                continue
            try:
                self._write(member, found)
            except LookAgain as error:
                lost, attempts = error, attempts + 1
            else:
                return
        raise StoreUnavailable(
            f"{self._paths.id(member.consumer)} changed {MAX_ATTEMPTS} times while {member.consumer!r} registered; "
            "look for a process that writes it all the time"
        ) from lost

    def _write(self, member: Member, found: Node | None) -> None:
        path, data = self._paths.member(member.consumer), encode_member(member)
        if found is not None and found.stat.ephemeral_owner == self._zk.session_id and found.data == data:
            return  # an earlier call got through, though its answer was lost
        replaced: list[Operation] = [] if found is None else [Delete(path, found.stat.version)]
        claim = read_claim(self._zk, self._paths, member.consumer)
        noted = _registered(claim, member, self._clock, self._is_gone)
        claim_write = write_claim(self._paths, noted)
        self._zk.transact([*replaced, Create(path, data, ephemeral=True), claim_write])

    def _await_vanishing(self, live: Member, wanted: Member, deadline_s: float) -> None:
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            raise IdInUse(in_use(live, wanted, self._zk.session_timeout_s))
        changed = threading.Event()
        if self._zk.find(self._paths.member(live.consumer), changed.set) is not None:
            changed.wait(min(_POLL_S, remaining_s))

    def deregister(self, consumer: str, incarnation: int) -> None:
        path = self._paths.member(consumer)
        for _ in range(MAX_ATTEMPTS):
            found = self._zk.find(path)
            if found is None or _read(path, found, consumer).incarnation != incarnation:
                return
            with suppress(LookAgain):
                self._zk.transact([Delete(path, found.stat.version)])
                return


def claim_incarnation(zk: ZooKeeper, paths: Paths, consumer: str, step: int) -> int:
    """Draw the number of this process's life; once per process start, kept over its sessions.

    Numbers only grow, by `step` (see `claims.drawn`). A draw whose answer was lost leaves a gap: draw again.
    """
    zk.ensure(paths.ids)
    for _ in range(MAX_ATTEMPTS):
        zk.sync()
        found = zk.find(paths.member(consumer))
        seen = _read(paths.member(consumer), found, consumer).incarnation if found else 0
        claim = drawn(read_claim(zk, paths, consumer), step, seen)
        with suppress(LookAgain):
            zk.transact([write_claim(paths, claim)])
            return claim.incarnation
    raise StoreUnavailable(
        f"{paths.id(consumer)} changed {MAX_ATTEMPTS} times while an incarnation was drawn; "
        "look for a process that starts and dies all the time"
    )


def _registered(claim: IdClaim, member: Member, clock: Clock, is_gone: IsGone) -> IdClaim:
    """The claim with this registration, and with the end of the process before it if that is over."""
    before = predecessor(claim, member)
    return registered(claim, member, clock.now(), predecessor_gone=bool(before) and is_gone(before))


def note_registration(
    zk: ZooKeeper, paths: Paths, member: Member, clock: Clock, is_gone: IsGone = lambda _: False
) -> None:
    """Bring the claim up to date for a registration that is kept elsewhere than in ZooKeeper.

    One that the claim has already is not noted again: who comes and goes is told by how often that happens.
    """
    zk.ensure(paths.ids)
    for _ in range(MAX_ATTEMPTS):
        claim = read_claim(zk, paths, member.consumer)
        noted = _registered(claim, member, clock, is_gone)
        if replace(noted, registrations=claim.registrations) == claim:
            return
        with suppress(LookAgain):
            zk.transact([write_claim(paths, noted)])
            return
    raise StoreUnavailable(f"{paths.id(member.consumer)} changed {MAX_ATTEMPTS} times while it was being written")


def read_claim(zk: ZooKeeper, paths: Paths, consumer: str) -> IdClaim:
    """The claim of an id; a fresh one (version -1) while there is none."""
    found = zk.find(paths.id(consumer))
    if found is None:
        return IdClaim(consumer, 0)
    return decode_claim(paths.id(consumer), found.data, consumer, found.stat.version)


def write_claim(paths: Paths, claim: IdClaim) -> Operation:
    """The guarded write of a claim that `read_claim` gave."""
    path, data = paths.id(claim.consumer), encode_claim(claim)
    return Create(path, data) if claim.version < 0 else SetData(path, data, claim.version)


def _read_or_named(path: str, node: Node, consumer: str) -> Member:
    """What cannot be read is somebody's registration all the same, and stops nobody else's."""
    try:
        return _read(path, node, consumer)
    except Malformed as error:
        return Member(consumer, 0, "", "", problem=str(error))


def _read(path: str, node: Node, consumer: str) -> Member:
    member = decode_member(path, node.data, node.stat.created_at)
    if member.consumer != consumer:
        raise Malformed(path, f"is the registration of another consumer, {member.consumer!r}")
    return member
