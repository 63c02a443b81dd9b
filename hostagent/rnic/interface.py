"""What an endpoint has to know of its interface and of its neighbours: MTU, addresses, gateway.

Everything is asked of the calling thread's network namespace; addresses are integers in host order.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import time
from pathlib import Path

MTUS = (256, 512, 1024, 2048)
"""What a queue pair may have here: packets of 4096 fit neither AF_XDP's frames nor native XDP."""

ROCE_HEADERS = 20 + 8 + 12 + 16 + 4 + 4
"""What an interface's MTU counts beside the payload: IPv4, UDP, BTH, RETH, immediate, ICRC."""

NEIGHBOUR_TIMEOUT_S = 1.0

_SIOCGIFMTU, _SIOCGIFHWADDR = 0x8921, 0x8927
_DISCARD_PORT = 9
_ARP_COMPLETE = 0x2
_ROUTE_GATEWAY = 0x2
_POLL_S = 0.01


class InterfaceError(Exception):
    """There is no such interface, or it can't carry RoCEv2; the message says why."""


def mac_number(text: str) -> int:
    """Read "02:00:00:00:00:01". Raises ValueError."""
    parts = text.split(":")
    if len(parts) != 6:
        raise ValueError(f"{text!r} is no MAC address, as 02:00:00:00:00:01 is")
    return int.from_bytes(bytes(int(part, 16) for part in parts), "big")


def mac_text(number: int) -> str:
    """Write a MAC address."""
    return number.to_bytes(6, "big").hex(":")


def _ask(name: str, request: int) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        try:
            return fcntl.ioctl(query, request, struct.pack("16s24x", name.encode()[:15]))
        except OSError:
            raise InterfaceError(f"there is no interface {name} here") from None


def mtu_of(name: str) -> int:
    """Return an interface's MTU. Raises InterfaceError."""
    return int(struct.unpack_from("=i", _ask(name, _SIOCGIFMTU), 16)[0])


def mac_of(name: str) -> int:
    """Return an interface's MAC address. Raises InterfaceError."""
    return int.from_bytes(_ask(name, _SIOCGIFHWADDR)[18:24], "big")


def largest_mtu(name: str) -> int:
    """Return the largest MTU of a queue pair whose packets fit. Raises InterfaceError."""
    own = mtu_of(name)
    fitting = [mtu for mtu in MTUS if mtu + ROCE_HEADERS <= own]
    if not fitting:
        raise InterfaceError(
            f"{name} has an MTU of {own}: RoCEv2 needs {MTUS[0] + ROCE_HEADERS} at least"
        )
    return fitting[-1]


def gateway_of(name: str) -> int | None:
    """Return the address of an interface's default gateway, None if it has none."""
    for line in Path("/proc/thread-self/net/route").read_text().splitlines()[1:]:
        interface, destination, gateway, flags = line.split()[:4]
        if interface == name and int(destination, 16) == 0 and int(flags, 16) & _ROUTE_GATEWAY:
            return socket.ntohl(int(gateway, 16))
    return None


def _known_neighbour(address: str, name: str) -> int | None:
    for line in Path("/proc/thread-self/net/arp").read_text().splitlines()[1:]:
        ip, _, flags, mac, _, interface = line.split()[:6]
        if ip == address and interface == name and int(flags, 16) & _ARP_COMPLETE:
            return mac_number(mac)
    return None


def neighbour(ip: int, name: str, timeout_s: float = NEIGHBOUR_TIMEOUT_S) -> int:
    """Return the MAC address of a neighbour, asking for it if it is not known.

    Raises InterfaceError without an answer.
    """
    address = str(ipaddress.IPv4Address(ip))
    deadline = time.monotonic() + timeout_s
    found = _known_neighbour(address, name)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        while found is None:
            try:
                probe.sendto(b"", (address, _DISCARD_PORT))
            except OSError as error:
                raise InterfaceError(
                    f"{address} can't be reached from {name}: {error.strerror}"
                ) from None
            if time.monotonic() > deadline:
                raise InterfaceError(f"{address} can't be reached: no answer on {name}")
            time.sleep(_POLL_S)
            found = _known_neighbour(address, name)
    return found
