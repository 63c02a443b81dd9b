"""`weft perf` over planes of a real run, one of which is killed in the middle and comes back.

h1:0 h2:0 - s1        12 Gb/s in the fabric, 40 Mb/s here
h1:1 h2:1 - s2
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hostagent.rnic.client import EndpointClient
from tests.weft.test_perf_live import PATIENCE_S, Lab, lab_of

pytestmark = [pytest.mark.root, pytest.mark.realtime, pytest.mark.long]

PLANES = """\
time_scale: 300
generator: dual_plane
spines: 1
leaves: 1
hosts_per_leaf: 2
link: {rate: 12Gbps, delay: 500ns, queue: 4MB, mtu: 2200B}
classes: {roce: {dscp: 26, queue: 3}, rest: {queue: 0}}
"""
WRITE = ("write", "h1", "h2", "--bw", "-s", "64kB", "--interfaces", "all", "--failover")


def planes_of(lab: Lab, host: str) -> list[dict[str, Any]]:
    """Return what the endpoint reports of the planes of the queue pair that measures."""
    with EndpointClient.connect(lab.directory / f"{host}.rnic", PATIENCE_S) as client:
        client.send("watch", interval_ms=20, all=True)
        pairs = client.answer()["pairs"]
    return pairs[0].get("planes", []) if pairs else []


def until_plane(lab: Lab, state: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while [each["state"] for each in planes_of(lab, "h1")][1:] != [state]:
        assert time.monotonic() < end, planes_of(lab, "h1")
        time.sleep(0.05)


def test_a_plane_is_killed_and_back_under_perf(tmp_path: Path) -> None:
    (tmp_path / "planes.yaml").write_text(PLANES)
    with lab_of(tmp_path, str(tmp_path / "planes.yaml")) as lab:
        found: list[dict[str, Any]] = []
        flags = ("--retransmission", "selective-repeat", "--reorder", "300us", "--depth", "8")
        measuring = threading.Thread(
            target=lambda: found.append(lab.perf(*WRITE, *flags, "--duration", "20s"))
        )
        measuring.start()
        lab.wait_for_data("h2")
        time.sleep(1)
        assert lab.do("link", "h1:1", "s2", "down")[0] == 0
        until_plane(lab, "lost")
        assert lab.do("link", "h1:1", "s2", "up")[0] == 0
        until_plane(lab, "up")  # after its hold-down of 10 ms, here 3 s
        assert planes_of(lab, "h1")[1]["losses"] >= 1
        measuring.join(PATIENCE_S)
        (report,) = found
    (row,) = report["measurements"][0]["rows"]
    assert row["failures"] == []
    modes = {each["mode"] for each in report["parameters"]["endpoints"].values()}
    assert modes == {"af_xdp"}
    healthy, lost = row["planes"]
    assert [healthy["interface"], lost["interface"]] == ["h1", "h1:1"]
    assert (healthy["losses"], healthy["moved_packets"]) == (0, 0)
    assert lost["losses"] >= 1
    assert 0.1 < lost["share"] < healthy["share"]
    line = 40e6 * 2048 / 2132
    assert 1.2 * line < row["bw_average_gbps"] * 1e9 < 2 * line  # both, and one for a while
