"""Addresses that follow from the place in the fabric, so that a reader can distinguish them.

The n-th host of the l-th leaf is 10.0.l.n/24 (10.1.0.n for leaf 256, and so on), its gateway is
10.0.l.254, and its MAC address is 02:00 and the four bytes of its IP address. The gateway
answers with the leaf's own MAC address, 02:01 and the switch's number.
"""

from __future__ import annotations

import ipaddress

PREFIX_LENGTH = 24
GATEWAY_BYTE = 254
MAX_HOSTS_PER_LEAF = GATEWAY_BYTE - 1
MAX_LEAVES = 0xFFFF


def gateway_address(leaf: int) -> ipaddress.IPv4Interface:
    """Return the gateway's address in the `leaf`-th leaf's network."""
    return _in_leaf(leaf, GATEWAY_BYTE)


def _in_leaf(leaf: int, byte: int) -> ipaddress.IPv4Interface:
    network = (10 << 24) | (leaf << 8)
    return ipaddress.IPv4Interface((network | byte, PREFIX_LENGTH))


def host_mac(address: ipaddress.IPv4Address) -> str:
    """Return the MAC address of the host with this IP address."""
    return _mac(bytes((0x02, 0x00)) + address.packed)


def switch_mac(device_id: int) -> str:
    """Return the MAC address that all ports of a switch share."""
    return _mac(bytes((0x02, 0x01)) + device_id.to_bytes(4, "big"))


def _mac(data: bytes) -> str:
    return ":".join(f"{byte:02x}" for byte in data)
