"""`weft topo show`: a topology in the terminal, as a picture or as data."""

from __future__ import annotations

import json
from pathlib import Path

import topologies
from observe.errors import UsageError
from topologies import Topology
from topologies.ecn import CERTAIN, EcnMarking, EcnThresholds
from topologies.units import format_duration, format_rate, format_size
from weft import console
from weft.topo_text import print_drawing

MAX_TABLE_LINKS = 100  # beyond, tables are printed only when asked for


def show(name: str, png: Path | None, svg: Path | None, *, tables: bool, as_json: bool) -> int:
    """Do `topo show`; returns the exit code. Raises TopologyError, UsageError."""
    pictures = [path for path in (png, svg) if path is not None]
    for path, ending in ((png, ".png"), (svg, ".svg")):
        if path is not None and path.suffix != ending:
            raise UsageError(f"{path}: name the file with its ending, as {path.stem}{ending}")
    topology = topologies.load(name)
    if pictures:
        _draw(topology, pictures)
    if as_json:
        print(json.dumps(_data(topology)))
    elif not pictures:
        print_drawing(topology)
        if tables or len(topology.links) <= MAX_TABLE_LINKS:
            _print_tables(topology)
        else:
            print("--tables lists every switch, host and link")
    return 0


def _draw(topology: Topology, pictures: list[Path]) -> None:
    from weft.topo_figure import draw  # matplotlib, which only pictures need

    draw(topology, pictures)
    for path in pictures:
        console.notice(f"{topology.name} is drawn in {path}")


def _parts(topology: Topology) -> dict[str, list[dict[str, str]]]:
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
            "group": switch.group,
            "device_id": str(switch.device_id),
            "mac": switch.mac,
            "ports": str(len(topology.ports_of(switch.name))),
        }
        for switch in topology.switches
    ]
    classes = [
        {
            "name": each.name,
            "dscp": ", ".join(str(dscp) for dscp in each.dscps),
            "queue": "" if each.queue is None else str(each.queue),
            "weight": "" if each.weight is None else str(each.weight),
            "lossless": "yes" if each.lossless else "no",
            "ecn": _marking(each.setting("ecn")),
        }
        for each in topology.classes
    ]
    return {"switches": switches, "hosts": hosts, "links": links, "classes": classes}


def _marking(ecn: EcnMarking | None) -> str:
    """Say when a class is marked: a step, a ramp, or what a parameter set says."""
    if not isinstance(ecn, EcnThresholds):
        return "" if ecn is None else ecn.set_name or ""
    if ecn.min_bytes == ecn.max_bytes:
        return f"above {format_size(ecn.min_bytes)}"
    low, high = format_size(ecn.min_bytes), format_size(ecn.max_bytes)
    return f"{low} to {high}, up to {100 * ecn.probability / CERTAIN:.3g}%"


def _data(topology: Topology) -> dict[str, object]:
    return {"name": topology.name, "time_scale": topology.time_scale, **_parts(topology)}


def _print_tables(topology: Topology) -> None:
    for title, rows in _parts(topology).items():
        if rows:
            columns = [key for key in rows[0] if any(row[key] for row in rows)]
            console.table(columns, [[row[key] for key in columns] for row in rows], title=title)
