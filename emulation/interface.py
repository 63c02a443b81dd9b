"""Settings of one end of a veth pair, made by ioctl and sysctl: no process is started for them."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

from emulation.errors import EmulationError

# linux/sockios.h, linux/ethtool.h
_SIOCETHTOOL = 0x8946
_GSTRINGS = 0x1B
_GSSET_INFO = 0x37
_GFEATURES = 0x3A
_SFEATURES = 0x3B
_SET_OF_FEATURES = 4
_NAME_BYTES = 32

_WIRE_OVERHEAD_BYTES = 24  # preamble 8, FCS 4, gap 12
_ETHERNET_BYTES = 14
_BURST_PACKETS = 2


def exists(name: str) -> bool:
    """Say whether this namespace has an interface of that name, its own or an alternative one."""
    try:
        socket.if_nametoindex(name)
    except OSError:
        return False
    return True


def offloads_off(names: list[str], where: socket.socket) -> None:
    """Turn off all that the kernel would leave to a network card, which a veth does not have.

    Otherwise a sender hands over frames whose checksum is not filled in, or frames larger than
    the MTU, or takes VLAN tags out of them; a forwarder in user space would pass them on like
    that. `where` is any socket opened in the namespace of the interfaces. Raises EmulationError.
    """
    for name in names:
        try:
            _features_off(name, where)
        except OSError as error:
            raise EmulationError(
                f"can't turn offloads off on {name}: {error.strerror}", "weft doctor"
            ) from None


def _ethtool(name: str, where: socket.socket, command: bytes) -> bytes:
    """Do one ethtool command; the kernel answers in the same memory."""
    memory = ctypes.create_string_buffer(command, len(command))
    fcntl.ioctl(where, _SIOCETHTOOL, struct.pack("16sP8x", name.encode(), ctypes.addressof(memory)))
    return memory.raw


def _features_off(name: str, where: socket.socket) -> None:
    answer = _ethtool(name, where, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SET_OF_FEATURES, 0))
    count = struct.unpack_from("=I", answer, 16)[0]
    request = struct.pack("=III", _GSTRINGS, _SET_OF_FEATURES, count) + bytes(count * _NAME_BYTES)
    answer = _ethtool(name, where, request)[12:]
    features = [
        answer[at : at + _NAME_BYTES].rstrip(b"\0").decode()
        for at in range(0, count * _NAME_BYTES, _NAME_BYTES)
    ]
    blocks = (count + 31) // 32
    answer = _ethtool(name, where, struct.pack("=II", _GFEATURES, blocks) + bytes(16 * blocks))
    words = []
    for block in range(blocks):
        available, _wanted, _active, never = struct.unpack_from("=IIII", answer, 8 + 16 * block)
        offloads = sum(
            1 << bit
            for bit, feature in enumerate(features[32 * block : 32 * block + 32])
            if feature.startswith(("tx-", "rx-"))
        )
        words.append((available & ~never & offloads, 0))  # which to set, to what
    request = struct.pack("=II", _SFEATURES, blocks)
    _ethtool(name, where, request + b"".join(struct.pack("=II", *word) for word in words))


def limit_rate(name: str, pid: int, rate_bps: int, queue_bytes: int, mtu: int) -> bool:
    """Make a host's interface send no faster than its link, behind a queue of `queue_bytes`.

    `pid` is a process in the interface's namespace. The rate counts what a frame takes on a wire,
    as the switches' ports do; `mtu` is the interface's, since a packet that the bucket can't hold
    would be dropped. Returns False where the kernel has no token bucket (tbf).
    """
    packet = mtu + _ETHERNET_BYTES + _WIRE_OVERHEAD_BYTES
    burst = max(_BURST_PACKETS * packet, rate_bps // 8 // 1000)  # late timers catch up in 1 ms
    command = ["mnexec", "-a", str(pid), "tc", "qdisc", "add", "dev", name, "root"]
    command += ["stab", "overhead", str(_WIRE_OVERHEAD_BYTES), "linklayer", "ethernet"]
    command += ["tbf", "rate", f"{rate_bps}bit", "burst", str(burst), "limit", str(queue_bytes)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def arp_by_interface() -> None:
    """Make each interface of a host speak ARP for its own address alone, not for its siblings'.

    Acts in the calling thread's namespace.
    """
    for setting, value in (("arp_ignore", "1"), ("arp_announce", "2")):
        Path(f"/proc/sys/net/ipv4/conf/all/{setting}").write_text(value)


def ipv6_off(name: str) -> None:
    """Keep the kernel from sending IPv6 on an interface (or on all to come, if `default`).

    Acts in the calling thread's namespace. A kernel without IPv6 has nothing to turn off.
    """
    with suppress(FileNotFoundError):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
