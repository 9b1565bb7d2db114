"""A record is one Protobuf message to the last byte, or is refused with the reason."""

import json

import pytest
from google.protobuf import descriptor_pb2

from spark_apps.pipelines.protobuf_records import MORE, NO_MESSAGE, UNKNOWN, message, read
from tests.shop_messages import SHOP

ORDER = message(SHOP, "shop.Order")(order_id="a", quantity=2, tags=["new"]).SerializeToString()


def test_a_message_is_read_with_the_names_of_its_schema() -> None:
    text, problem = read(ORDER, SHOP, "shop.Order")
    assert (json.loads(text or ""), problem) == ({"order_id": "a", "quantity": 2, "tags": ["new"]}, None)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        pytest.param(ORDER + ORDER, MORE, id="a second message behind it"),
        pytest.param(ORDER + b"\x10\x03", MORE, id="a field behind it"),
        pytest.param(ORDER + b"\x10\x00", MORE, id="a default behind it"),
        pytest.param(ORDER + b"\x78\x01", UNKNOWN, id="an unknown field behind it"),
        pytest.param(ORDER + b"\x00", NO_MESSAGE, id="a byte behind it"),
        pytest.param(ORDER[:-1], NO_MESSAGE, id="cut short"),
        pytest.param(b"text", NO_MESSAGE, id="text"),
        pytest.param(b"\x0a\x01\xff", NO_MESSAGE, id="no UTF-8"),
    ],
)
def test_a_record_other_than_one_message_to_the_last_byte_is_refused(record: bytes, problem: str) -> None:
    assert read(record, SHOP, "shop.Order") == (None, problem)


def test_messages_of_lists_alone_have_no_end() -> None:
    """Two messages are one longer list: the format has no boundary."""
    tags = message(SHOP, "shop.Order")(tags=["new"]).SerializeToString()
    text, problem = read(tags + tags, SHOP, "shop.Order")
    assert (json.loads(text or ""), problem) == ({"tags": ["new", "new"]}, None)


def test_a_message_that_the_descriptors_do_not_have_is_an_error_at_once() -> None:
    with pytest.raises(KeyError, match=r"shop\.Nothing"):
        message(SHOP, "shop.Nothing")
    assert descriptor_pb2.FileDescriptorSet.FromString(SHOP).file
