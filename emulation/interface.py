"""Settings of one end of a veth pair, made by ioctl and sysctl: no process is started for them."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from contextlib import suppress
from pathlib import Path

from emulation.errors import EmulationError

_SIOCETHTOOL = 0x8946  # linux/sockios.h

# linux/ethtool.h. With any of these on, a sender hands over frames whose checksum is not filled
# in, or frames larger than the MTU; a forwarder in user space would pass on both as they are.
_SETTERS_OFF = {
    "rx checksum": 0x15,
    "tx checksum": 0x17,
    "scatter-gather": 0x19,
    "tcp segmentation": 0x1F,
    "generic segmentation": 0x24,
    "generic receive": 0x2C,
}


def offloads_off(names: list[str], where: socket.socket) -> None:
    """Turn checksum and segmentation offloads off on interfaces.

    `where` is any socket opened in the namespace of the interfaces. Raises EmulationError.
    """
    for name in names:
        for what, command in _SETTERS_OFF.items():
            value = ctypes.create_string_buffer(struct.pack("=II", command, 0))
            request = struct.pack("16sP8x", name.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(where, _SIOCETHTOOL, request)
            except OSError as error:
                raise EmulationError(
                    f"can't turn {what} offload off on {name}: {error.strerror}",
                    "this kernel's veth is unusual: weft doctor",
                ) from None


def ipv6_off(name: str) -> None:
    """Keep the kernel from sending IPv6 on an interface (or on all to come, if `default`).

    Acts in the calling thread's namespace. A kernel without IPv6 has nothing to turn off.
    """
    with suppress(FileNotFoundError):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
