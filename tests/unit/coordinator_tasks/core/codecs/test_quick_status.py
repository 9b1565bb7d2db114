"""A consumer's answer that msgspec reads is the answer that the codec reads, whatever an answer holds."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_tasks.core.codecs import status_codec
from coordinator_tasks.core.codecs.quick_status import quick_status
from coordinator_tasks.core.codecs.shape import VERSION
from coordinator_tasks.core.errors import Malformed
from coordinator_tasks.core.model import Committed, ConsumerStatus, LastPass, Token
from coordinator_tasks.core.text.json_fields import Fields
from tests.unit.coordinator_tasks.core.codecs.test_codecs import CASES

PLAIN = json.loads(CASES["status"].write(CASES["status"].value))
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2**64),
    st.sampled_from([2**53, 2**63, 1e15, 1e16, 1.0, -0.0, 10**310, "g" * 65, "\ud800", "01", "\n"]),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(-1, 3), max_size=2),
    st.dictionaries(
        st.sampled_from(["0", "01", "10", "9", "x", "-1", "-0", "100000000"]), st.integers(0, 9), max_size=2
    ),
)


def read_strictly(raw: bytes) -> ConsumerStatus:
    return status_codec._STATUS.read(Fields.parse("p", raw, VERSION))


def quickly(raw: bytes) -> ConsumerStatus | None:
    quick = quick_status(raw)
    return status_codec._of_quick(quick) if quick is not None else None


def objects(value: Any) -> list[dict[str, Any]]:
    """Every object in a JSON value."""
    found = [value] if isinstance(value, dict) else []
    return found + [one for inner in (value.values() if isinstance(value, dict) else ()) for one in objects(inner)]


@settings(max_examples=1_500, deadline=None)
@given(st.data())
def test_what_is_read_quickly_is_what_is_read_strictly(data: st.DataObject) -> None:
    changed = json.loads(json.dumps(PLAIN))
    for _ in range(data.draw(st.integers(0, 2))):
        place = data.draw(st.sampled_from(objects(changed)))
        name = data.draw(st.sampled_from(sorted(place) or ["x"]))
        if data.draw(st.booleans()):
            place[name] = data.draw(ODD)
        else:
            place.pop(name, None)
    raw = json.dumps(changed, ensure_ascii=data.draw(st.booleans())).encode(errors="surrogatepass")
    found = quickly(raw)
    if found is not None:
        expected = read_strictly(raw)
        assert found == expected
        assert [[*one.running, *one.held] for one in found.topics.values()] == [
            [*one.running, *one.held] for one in expected.topics.values()
        ]


def test_an_answer_in_order_is_read_quickly() -> None:
    assert quickly(json.dumps(PLAIN).encode()) == CASES["status"].value


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("running", "1", "position"), -1, "topics.orders.running.1.position"),
        (("running", "01"), {}, "topics.orders.running.01"),
        (("held", "x"), 1, "topics.orders.held.x"),
        (("running", "1", "token", "generation"), "g" * 65, "topics.orders.running.1.token.generation"),
    ],
)
def test_an_error_names_the_path_of_the_field(place: tuple[str, ...], value: object, says: str) -> None:
    changed = json.loads(json.dumps(PLAIN))
    inner = changed["topics"]["orders"]
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    with pytest.raises(Malformed, match=says):
        status_codec.decode_status("p", json.dumps(changed).encode())


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_metadata_that_are_read_quickly_are_those_that_are_read_strictly(data: st.DataObject) -> None:
    whole = Committed(5, Token(7, 3, "g"), "a", "shop", "id", LastPass(6, 0.5, 0.25), True)
    changed = json.loads(status_codec.encode_metadata(whole))
    place = changed if data.draw(st.booleans()) else changed["p"]
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(ODD)
    text = json.dumps(changed)
    found = status_codec.decode_metadata(5, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status_codec, "quick_metadata", lambda _: None)
        assert found == status_codec.decode_metadata(5, text)
