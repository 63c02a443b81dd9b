"""Queue pairs between two namespaces take other source ports while they send.

    h1  far 10.77.2.1 ==== [wire, which looks at frames] ==== far 10.77.2.2  h2

Somebody else than who measures says so: a controller, by a connection of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostagent.rnic.client import EndpointClient, RequestRefused, join
from tests.hostagent.two_hosts import TwoHosts, daemon

pytestmark = pytest.mark.root

PATIENCE_S = 60.0
SIZE, COUNT = 16384, 120
ACKNOWLEDGE = 0x11


@pytest.fixture(scope="module")
def hosts() -> Iterator[TwoHosts]:
    with TwoHosts() as found:
        yield found


class Seen:
    """The source ports of data, in the order in which frames came."""

    def __init__(self) -> None:
        self.data: list[int] = []
        self.more = threading.Event()

    def __call__(self, frame: bytes) -> None:
        if frame[42] != ACKNOWLEDGE:
            self.data.append(int.from_bytes(frame[34:36]))
            self.more.set()


@pytest.mark.parametrize("repeat", ["go-back-n", "selective-repeat"])
def test_a_queue_pair_that_sends_takes_another_port(
    hosts: TwoHosts, tmp_path: Path, repeat: str
) -> None:
    seen = Seen()
    hosts.wire.watch = seen
    paths = [tmp_path / name for name in "ab"]
    with (
        daemon(hosts.h1, "10.77.2.1", paths[0], name="far"),
        daemon(hosts.h2, "10.77.2.2", paths[1], name="far"),
        EndpointClient.connect(paths[0]) as source,
        EndpointClient.connect(paths[1]) as target,
        EndpointClient.connect(paths[0]) as controller,
    ):
        # 20 Mb/s: two million bytes on each take 0.8 s, and the port changes long before.
        (one, other), _ = join(
            source, target, qps=2, buffer_bytes=SIZE, udp_port=50_000,
            repeat=repeat, rate_bps=20_000_000,
        )  # fmt: skip
        source.send(
            "measure", qpns=[one, other], operation="write", size=SIZE, count=COUNT, depth=4
        )
        assert seen.more.wait(PATIENCE_S)
        controller.set_source_ports({one: 51_111})
        told = time.monotonic()
        result = source.answer(PATIENCE_S)
        assert time.monotonic() - told > 0.2  # it was sending
        assert result["failures"] == [] and result["messages"] == 2 * COUNT
        assert all(row["repeated_packets"] == row["timeouts"] == 0 for row in result["pairs"])
        ports = {row["qpn"]: row["udp_port"] for row in source.call("stats")["pairs"]}
        assert ports == {one: 51_111, other: 50_001}
        of_one = [port for port in seen.data if port != 50_001]
        change = of_one.index(51_111)
        packets = COUNT * SIZE // 2048
        assert of_one == [50_000] * change + [51_111] * (packets - change)
        assert 0 < change < packets // 2
        assert seen.data.count(50_001) == packets
    hosts.wire.watch = lambda frame: None


def test_all_move_or_none(hosts: TwoHosts, tmp_path: Path) -> None:
    path = tmp_path / "a"
    with (
        daemon(hosts.h1, "10.77.2.1", path, name="far"),
        EndpointClient.connect(path) as client,
    ):
        pairs = client.call("open", qps=2, buffer_bytes=64, udp_port=50_000, udp_ports=2)["pairs"]
        one, other = (pair["qpn"] for pair in pairs)
        for ports, why in (
            ({one: 60_000, other: 65_535}, "2 UDP ports from 65535 on do not fit 1 to 65535"),
            ({one: 60_000, 999: 60_000}, "there is no queue pair 999"),
            ({one: 60_000, other: 0}, "fit 1 to 65535"),
        ):
            with pytest.raises(RequestRefused, match=why):
                client.set_source_ports(ports)
        with pytest.raises(RequestRefused, match="fields are wrong"):
            client.call("set_ports", pairs=[{"qpn": one}])
        with EndpointClient.connect(path) as watcher:
            watcher.send("watch", interval_ms=20, all=True)
            assert len(watcher.answer()["pairs"]) == 2
