"""The learner's program on every switch of a simulated fabric, with entries for it.

leaves: hosts, and one group of ways to all other hosts; spines: a route for each host
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from topologies.model import Host, Role, Topology
from topologies.own_program import ALL, OwnProgram
from workloads.model import RunFile

from .control_plane import Group, Hop, Leaf, rows

GROUP = 1


def with_program(run: RunFile, program: Path, gap: int, folder: Path) -> RunFile:
    """Return the run with this program on all switches; files of entries are written to `folder`.

    `gap`: of flowlets, in ticks of the switches.
    """
    topology = run.topology
    entries = []
    for switch in topology.switches:
        path = folder / f"{switch.name}-commands.txt"
        commands = [row.command for row in rows(switch_of(topology, switch.name, gap))]
        path.write_text("\n".join(commands) + "\n", encoding="utf-8")
        entries.append((switch.name, str(path)))
    own = OwnProgram(
        programs=((ALL, str(program)),),
        entries=tuple(entries),
        controller="none",
        static_arp=True,
    )
    return replace(run, topology=replace(topology, own=own))


def switch_of(topology: Topology, name: str, gap: int) -> Leaf:
    """Return what a switch of two tiers has to know."""
    switch = topology.switch(name)
    if switch.role is Role.LEAF:
        here = [host for host in topology.hosts if host.switch == name]
        others = [host for host in topology.hosts if host.switch != name]
        direct = tuple((_address(host), Hop(host.port, _mac(host.mac))) for host in here)
        prefixes = tuple((_address(host), 32) for host in others)
        group = Group(GROUP, gap, tuple(_neighbours(topology, name).values()), prefixes)
        return Leaf(_mac(switch.mac), direct, (group,))
    leaves = _neighbours(topology, name)
    direct = tuple((_address(host), leaves[host.switch]) for host in topology.hosts)
    return Leaf(_mac(switch.mac), direct)


def _neighbours(topology: Topology, name: str) -> dict[str, Hop]:
    """Return the switches at a switch's ports."""
    return dict(_hops(topology, name))


def _hops(topology: Topology, name: str) -> Iterator[tuple[str, Hop]]:
    for port in topology.ports_of(name):
        peer = port.peer.node
        if topology.is_switch(peer):
            yield peer, Hop(port.number, _mac(topology.switch(peer).mac))


def _address(host: Host) -> int:
    return int(host.address.ip)


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)
