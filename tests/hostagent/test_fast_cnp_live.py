"""A switch's notification by hand, on a real wire: the endpoint's rate falls by it and holds.

    h1 10.77.1.1 (endpoint) ====== h2 10.77.1.2 (endpoint, and a socket of the test's)
                        <---- fast CNP in h2's name, for h2's queue pair

The frame is scapy's; it comes out of h2's interface as one from the fabric would come.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from hostagent.agent import in_namespace
from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic.card_records import Operation
from hostagent.rnic.client import EndpointClient, RequestRefused
from hostagent.rnic.client import join as join_pairs
from hostagent.rnic.endpoint_records import Task, TaskKind
from hostagent.rnic.interface import mac_text
from mechanisms.fast_cnp.parameters import FastCnpParameters
from protocols.notification import Notification, as_cnp_padding, rate_of, rate_units
from protocols.rocev2 import ROCE_V2_PORT, Opcode
from tests.hostagent.two_hosts import Joined, TwoHosts, agent_maps, daemon, joined, until

pytestmark = pytest.mark.root

LINE = 100_000_000
QUARTER = rate_units(rate_of(LINE // 4))  # as 16 bits say it, of a line that counts in bits/s
FAST = FastCnpParameters(
    line_rate_bps=LINE,
    min_rate_bps=LINE // 100,
    validity_unit_ns=1_000_000,
    rate_unit_q16=1 << 16,  # so that a notification can say rates of so slow a line
)
CONTROL = {"fast_cnp": FAST.fields()}
VALIDITY, STANDS_S = 10, 1.024  # 2^10 ms: longer than a busy machine needs to look
SIZE = 16384
WIRE_EXTRA = 24  # preamble, FCS and gap, which rates count


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts() as found:
        yield found


@pytest.fixture(scope="module")
def maps(hosts: TwoHosts) -> Iterator[PinnedMaps]:
    with agent_maps(hosts) as found:
        yield found


@pytest.fixture
def h2(hosts: TwoHosts) -> Iterator[socket.socket]:
    """Open a socket that sends frames out of h2's interface."""

    def opened() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        made.bind(("near", 0))
        return made

    with in_namespace(hosts.h2.pid, opened) as found:
        yield found


def fast_cnp(pair: Joined, bps: int, **fields: Any) -> bytes:
    """Return what a switch would send h1 about the data that goes to h2."""
    values = {"type": 1, "validity": VALIDITY, "switch_id": 3, "port": 2, "sequence": 1,
              "destination": str(IPv4Address(pair.other.config.ip)),
              "destination_qp": pair.far.qpn, "queue": rate_of(bps)}  # fmt: skip
    said = Notification(**{**values, **fields})
    frame = (
        Ether(dst=mac_text(pair.one.config.mac), src=mac_text(pair.other.config.mac))
        / IP(src="10.77.1.2", dst="10.77.1.1", tos=48 << 2, id=0, flags="DF", ttl=64)
        / UDP(sport=0xC123, dport=ROCE_V2_PORT, chksum=0)
        / BTH(opcode=int(Opcode.CNP), becn=1, dqpn=0, psn=0, migreq=0)
        / as_cnp_padding(said)
    )
    return bytes(frame)


def rate(pair: Joined) -> int:
    return pair.one.pair_stats(pair.near.qpn).rate_bps


def told(pair: Joined) -> int:
    return pair.one.pair_stats(pair.near.qpn).notified_received


def sent_bps(pair: Joined, count: int) -> float:
    """Measure h1's frames in bits/s while it WRITEs `count` messages."""
    before = pair.one.stats()
    task = Task(
        TaskKind.BANDWIDTH, Operation.WRITE, SIZE, count, depth=4,
        rkey=pair.far.rkey, remote_address=pair.far.address,
    )  # fmt: skip
    pair.one.task(pair.near.qpn, task)
    until(lambda: pair.one.task_state(pair.near.qpn).done, pair.one)
    after, state = pair.one.stats(), pair.one.task_state(pair.near.qpn)
    pair.one.end_task(pair.near.qpn)
    octets = after.tx_bytes - before.tx_bytes
    octets += WIRE_EXTRA * (after.tx_packets - before.tx_packets)
    return octets * 8 * 10**9 / (state.ended_ns - state.started_ns)


def tell(pair: Joined, h2: socket.socket, bps: int) -> None:
    """Send one, and wait until it has been taken."""
    before = told(pair)
    h2.send(fast_cnp(pair, bps))
    until(lambda: told(pair) == before + 1, pair.one)


def held_bps(pair: Joined, h2: socket.socket) -> float:
    """Measure h1 while a notification stands; a busy machine gets several attempts."""
    for _ in range(8):
        tell(pair, h2, QUARTER)
        started = time.monotonic()
        measured = sent_bps(pair, 20)  # some 100 ms of a quarter of the line
        if time.monotonic() - started < STANDS_S:
            return measured
    pytest.fail("nothing was sent in time")


