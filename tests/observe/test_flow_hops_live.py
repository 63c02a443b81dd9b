"""A real run: a queue before a slow line is seen by the receiver's endpoint at its hop.

h1, h2 - s1 - s3 - s2 - h3, h4      40 Mb/s here, but 10 Mb/s from s2 to h3
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.weft.test_perf_live import PATIENCE_S, lab_of

pytestmark = [pytest.mark.root, pytest.mark.realtime, pytest.mark.long]

FABRIC = """\
time_scale: 1000
generator: leaf_spine
spines: 1
leaves: 2
hosts_per_leaf: 2
link: {rate: 40Gbps, delay: 500ns, queue: 400kB, mtu: 2200B}
overrides: [{between: [s2, h3], rate: 10Gbps}]
classes:
  roce: {dscp: 26, queue: 3, path_telemetry: {format: hops, monitor: true}}
  rest: {queue: 0}
"""
SLOW_BPS = 10 * 10**9
WRITE = ("perf", "write", "h1", "h3", "--bw", "-s", "64kB", "--depth", "3", "--set", "none")


def test_a_queue_before_a_slow_line_is_seen_at_its_hop(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(FABRIC)
    with lab_of(tmp_path, str(tmp_path / "slow.yaml")) as lab:
        measuring = lab.start(*WRITE, "--duration", "30s")
        lab.wait_for_data("h3")
        code, said, error = lab.do("top", "--once", "--json")
        assert code == 0, error
        code, shown, error = lab.do("top", "--hops", "h3", "--once")
        assert code == 0, error
        measuring.terminate()
        measuring.communicate(timeout=PATIENCE_S)
    found = json.loads(said)
    first, second, last = found["hops"]
    assert [(row["switch"], row["port"]) for row in found["hops"]] == [
        ("s1", 3), ("s3", 2), ("s2", 1),
    ]  # fmt: skip
    assert {(row["source"], row["target"], row["hops"]) for row in found["hops"]} == {
        ("h1", "h3", 3)
    }
    # 192 kB are on the way, and all but what the lines hold of them wait at the slow one.
    assert 50_000 < last["mean_queue_bytes"] < 250_000
    assert first["mean_queue_bytes"] + second["mean_queue_bytes"] < last["mean_queue_bytes"] / 4
    drained_ns = 8e9 * last["mean_queue_bytes"] / SLOW_BPS
    # A packet finds what it leaves behind, roughly, and waits until that is gone.
    assert last["mean_latency_ns"] == pytest.approx(drained_ns, rel=0.4)
    assert second["mean_latency_ns"] < last["mean_latency_ns"] / 4
    assert first["latency_ns"] is None
    for place in ("1 of 3", "2 of 3", "3 of 3", "s2:1", "h1>h3"):
        assert place in shown
