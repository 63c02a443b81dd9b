"""Path migration between real hosts: a link that goes down, and comes back.

The hosts are those of both_wires.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from hostagent.rnic.card_records import EventKind
from hostagent.rnic.client import EndpointClient, join
from hostagent.rnic.planes import MigrationCause, MigrationState, PlaneConfig, PlaneUse
from observe.agent_cards import card_pairs
from tests.hostagent.both_wires import (
    BOTH,
    MS,
    NAMES,
    Way,
    exchange,
    hosts,
    joined_by_both,
    maps,
    sent,
    way,
    write,
)
from tests.hostagent.two_hosts import Joined, TwoHosts, daemon, until

pytestmark = [pytest.mark.root, pytest.mark.realtime]
__all__ = ["hosts", "maps", "way"]

LINE = 16_000_000  # a megabyte takes half a second by one
ONE = replace(
    BOTH,
    timeout_ps=300 * MS,
    planes=PlaneConfig(PlaneUse.SINGLE, first=1, tries=1, by_link=True, return_ps=500 * MS),
)


def interface(pair: Joined) -> int:
    return pair.one.migration_stats(pair.near.qpn).interface


LONG = pytest.mark.long


@pytest.mark.parametrize("way", ["af_packet", pytest.param("af_xdp", marks=LONG)], indirect=True)
@pytest.mark.parametrize("end", ["h1", pytest.param("h2", marks=LONG)])
def test_it_leaves_for_a_link_and_returns(hosts: TwoHosts, way: Way, end: str) -> None:
    host = getattr(hosts, end)
    with joined_by_both(hosts, way, LINE, ONE) as pair:
        assert interface(pair) == 1
        before = sent(hosts.h1)
        data = write(pair, 5)
        until(lambda: sent(hosts.h1)[1] - before[1] > 10, pair.one)
        assert sent(hosts.h1)[0] - before[0] < 10
        host.ip(f"link set {NAMES[1]} down")
        try:
            until(lambda: bool(pair.events(0, EventKind.COMPLETED)), pair.one)
            assert interface(pair) == 0
        finally:
            host.ip(f"link set {NAMES[1]} up")
        assert bytes(pair.other.memory(pair.far.qpn)[: len(data)]) == data
        assert not pair.events(0, EventKind.FAILED)
        until(lambda: interface(pair) == 1, pair.one, 20)
        pair.events(0, EventKind.COMPLETED).clear()
        exchange(pair, 100_000, 8)
        ends = [
            pair.one.migration_stats(pair.near.qpn),
            pair.other.migration_stats(pair.far.qpn),
        ]
    assert [each.interface for each in ends] == [1, 1]
    assert [each.state for each in ends] == [MigrationState.ARMED] * 2
    assert MigrationCause.RETURN in {each.cause for each in ends}


def test_daemons_say_where_a_path_has_come_to(hosts: TwoHosts, tmp_path: Path) -> None:
    first = {"first": 1, "tries": 1, "by_link": True, "switch_us": 0, "return_us": 0}
    with ExitStack() as stack:
        clients = []
        for place, host in enumerate((hosts.h1, hosts.h2), 1):
            path, also = tmp_path / f"h{place}.rnic", f"far,10.77.2.{place},100000000"
            options = ("--line-rate", "100000000", "--also", also)
            stack.enter_context(daemon(host, f"10.77.1.{place}", path, *options))
            clients.append(stack.enter_context(EndpointClient.connect(path)))
        (qpn,), _ = join(*clients, qps=1, buffer_bytes=4096, interfaces="all", planes=first)
        (row,) = clients[0].call("stats")["pairs"]
        assert "planes" not in row
        path_row = row["migration"]
        assert (path_row["state"], path_row["interface"], path_row["cause"]) == ("armed", 1, None)
        assert path_row["migrated_at"] is None
        clients[0].call("drain", interface=1)
        clients[0].call("measure", qpns=[qpn], operation="write", size=4096, count=2)
        (row,) = clients[0].call("stats")["pairs"]
        path_row = row["migration"]
        assert (path_row["state"], path_row["interface"]) == ("migrated", 0)
        assert (path_row["cause"], path_row["migrations"]) == ("drained", 1)
        assert path_row["migrated_at"] > 0
        card = card_pairs(tmp_path)[int(IPv4Address("10.77.2.1")), qpn]
        assert card.path is not None
        assert (card.path.state, card.path.cause) == ("MIGRATED", "drained")
        assert card.path.address == int(IPv4Address("10.77.1.1"))
