"""Reads a record as one complete Protobuf message. `from_protobuf` would silently ignore unknown fields."""

from functools import cache

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, Message
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

NO_VALUE, NO_MESSAGE, UNKNOWN = "no value", "no Protobuf message of this type", "it has fields without a descriptor"
MORE = "bytes stand behind its message, or it is not in the shortest form"


def as_json(value: Column, descriptors: bytes, name: str) -> Column:
    """Return a struct: `json`, the message as text, and `problem`, the reason if `json` is null.

    `descriptors`: the content of the file that `protoc` writes.
    """
    message(descriptors, name)  # raises `KeyError` for an unknown name here, not in a worker
    return F.udf(lambda one: read(one, descriptors, name), "json STRING, problem STRING")(value)


def read(value: bytes | None, descriptors: bytes, name: str) -> tuple[str | None, str | None]:
    """Return one record as JSON, or its problem."""
    if value is None:
        return None, NO_VALUE
    try:
        found = message(descriptors, name).FromString(bytes(value))
        size = found.ByteSize()
        found.DiscardUnknownFields()
        if (known := found.ByteSize()) == len(value) and found.IsInitialized():
            return json_format.MessageToJson(found, preserving_proto_field_name=True, indent=None), None
        return None, UNKNOWN if known < size else MORE if size < len(value) else NO_MESSAGE
    except (DecodeError, json_format.Error):  # JSON cannot express some values, such as a time in the year 10000
        return None, NO_MESSAGE


@cache
def message(descriptors: bytes, name: str) -> type[Message]:
    """Return the class of a message. Each of Spark's Python workers makes the class once."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return found
