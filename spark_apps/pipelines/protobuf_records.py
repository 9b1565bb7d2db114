"""Reads a record as one Protobuf message to its last byte, where `from_protobuf` leaves out fields that it does not
know.
"""

from functools import cache

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, Message
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (its usual name)

NO_VALUE, NO_MESSAGE, UNKNOWN = "no value", "no Protobuf message of this type", "it has fields without a descriptor"
MORE = "bytes stand behind its message, or it is not in the shortest form"


def as_json(value: Column, descriptors: bytes, name: str) -> Column:
    """A struct of `json`, the message as text, and `problem`: why it is null.

    `descriptors`: the file that `protoc` writes.
    """
    message(descriptors, name)  # raises `KeyError` for an unknown name here, and not in a worker
    return F.udf(lambda one: read(one, descriptors, name), "json STRING, problem STRING")(value)


def read(value: bytes | None, descriptors: bytes, name: str) -> tuple[str | None, str | None]:
    """One record as JSON, or its problem."""
    if value is None:
        return None, NO_VALUE
    try:
        found = message(descriptors, name).FromString(bytes(value))
        size = found.ByteSize()
        found.DiscardUnknownFields()
        if (known := found.ByteSize()) == len(value) and found.IsInitialized():
            return json_format.MessageToJson(found, preserving_proto_field_name=True, indent=None), None
        return None, UNKNOWN if known < size else MORE if size < len(value) else NO_MESSAGE
    except (DecodeError, json_format.Error):  # JSON has no text for some values, such as a time in the year 10000
        return None, NO_MESSAGE


@cache
def message(descriptors: bytes, name: str) -> type[Message]:
    """The class of a message, made once in each of Spark's Python workers."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return found
