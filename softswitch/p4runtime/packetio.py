"""Controller packets: joining and splitting P4's controller headers and metadata."""

from __future__ import annotations

from softswitch.p4runtime.protos import p4r
from softswitch.p4runtime.schema import ControllerHeader
from softswitch.p4runtime.status import Code, EntityError
from softswitch.p4runtime.strings import bytes_of, value_of


def packet_in(header: ControllerHeader | None, data: bytes) -> p4r.PacketIn | None:
    """Split a CPU-port packet into metadata and payload.

    The first bytes are taken for the packet_in header whatever they are, as BMv2's server does.
    None when the packet is shorter than the header.
    """
    if header is None:
        return p4r.PacketIn(payload=data)
    size = (header.bits + 7) // 8
    if len(data) < size:
        return None
    message = p4r.PacketIn(payload=data[size:])
    value = int.from_bytes(data[:size], "big")
    left = size * 8
    for field in header.fields:
        left -= field.bitwidth
        bits = (value >> left) & ((1 << field.bitwidth) - 1)
        message.metadata.add(metadata_id=field.id, value=bytes_of(field, bits))
    return message


def packet_out(header: ControllerHeader | None, message: p4r.PacketOut) -> bytes:
    """Return the bytes that enter ingress at the CPU port; omitted metadata is 0.

    Raises EntityError INVALID_ARGUMENT for metadata that P4Info does not have, OUT_OF_RANGE for
    values too wide.
    """
    if header is None:
        if message.metadata:
            raise EntityError(
                Code.INVALID_ARGUMENT,
                "packet-out metadata given, but P4Info has no packet_out header",
            )
        return bytes(message.payload)
    values: dict[int, int] = {}
    fields = {f.id: f for f in header.fields}
    for metadata in message.metadata:
        field = fields.get(metadata.metadata_id)
        if field is None:
            raise EntityError(
                Code.INVALID_ARGUMENT,
                f"packet_out has no metadata with id {metadata.metadata_id}",
            )
        values[field.id] = value_of(field, metadata.value, f"packet-out metadata {field.name!r}")
    size = (header.bits + 7) // 8
    value = 0
    for field in header.fields:
        value = (value << field.bitwidth) | values.get(field.id, 0)
    value <<= size * 8 - header.bits
    return value.to_bytes(size, "big") + bytes(message.payload)
