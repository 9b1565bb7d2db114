"""Hosts of their own on one machine: network namespaces behind a router whose rules drop packets without a word.

The router is a namespace as well. Servers stay in the machine's own one, each under an address of its own, so that a host can
be cut off from one of them and not from the others. Needs rights on the network.
"""

import ctypes
import os
import subprocess
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Self

CLONE_NEWNET = 0x40000000
NAMESPACES = Path("/run/netns")
GUARD = 'cat; ip link del "$2"; for one in $(ip netns list | grep -o "^$1[^ ]*"); do ip netns del "$one"; done'
"""Removes everything as soon as its input ends: when the network is closed, or its process has ended, however it did."""
NETS = 250
SERVERS = ("1", "2", "3", "4")
FIRST_HOST, LAST_HOST = 10, 250
GATEWAY = "169.254.7.1"
"""The router, as everybody sees it."""
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
DROPPING = "pref 10"
WITHOUT_RIGHTS = ("not permitted", "Permission denied")


class NoRights(Exception):
    """This user may not make network namespaces here."""


@dataclass(frozen=True, slots=True)
class Host:
    """A namespace with one address."""

    namespace: str
    address: str

    def enter(self) -> None:
        """This thread, and every one that it starts from now on, is on that host."""
        handle = os.open(NAMESPACES / self.namespace, os.O_RDONLY)
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(handle, CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {self.namespace}")
        finally:
            os.close(handle)


@dataclass
class Network:
    """One of each process at a time. `servers` are addresses of this machine that every host reaches."""

    servers: tuple[str, ...] = ()
    _prefix: str = field(default_factory=lambda: f"faults-{os.getpid()}-")
    _link: str = field(default_factory=lambda: f"fl{os.getpid()}")
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _hosts: dict[int, Host] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, "guard", self._prefix, self._link],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _router(self) -> str:
        return f"{self._prefix}router"

    def _open(self) -> None:
        _ip("netns", "add", self._router)
        _ip("netns", "exec", self._router, "sh", "-c", f"echo 1 > {FORWARDING}")
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "servers", "netns", self._router)
        _ip("link", "set", self._link, "up")
        self._attach("servers")
        self._net = self._free_net()
        self.servers = tuple(f"{self._net}.{number}" for number in SERVERS)
        for address in self.servers:
            _ip("addr", "add", f"{address}/32", "dev", self._link)
        _batch(self._router, [f"route add {address}/32 dev servers" for address in self.servers])

    def _free_net(self) -> str:
        """The first of the nets for benchmarks that nobody here uses; taken by its route."""
        for number in range(NETS):
            net = f"198.18.{(os.getpid() + number) % NETS}"
            with suppress(subprocess.CalledProcessError):
                _ip("route", "add", f"{net}.0/24", "via", GATEWAY, "dev", self._link, "onlink")
                return net
        raise NoRights("every net for benchmarks is in use")

    def add(self) -> Host:
        """A host that reaches the servers and all other hosts."""
        with self._lock:
            number = next(n for n in range(FIRST_HOST, LAST_HOST) if n not in self._hosts)
            made = self._hosts[number] = Host(f"{self._prefix}{number}", f"{self._net}.{number}")
        port = f"host{number}"
        _ip("netns", "add", made.namespace)
        _ip("-n", made.namespace, "link", "add", "out", "type", "veth", "peer", "name", port, "netns", self._router)
        self._attach(port)
        _batch(
            made.namespace,
            [
                "link set lo up",
                f"addr add {made.address}/32 dev out",
                "link set out up",
                f"route add default via {GATEWAY} dev out onlink",
            ],
        )
        _batch(self._router, [f"route add {made.address}/32 dev {port}"])
        return made

    def _attach(self, port: str) -> None:
        _batch(self._router, [f"addr add {GATEWAY}/32 dev {port}", f"link set {port} up"])

    def remove(self, host: Host) -> None:
        """No process may be there any more."""
        with self._lock:
            number = next(number for number, one in self._hosts.items() if one == host)
        _batch(self._router, [f"link del host{number}"])  # a namespace goes some time after its name
        _ip("netns", "del", host.namespace)
        with self._lock:
            del self._hosts[number]

    @contextmanager
    def cut(self, host: Host, others: Collection[str]) -> Iterator[None]:
        """Every packet between this host and these addresses is dropped, in both directions."""
        rules = [f"from {a} to {b}" for a, b in self._directions(host, others)]
        _batch(self._router, [f"rule add {rule} {DROPPING} blackhole" for rule in rules])
        try:
            yield
        finally:
            _batch(self._router, [f"rule del {rule} {DROPPING} blackhole" for rule in rules])

    def _directions(self, host: Host, others: Collection[str]) -> Iterator[tuple[str, str]]:
        for one, other in product([host.address], others):
            yield one, other
            yield other, one

    def close(self) -> None:
        """Nothing is left, whatever has failed."""
        self._guard.communicate()
        self._hosts = {}


def _batch(namespace: str, commands: Sequence[str]) -> None:
    """Several at once, one after the other."""
    _ip("-n", namespace, "-batch", "-", text="\n".join(commands) + "\n")


def _ip(*arguments: str, text: str = "") -> None:
    try:
        subprocess.run(["ip", *arguments], input=text, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise NoRights("there is no command `ip`") from error
    except subprocess.CalledProcessError as error:
        if any(reason in error.stderr for reason in WITHOUT_RIGHTS):
            raise NoRights(error.stderr.strip()) from error
        error.add_note(error.stderr)
        raise
