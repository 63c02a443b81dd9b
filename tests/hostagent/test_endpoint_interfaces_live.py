"""One queue pair over two interfaces of real hosts: packets take turns on both wires.

h1  near 10.77.1.1 ======================= near 10.77.1.2  h2
    far  10.77.2.1 ==== left [wire] right ==== far 10.77.2.2
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hostagent import agent
from hostagent.algorithms import Parameters
from hostagent.pinned_maps import PinnedMaps
from hostagent.rnic import interface
from hostagent.rnic.card_records import (
    CardError,
    EventKind,
    Operation,
    QueuePairConfig,
    Repeat,
    Work,
)
from hostagent.rnic.client import EndpointClient, RequestRefused, join
from hostagent.rnic.endpoint import Endpoint
from hostagent.rnic.endpoint_records import EndpointConfig, EndpointError, EndpointInterface
from mechanisms.dcqcn.parameters import parameters
from tests.hostagent.two_hosts import (
    CONFIG,
    MEGABYTE,
    Host,
    Joined,
    TwoHosts,
    agent_maps,
    daemon,
    number,
    until,
)

pytestmark = [pytest.mark.root, pytest.mark.realtime]

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
def way(request: pytest.FixtureRequest, maps: PinnedMaps) -> tuple[str, PinnedMaps | None]:
    """How frames come; with AF_XDP the kernel keeps the congestion control."""
    return request.param, maps if request.param == "af_xdp" else None


def card_of(host: Host, place: int, maps: PinnedMaps | None, line_rate_bps: int = 0) -> Endpoint:
    """An endpoint of this process with both of a host's interfaces."""

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
    way: tuple[str, PinnedMaps | None],
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


def test_packets_take_turns_on_both_wires(
    hosts: TwoHosts, way: tuple[str, PinnedMaps | None]
) -> None:
    with joined_by_both(hosts, way, line_rate_bps=200_000_000) as pair:
        before = sent(hosts.h1)
        for seed, size in enumerate((1, 2048, 2049, 100_001, MEGABYTE)):
            exchange(pair, size, seed)
        near, far = (now - then for now, then in zip(sent(hosts.h1), before, strict=True))
        stats = pair.one.card_stats()
        own = pair.one.pair_stats(pair.near.qpn)
        if way[1] is not None:  # the kernel takes packets to and from any address for the same one
            mine = [each for each in way[1].slots() if each.qpn == pair.near.qpn]
            assert len(mine) == 1
            assert mine[0].packets >= own.acks_received
    assert (stats.bad_icrc, stats.malformed, stats.unknown_qp, stats.other) == (0, 0, 0, 0)
    assert (own.repeated_packets, own.timeouts) == (0, 0)
    assert own.sent_packets > 1100
    # Data takes turns wherever both lines are free; acknowledgements of the READ go either way.
    assert near + far >= own.sent_packets
    assert abs(near - far) < 0.25 * (near + far)
    if way[1] is not None:
        assert not list(way[1].slots())  # nothing stays behind


def test_a_link_that_goes_down_and_comes_back_costs_no_message(
    hosts: TwoHosts, way: tuple[str, PinnedMaps | None]
) -> None:
    size, name = 2 * MEGABYTE, NAMES[1]
    soon = replace(BOTH, reorder_ps=50_000_000_000, timeout_ps=300_000_000_000)
    with joined_by_both(hosts, way, line_rate_bps=16_000_000, config=soon) as pair:  # half a second
        data = Random(5).randbytes(size)
        work = Work(1, Operation.WRITE, data, remote_address=pair.far.address, rkey=pair.far.rkey)
        pair.one.post(pair.near.qpn, work)
        time.sleep(0.03)
        hosts.h1.ip(f"link set {name} down")
        try:
            time.sleep(0.03)
            down = sent(hosts.h1)
            time.sleep(0.03)
            still = sent(hosts.h1)
        finally:
            hosts.h1.ip(f"link set {name} up")
        assert still[1] == down[1]
        assert still[0] > down[0]
        until(lambda: bool(pair.events(0, EventKind.COMPLETED)), pair.one)
        assert bytes(pair.other.memory(pair.far.qpn)[:size]) == data
        again = sent(hosts.h1)
        exchange(pair, 300_000, 7)
        assert sent(hosts.h1)[1] > again[1] + 30  # it is used again
        assert not pair.events(0, EventKind.FAILED)


def test_wrong_interfaces_are_refused(hosts: TwoHosts) -> None:
    with joined_by_both(hosts, ("af_packet", None)) as pair:
        one = pair.one.open(BOTH, buffer_bytes=64)
        with pytest.raises(CardError, match="has 2 interfaces, its peer 1"):
            pair.one.connect(one.qpn, 1, peer_qpn=1, peer_psn=0)
        with pytest.raises(CardError, match="interfaces 0 to 2, but the card has 2"):
            pair.one.open(replace(BOTH, interfaces=3), buffer_bytes=64)
        with pytest.raises(EndpointError, match=r"UDP port 4791 of 10\.77\..* is taken"):
            card_of(hosts.h1, 1, None)


def test_daemons_join_queue_pairs_over_all_interfaces(hosts: TwoHosts, tmp_path: Path) -> None:
    with ExitStack() as stack:
        clients = []
        for place, host in enumerate((hosts.h1, hosts.h2), 1):
            path, also = tmp_path / f"{place}", f"far,10.77.2.{place},100000000"
            options = ("--line-rate", "100000000", "--also", also)
            stack.enter_context(daemon(host, f"10.77.1.{place}", path, *options))
            clients.append(stack.enter_context(EndpointClient.connect(path)))
        with pytest.raises(RequestRefused, match="interfaces are 'one' or 'all', not 'two'"):
            clients[0].call("open", interfaces="two")
        settings: dict[str, Any] = {
            "repeat": "selective-repeat",
            "reorder_us": 50_000,
            "window": 256,
        }
        for wrong, says in (
            ({"interface": 2}, "no interface 2: the card has 0 to 1"),
            ({"interface": -1}, "no interface -1"),
            ({"interface": 1, "interfaces": "all"}, "'interface' is of queue pairs that have one"),
        ):
            with pytest.raises(RequestRefused, match=says):
                clients[0].call("open", **wrong)
        assert [each["ip"] for each in clients[0].call("info")["interfaces"]] == [
            "10.77.1.1", "10.77.2.1",
        ]  # fmt: skip
        ours, _ = join(*clients, qps=1, buffer_bytes=65536, interfaces="all", **settings)
        before = sent(hosts.h1)
        task: dict[str, Any] = {
            "operation": "write",
            "mode": "bandwidth",
            "size": 65536,
            "count": 20,
        }
        result = clients[0].call("measure", timeout_s=60, qpns=ours, **task)
        assert result["messages"] == 20
        near, far = (now - then for now, then in zip(sent(hosts.h1), before, strict=True))
        assert abs(near - far) < 0.1 * (near + far)
        assert result["average_bps"] > 110e6  # more than one line's
        second, _ = join(*clients, qps=1, buffer_bytes=65536, interface=1, **settings)
        before = sent(hosts.h1)
        task["count"] = 2
        assert clients[0].call("measure", timeout_s=60, qpns=second, **task)["messages"] == 2
        near, far = (now - then for now, then in zip(sent(hosts.h1), before, strict=True))
        assert near == 0
        assert far >= 2 * 65536 // 2048
