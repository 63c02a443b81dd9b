"""One queue pair over two interfaces of real hosts: packets take turns on both wires.

h1  near 10.77.1.1 ======================= near 10.77.1.2  h2
    far  10.77.2.1 ==== left [wire] right ==== far 10.77.2.2
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hostagent.rnic.card_records import (
    CardError,
    EventKind,
    Operation,
    Work,
)
from hostagent.rnic.client import EndpointClient, RequestRefused, join
from hostagent.rnic.endpoint_records import EndpointError
from tests.hostagent.both_wires import (
    BOTH,
    NAMES,
    Way,
    card_of,
    exchange,
    hosts,
    joined_by_both,
    maps,
    sent,
    way,
)
from tests.hostagent.two_hosts import (
    MEGABYTE,
    TwoHosts,
    daemon,
    until,
)

pytestmark = [pytest.mark.root, pytest.mark.realtime]
__all__ = ["hosts", "maps", "way"]


def test_packets_take_turns_on_both_wires(hosts: TwoHosts, way: Way) -> None:
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


def test_a_link_that_goes_down_and_comes_back_costs_no_message(hosts: TwoHosts, way: Way) -> None:
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
