"""The partitions of one member by their weight."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator


class Stock:
    """Partitions in the order of their weights, those of the same weight in the order of their numbers.

    Two lists side by side sort and search several times faster than one of pairs.
    """

    def __init__(self, ascending: list[int], weigh: Callable[[int], float]) -> None:
        self._weigh = weigh
        self.partitions = sorted(ascending, key=weigh)
        self._weights = list(map(weigh, self.partitions))

    def _place(self, partition: int) -> tuple[int, float]:
        weight = self._weigh(partition)
        first = bisect_left(self._weights, weight)
        return bisect_left(self.partitions, partition, first, bisect_right(self._weights, weight, first)), weight

    def add(self, partition: int) -> None:
        """One more."""
        place, weight = self._place(partition)
        self.partitions.insert(place, partition)
        self._weights.insert(place, weight)

    def remove(self, partition: int) -> None:
        """One less; it has to be there."""
        place, _ = self._place(partition)
        del self.partitions[place], self._weights[place]

    def picks(self, need: float, room: float) -> Iterator[int]:
        """Partitions of at most `room` by how well they relieve somebody by `need`.

        The smallest that is enough comes first, then larger ones, then the smaller ones from the largest down to those
        that weigh nothing.
        """
        weights = self._weights
        enough, end = bisect_left(weights, need), bisect_right(weights, room)
        for place in range(enough, end):
            yield self.partitions[place]
        for place in range(min(enough, end) - 1, bisect_right(weights, 0.0) - 1, -1):
            yield self.partitions[place]
