"""What a client sends as device config: BMv2 JSON, alone or in the envelope that PI once asked for.

The envelope is `p4.tmp.P4DeviceConfig` of p4lang/PI: `bool reassign = 1; Extras extras = 2;
bytes device_data = 3`. Most scripts of p4lang/tutorials' age still send it.
"""

from __future__ import annotations

_DEVICE_DATA = 3
_VARINT, _BYTES = 0, 2
_FIELDS = frozenset({(1, _VARINT), (2, _BYTES), (_DEVICE_DATA, _BYTES)})


def bmv2_json(device_config: bytes) -> bytes:
    """Return the BMv2 JSON in `device_config`.

    Without an envelope it is taken to be JSON itself.
    """
    if device_config.lstrip()[:1] == b"{":
        return device_config
    try:
        return _device_data(device_config)
    except (IndexError, ValueError):
        return device_config


def _device_data(message: bytes) -> bytes:
    """Return the last field `device_data`. Raises IndexError, ValueError for any other message."""
    found: bytes | None = None
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if (tag >> 3, tag & 7) not in _FIELDS:
            raise ValueError("not a P4DeviceConfig")
        value, at = _varint(message, at)
        if tag & 7 == _BYTES:
            end = at + value
            if end > len(message):
                raise IndexError("the message ends inside of a field")
            if tag >> 3 == _DEVICE_DATA:
                found = message[at:end]
            at = end
    if found is None:
        raise ValueError("a P4DeviceConfig without device_data")
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Read a number of Protobuf's wire format; return it and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
