"""A plane drained at the prompt under RDMA: nothing is lost, and nothing goes by it afterwards.

h1 --A-- s1 -- s5, s6 -- s2 --A-- h5         a transfer over both planes, and plane B
h1 --B-- s3 -- s7, s8 -- s4 --B-- h5         is taken into maintenance and back
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.weft.prompt_lab import Lab, opened, rows, until

pytestmark = pytest.mark.root

PERF = (
    *("perf", "write", "h1", "h5", "--bw", "-s", "16384", "--depth", "4", "--duration", "16s"),
    *("--interfaces", "all", "--failover", "--retransmission", "selective-repeat"),
    *("--reorder", "10us", "--set", "none"),
)


def roce_into(lab: Lab, switch: str, port: str) -> int:
    """Return the RoCE packets that came into a port."""
    (found,) = [
        row for row in rows(lab.do("counters")) if row[:2] == [switch, port] and len(row) > 3
    ]
    return int(found[-1])


def grows(lab: Lab, switch: str) -> bool:
    """Whether h1 sends by its port at a leaf."""
    before = roce_into(lab, switch, "1")
    time.sleep(0.3)
    return roce_into(lab, switch, "1") > before


@pytest.mark.long
def test_a_plane_is_drained_under_traffic_and_used_again(tmp_path: Path) -> None:
    with opened(tmp_path, "softswitch", "dualplane8") as lab:
        said: list[str] = []

        def transfer() -> None:
            done = lab.other_terminal(*PERF)
            said.append(done.stdout + done.stderr)

        beside = threading.Thread(target=transfer)
        beside.start()
        until(lambda: bool(said) or (grows(lab, "s1") and grows(lab, "s3")))
        assert not said, said
        assert "plane B: drained; nothing on the way after" in lab.do("plane drain B")
        assert grows(lab, "s1") and not grows(lab, "s3")
        assert ["B", "4", "12 of 12", "8", "0 packets", "drained"] in rows(lab.do("plane"))
        lab.do("plane undrain B")
        until(lambda: grows(lab, "s3"))
        beside.join()
        assert "RDMA WRITE BW" in said[0]
        assert "packets sent again" not in said[0] and "NAK" not in said[0]
