"""Two hosts with two wires (two_hosts.py), and queue pairs that have both ends' interfaces.

h1  near 10.77.1.1 ======================= near 10.77.1.2  h2
    far  10.77.2.1 ==== left [wire] right ==== far 10.77.2.2

`hosts`, `maps` and `way` are fixtures for who imports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from hostagent import agent
from hostagent.algorithms import Parameters
from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic import interface
from hostagent.rnic.card_records import EventKind, Operation, QueuePairConfig, Repeat, Work
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointConfig, EndpointInterface
from mechanisms.dcqcn.parameters import parameters
from tests.hostagent.two_hosts import (
    CONFIG,
    MEGABYTE,
    Host,
    Joined,
    TwoHosts,
    agent_maps,
    number,
    until,
)

Way = tuple[str, PinnedMaps | None]
"""How frames come ("af_packet", "af_xdp"), and the kernel's maps if it keeps what is told."""

MS = 1_000_000_000  # ps
NAMES = ("near", "far")
BOTH = replace(
    CONFIG,
    repeat=Repeat.SELECTIVE,
    window_packets=512,
    reorder_ps=1_000_000_000_000,
    timeout_ps=2_000_000_000_000,
    interfaces=2,
)
DCQCN = {"dcqcn": parameters("hpcc-dcqcn", 10**9).fields()}


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts() as found:
        yield found


@pytest.fixture(scope="module")
def maps(hosts: TwoHosts) -> Iterator[PinnedMaps]:
    with agent_maps(hosts) as found:
        yield found


@pytest.fixture(params=["af_packet", "af_xdp"])
def way(request: pytest.FixtureRequest) -> Way:
    """How frames come; with AF_XDP the kernel keeps the congestion control."""
    by_xdp = request.param == "af_xdp"
    return request.param, request.getfixturevalue("maps") if by_xdp else None


def card_of(host: Host, place: int, maps: PinnedMaps | None, line_rate_bps: int = 0) -> Endpoint:
    """Return an endpoint of this process with both of a host's interfaces."""

    def opened() -> Endpoint:
        first, second = (
            EndpointInterface(
                name, number(f"10.77.{net}.{place}"), interface.mac_of(name), 0, line_rate_bps
            )
            for net, name in enumerate(NAMES, 1)
        )
        config = EndpointConfig(
            first.interface,
            first.ip,
            first.mac,
            0,
            line_rate_bps,
            af_packet=maps is None,
            more=(second,),
        )
        return Endpoint(config, maps)

    return agent.in_namespace(host.pid, opened)


@contextmanager
def joined_by_both(
    hosts: TwoHosts,
    way: Way,
    line_rate_bps: int = 0,
    config: QueuePairConfig = BOTH,
    control: Parameters = DCQCN,
) -> Iterator[Joined]:
    mode, maps = way
    with ExitStack() as stack:
        ends = [
            stack.enter_context(card_of(host, place, maps, line_rate_bps))
            for place, host in enumerate((hosts.h1, hosts.h2), 1)
        ]
        assert [end.mode for end in ends] == [mode, mode], [end.mode_reason for end in ends]
        pairs = [
            end.open(config, buffer_bytes=2 * MEGABYTE, congestion_control=control) for end in ends
        ]
        for here, there in ((0, 1), (1, 0)):
            ends[here].connect_ways(
                pairs[here].qpn,
                [(each.ip, each.mac) for each in ends[there].config.interfaces],
                peer_qpn=pairs[there].qpn,
                peer_psn=pairs[there].psn,
            )
        yield Joined(ends[0], ends[1], pairs[0], pairs[1])


def sent(host: Host) -> list[int]:
    """How many packets each of a host's interfaces has sent."""

    def read() -> list[int]:
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()
        rows = {line.partition(":")[0].strip(): line.partition(":")[2].split() for line in lines}
        return [int(rows[name][9]) for name in NAMES]

    return agent.in_namespace(host.pid, read)


def exchange(pair: Joined, size: int, seed: int) -> None:
    """WRITE, SEND and READ of random bytes; each must arrive as it was."""
    random = Random(seed)
    written, given, kept = (random.randbytes(size) for _ in range(3))
    into, read = bytearray(size), bytearray(size)
    far = pair.other.memory(pair.far.qpn)
    far[MEGABYTE : MEGABYTE + size] = kept
    pair.other.post_receive(pair.far.qpn, seed, into)
    begun = len(pair.events(0, EventKind.COMPLETED))
    base, rkey = pair.far.address, pair.far.rkey
    for work in (
        Work(3 * seed, Operation.WRITE, written, remote_address=base, rkey=rkey),
        Work(3 * seed + 1, Operation.SEND, given),
        Work(3 * seed + 2, Operation.READ, read, remote_address=base + MEGABYTE, rkey=rkey),
    ):
        pair.one.post(pair.near.qpn, work)
    until(lambda: len(pair.events(0, EventKind.COMPLETED)) == begun + 3, pair.one)
    assert bytes(far[:size]) == written
    assert bytes(into) == given
    assert bytes(read) == kept


def write(pair: Joined, seed: int) -> bytes:
    """Post a megabyte; return it."""
    data = Random(seed).randbytes(MEGABYTE)
    to = {"remote_address": pair.far.address, "rkey": pair.far.rkey}
    pair.one.post(pair.near.qpn, Work(seed, Operation.WRITE, data, **to))
    return data


def arrived(pair: Joined, data: bytes) -> None:
    """Wait until it is there, as it was sent, and nothing has failed."""
    until(lambda: bool(pair.events(0, EventKind.COMPLETED)), pair.one)
    assert bytes(pair.other.memory(pair.far.qpn)[: len(data)]) == data
    assert not pair.events(0, EventKind.FAILED)
