"""Messages that queue pairs of two namespaces share as they drain, as the simulator's stripes.

h1  far 10.77.2.1 ==== [wire, which may lose] ==== far 10.77.2.2  h2
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostagent.rnic.client import EndpointClient, RequestRefused, join
from tests.hostagent.two_hosts import Faults, TwoHosts, daemon

pytestmark = pytest.mark.root

SIZE = 16384
SETTINGS: dict[str, Any] = {"qps": 1, "buffer_bytes": SIZE, "timeout_us": 50_000}


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts() as found:
        yield found


@contextmanager
def clients(hosts: TwoHosts, folder: Path) -> Iterator[tuple[EndpointClient, EndpointClient]]:
    paths = [folder / name for name in "ab"]
    with (
        daemon(hosts.h1, "10.77.2.1", paths[0], name="far"),
        daemon(hosts.h2, "10.77.2.2", paths[1], name="far"),
        EndpointClient.connect(paths[0]) as source,
        EndpointClient.connect(paths[1]) as target,
    ):
        yield source, target


def shared(source: EndpointClient, qpns: list[int], count: int, **more: Any) -> dict[str, Any]:
    request = {"qpns": qpns, "operation": "write", "size": SIZE, "count": count, "depth": 2}
    return source.call("measure", timeout_s=60, shared=True, **{**request, **more})


def test_shares_go_as_rates(hosts: TwoHosts, tmp_path: Path) -> None:
    """Equal parts would take the slow one three times as long."""
    with clients(hosts, tmp_path) as (source, target):
        joined = [
            join(source, target, **SETTINGS, rate_bps=rate) for rate in (30_000_000, 10_000_000)
        ]
        result = shared(source, [ours[0] for ours, _ in joined], 160)
        assert (result["messages"], result["failures"]) == (160, [])
        fast, slow = (row["messages"] for row in result["pairs"])
        assert abs(fast - 120) <= 6  # two pieces each, and what a busy machine is late
        assert fast + slow == 160
        alone = 80 * SIZE * 8 * 10**9 // 10_000_000
        assert result["elapsed_ns"] < 0.75 * alone
        received = {row["qpn"]: row["received_bytes"] for row in target.call("stats")["pairs"]}
        assert sorted(received.values()) == sorted([fast * SIZE, slow * SIZE])


def test_few_are_dealt_in_turn_and_whoever_gets_none_is_done(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    with clients(hosts, tmp_path) as (source, target):
        ours, _ = join(source, target, **{**SETTINGS, "qps": 4}, rate_bps=20_000_000)
        for count, each in ((1, [1, 0, 0, 0]), (3, [1, 1, 1, 0]), (6, [2, 2, 1, 1])):
            result = shared(source, ours, count)
            assert [row["messages"] for row in result["pairs"]] == each
        with pytest.raises(RequestRefused, match="shared in mode 'bandwidth' alone"):
            shared(source, ours[:1], 3, mode="latency")


@pytest.mark.parametrize("operation", ["write", "send", "read"])
def test_losses_cost_time_and_no_message(hosts: TwoHosts, tmp_path: Path, operation: str) -> None:
    hosts.wire.faults = Faults(loss=0.01)
    try:
        with clients(hosts, tmp_path) as (source, target):
            ours, theirs = join(
                source, target, **{**SETTINGS, "qps": 3}, rate_bps=50_000_000, retries=50
            )
            target.call("serve", qpns=theirs, operation=operation, size=SIZE)
            result = shared(source, ours, 90, operation=operation)
            assert (result["messages"], result["failures"]) == (90, [])
            assert sum(row["messages"] for row in result["pairs"]) == 90
    finally:
        hosts.wire.faults = Faults()
