"""Decoded znodes and offsets, remembered by bytes: a history reads the same bytes a hundred times.

The codecs' results are immutable and depend only on the arguments, so the difference is invisible.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from coordinator_tasks.core.codecs import codec, member_codec, status_codec

KEPT = 5_000  # of each kind
_DECODERS: tuple[Callable[..., Any], ...] = (
    codec.decode_node,
    codec.decode_state,
    codec.decode_config,
    codec.decode_release,
    member_codec.decode_member,
    member_codec.decode_claim,
    member_codec.decode_directive,
    status_codec.decode_metadata,
)
_REMEMBERED = {decoder: lru_cache(KEPT)(decoder) for decoder in _DECODERS}


@lru_cache(1)
def _places() -> list[tuple[dict[str, Any], str, Callable[..., Any]]]:
    """Return every module of the product and of the simulation that refers to a decoder by name."""
    found = []
    for module in list(sys.modules.values()):
        if module.__name__.startswith(("coordinator_tasks.", "spark_apps.", "tests.simulation.")):
            names = vars(module)
            found += [(names, name, known) for name, known in names.items() if callable(known) and _is_decoder(known)]
    return found


def _is_decoder(known: object) -> bool:
    return any(known is decoder for decoder in _DECODERS)


def forget() -> None:
    """Forget all results: the decoders have changed."""
    for remembered in _REMEMBERED.values():
        remembered.cache_clear()


@contextmanager
def remembering() -> Iterator[None]:
    """Within this, decoders are asked once for the same bytes."""
    for names, name, decoder in _places():
        names[name] = _REMEMBERED[decoder]
    try:
        yield
    finally:
        for names, name, decoder in _places():
            names[name] = decoder
