"""Path migration between real hosts: a link that goes down, and comes back.

The hosts are those of both_wires.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostagent.rnic.card_records import EventKind
from hostagent.rnic.planes import MigrationCause, MigrationState, PlaneConfig, PlaneUse
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
from tests.hostagent.two_hosts import Joined, TwoHosts, until

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
