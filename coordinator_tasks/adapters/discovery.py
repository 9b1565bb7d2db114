"""Service discovery in ZooKeeper: an ephemeral node for each consumer, and the claim of the consumer's id."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from coordinator_tasks.core.codecs.member_codec import decode_claim, decode_member, encode_claim, encode_member
from coordinator_tasks.core.errors import (
    CoordinatorError,
    DiscoveryUnavailable,
    IdInUse,
    Malformed,
    NodeMissing,
    StoreUnavailable,
)
from coordinator_tasks.core.model import IdClaim, Member
from coordinator_tasks.core.names import Paths, is_consumer
from coordinator_tasks.core.ports import Clock, Create, Delete, Node, Operation, Watcher, ZooKeeper
from coordinator_tasks.core.protocol.claims import drawn, in_use, predecessor, registered, same_process
from coordinator_tasks.core.protocol.znodes import CHUNK, chunks, compare_and_set, find_many, put

_POLL_S = 0.5
IsGone = Callable[[str], bool]
"""Returns whether the named process of this host has certainly ended; False if uncertain."""
log = logging.getLogger(__name__)


class ZooKeeperDiscovery:
    """`ports.Discovery` on the nodes in a cluster's folder `members`."""

    def __init__(self, zk: ZooKeeper, paths: Paths) -> None:
        self._zk = zk
        self._paths = paths
        self._strange: frozenset[str] = frozenset()

    def members(self) -> Mapping[str, Member]:
        denied: dict[str, CoordinatorError] = {}
        found: dict[str, Member] = {}
        try:
            self._zk.sync()
            names = self._consumers(self._zk.children(self._paths.members))
            for chunk in chunks(names, CHUNK):
                # A node that vanishes between the two reads belongs to an absent consumer.
                for name, node in find_many(self._zk, {one: self._paths.member(one) for one in chunk}, denied).items():
                    found[name] = _read_or_named(self._paths.member(name), node, name)
        except NodeMissing:
            return {}
        except StoreUnavailable as error:
            raise DiscoveryUnavailable(f"the registry of consumers is in ZooKeeper: {error}") from error
        return found | {name: _unreadable(name, error) for name, error in denied.items()}

    def _consumers(self, children: Sequence[str]) -> list[str]:
        """Return the children whose names are consumer ids. Any other child is logged once and ignored."""
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
            pass  # the node vanished after the read, and the watch has fired
        except StoreUnavailable as error:
            raise DiscoveryUnavailable(f"the registry of consumers is in ZooKeeper: {error}") from error


class ZooKeeperRegistry:
    """`ports.Registry`: one transaction creates the ephemeral node and updates the claim.

    Every registration changes the claim's version, so a coordinator's guarded write then fails. `wait_s`: seconds that
    `register` waits until another incarnation's node vanishes, before it raises `IdInUse`. `is_gone`: whether the
    former process of the id has ended.
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
        compare_and_set(
            self._zk,
            self._paths.id(member.consumer),
            lambda: (self._writes(member, self._await_free(member, deadline_s)), None),
            doing=f"{member.consumer!r} registered; look for a process that writes it all the time",
            exhausted=StoreUnavailable,
        )

    def _writes(self, member: Member, found: Node | None) -> list[Operation]:
        path, data = self._paths.member(member.consumer), encode_member(member)
        if found is not None and found.stat.ephemeral_owner == self._zk.session_id and found.data == data:
            return []  # an earlier call succeeded, but its answer was lost
        replaced: list[Operation] = [] if found is None else [Delete(path, found.stat.version)]
        claim = read_claim(self._zk, self._paths, member.consumer)
        noted = _registered(claim, member, self._clock, self._is_gone)
        return [*replaced, Create(path, data, ephemeral=True), write_claim(self._paths, noted)]

    def _await_free(self, member: Member, deadline_s: float) -> Node | None:
        """Wait until no other process has the id. Return this process's own node, or `None` if there is none."""
        path = self._paths.member(member.consumer)
        while True:
            self._zk.sync()
            found = self._zk.find(path)
            live = _read(path, found, member.consumer) if found else None
            if live is not None and not same_process(live, member):
                self._await_vanishing(live, member, deadline_s)
            else:
                return found

    def _await_vanishing(self, live: Member, wanted: Member, deadline_s: float) -> None:
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            raise IdInUse(in_use(live, wanted, self._zk.session_timeout_s))
        changed = threading.Event()
        if self._zk.find(self._paths.member(live.consumer), changed.set) is not None:
            changed.wait(min(_POLL_S, remaining_s))

    def deregister(self, consumer: str, incarnation: int) -> None:
        path = self._paths.member(consumer)

        def attempt() -> tuple[list[Operation], None]:
            found = self._zk.find(path)
            mine = found is not None and _read(path, found, consumer).incarnation == incarnation
            return [Delete(path, found.stat.version)] if found is not None and mine else [], None

        compare_and_set(self._zk, path, attempt, exhausted=StoreUnavailable)


