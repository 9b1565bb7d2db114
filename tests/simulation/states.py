"""The states of the exhaustive search, and the bounds."""

from dataclasses import dataclass
from typing import NamedTuple

NAMES = "abc"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a search: numbers of crashes, isolations (of surviving consumers, zombies) and drains.

    `stale`: number of older versions that may still be read; `late`: a look's write may also come later, if the guards
    still hold.
    """

    consumers: int
    partitions: int
    epochs: int
    crashes: int
    zombies: int
    drains: int = 0
    stale: int = 1
    most: int = 1_000_000_000_000
    late: bool = False

    def __str__(self) -> str:
        return (
            f"{self.consumers} consumers × {self.partitions} partitions, epochs up to {self.epochs}, "
            f"{self.crashes} crashes, {self.zombies} zombies, {self.drains} drains, reads up to {self.stale} versions old"
            f"{', written at once or later' if self.late else ''}"
        )


class Process(NamedTuple):
    """A consumer. `picture` is a version of the node (-1 = none); `runs`: partition, epoch, closing."""

    incarnation: int
    picture: int
    sees_isolation: bool
    runs: tuple[tuple[int, int, bool], ...]
    released: tuple[tuple[int, int], ...]


class Written(NamedTuple):
    """The coordinator's write: a topic state, and a node if changed (-1 = unchanged).

    `relies`: the consumers taken for closed without a confirmation; the write fails if any of them has changed since.
    """

    state: int
    node: int
    relies: tuple[int, ...]


class Shared(NamedTuple):
    """A state without processes. `versions` are the nodes that a consumer may still read; the last is stored.

    `state` and `releases` are numbers in the tables of `rules.Rules`. A consumer's process exists unless the last
    `drawn` incarnation has `ended`. `looked` is a coordinator's pending write.
    """

    versions: tuple[int, ...]
    state: int
    releases: int
    drawn: tuple[int, ...]
    ended: tuple[tuple[int, ...], ...]
    isolated: tuple[bool, ...]
    draining: tuple[bool, ...]
    crashes: int
    zombies: int
    drains: int
    looked: tuple[Written, ...]

    def alive(self, n: int) -> bool:
        """Whether the consumer's process is there."""
        return not (self.ended[n] and self.ended[n][-1] == self.drawn[n])


class Found(Exception):
    """A forbidden state."""
