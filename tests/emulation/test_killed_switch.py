"""A spine that an event kills: the fabric does without it until another event revives it.

s3    s4        two spines; s3 is killed and revived
| \\  / |
s1    s2        two leaves, a host each
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from compiler import compile_p4
from controller import CompiledProgram
from emulation import proofs
from emulation.errors import EmulationError
from emulation.link_events import FabricCalls
from emulation.session import Session
from emulation.switch_node import Target
from topologies.events import LinksCall, SwitchCall, calls

pytestmark = pytest.mark.root

FABRIC = Path(__file__).parents[2] / "p4src" / "fabric.p4"
TOPOLOGY = """\
time_scale: 10000
generator: leaf_spine
spines: 2
leaves: 2
hosts_per_leaf: 1
link: {rate: 400Gbps, delay: 500ns, queue: 1MB}
events:
  - {at: 1us, switch: s3, do: kill, lasts: 1us}
"""


class Fabric:
    """A session that is up, and what its supervisor said."""

    def __init__(self) -> None:
        self.session = Session(topologies.loads(TOPOLOGY), Target.SOFTSWITCH)
        self.told: list[str] = []
        self.events = {call.says: call for call in calls(self.session.topology)}

    def up(self) -> None:
        compiled = compile_p4(FABRIC)
        program = CompiledProgram.of(compiled)
        self.session.claim()
        self.session.build_network()
        self.session.wait_for_switches()
        self.session.bring_up(program)
        self.player = FabricCalls(self.session)

    def play(self, says: str) -> None:
        self.player.perform(self.events[says])

    def pings(self) -> bool:
        return proofs.all_pairs_ping(self.session).ok

    def next_hops(self, switch: str) -> set[str]:
        rows = self.session.controller.read_table(switch)
        routes = [row for row in rows if row.table == "ipv4_route" or row.key.startswith("group")]
        return {f"{row.table} {row.key} {row.action}" for row in routes}


@pytest.fixture
def fabric(roots: Path) -> Iterator[Fabric]:
    made = Fabric()
    try:
        made.up()
        yield made
    finally:
        made.session.close()


def test_a_killed_switch_stays_away_until_it_is_revived(fabric: Fabric) -> None:
    session = fabric.session
    with pytest.raises(EmulationError, match="no supervisor watches the switches yet"):
        fabric.play("switch s3 kill")
    session.supervise(fabric.told.append)
    both = fabric.next_hops("s1")
    assert fabric.pings()
    with pytest.raises(EmulationError, match="s3 was not killed"):
        fabric.play("switch s3 revive")

    fabric.play("switch s3 kill")
    assert not session.network.switches["s3"].is_alive()
    assert fabric.next_hops("s1") != both
    assert fabric.pings()
    with pytest.raises(EmulationError, match="s3 is away already"):
        fabric.play("switch s3 kill")
    session.settle()  # nobody waits for a switch that was killed
    # A cable that is pulled meanwhile stays so when the switch is back.
    (link,) = [one for one in session.topology.links if {one.a.node, one.b.node} == {"s2", "s3"}]
    fabric.player.perform(LinksCall(0, "s2-s3 down", (link,), False))

    fabric.play("switch s3 revive")
    assert session.network.switches["s3"].is_alive()
    assert fabric.pings()
    fabric.player.perform(LinksCall(0, "s2-s3 up", (link,), True))
    assert fabric.next_hops("s1") == both
    assert fabric.pings()
    assert fabric.told[0] == "switch s3 was killed, and is routed around until it is revived"
    assert "it is back after" in fabric.told[-1]


def test_many_kills_are_no_reason_to_give_a_switch_up(fabric: Fabric) -> None:
    fabric.session.supervise(fabric.told.append)
    for _ in range(7):
        fabric.play("switch s3 kill")
        fabric.play("switch s3 revive")
    assert fabric.pings()
    assert sum("it is back after" in line for line in fabric.told) == 7


def test_what_the_file_says_becomes_a_kill_and_a_revival() -> None:
    found = calls(topologies.loads(TOPOLOGY))
    assert [(c.at_ns, c.switch, c.up) for c in found if isinstance(c, SwitchCall)] == [
        (10_000_000, "s3", False),
        (20_000_000, "s3", True),
    ]
