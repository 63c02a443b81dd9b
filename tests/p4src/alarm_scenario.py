"""A program with a mechanism that notifies by datagrams (alarm.p4), and what its tests need of it.

    h1, h2 -- s1 ------ s3 ------ s2 -- h3, h4        the default fabric; s4 is beside s3
              alarm  -> relays -> takes, and copies to its hosts

A packet to UDP port 7777 makes s1 say something; docs/wire-formats.md says how that looks.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from compiler import compile_p4
from controller.entries import CloneSession, DefaultEntry, Entry, MulticastGroup, call
from mechanisms import registry
from protocols.notification import (
    HOST_TTL,
    NEIGHBOURS_MAC,
    Notification,
    NotificationType,
    datagram,
)
from softswitch.p4runtime.protos import p4i
from topologies import Topology

HERE = Path(__file__).resolve().parent
P4SRC = HERE.parents[1] / "p4src"
DEFINES = (
    "PROFILE",
    "WITH_FABRIC",
    *(f"WITH_{name.upper()}" for name in registry.NAMES),
    "WITH_ALARM",
)
"""Beside all mechanisms, but not reports of paths: a type of notification has one body."""

ALARM_PORT = 7777
GROUP, SESSION, FAR_SESSION = 7, 20, 21
RECIRCULATION_PORT = 510
CNP_CLASS = 7
SPOOFED, BAD_NOTIFICATION = 11, 12
TAKEN, RELAYED, ROUTED, MADE = 0, 16, 32, 48
"""NotificationOutcome: with the type the index of the program's counter."""


def sources(folder: Path) -> Path:
    """Return fabric.p4 in a copy of the programs that has the alarm's module and line."""
    copied = folder / "p4src"
    shutil.copytree(P4SRC, copied)
    shutil.copy(HERE / "alarm.p4", copied / "modules")
    with (copied / "mechanisms.p4").open("a") as file:
        file.write('#include "modules/alarm.p4"\n')
    return copied / "fabric.p4"


@cache
def compiled(by: str) -> tuple[str, p4i.P4Info]:
    """Return JSON and P4Info, compiled without a warning by "weft" or by "p4c"."""
    with tempfile.TemporaryDirectory() as folder:
        source = sources(Path(folder))
        if by == "weft":
            result = compile_p4(source, defines=DEFINES, diagnostics=["Werror"])
            return result.json_text, result.p4info
        json_path, p4info_path = Path(folder) / "p4c.json", Path(folder) / "p4c.txtpb"
        outputs = ["-o", str(json_path), "--p4runtime-files", str(p4info_path)]
        options = ["--std", "p4-16", "--Werror", *(f"-D{each}" for each in DEFINES)]
        command = ["p4c-bm2-ss", *options, *outputs, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        p4info = text_format.Parse(p4info_path.read_text(), p4i.P4Info())
        return json_path.read_text(), p4info


def entries(
    made_by: Iterable[int], relayed_by: Iterable[int], *, clone_classes: bool = True
) -> tuple[Entry, ...]:
    """Return what a switch needs beside the controller's entries.

    What it makes leaves by the ports `made_by`, or is routed to hosts behind other switches; what
    it takes goes on to `relayed_by`.
    """
    copies = CNP_CLASS if clone_classes else 0
    return (
        CloneSession(SESSION, tuple((port, port) for port in made_by), copies),
        CloneSession(FAR_SESSION, ((RECIRCULATION_PORT, 1),), copies),
        MulticastGroup(GROUP, tuple((port, port) for port in relayed_by)),
        DefaultEntry("alarm_relay", call("set_relay", group=GROUP)),
    )


def alarm(
    topology: Topology, said: Mapping[str, Any], *, to: str = "0.0.0.0", quality: int = 0
) -> Packet:
    """Return the packet of h1 that makes s1 send this. `to`: a host, by way of FAR_SESSION."""
    wanted = Notification(**said)
    fields = bytes(wanted)
    far = to != "0.0.0.0"
    words = [
        fields[:2],  # type, severity, hops, validity
        wanted.port.to_bytes(2, "big"),
        fields[7:11],
        b"\0",
        fields[11:16],
        (FAR_SESSION if far else SESSION).to_bytes(2, "big"),
        IPv4Address(to).packed,
        quality.to_bytes(4, "big"),
    ]
    h1, s1 = topology.host("h1"), topology.switch("s1")
    carried = UDP(sport=ALARM_PORT, dport=ALARM_PORT, chksum=0) / Raw(b"".join(words))
    return Ether(src=h1.mac, dst=s1.mac) / IP(src="10.0.1.1", dst="10.0.1.254") / carried


def from_switch(mac: str, said: Notification, body: bytes = b"") -> Packet:
    """Return the frame by which a switch says this to the one at the other end of a link."""
    return Ether(src=mac, dst=NEIGHBOURS_MAC) / datagram(said, body=body)


def to_host(
    mac: str, host: Any, said: Notification, body: bytes = b"", ttl: int = HOST_TTL
) -> Packet:
    """Return the frame by which a host's switch says this to it."""
    return Ether(src=mac, dst=host.mac) / datagram(
        said, to=str(host.address.ip), body=body, ttl=ttl
    )


def quality_of(value: int) -> bytes:
    """Return the body that s1 sends with a path's quality."""
    return value.to_bytes(4, "big") + bytes.fromhex("00112233445566778899aabbccddeeff")


LINK_DOWN: Mapping[str, Any] = {
    "type": NotificationType.LINK_DOWN,
    "severity": 15,
    "hops": 2,
    "validity": 9,
    "port": 0xABC,
    "destination": "10.0.2.1",
    "destination_qp": 0x123456,
    "queue": 0xBEEF,
}
"""What s1 is made to say; the number and the switch are its own."""
