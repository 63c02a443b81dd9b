"""The hash by which switches choose among equally short paths, for many flows and ports at once.

What p4src/modules/routing.p4 computes of a RoCEv2 packet whose UDP source port is p:

    mix  = (p ++ 4791 ^ source ^ target) * odd         32 bits; odd: each switch's own multiplier
    hash = CRC-32 of source ++ target ++ 17 ++ mix     13 bytes
    port = the group's ports[hash mod their number]    ascending

p moves the upper half of `mix` only, and by odd numbers, so each p gives it another value. A CRC is
linear: what that half adds is one of 65,536 words, whatever the rest is. So a candidate costs a
multiplication, a look into one table and a remainder.

The ports of a group are in the order in which the switch was given them, which is ascending while
none has left all groups and come back (BMv2 orders members by handles that it uses again; our
switch does the same). One that is down is left out at once where the switch watches ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from controller.base_entries import mac_number
from controller.leaf_routes import Routes
from protocols.rocev2 import ROCE_V2_PORT
from topologies.model import Topology

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]

GOLDEN_RATIO = 0x9E3779B1  # routing.p4
_CRC32 = 0xEDB88320  # reflected, as Ethernet's
_ALL = 0xFFFFFFFF
_UDP = 17


@dataclass(frozen=True, eq=False)
class Hops:
    """Choices that packets of flows meet, one at each switch; arrays of equal length.

    `size[i]`: ports that the switch chooses from. `place[i]`: which of them is wanted, -1 where
    none of them is. The rest is what the hash makes of all but the source port.
    """

    size: Words
    place: Ints
    odd: Words
    target_half: Words
    base: Words
    rest: Words

    def __getitem__(self, which: Ints | npt.NDArray[np.bool_]) -> Hops:
        """Return some of them."""
        return Hops(
            self.size[which],
            self.place[which],
            self.odd[which],
            self.target_half[which],
            self.base[which],
            self.rest[which],
        )

    def choice(self, udp_port: Ints) -> Ints:
        """Return which port each switch chooses, by its place in the group.

        `udp_port`: broadcast against the hops from the left: one row a hop.
        """
        one = (slice(None), *(None,) * (udp_port.ndim - 1))
        port = udp_port.astype(np.uint32) ^ self.target_half[one]
        half = (port * self.odd[one] + self.base[one]) & np.uint32(0xFFFF)
        found: Ints = ((_half_words()[half] ^ self.rest[one]) % self.size[one]).astype(np.int64)
        return found

    def right(self, udp_port: Ints) -> npt.NDArray[np.bool_]:
        """Say which ports make the switches choose what is wanted; as `choice`."""
        one = (slice(None), *(None,) * (udp_port.ndim - 1))
        found: npt.NDArray[np.bool_] = self.choice(udp_port) == self.place[one]
        return found


class EcmpHash:
    """The groups and hashes of a fabric's switches while its links are as `routes` has them."""

    def __init__(self, topology: Topology, routes: Routes) -> None:
        self._topology = topology
        self._routes = routes
        self._switches = {switch.name: i for i, switch in enumerate(topology.switches)}
        macs = [mac_number(switch.mac) for switch in topology.switches]
        self._odd = np.array(
            [((mac << 1 | 1) * GOLDEN_RATIO) & _ALL for mac in macs], dtype=np.uint32
        )
        leaf = {switch.name: i for i, switch in enumerate(routes.leaves)}
        interfaces = tuple(topology.interfaces())
        self._address = np.array([int(i.address.ip) for i in interfaces], dtype=np.uint32)
        self._leaf = np.array([leaf[i.switch] for i in interfaces], dtype=np.int64)
        ends = [end for link in topology.links for end in (link.a, link.b)]
        self._tail = np.array([self._switches.get(end.node, -1) for end in ends], dtype=np.int64)
        self._port = np.array([end.port for end in ends], dtype=np.int64)
        self._most_ports = int(self._port.max(initial=0)) + 1
        self._groups: dict[tuple[int, ...], int] = {}

    def hops(self, source: Ints, target: Ints, arcs: Ints) -> Hops:
        """Return the choice of each flow at the switch from which `arcs` lead.

        `source`, `target`: places in `topology.interfaces()`; `arcs`: directions of links, numbered
        as in `topologies.capacities.directions`.
        """
        switch, leaf = self._tail[arcs], self._leaf[target]
        keys = switch * len(self._routes.leaves) + leaf
        distinct, which = np.unique(keys, return_inverse=True)
        group = np.array([self._group(int(key)) for key in distinct], dtype=np.int64)[which]
        sizes, places = self._tables()
        source_ip, target_ip = self._address[source], self._address[target]
        both = source_ip ^ target_ip
        odd = self._odd[switch]
        base = ((both & np.uint32(0xFFFF)) ^ np.uint32(ROCE_V2_PORT)) * odd
        state = _state(source_ip, target_ip)
        rest = _four_bytes(state ^ (_swapped(base & np.uint32(0xFFFF)) << np.uint32(16)))
        return Hops(
            sizes[group],
            places[group, self._port[arcs]],
            odd,
            both >> np.uint32(16),
            base >> np.uint32(16),
            ~rest,
        )

    def _group(self, key: int) -> int:
        """Return the number of the set of ports from a switch to a leaf."""
        switch, leaf = divmod(key, len(self._routes.leaves))
        way = self._routes.row(self._topology.switches[switch].name)[leaf]
        ports = way.ports if way is not None else ()
        return self._groups.setdefault(ports, len(self._groups))

    def _tables(self) -> tuple[Words, Ints]:
        """Return how many ports each group has (1 for none), and each port's place in it."""
        sizes = np.array([max(len(ports), 1) for ports in self._groups], dtype=np.uint32)
        places = np.full((len(self._groups), self._most_ports), -1, dtype=np.int64)
        for number, ports in enumerate(self._groups):
            places[number, list(ports)] = np.arange(len(ports))
        return sizes, places


# ---------------------------------------------------------------- CRC-32


@cache
def _byte_words() -> Words:
    """Return the CRC's 256 remainders of one byte."""
    words = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        words = (words >> np.uint32(1)) ^ np.where(words & 1, np.uint32(_CRC32), np.uint32(0))
    return words.astype(np.uint32)


def _four_bytes(state: Words) -> Words:
    """Return the register after four more bytes, which are in it already; linear."""
    table = _byte_words()
    for _ in range(4):
        state = (state >> np.uint32(8)) ^ table[state & np.uint32(0xFF)]
    return state


@cache
def _half_words() -> Words:
    """Return what the upper half of the last word adds to a hash, by its value."""
    return _four_bytes(_swapped(np.arange(1 << 16, dtype=np.uint32)))


def _swapped(half: Words) -> Words:
    """Return 16 bits as they come over the wire: the CRC takes the low byte first."""
    return (half >> np.uint32(8)) | ((half & np.uint32(0xFF)) << np.uint32(8))


def _state(source_ip: Words, target_ip: Words) -> Words:
    """Return the register after both addresses and the protocol."""
    state = _four_bytes(np.uint32(_ALL) ^ source_ip.byteswap())
    state = _four_bytes(state ^ target_ip.byteswap())
    found: Words = (state >> np.uint32(8)) ^ _byte_words()[
        (state ^ np.uint32(_UDP)) & np.uint32(255)
    ]
    return found
