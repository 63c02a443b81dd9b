"""The learner's program on every switch of a simulated fabric, with entries for shortest paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

from labs.p4_switch import Hop
from topologies.model import Topology
from topologies.own_program import ALL, OwnProgram
from workloads.model import RunFile

from .control_plane import Group, Router, rows


def with_program(
    run: RunFile, program: Path, folder: Path, seeds: Mapping[str, int], *, queue_pairs: bool
) -> RunFile:
    """Return the run with this program on all switches; files of entries are written to `folder`.

    `seeds`: by switch. `queue_pairs`: whether a queue pair is a flow of its own.
    """
    topology = run.topology
    entries = []
    for router_name, router in routers(topology, seeds, queue_pairs).items():
        path = folder / f"{router_name}-commands.txt"
        commands = [row.command for row in rows(router)]
        path.write_text("\n".join(commands) + "\n", encoding="utf-8")
        entries.append((router_name, str(path)))
    own = OwnProgram(
        programs=((ALL, str(program)),),
        entries=tuple(entries),
        controller="none",
        static_arp=True,
    )
    return replace(run, topology=replace(topology, own=own))


def seeds_of(topology: Topology, seed: int, *, alike: bool) -> dict[str, int]:
    """Draw a seed for each switch, or one for all."""
    random = Random(f"ECMP seeds {seed}")
    one = random.getrandbits(32)
    return {
        each.name: one if alike else random.getrandbits(32)
        for each in sorted(topology.switches, key=lambda each: each.name)
    }


def routers(topology: Topology, seeds: Mapping[str, int], queue_pairs: bool) -> dict[str, Router]:
    """Return what each switch has to know: all shortest paths to each host."""
    links = {each.name: _switches_at(topology, each.name) for each in topology.switches}
    targets = {host.switch for host in topology.hosts}
    hops = {target: _distances(links, target) for target in sorted(targets)}
    found = {}
    for name in links:
        direct: list[tuple[int, Hop]] = []
        groups: dict[tuple[Hop, ...], list[int]] = {}
        for host in topology.hosts:
            address = int(host.address.ip)
            if host.switch == name:
                direct.append((address, Hop(host.port, _mac(host.mac))))
                continue
            away = hops[host.switch]
            nearer = tuple(hop for peer, hop in links[name] if away[peer] < away[name])
            if len(nearer) == 1:
                direct.append((address, nearer[0]))
            else:
                groups.setdefault(nearer, []).append(address)
        made = tuple(
            Group(number, members, tuple((address, 32) for address in addresses))
            for number, (members, addresses) in enumerate(groups.items(), 1)
        )
        mac = _mac(topology.switch(name).mac)
        found[name] = Router(mac, seeds[name], tuple(direct), made, queue_pairs)
    return found


def second_tier(topology: Topology) -> list[tuple[str, int]]:
    """Return the ports of spines that lead to cores: where the second choice is made."""
    leaves = {host.switch for host in topology.hosts}
    links = {each.name: _switches_at(topology, each.name) for each in topology.switches}
    spines = {
        name for name, peers in links.items()
        if name not in leaves and any(peer in leaves for peer, _ in peers)
    }  # fmt: skip
    return [
        (name, hop.port)
        for name in sorted(spines, key=lambda each: (len(each), each))
        for peer, hop in links[name]
        if peer not in leaves
    ]


def _switches_at(topology: Topology, name: str) -> list[tuple[str, Hop]]:
    return [
        (port.peer.node, Hop(port.number, _mac(topology.switch(port.peer.node).mac)))
        for port in topology.ports_of(name)
        if topology.is_switch(port.peer.node)
    ]


def _distances(links: Mapping[str, list[tuple[str, Hop]]], target: str) -> dict[str, int]:
    found = {target: 0}
    ring = [target]
    while ring:
        ring = [
            peer for name in ring for peer, _ in links[name]
            if peer not in found and found.setdefault(peer, found[name] + 1)
        ]  # fmt: skip
    return found


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)
