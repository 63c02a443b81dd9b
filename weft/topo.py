"""`weft topo`: checking topology files and showing what is in them."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from weft import console
from weft.errors import UsageError

if TYPE_CHECKING:
    from topologies import Topology


def show(arguments: argparse.Namespace) -> int:
    """Do `check`, `show` or `list`; returns the exit code. Raises TopologyError, UsageError."""
    import topologies

    if arguments.action == "list":
        names = topologies.available()
        print(json.dumps(names) if arguments.json else "\n".join(names))
        return 0
    if arguments.topology is None:
        raise UsageError(f"topo {arguments.action}: say which topology, a name or a YAML file")
    topology = topologies.load(arguments.topology)
    if arguments.action == "check":
        about = {
            "name": topology.name,
            "switches": len(topology.switches),
            "hosts": len(topology.hosts),
            "links": len(topology.links),
            "time_scale": topology.time_scale,
        }
        counts = ", ".join(f"{key} {value}" for key, value in about.items() if key != "name")
        print(json.dumps(about) if arguments.json else f"{topology.name}: good ({counts})")
        return 0
    _show(topology, as_json=arguments.json)
    return 0


def _show(topology: Topology, *, as_json: bool) -> None:
    from topologies.units import format_duration, format_rate, format_size

    links = [
        {
            "a": str(link.a),
            "b": str(link.b),
            "rate": format_rate(link.rate_bps),
            "delay": format_duration(link.delay_ps),
            "queue": format_size(link.queue_bytes),
            "mtu": str(link.mtu_bytes),
        }
        for link in topology.links
    ]
    hosts = [
        {
            "name": str(part.end),
            "address": str(part.address),
            "mac": part.mac,
            "gateway": str(part.gateway),
            "switch": f"{part.switch}:{part.port}",
        }
        for part in topology.interfaces()
    ]
    switches = [
        {
            "name": switch.name,
            "role": switch.role.value,
            "device_id": str(switch.device_id),
            "mac": switch.mac,
            "ports": str(len(topology.ports_of(switch.name))),
        }
        for switch in topology.switches
    ]
    parts = {"switches": switches, "hosts": hosts, "links": links}
    if as_json:
        print(json.dumps({"name": topology.name, "time_scale": topology.time_scale, **parts}))
        return
    print(f"{topology.name}: {topology.description or 'no description'}")
    print(f"rates and times are the fabric's; time_scale {topology.time_scale}")
    for title, rows in parts.items():
        if rows:
            console.table(list(rows[0]), [list(row.values()) for row in rows], title=title)
