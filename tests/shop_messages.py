"""Protobuf's descriptors of a shop, as `protoc --include_imports --descriptor_set_out` would write them."""

from google.protobuf import descriptor_pb2, timestamp_pb2

Field = descriptor_pb2.FieldDescriptorProto


def _shop() -> bytes:
    times = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=[times.name]
    )
    order, parcel, late = (file.message_type.add(name=name) for name in ("Order", "Parcel", "Late"))
    order.field.add(name="order_id", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    order.field.add(name="quantity", number=2, type=Field.TYPE_INT32, label=Field.LABEL_OPTIONAL)
    order.field.add(name="tags", number=3, type=Field.TYPE_STRING, label=Field.LABEL_REPEATED)
    within = {"number": 1, "type": Field.TYPE_MESSAGE, "label": Field.LABEL_OPTIONAL}
    parcel.field.add(name="order", type_name=".shop.Order", **within)
    late.field.add(name="at", type_name=".google.protobuf.Timestamp", **within)
    return bytes(descriptor_pb2.FileDescriptorSet(file=[times, file]).SerializeToString())


SHOP = _shop()
