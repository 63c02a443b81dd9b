"""A host program that measures for how long pairs of hosts are cut off.

Each host sends datagrams at even intervals to one host of every other leaf, from several UDP ports,
so that they take different ways. Each host notes of every such flow that it receives the longest
time between two arrivals, and how long ago the last one was at the end. Nothing is sent again.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hostagent.programs.frames import datagram_of, udp_frame
from hostagent.programs.program import Frame, Host, Program

PORT = 7100
FIRST_PORT = 49152
DSCP = 46
PAYLOAD = struct.Struct(">HI")  # which of the sender's flows, and how many came before
GAP, SILENT, MISSING = "gap", "silent", "missing"
LEAF_BITS = 8
"""Hosts whose addresses differ in these bits only are at one leaf."""


class Flow(NamedTuple):
    """One host's datagrams to another from one UDP port."""

    source: str
    target: str
    udp_port: int

    def __str__(self) -> str:
        """As counters name it."""
        return f"{self.source}:{self.udp_port}->{self.target}"


@dataclass
class _Heard:
    last_ns: int
    count: int  # so many were sent, as far as is known
    longest_ns: int = 0
    missing: int = 0


def flows(addresses: Mapping[str, int], ports: int, seed: int) -> Iterator[Flow]:
    """Yield all flows: the n-th host of a leaf sends to the n-th of every other."""
    leaves: dict[int, list[str]] = {}
    for name, address in addresses.items():
        if ":" not in name:
            leaves.setdefault(address >> LEAF_BITS, []).append(name)
    for leaf, near in leaves.items():
        for number, source in enumerate(near):
            for other, far in leaves.items():
                if other == leaf:
                    continue
                target = far[number % len(far)]
                for n in range(ports):
                    drawn = zlib.crc32(f"{seed} {source} {target} {n}".encode())
                    yield Flow(source, target, FIRST_PORT + drawn % (65536 - FIRST_PORT))


class Probe(Program):
    """One host's part. Times are the fabric's, in ns.

    `every_ns`: from one datagram of a flow to its next. `ports`: flows of a pair of hosts. `seed`:
    what their UDP ports are drawn by. `after_ns`: gaps that end earlier don't count. `stop_ns`:
    nothing is sent from then on, 0 for as long as the run lasts.
    """

    def __init__(
        self,
        every_ns: int = 5000,
        ports: int = 2,
        seed: int = 1,
        after_ns: int = 0,
        stop_ns: int = 0,
    ) -> None:
        self.every_ns, self.ports, self.seed = every_ns, ports, seed
        self.after_ns, self.stop_ns = after_ns, stop_ns
        self.sent = 0
        self.mine: list[tuple[Flow, int]] = []
        self.heard: dict[Flow, _Heard | None] = {}
        self.names: dict[int, str] = {}

    def started(self, host: Host) -> None:
        """Listen, and begin at a time of one's own within an interval."""
        host.listen_udp(PORT)
        self.names = {address: name for name, address in host.addresses.items()}
        for flow in flows(host.addresses, self.ports, self.seed):
            if flow.source == host.name:
                self.mine.append((flow, host.addresses[flow.target]))
            if flow.target == host.name:
                self.heard[flow] = None
        host.set_timer(0, zlib.crc32(host.name.encode()) % self.every_ns)

    def timer(self, host: Host, token: int, now_ns: int) -> None:
        """Send one datagram of each flow."""
        del token
        if self.stop_ns and now_ns >= self.stop_ns:
            return
        for number, (flow, address) in enumerate(self.mine):
            said = PAYLOAD.pack(number, self.sent)
            interface, port = host.interfaces[0], flow.udp_port
            host.send(udp_frame(interface, address, port, PORT, said, dscp=DSCP))
        self.sent += 1
        host.set_timer(0, now_ns + self.every_ns)

    def packet(self, host: Host, frame: Frame, now_ns: int) -> None:
        """Note when it came, and what did not come before it."""
        found = datagram_of(frame.data)
        if found is None or len(found.payload) < PAYLOAD.size:
            return
        flow = Flow(self.names[found.source], host.name, found.source_port)
        _, number = PAYLOAD.unpack_from(found.payload)
        heard = self.heard.get(flow)
        if heard is None:
            self.heard[flow] = _Heard(now_ns, number + 1)
            return
        if now_ns >= self.after_ns:
            heard.longest_ns = max(heard.longest_ns, now_ns - heard.last_ns)
        heard.missing += max(0, number - heard.count)
        heard.count = max(heard.count, number + 1)
        heard.last_ns = now_ns

    def stopped(self, host: Host) -> None:
        """Say of each flow what was seen."""
        end_ns = min(host.now_ns, self.stop_ns) if self.stop_ns else host.now_ns
        for flow, heard in self.heard.items():
            if heard is None:
                continue
            host.count(f"{GAP} {flow}", heard.longest_ns)
            host.count(f"{SILENT} {flow}", max(0, end_ns - heard.last_ns))
            host.count(f"{MISSING} {flow}", heard.missing)
