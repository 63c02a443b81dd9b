"""GLB on running switches: reports leave by each link as often as said, and a class is spread.

h1, h2 -- s1 -- s3, s4, s5, s6 -- s2 -- h3, h4      slowed down so that a period is 20 ms
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.config import conf
from scapy.layers.l2 import Ether
from scapy.sendrecv import sniff

import topologies
from emulation import run_state
from emulation.session import Session
from emulation.switch_node import Target
from mechanisms.dlb.counters import DLB
from mechanisms.switch_programs import choose
from protocols.notification import NEIGHBOURS_MAC

pytestmark = [pytest.mark.root, pytest.mark.realtime, pytest.mark.long]

TOPOLOGY = """\
time_scale: 10000
generator: leaf_spine
leaves: 2
spines: 4
hosts_per_leaf: 2
link: {rate: 100Gbps, delay: 500ns, queue: 4MB, mtu: 2200B}
classes:
  roce: {dscp: 26, queue: 3, load_balancing: packet-glb}
  rest: {queue: 0}
path_reports: {period: 2us, refresh: 4}
"""
REFRESH_S = 4 * 2e-6 * 10_000
LOOKED_S = 4.0
UPLINKS = (3, 4, 5, 6)
PINGS = 20


@pytest.fixture(
    params=[
        Target.SOFTSWITCH,
        pytest.param(Target.BMV2, marks=pytest.mark.reference("simple_switch_grpc")),
    ]
)
def session(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.setenv(run_state.RUN_ROOT_VARIABLE, str(tmp_path / "run"))
    monkeypatch.setenv(run_state.LOG_ROOT_VARIABLE, str(tmp_path / "log"))
    made = Session(topologies.loads(TOPOLOGY), Target(request.param))
    try:
        made.claim()
        made.build_network()
        made.wait_for_switches()
        chosen = choose(made.topology, made.target_facts()).programs
        made.bring_up(chosen.program, programs=chosen.others, own=chosen.own)
        yield made
    finally:
        made.close()


def test_reports_leave_and_packets_are_spread(session: Session) -> None:
    conf.ifaces.reload()  # scapy keeps those of the run before, of the same names
    seen = sniff(iface=session.network.interface_name("s1", UPLINKS[0]), timeout=LOOKED_S)
    reports = [each for each in seen if each[Ether].dst == NEIGHBOURS_MAC]
    expected = LOOKED_S / REFRESH_S
    for source in {each[Ether].src for each in reports}:
        count = sum(each[Ether].src == source for each in reports)
        assert 0.7 * expected <= count <= 1.1 * expected
    assert len({each[Ether].src for each in reports}) == 2

    h1 = session.network.hosts["h1"]
    said = h1.cmd(f"ping -c {PINGS} -i 0.1 -Q {26 << 2} 10.0.2.1")
    assert f"{PINGS} received" in said
    cells = {index: outcome for port in UPLINKS for index, outcome in DLB.cells(port).items()}
    read = session.controller.read_cells(DLB.name, {"s1": list(cells)})["s1"]
    chosen = [count for index, count in read.items() if cells[index] == "chosen" and count]
    assert sum(chosen) == PINGS
    assert len(chosen) >= 2
