"""The ring over RDMA: the same sums as over TCP, frames lost on the way, ranks that end.

rank 0, on h1  ===== near: TCP ===== rank 1, on h2
               == far: their cards ==              a wire that may spoil RoCEv2 frames
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from hostagent.agent import in_namespace
from hostagent.collective.handle import CollectiveError
from hostagent.collective.neighbours import PeerLostError, listen
from hostagent.collective.rdma import SEGMENT, SEGMENTS, RdmaNeighbours, RdmaSettings
from hostagent.collective.ring import Ring
from tests.hostagent.test_collective_ring import LANES, in_ring
from tests.hostagent.two_hosts import Faults, TwoHosts, agent_maps

pytestmark = pytest.mark.root

DEADLINE_S = 60.0
PORT = 28793
ADDRESSES = [("10.77.1.1", PORT), ("10.77.1.2", PORT)]
CARDS = ("10.77.2.1", "10.77.2.2")


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts() as found:
        yield found


def on_hosts(hosts: TwoHosts, act: Callable[[Ring], Any], maps: str = "") -> list[Any]:
    """Let both ranks act, each in its host's namespace; return what each returns, or raises."""

    def be(rank: int) -> Any:
        pid = (hosts.h1, hosts.h2)[rank].pid
        settings = RdmaSettings("far", CARDS[rank], maps=maps, timeout_us=50_000)

        def joined() -> Ring:
            listening = listen(*ADDRESSES[rank])
            return Ring(
                rank, ADDRESSES, listening, lanes=LANES, timeout_s=DEADLINE_S, rdma=settings
            )

        try:
            ring = in_namespace(pid, joined)
        except CollectiveError as error:
            return error
        try:
            return act(ring)
        except CollectiveError as error:
            return error
        finally:
            ring.close()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(be, range(2)))


def everything(ring: Ring) -> list[bytes]:
    """Return the results of sums and moves; the longest exceed all buffers together."""
    found = []
    for count in (1, 301, SEGMENT * (SEGMENTS + 1) // 2):
        random = np.random.default_rng(100 * ring.rank + count)
        floats = random.normal(0, 1, count).astype(np.float32)
        ring.sum_floats(floats)
        integers = random.integers(-(2**31), 2**31, count, np.int32)
        ring.sum_integers(integers)
        data = random.integers(0, 256, count, np.uint8)
        gathered = ring.allgather(data)
        ring.broadcast(data, 1)
        found += [floats.tobytes(), integers.tobytes(), *map(bytes, gathered), data.tobytes()]
    ring.barrier()
    return found


def counting(ring: Ring) -> tuple[list[bytes], dict[str, int]]:
    return everything(ring), ring.counters()


def test_both_ranks_have_what_a_ring_over_tcp_has(hosts: TwoHosts) -> None:
    over_rdma = on_hosts(hosts, counting)
    assert [found for found, _ in over_rdma] == in_ring(2, everything)
    assert [counted["af_xdp"] for _, counted in over_rdma] == [0, 0]


def test_with_a_host_agent_frames_go_by_af_xdp(hosts: TwoHosts) -> None:
    with agent_maps(hosts) as maps:
        over_rdma = on_hosts(hosts, counting, str(maps.directory))
        assert not list(maps.slots())  # ranks leave none behind
    assert [found for found, _ in over_rdma] == in_ring(2, everything)
    assert [counted["af_xdp"] for _, counted in over_rdma] == [1, 1]


def test_lost_frames_are_sent_again_by_the_card(hosts: TwoHosts) -> None:
    hosts.wire.faults = Faults(loss=0.02, duplicates=0.02, late=0.02)
    try:
        lossy = on_hosts(hosts, counting)
    finally:
        hosts.wire.faults = Faults()
    assert [found for found, _ in lossy] == in_ring(2, everything)
    assert sum(counted["repeated_packets"] for _, counted in lossy) > 0


def test_a_rank_that_ends_is_named(hosts: TwoHosts) -> None:
    said = on_hosts(hosts, lambda ring: ring.barrier() if ring.rank else None)
    assert said[0] is None
    assert isinstance(said[1], PeerLostError)
    assert "rank 1: rank 0 (10.77.1.1:" in str(said[1])


def test_ranks_that_make_different_calls_are_told(hosts: TwoHosts) -> None:
    def act(ring: Ring) -> Any:
        ring.allgather(np.zeros(8 if ring.rank else 16, np.uint8))

    said = on_hosts(hosts, act)
    assert any("ranks have to make the same calls" in str(each) for each in said)


def test_an_interface_that_is_not_there_is_said(hosts: TwoHosts) -> None:
    def be(rank: int) -> Any:
        settings = RdmaSettings("nowhere" if rank else "far", CARDS[rank])
        listening = listen(*ADDRESSES[rank])
        with pytest.raises(CollectiveError) as raised:
            RdmaNeighbours(rank, ADDRESSES, listening, 5.0, settings)
        return str(raised.value)

    with ThreadPoolExecutor(2) as pool:
        pids = (hosts.h1.pid, hosts.h2.pid)
        said = list(pool.map(lambda rank: in_namespace(pids[rank], lambda: be(rank)), range(2)))
    assert "rank 1: no RDMA: there is no interface nowhere here" in said[1]
    assert "rank 1" in said[0]  # its neighbour has gone
