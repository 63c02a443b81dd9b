"""AllReduce by RDMA over two planes, one of which is cut in its middle and comes back.

rank 0, on h1  ===== near: TCP, and plane 0 ===== rank 1, on h2
               == far:              plane 1 ==              a wire
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from hostagent.agent import in_namespace
from hostagent.collective.handle import CollectiveError
from hostagent.collective.neighbours import listen
from hostagent.collective.rdma import Line, RdmaSettings
from hostagent.collective.ring import Ring
from tests.hostagent.test_collective_ring import LANES
from tests.hostagent.test_endpoint_planes_live import CONTROL, LINE, PLANES
from tests.hostagent.two_hosts import TwoHosts, agent_maps

pytestmark = [pytest.mark.root, pytest.mark.realtime]

DEADLINE_S = 60.0
PORT = 28794
ADDRESSES = [("10.77.1.1", PORT), ("10.77.1.2", PORT)]
COUNT = 500_000  # integers: two megabytes, half a second by both planes
CUT_S = 0.15


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts() as found:
        yield found


def card(rank: int, maps: str = "", lines: int = 2) -> RdmaSettings:
    return RdmaSettings(
        "near",
        ADDRESSES[rank][0],
        maps=maps,
        line_rate_bps=LINE,
        timeout_us=2_000_000,
        also=(Line("far", f"10.77.2.{rank + 1}"),)[: lines - 1],
        planes=PLANES.planes,
        control=CONTROL,
        reorder_us=50_000,
    )


def on_hosts(hosts: TwoHosts, cards: list[RdmaSettings], act: Callable[[Ring], Any]) -> list[Any]:
    """Let both ranks act, each in its host's namespace; return what each returns, or raises."""

    def be(rank: int) -> Any:
        def joined() -> Ring:
            listening = listen(*ADDRESSES[rank])
            own = {"lanes": LANES, "timeout_s": DEADLINE_S, "rdma": cards[rank]}
            return Ring(rank, ADDRESSES, listening, **own)  # type: ignore[arg-type]

        try:
            ring = in_namespace((hosts.h1, hosts.h2)[rank].pid, joined)
        except CollectiveError as error:
            return error
        try:
            return act(ring)
        finally:
            ring.close()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(be, range(2)))


def given(rank: int) -> Any:
    return np.random.default_rng(rank).integers(-(2**31), 2**31, COUNT, np.int32)


@pytest.mark.parametrize("by_xdp", [pytest.param(False, marks=pytest.mark.long), True])
def test_sums_are_exact_while_a_plane_is_cut_and_back(hosts: TwoHosts, by_xdp: bool) -> None:
    def act(ring: Ring) -> tuple[Any, dict[str, int], list[dict[str, Any]]]:
        values = given(ring.rank)
        ring.barrier()
        for link, after in (("down", CUT_S), ("up", 2 * CUT_S)):
            if ring.rank == 0:
                do = threading.Timer(after, hosts.h1.ip, (f"link set far {link}",))
                do.start()
        for _ in range(3):  # the sum, its double, and that one's
            ring.sum_integers(values)
        return values, ring.counters(), ring.planes()

    try:
        if by_xdp:
            with agent_maps(hosts) as maps:
                where = str(maps.directory)
                found = on_hosts(hosts, [card(rank, where) for rank in (0, 1)], act)
        else:
            found = on_hosts(hosts, [card(rank) for rank in (0, 1)], act)
    finally:
        hosts.h1.ip("link set far up")
    expected = 4 * (given(0).view(np.uint32) + given(1).view(np.uint32))
    for values, counted, planes in found:
        assert (values.view(np.uint32) == expected).all()
        assert counted["af_xdp"] == by_xdp
        assert counted["losses"] == sum(plane["losses"] for plane in planes)
    near, far = found[0][2]  # rank 0 lost its carrier
    assert (near["state"], near["losses"]) == ("up", 0)
    assert far["losses"] >= 1 and far["lost_at"] is not None


def test_ranks_need_as_many_interfaces(hosts: TwoHosts) -> None:
    cards = [card(0), RdmaSettings("near", ADDRESSES[1][0])]
    said = on_hosts(hosts, cards, lambda ring: None)
    assert any("has 2 interfaces, its peer 1" in str(each) for each in said)
