"""The packed form of a topic's node: the same node in fewer bytes, and bounded memory."""

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_tasks.core.codecs.codec import decode_node, encode_node
from coordinator_tasks.core.codecs.packed import MAX_UNPACKED_BYTES
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.model import Handoff, Seek, TopicNode

PATH = "/consumers/shop/assignments/orders"
NODE = TopicNode(
    "h:9092",
    "g",
    9,
    "gen",
    "id",
    assignments={0: "b", 1: "a", 2: "b", 45: "a"},
    since={0: 3, 1: 3, 2: 4, 45: 9},
    handoff={46: Handoff("a", "b", 7), 47: Handoff("c", "a", 9)},
    incarnations={"a": 1, "b": 2**53 - 1},
    guarded=frozenset({45}),
    seeks={45: Seek(5, 8)},
)
IDS = st.sampled_from(["a", "b", "app-7f9c6d-xk2p9", "z" * 64])
COUNTS = st.integers(0, 2**53 - 1)


def packed(node: TopicNode) -> bytes:
    return encode_node(node, 0)


def columns(node: TopicNode = NODE) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(b64decode(json.loads(packed(node))["packed"])))
    return found


def stored(body: Any) -> bytes:
    """A node with this packed object."""
    return wrapped(zlib.compress(json.dumps(body).encode()))


def wrapped(deflated: bytes) -> bytes:
    return json.dumps({"version": 2, "packed": b64encode(deflated).decode()}).encode()


@given(
    assigned=st.dictionaries(st.integers(0, 2**31 - 1), st.tuples(IDS, COUNTS), max_size=20),
    moving=st.dictionaries(st.integers(0, 2**31 - 1), st.builds(Handoff, IDS, IDS, COUNTS), max_size=20),
    incarnations=st.dictionaries(IDS, COUNTS),
)
def test_every_node_is_read_back_the_same(
    assigned: dict[int, tuple[str, int]], moving: dict[int, Handoff], incarnations: dict[str, int]
) -> None:
    node = replace(
        NODE,
        assignments={p: owner for p, (owner, _) in sorted(assigned.items())},
        since={p: since for p, (_, since) in sorted(assigned.items())},
        handoff={p: moving[p] for p in sorted(moving.keys() - assigned.keys())},
        incarnations=incarnations,
    )
    assert decode_node(PATH, packed(node)) == node


BOMB = zlib.compress(b" " * (MAX_UNPACKED_BYTES + 1))
WHOLE = zlib.compress(b"{}")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b'{"version":2}', "field 'packed' is missing"),
        (b'{"version":2,"packed":7}', "field 'packed' is 7, not a string"),
        (b'{"version":2,"packed":"%"}', "field 'packed' cannot be unpacked"),
        (b'{"version":2,"packed":"\xc3\xa9"}', "field 'packed' cannot be unpacked"),
        (wrapped(b"no zlib"), "field 'packed' cannot be unpacked"),
        (wrapped(b""), "field 'packed' is cut off"),
        (wrapped(WHOLE[:-1]), "field 'packed' is cut off"),
        (wrapped(WHOLE + b"x"), "field 'packed' is cut off, or has more behind its end"),
        (wrapped(BOMB), f"field 'packed' unpacks to more than {MAX_UNPACKED_BYTES} bytes"),
        (wrapped(zlib.compress(b"[1]")), "is not a JSON object but list"),
        (wrapped(zlib.compress(b"{")), "is not JSON"),
        (stored({**columns(), "version": 3}), "has format version 3; this release reads 1 to 2"),
    ],
)
def test_a_text_that_is_no_packed_node_is_refused(raw: bytes, problem: str) -> None:
    with pytest.raises(Malformed, match=problem):
        decode_node(PATH, raw)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"consumers": None}, "field 'consumers'"),
        ({"consumers": ["a", 7, "c"]}, "field 'consumers'"),
        ({"consumers": ["a", "b"]}, "field 'givers' has another entry than a number from 0 to 1"),
        ({"consumers": ["a", "b", "a b"]}, "cannot be a consumer id"),
        ({"incarnations": [1, 2]}, "field 'incarnations' is not a list of 3 entries"),
        ({"incarnations": [1, -2, 3]}, r"field 'incarnations\.b' is -2"),
        ({"assigned": 7}, "field 'assigned' is 7"),
        ({"assigned": "0-x"}, "field 'assigned' is no list of partitions"),
        ({"assigned": "0-2"}, "field 'assigned' names 3 partitions, and 'owners' has 4 entries"),
        ({"assigned": "0-4"}, "field 'assigned' is no list of partitions .it names more than 4"),
        ({"assigned": "0-2,46"}, r"names partitions \[46\] that are assigned as well"),
        ({"owners": "1"}, "field 'owners' is not a list"),
        ({"owners": [0, 1, 2, 3]}, "field 'owners' has another entry than a number from 0 to 2"),
        ({"owners": [0, 1, 2, -1]}, "field 'owners' has another entry"),
        ({"owners": [0, 1, 2, True]}, "field 'owners' has another entry"),
        ({"since": [1, 2, 3]}, "field 'since' is not a list of 4 entries"),
        ({"since": [1, 2, 3, "4"]}, r"field 'since\.45' is '4'"),
        ({"takers": [0]}, "field 'takers' has 1 entries for 2 partitions"),
        ({"epochs": [0]}, "field 'epochs' is not a list of 2 entries"),
        ({"epoch": -1}, "field 'epoch' is -1"),
    ],
)
def test_its_columns_are_read_strictly(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(Malformed, match=problem) as refused:
        decode_node(PATH, stored({**columns(), **changes}))
    assert str(refused.value).startswith(f"{PATH}: ")


def test_ranges_that_would_fill_the_memory_are_refused_before_they_are_counted_out() -> None:
    with pytest.raises(Malformed, match="it names more than 4 partitions"):
        decode_node(PATH, stored({**columns(), "assigned": ",".join(f"{n}000000-{n}999999" for n in range(1, 2000))}))