def claim_incarnation(zk: ZooKeeper, paths: Paths, consumer: str, step: int) -> int:
    """Draw this process's incarnation, once per process. A new session keeps the incarnation.

    Numbers only grow, by `step` (see `claims.drawn`). If the answer to a draw is lost, draw again.
    """
    zk.ensure(paths.ids)

    def attempt() -> tuple[list[Operation], int]:
        zk.sync()
        found = zk.find(paths.member(consumer))
        seen = _read(paths.member(consumer), found, consumer).incarnation if found else 0
        claim = drawn(read_claim(zk, paths, consumer), step, seen)
        return [write_claim(paths, claim)], claim.incarnation

    doing = "an incarnation was drawn; look for a process that starts and dies all the time"
    return compare_and_set(zk, paths.id(consumer), attempt, doing=doing, exhausted=StoreUnavailable)


def _registered(claim: IdClaim, member: Member, clock: Clock, is_gone: IsGone) -> IdClaim:
    """Return the claim with this registration. If the former process has certainly ended, the claim says so too."""
    before = predecessor(claim, member)
    return registered(claim, member, clock.now(), predecessor_gone=bool(before) and is_gone(before))


def note_registration(
    zk: ZooKeeper, paths: Paths, member: Member, clock: Clock, is_gone: IsGone = lambda _: False
) -> None:
    """Update the claim for a registration that is stored outside of ZooKeeper.

    A repeated registration of the same process changes nothing, because it would count as flapping.
    """
    zk.ensure(paths.ids)

    def attempt() -> tuple[list[Operation], None]:
        claim = read_claim(zk, paths, member.consumer)
        noted = _registered(claim, member, clock, is_gone)
        same = replace(noted, registrations=claim.registrations) == claim
        return [] if same else [write_claim(paths, noted)], None

    compare_and_set(zk, paths.id(member.consumer), attempt, exhausted=StoreUnavailable)


def read_claim(zk: ZooKeeper, paths: Paths, consumer: str) -> IdClaim:
    """Return the claim of an id; an empty claim (version -1) if there is none."""
    found = zk.find(paths.id(consumer))
    if found is None:
        return IdClaim(consumer, 0)
    return decode_claim(paths.id(consumer), found.data, consumer, found.stat.version)


def write_claim(paths: Paths, claim: IdClaim) -> Operation:
    """Return the guarded write of a claim that `read_claim` has returned."""
    return put(paths.id(claim.consumer), encode_claim(claim), claim.version)


def _read_or_named(path: str, node: Node, consumer: str) -> Member:
    """Return the member. An unreadable node counts as a registration, and hides no other members."""
    try:
        return _read(path, node, consumer)
    except Malformed as error:
        return _unreadable(consumer, error)


def _unreadable(consumer: str, error: CoordinatorError) -> Member:
    return Member(consumer, 0, "", "", problem=str(error))


def _read(path: str, node: Node, consumer: str) -> Member:
    member = decode_member(path, node.data, node.stat.created_at)
    if member.consumer != consumer:
        raise Malformed(path, f"is the registration of another consumer, {member.consumer!r}")
    return member
