"""What values mean and how people read them: addresses as addresses, the rest as numbers.

P4Info has widths and names. A width alone says nothing: a slope of 32 bits is no address. So a
value is an address where the program says so, with `@format(MAC_ADDRESS)` as SONiC's programs
do, by its type's name, or by the field's name; anything else is a number.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from enum import Enum


class Meaning(Enum):
    """What a value is, which decides how it is shown."""

    NUMBER = "number"
    MAC = "MAC address"
    IPV4 = "IPv4 address"
    IPV6 = "IPv6 address"


_BY_BITS = {48: Meaning.MAC, 32: Meaning.IPV4, 128: Meaning.IPV6}
_ANNOTATION = re.compile(r"@format\s*\(\s*(\w+)\s*\)")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# Words of names. "ip4", "ipv6" are split at their digits.
_ADDRESS = frozenset({"addr", "address", "gateway", "gw", "nhop", "nexthop"})
_ENDS = frozenset(
    {"src", "dst", "source", "destination", "sender", "target", "sa", "da"} | {"spa", "tpa"}
)
_OF_WIDTH = {
    Meaning.MAC: frozenset({"mac", "dmac", "smac", "srcmac", "dstmac", "bssid", "sha", "tha"}),
    Meaning.IPV4: frozenset({"ip", "ipv", "srcip", "dstip", "sip", "dip", "vip"}),
    Meaning.IPV6: frozenset({"ip", "ipv", "srcip", "dstip", "sip", "dip", "vip"}),
}
# A name that ends so is a number whatever stands before: ip_count, mac_index, address_hash.
_NUMBERS = frozenset(
    {"id", "index", "idx", "hash", "checksum", "csum", "count", "counter", "port", "length", "len"}
    | {"offset", "mark", "seq", "sequence", "size", "key", "bytes", "packets", "time", "timestamp"}
    | {"qp", "qpn", "number", "rate", "type", "state"}
)


def meaning(
    name: str, bits: int, *, annotations: Iterable[str] = (), type_name: str = ""
) -> Meaning:
    """Return what the values of a match field or parameter are.

    Args:
        name: the field's name, as `hdr.ipv4.dstAddr`, `slope`
        bits: its width
        annotations: P4Info's, each as it stands in the program
        type_name: of a P4 `type`, as P4Info has it; empty for a plain bit<W>
    """
    likely = _BY_BITS.get(bits)
    if likely is None:
        return Meaning.NUMBER
    for text in annotations:
        if said := _ANNOTATION.search(text):
            kind = said[1].upper().removesuffix("_ADDRESS")
            return likely if kind == likely.name else Meaning.NUMBER
    return likely if any(_names(text, likely) for text in (type_name, name)) else Meaning.NUMBER


def _names(text: str, likely: Meaning) -> bool:
    """Say whether a name is an address's: `hdr.ipv4.dst`, `nhop_ipv4`, `ipv4_addr_t`, `addr1`."""
    words = [word.lower() for word in _WORD.findall(text.rpartition(".")[2])]
    own = [word for word in words if not word.isdigit() and word != "t"]
    if not own or own[-1] in _NUMBERS:
        return False
    return own[-1] in _ADDRESS | _ENDS | _OF_WIDTH[likely] or bool(
        _OF_WIDTH[likely] & set(own) and _ENDS & set(own)
    )


def show_value(value: int, meaning: Meaning) -> str:
    """Return a value as people read it."""
    match meaning:
        case Meaning.MAC:
            return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))
        case Meaning.IPV4:
            return str(ipaddress.IPv4Address(value))
        case Meaning.IPV6:
            return str(ipaddress.IPv6Address(value))
        case Meaning.NUMBER:
            return str(value)
