"""The processes of many states as an array: each state is a number composed of process numbers, without hashes."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
WIDTH = 21  # bits of a process's number in a state's
LARGEST = (1 << WIDTH) - 1
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Column = tuple[Keys, npt.NDArray[np.intp]]  # the different numbers, and the place of each state's
NONE: Keys = np.zeros(0, np.uint64)


def column(keys: Keys, n: int) -> Keys:
    """Return the numbers of a consumer's processes."""
    return (keys >> _shift(n)) & np.uint64(LARGEST)


def joined(columns: Iterable[Keys]) -> Keys:
    """Return the states with these process numbers, a column for each consumer."""
    found: Keys = np.bitwise_or.reduce([np.asarray(c, np.uint64) << _shift(n) for n, c in enumerate(columns)])
    return found


def column_of(keys: Keys, n: int) -> Column:
    """Return the different processes of a consumer."""
    found, where = np.unique(column(keys, n), return_inverse=True)
    return found, where


def put(keys: Keys, n: int, number: int) -> Keys:
    """Return the states with this process for a consumer."""
    return (keys & ~(np.uint64(LARGEST) << _shift(n))) | np.uint64(number << n * WIDTH)


def spread(keys: Keys, n: int, where: npt.NDArray[np.intp], reached: Sequence[Keys]) -> Keys:
    """Return the states with every possible next process of a consumer: `reached[where[i]]` in state `i`."""
    sizes = np.array([one.size for one in reached])
    often = sizes[where]
    begins, ends = (np.cumsum(sizes) - sizes)[where], np.cumsum(often)
    places = np.arange(ends[-1]) + np.repeat(begins - ends + often, often)
    return np.unique(np.repeat(put(keys, n, 0), often) | np.concatenate(reached)[places] << _shift(n))


def without(keys: Keys, known: Keys) -> Keys:
    """Return the unknown states; both arrays are sorted, without repeats."""
    if not known.size:
        return keys
    new: Keys = keys[known[np.minimum(np.searchsorted(known, keys), known.size - 1)] != keys]
    return new


def union(known: Keys, keys: Keys) -> Keys:
    """Both, sorted, each once."""
    found: Keys = np.union1d(known, keys)
    return found


def _shift(n: int) -> np.uint64:
    return np.uint64(n * WIDTH)
