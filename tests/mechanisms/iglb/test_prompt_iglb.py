"""`iglb` at the prompt of a real run: a job, its pins, a host that lies, off and on.

h1 h2 - s1 =< s3, s4 >= s2 - h3 h4
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.weft.prompt_lab import opened, rows

pytestmark = [pytest.mark.root, pytest.mark.long]

FABRIC = """\
time_scale: 10000
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 2
link: {rate: 100Gbps, delay: 500ns, queue: 4MB}
iglb: true
classes:
  roce: {dscp: 26, queue: 3}
  rest: {queue: 0}
"""
RING = "job: {ranks: 4, placement: stride, phases: [{allreduce: {bytes: 64MB}}]}"
SENDER = """\
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 26 << 2)
sender.bind(("", int(sys.argv[2])))
for n in range(5):
    sender.sendto(bytes((10, 0, 255, 255, 0, 0, 0, 9, 0, 0, 0, n)) + bytes(64), (sys.argv[1], 4791))
"""


def test_a_job_and_a_host_that_sends_what_nobody_declared(tmp_path: Path) -> None:
    net, file, sender = tmp_path / "net.yaml", tmp_path / "ring.yaml", tmp_path / "send.py"
    net.write_text(FABRIC)
    file.write_text(RING)
    sender.write_text(SENDER)
    with opened(tmp_path, "softswitch", str(net)) as lab:
        assert lab.do("iglb").endswith(
            "iGLB is on; no plan is in force\n"
        )  # behind what the start says
        assert "iglb [on|off], not 'maybe'" in lab.do("iglb maybe")
        lab.do(f"job submit {file}")
        said = lab.do("iglb")
        assert said.startswith("iGLB is on; version 1 is in force: ")
        assert "all jobs send what they declared" in said
        switches = {row[0]: row for row in rows(said) if row[0] in ("s1", "s2", "s3", "s4")}
        assert {name: row[1] for name, row in switches.items()} == dict.fromkeys(switches, "1")
        assert [switches[name][2] for name in ("s1", "s2", "s3")] == ["2", "2", "0"]
        target = lab.do("h3 hostname -I").split()[0]
        lab.do(f"h1 python3 {sender} {target} 50123")
        said = lab.do("iglb")
        assert "5 packets of flows that no job declared" in said, said
        assert any(row[:2] == ["ring", "h1"] for row in rows(said)), said
        assert lab.do("iglb off") == "iGLB is off: no switch follows a plan\n"
        assert lab.do("iglb on").startswith("iGLB is on; version 2 is in force: ")