WAYS = {
    "the kernel, AF_XDP": ("af_xdp", True),
    "the kernel, AF_PACKET": ("af_packet", True),
    "the card": ("af_packet", False),
}


@pytest.mark.parametrize(("mode", "in_kernel"), WAYS.values(), ids=WAYS)
def test_the_rate_is_the_one_that_was_said_as_long_as_it_stands(
    hosts: TwoHosts, maps: PinnedMaps, h2: socket.socket, mode: str, in_kernel: bool
) -> None:
    way = (mode, maps if in_kernel else None)
    with joined(hosts, "near", way, buffer_bytes=SIZE, congestion=CONTROL) as pair:
        assert rate(pair) == LINE
        assert pair.one.pair_stats(pair.near.qpn).first_cut_at == -1
        started = time.monotonic_ns()
        tell(pair, h2, QUARTER)
        assert rate(pair) == QUARTER
        seen = time.monotonic_ns()
        stats = pair.one.pair_stats(pair.near.qpn)
        assert started <= pair.one.monotonic_ns(stats.first_cut_at) <= seen
        # The same queue's next word takes its place, and one that says nothing changes nothing.
        for bps in (QUARTER, 2 * QUARTER, 0, QUARTER):
            tell(pair, h2, bps)
        assert rate(pair) == QUARTER
        assert held_bps(pair, h2) < 1.05 * QUARTER
        held_until = time.monotonic() + STANDS_S
        h2.send(fast_cnp(pair, QUARTER))
        seen_bps = rate(pair)
        while time.monotonic() < held_until:  # looked at before
            assert seen_bps == QUARTER
            seen_bps = rate(pair)
        until(lambda: rate(pair) > QUARTER, pair.one)
        until(lambda: rate(pair) == LINE, pair.one)
        if in_kernel:
            (slot,) = [slot for slot in maps.slots() if slot.qpn == pair.near.qpn]
            assert (slot.algorithms, slot.notified, slot.cnps) == (("fast_cnp",), told(pair), 0)
            assert slot.first_cut_at == pair.one.monotonic_ns(stats.first_cut_at)


def test_a_notification_of_another_queue_pair_or_in_another_s_name_changes_nothing(
    hosts: TwoHosts, maps: PinnedMaps, h2: socket.socket
) -> None:
    before = maps.counters()
    with joined(hosts, "near", ("af_xdp", maps), buffer_bytes=SIZE, congestion=CONTROL) as pair:
        h2.send(fast_cnp(pair, QUARTER, destination_qp=pair.far.qpn ^ 1))
        h2.send(fast_cnp(pair, QUARTER, destination="10.77.1.3"))
        tell(pair, h2, 2 * QUARTER)  # comes behind them
        assert rate(pair) == 2 * QUARTER
        counted = maps.counters()
        assert counted["notification_qp"] - before["notification_qp"] == 2
        assert counted["notified"] - before["notified"] == 1


def test_a_daemon_s_queue_pairs_go_by_what_open_says(
    hosts: TwoHosts, maps: PinnedMaps, tmp_path: Path
) -> None:
    """Fast CNPs at the source, and a target whose card is a stock one."""
    paths = [tmp_path / name for name in "ab"]
    given = ("--maps", str(maps.directory))
    with (
        daemon(hosts.h1, "10.77.1.1", paths[0], *given),
        daemon(hosts.h2, "10.77.1.2", paths[1], *given),
        EndpointClient.connect(paths[0]) as source,
        EndpointClient.connect(paths[1]) as target,
    ):
        settings: dict[str, Any] = {"qps": 1, "buffer_bytes": 4096, "direct": True}
        settings["congestion_control"] = CONTROL
        join_pairs(source, target, at_target={"congestion_control": None}, **settings)
        found = {slot.local: (slot.algorithms, slot.line_rate_bps) for slot in maps.slots()}
        assert found == {"10.77.1.1": (("fast_cnp",), LINE), "10.77.1.2": ((), 0)}
        (row,) = source.call("stats")["pairs"]
        heard = row["notified_received"]
        assert (heard, row["first_cut_at"], row["rate_bps"]) == (0, None, LINE)
        wrong = {"fast_cnp": {**FAST.fields(), "min_rate": 2 * LINE}}
        with pytest.raises(RequestRefused, match="fast_cnp: min_rate is from 1 to line_rate"):
            join_pairs(source, target, **{**settings, "congestion_control": wrong})
        with pytest.raises(RequestRefused, match="fast_cnp has no field 'validity'"):
            source.call("open", congestion_control={"fast_cnp": {"validity": 3}})
        with pytest.raises(RequestRefused, match="there is no congestion control 'none'"):
            source.call("open", congestion_control={"none": {}})
        assert len(list(maps.slots())) == 2  # what was refused has left nothing
