"""What comes in by the tickers' port: the switch's own, so no host guard looks at it.

h1 -- 1 +----+ 3 --
        | s1 |        509: ticks
h2 -- 2 +----+ 4 --
"""

from __future__ import annotations

import re
from typing import Any

from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from tests.p4src.conftest import P4SRC
from topologies.tickers import TICKER_PORT

SPOOFED = 11


def test_a_tick_may_say_what_no_host_may(leaf: Any) -> None:
    """A CNP of another's address: from a host it is spoofed, from a ticker it is routed."""
    h1, h2 = leaf.host("h1"), leaf.host("h2")
    ip = IP(src="10.0.2.1", dst=str(h2.address.ip), tos=48 << 2)
    frame = Ether(src=h1.mac, dst=leaf.me.mac) / ip / UDP(sport=5) / BTH(opcode=0x81, becn=1)
    frame /= CNPPadding()
    leaf.send(TICKER_PORT, frame)
    assert [bytes(at)[26:34] for at in leaf.take(2)] == [bytes(frame)[26:34]]
    assert leaf.dropped() == {}
    assert leaf.rx(TICKER_PORT) == (1, len(frame))
    leaf.send(1, frame)
    leaf.expect_nothing()
    assert leaf.dropped() == {SPOOFED: 1}


def test_programs_know_the_port_by_name() -> None:
    text = (P4SRC / "include" / "constants.p4").read_text()
    found = re.search(r"#define TICKER_PORT (\d+)", text)
    assert found is not None and int(found[1]) == TICKER_PORT
