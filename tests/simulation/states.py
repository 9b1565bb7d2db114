"""The states of the exhaustive search."""

from typing import NamedTuple

from coordinator_tasks.core.model import Release

NAMES = "abcd"


class Process(NamedTuple):
    """One consumer. `picture` is a version of the node (-1 = none); `runs`: partition, epoch, closing; 0 = not there."""

    incarnation: int
    picture: int
    sees_isolation: bool
    runs: tuple[tuple[int, int, bool], ...]
    released: tuple[tuple[int, int], ...]


class Site(NamedTuple):
    """One state. `versions` are the nodes that somebody may still read, the last one being stored."""

    versions: tuple[int, ...]
    state: int
    releases: tuple[Release, ...]
    processes: tuple[Process | None, ...]
    drawn: tuple[int, ...]
    ended: tuple[tuple[int, ...], ...]
    isolated: tuple[bool, ...]
    excused: tuple[tuple[int, int], ...]
    crashes: int
    zombies: int
