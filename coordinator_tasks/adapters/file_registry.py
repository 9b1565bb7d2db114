"""Service discovery in a folder that all hosts share: one JSON file per consumer, with its modification time as
heartbeat.

A file with a heartbeat older than the time to live does not count. The hosts' clocks must agree to within a fraction of
the time to live. A consumer that wrongly looks absent still answers requests, and loses nothing.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from coordinator_tasks.core.codecs.member_codec import decode_member, encode_member
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.errors import DiscoveryUnavailable, IdInUse, InvalidName, Malformed
from coordinator_tasks.core.model import Member
from coordinator_tasks.core.names import check_consumer, is_consumer
from coordinator_tasks.core.ports import Clock, Watcher
from coordinator_tasks.core.protocol.claims import in_use, same_process
from coordinator_tasks.core.text.json_fields import MAX_BYTES, Fields, dump

DEFAULT_TTL_S = 10.0
_SUFFIX = ".json"
_BEATS_PER_TTL = 4
_RETRY_S = 0.1
_OF_ONE_FILE = frozenset({errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.EPERM})
"""Errors that concern a single file, not the folder."""
log = logging.getLogger(__name__)


class FileDiscovery:
    """`ports.Discovery`: the consumers whose file in the folder is fresh. Changes are found only by polling."""

    def __init__(self, folder: Path, clock: Clock, ttl_s: float = DEFAULT_TTL_S) -> None:
        self._folder = folder
        self._clock = clock
        self._ttl_s = ttl_s

    def members(self) -> Mapping[str, Member]:
        with _readable(self._folder):
            files = sorted(one for one in self._folder.iterdir() if one.suffix == _SUFFIX)
            found = [_fresh_or_named(one, self._clock.now(), self._ttl_s) for one in files]
            self._folder.stat()  # if the folder is missing, missing files prove nothing
        return {member.consumer: member for member in found if member is not None}

    def watch(self, watcher: Watcher) -> None:
        """Do nothing: changes are found only by polling."""


class FileRegistry:
    """`ports.Registry`. `announce` updates the claim, which guards rely on, before a registration becomes visible.

    A thread renews the file four times per `ttl_s` until `deregister` or `close`.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        ttl_s: float = DEFAULT_TTL_S,
        wait_s: float = 0.0,
        announce: Callable[[Member], None] | None = None,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._ttl_s = ttl_s
        self._wait_s = wait_s
        self._announce = announce
        self._member: Member | None = None
        self._data = b""
        self._stop = threading.Event()
        self._beats: threading.Thread | None = None

    def register(self, member: Member) -> None:
        deadline_s = time.monotonic() + self._wait_s
        while (live := self._try(member)) is not None:
            if time.monotonic() >= deadline_s:
                raise IdInUse(in_use(live, member, self._ttl_s))
            time.sleep(_RETRY_S)
        self._member = member
        if self._beats is None:
            self._beats = threading.Thread(target=self._beat, name="registration-heartbeat", daemon=True)
            self._beats.start()

    def _try(self, member: Member) -> Member | None:
        """Register the member and return `None`, or return the other member that has the id."""
        path = _path(self._folder, member.consumer)
        with _readable(self._folder), self._locked(member.consumer):
            live = _fresh(path, self._clock.now(), self._ttl_s)
            if live is not None and not same_process(live, member):
                return live
            if self._announce is not None:
                self._announce(member)
            now = self._clock.now()
            self._data = _encode(member, now if live is None else live.registered_at)
            _write(path, self._data, now)
        return None

    def deregister(self, consumer: str, incarnation: int) -> None:
        path = _path(self._folder, consumer)
        with _readable(self._folder), self._locked(consumer):
            member = _fresh(path, self._clock.now(), self._ttl_s)
            if member is None or member.incarnation != incarnation:
                return
            if self._member is not None and self._member.incarnation == incarnation:
                self._member = None
            path.unlink()

    def close(self) -> None:
        """Stop renewing. The registration ends with its time to live."""
        self._stop.set()
        if self._beats is not None:
            self._beats.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._ttl_s / _BEATS_PER_TTL):
            member = self._member
            # By the next beat, a missing folder may be back, or an unreadable file may be gone.
            with contextlib.suppress(DiscoveryUnavailable, Malformed, InvalidName):
                if member is not None:
                    self._renew(member)

    def _renew(self, member: Member) -> None:
        path = _path(self._folder, member.consumer)
        with _readable(self._folder), self._locked(member.consumer):
            now = self._clock.now()
            live = _fresh(path, now, self._ttl_s)
            if self._member is member and (live is None or same_process(live, member)):
                _write(path, self._data, now)

    @contextlib.contextmanager
    def _locked(self, consumer: str) -> Iterator[None]:
        with (self._folder / f".{check_consumer(consumer)}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _path(folder: Path, consumer: str) -> Path:
    return folder / (check_consumer(consumer) + _SUFFIX)


def _fresh_or_named(path: Path, now: float, ttl_s: float) -> Member | None:
    """Return the member of a fresh file. An unreadable file counts as a registration, and hides no other members."""
    try:
        return _fresh(path, now, ttl_s)
    except (Malformed, InvalidName) as error:
        problem = str(error)
    except OSError as error:
        if error.errno not in _OF_ONE_FILE:
            raise
        if now - path.lstat().st_mtime > ttl_s:
            return None
        problem = str(Malformed(str(path), f"cannot be read ({error.strerror})"))
    if not is_consumer(path.stem):
        log.warning("%s is no consumer's registration and is left out: %s", path, problem)
        return None
    return Member(path.stem, 0, "", "", problem=problem)


def _fresh(path: Path, now: float, ttl_s: float) -> Member | None:
    try:
        # Without O_NONBLOCK, a named pipe would block until it has a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if now - found.st_mtime > ttl_s:
                return None
            if not stat.S_ISREG(found.st_mode):
                raise Malformed(str(path), "is no file, but a pipe or a device")
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    registered_at = Fields.parse(str(path), raw, VERSION).time("registeredAt", 0.0)
    member = decode_member(str(path), raw, registered_at)
    if member.consumer + _SUFFIX != path.name:
        raise InvalidName(f"{path} is the registration of {member.consumer!r}; its file has the wrong name, remove it")
    return member


def _encode(member: Member, registered_at: float) -> bytes:
    """Return the JSON of a member node, with the time of registration. ZooKeeper's node has this time as its stamp."""
    return dump(VERSION, json.loads(encode_member(member)) | {"version": VERSION, "registeredAt": registered_at})


def _write(path: Path, data: bytes, now: float) -> None:
    """Replace the file in one step, so that no reader sees a partial file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.chmod(0o644)
        os.utime(temporary, (now, now))
        temporary.replace(path)
    except OSError:
        temporary.unlink()
        raise


@contextlib.contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DiscoveryUnavailable(
            f"the registry's folder {folder} cannot be used ({error.strerror or error}); "
            "check that it is there, mounted, and that this user may read and write it"
        ) from error
